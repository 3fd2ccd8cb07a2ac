/* Another user of the machine; and what the agent has used (hostile.h). */
#include "tests/machines/parts/hostile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static pid_t find_agent(void) {
  pid_t found = 0;
  DIR *folder = opendir("/proc");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/%.16s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(name, sizeof name, file) != NULL &&
        strcmp(name, "nccl-join-agent\n") == 0)
      found = (pid_t)atoi(entry->d_name);
    if (file != NULL)
      fclose(file);
  }
  if (folder != NULL)
    closedir(folder);
  return found;
}

/* ---- another user ---- */

static int wrong; /* things that could be done */

static void check(bool done, const char *what) {
  hostile_say("%s: %s", what, done ? "let in" : strerror(errno));
  wrong += done;
}

static void try_files(void) {
  DIR *folder = opendir("/dev/shm");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    char path[300];
    if (strncmp(entry->d_name, "nccl-join-", 10) != 0)
      continue;
    snprintf(path, sizeof path, "/dev/shm/%s", entry->d_name);
    check(open(path, O_RDONLY | O_CLOEXEC) >= 0, "reading a file of the job");
    check(open(path, O_RDWR | O_CLOEXEC | O_CREAT, 0666) >= 0, "writing it");
    check(unlink(path) == 0, "removing it");
    check(chmod(path, 0666) == 0, "changing its mode");
  }
  if (folder != NULL)
    closedir(folder);
}

static void try_process(pid_t agent) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", (int)agent);
  check(open(path, O_RDONLY | O_CLOEXEC) >= 0, "reading the agent's memory");
  snprintf(path, sizeof path, "/proc/%d/environ", (int)agent);
  check(open(path, O_RDONLY | O_CLOEXEC) >= 0, "reading its environment");
  check(kill(agent, SIGTERM) == 0, "ending it");
  check(ptrace(PTRACE_ATTACH, agent, NULL, NULL) == 0, "tracing it");
}

/* board: a file that another user has made before, of a job to come, is not taken. */
int hostile_user(const char *board) {
  pid_t agent = find_agent();
  struct stat status;
  if (agent == 0 || stat(board, &status) != 0 || status.st_uid == NOBODY) {
    hostile_say("finds no agent");
    return 2;
  }
  if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
    hostile_say("cannot become another user");
    return 2;
  }
  try_files();
  try_process(agent);
  hostile_say("as another user: %d things done", wrong);
  return wrong > 0;
}

/* ---- what the agent has used ---- */

static long number_of(pid_t process, const char *name) {
  char path[64], line[256];
  long number = -1;
  snprintf(path, sizeof path, "/proc/%d/status", (int)process);
  FILE *file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, name, strlen(name)) == 0)
      number = strtol(line + strlen(name) + 1, NULL, 10);
  if (file != NULL)
    fclose(file);
  return number;
}

static int count_files(pid_t process) {
  char path[64];
  int count = -2; /* . and .. */
  snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
  DIR *folder = opendir(path);
  while (folder != NULL && readdir(folder) != NULL)
    count++;
  if (folder != NULL)
    closedir(folder);
  return count;
}

static long ticks_of(pid_t process) {
  char path[64], text[512] = "";
  long user = 0, kernel = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
  FILE *file = fopen(path, "r");
  const char *behind =
      file != NULL && fgets(text, sizeof text, file) != NULL ? strrchr(text, ')') : NULL;
  if (behind != NULL)
    (void)sscanf(behind, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &kernel);
  if (file != NULL)
    fclose(file);
  return user + kernel;
}

int hostile_agent(void) {
  pid_t agent = find_agent();
  if (agent == 0) {
    hostile_say("finds no agent");
    return 2;
  }
  hostile_say("agent: %ld kB, at most %ld kB, %d files, %ld ticks", number_of(agent, "VmRSS"),
              number_of(agent, "VmHWM"), count_files(agent), ticks_of(agent));
  return 0;
}
