/* Sandbox: see sandbox.h. */
#include "tests/tools/sandbox.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[64];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void pause_a_little(void) {
  nanosleep(&(struct timespec){0, 10000000}, NULL);
}

const char *sandbox(void) {
  return folder;
}

/* The build folder: this program is its check/tools. */
static const char *build_folder(void) {
  static char path[PATH_MAX];
  ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
  cr_assert_gt(size, 0);
  path[size] = '\0';
  for (int i = 0; i < 2; i++)
    *strrchr(path, '/') = '\0';
  return path;
}

static void shell(const char *format, ...) {
  char command[4096];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof(command), format, arguments);
  va_end(arguments);
  cr_assert_eq(system(command), 0, "%s", command); /* NOLINT(cert-env33-c) */
}

void sandbox_make(void) {
  strcpy(folder, "/tmp/nccl-join-tools-XXXXXX");
  cr_assert(mkdtemp(folder));
  shell("cd %s && mkdir tools lib loopback && cp -r %s/tools/nccl-join* tools/ &&"
        "gcc -shared -o lib/libnccl-join.so -xc /dev/null && cp lib/libnccl-join.so "
        "loopback/libnccl.so.2",
        folder, build_folder());
}

void sandbox_remove(void) {
  shell("rm -rf %s", folder);
}

static pid_t start_shell(const char *command) {
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/tools:%s", folder, getenv("PATH"));
  setenv("PATH", path, 1);
  unsetenv("LD_PRELOAD");
  unsetenv("LD_LIBRARY_PATH");
  int out = chdir(folder) == 0 ? open("out", O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600) : -1;
  int err = open("err", O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);
  int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(99);
}

static char *read_output(const char *name, char *bytes, size_t *size) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  *size = file ? fread(bytes, 1, OUTPUT_MAX, file) : 0;
  bytes[*size] = '\0';
  if (file)
    fclose(file);
  return bytes;
}

static double started;

struct result wait_for(pid_t pid) {
  static char out[OUTPUT_MAX + 1], err[OUTPUT_MAX + 1];
  int status;
  cr_assert_eq(waitpid(pid, &status, 0), pid);
  struct result result = {.seconds = now() - started};
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = read_output("out", out, &result.out_size);
  result.err = read_output("err", err, &result.err_size);
  return result;
}

pid_t start(const char *format, ...) {
  static char command[65536];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof(command), format, arguments);
  va_end(arguments);
  started = now();
  return start_shell(command);
}

struct result run(const char *format, ...) {
  static char command[65536];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command, sizeof(command), format, arguments);
  va_end(arguments);
  started = now();
  return wait_for(start_shell(command));
}

struct result run_until_warned(const char *command) {
  struct result result = run("%s", command);
  for (int times = 1; result.err_size == 0 && times < 100; times++)
    result = run("%s", command);
  return result;
}

void wait_for_lines(const char *file, int lines) {
  static char bytes[OUTPUT_MAX + 1];
  double limit = now() + 50;
  size_t size;
  while (count(read_output(file, bytes, &size), "\n") < lines) {
    cr_assert_lt(now(), limit, "%s has fewer than %d lines", file, lines);
    pause_a_little();
  }
}

int all_gone(const char *file) {
  static char bytes[OUTPUT_MAX + 1];
  size_t size;
  double limit = now() + 30;
  for (char *line = read_output(file, bytes, &size); *line; line = strchr(line, '\n') + 1) {
    while (kill((pid_t)strtol(line, NULL, 10), 0) == 0 || errno != ESRCH) {
      if (now() > limit)
        return false;
      pause_a_little();
    }
  }
  return true;
}

int count(const char *text, const char *part) {
  int n = 0;
  for (const char *hit = text; (hit = strstr(hit, part)); hit += strlen(part))
    n++;
  return n;
}

bool is_json(const char *text) {
  json_t *value = json_loads(text, 0, NULL);
  json_decref(value);
  return value != NULL;
}
