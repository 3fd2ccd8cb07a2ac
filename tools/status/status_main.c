/* nccl-join status: where the ranks of this user's jobs on this machine are, in this moment.
 *
 *   nccl-join-status [--json] [--watch] [PID | --all]
 *
 * Looks at the segments that processes have open (core/transport/segment_view.h): nothing is asked of
 * the ranks, which may be stopped. For each communicator, or several of the same ranks, one row a
 * rank: whether it runs its program or waits, in which call and for how long, whether it has joined.
 * The status is 1 if there is no such job.
 */
#include <dirent.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tools/status/job.h"
#include "tools/terminal.h"

enum { JOBS_MAX = 256 };

/* A segment, where somebody has it open. */
struct found {
  dev_t device;
  ino_t inode;
  char path[64], name[ATTACHMENT_NAME_SIZE];
};
static struct found found[JOBS_MAX];
static size_t nfound;

static bool number_of(const char *text, long *number) {
  char *end;
  *number = strtol(text, &end, 10);
  return end != text && *end == '\0' && *number > 0 && *number <= INT_MAX;
}

/* Whether a descriptor's target is a segment of this user, named or not; its name. */
static bool is_segment(const char *target, char name[ATTACHMENT_NAME_SIZE]) {
  char prefix[64];
  int length = snprintf(prefix, sizeof prefix, "/dev/shm/nccl-join-%u-", (unsigned)getuid());
  if (strncmp(target, prefix, (size_t)length) != 0 ||
      strspn(target + length, "0123456789abcdef") != ATTACHMENT_NAME_SIZE - 1)
    return false;
  snprintf(name, ATTACHMENT_NAME_SIZE, "%s", target + length);
  return true;
}

static void add(const struct found *one) {
  for (size_t i = 0; i < nfound; i++)
    if (found[i].device == one->device && found[i].inode == one->inode)
      return;
  if (nfound < JOBS_MAX)
    found[nfound++] = *one;
}

static void look_at_process(long pid) {
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%ld/fd", pid);
  DIR *descriptors = opendir(folder);
  if (descriptors == NULL)
    return; /* another user's, or gone */
  for (struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
    char target[PATH_MAX];
    struct stat status;
    struct found one;
    long number;
    if (strcmp(entry->d_name, "0") != 0 && !number_of(entry->d_name, &number))
      continue;
    snprintf(one.path, sizeof one.path, "%s/%.12s", folder, entry->d_name);
    ssize_t length = readlink(one.path, target, sizeof target - 1);
    if (length <= 0)
      continue;
    target[length] = '\0';
    if (!is_segment(target, one.name) || stat(one.path, &status) != 0)
      continue;
    one.device = status.st_dev;
    one.inode = status.st_ino;
    add(&one);
  }
  closedir(descriptors);
}

/* pid: 0: of all processes. */
static void find_segments(long pid) {
  nfound = 0;
  if (pid != 0) {
    look_at_process(pid);
    return;
  }
  DIR *processes = opendir("/proc");
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;)
    if (number_of(entry->d_name, &pid))
      look_at_process(pid);
  if (processes != NULL)
    closedir(processes);
}

/* How many jobs there were. */
static size_t show(long pid, bool json) {
  size_t shown = 0;
  char said[ATTACHMENT_REASON_SIZE] = "";
  find_segments(pid);
  json_t *all = json ? json_array() : NULL;
  for (size_t i = 0; i < nfound; i++) {
    struct job job;
    char reason[ATTACHMENT_REASON_SIZE];
    if (!job_read(&job, found[i].path, found[i].name, reason)) {
      if (reason[0] != '\0' && strcmp(reason, said) != 0)
        fprintf(stderr, "nccl-join: a job is left out: %s\n", reason);
      memcpy(said, reason, sizeof said);
      continue;
    }
    if (json)
      json_array_append_new(all, job_to_json(&job));
    else
      job_print(stdout, &job);
    job_free(&job);
    shown++;
  }
  if (json)
    json_print(stdout, all);
  else if (shown == 0)
    printf("no job of this user runs with nccl-join here%s\n", pid != 0 ? ", in that process" : "");
  return shown;
}

static int usage(FILE *out, int status) {
  fprintf(out, "usage: nccl-join status [--json] [--watch] [PID | --all]\n");
  return status;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"watch", no_argument, NULL, 'w'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool json = false, watch = false;
  long pid = 0;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'h')
      return usage(stdout, 0);
    if (option == '?')
      return usage(stderr, 2);
    json |= option == 'j';
    watch |= option == 'w';
  }
  if (optind < argc - 1)
    return usage(stderr, 2);
  if (optind < argc && !number_of(argv[optind], &pid)) {
    fprintf(stderr, "nccl-join: status takes the number of a process, not %s\n", argv[optind]);
    return usage(stderr, 2);
  }
  while (watch) {
    if (terminal_width(stdout) != 0)
      fputs("\033[H\033[2J", stdout);
    size_t shown = show(pid, json);
    fflush(stdout);
    if (shown == 0 || ferror(stdout))
      return 0;
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  }
  return show(pid, json) == 0;
}
