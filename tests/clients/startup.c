/* What nccl-join adds to the start of a program: nothing that can be felt. Prints the table of
 * docs/clients.md. */
#include "tests/clients/client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUNS_MAX = 101 };

/* What a person takes for at once (Nielsen, Usability Engineering, 1993, chapter 5). */
static const double felt_s = 0.1;
/* The launcher looks into the program first (docs/usage.md). */
static const double look_s = 0.15;

enum form { ALONE, PRELOADED, LAUNCHED, FORMS };

struct times {
  double wall_s[RUNS_MAX], processor_s[RUNS_MAX];
};

static double seconds(struct timeval time) {
  return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

static _Noreturn void become(enum form form, const char *script) {
  static const char *const formats[FORMS] = {"exec %s", "LD_PRELOAD=$P exec %s", "exec $R %s"};
  char command[1024];
  snprintf(command, sizeof command, formats[form], script);
  execl("/bin/sh", "sh", "-c", command, (char *)NULL);
  _exit(127);
}

static void measure(enum form form, const char *script, struct times *times, int run) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  pid_t pid = fork();
  cr_assert(pid >= 0);
  if (pid == 0)
    become(form, script);
  int status;
  struct rusage usage;
  cr_assert(wait4(pid, &status, 0, &usage) == pid && status == 0, "%s: status %d", script, status);
  clock_gettime(CLOCK_MONOTONIC, &end);
  times->wall_s[run] =
      (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
  times->processor_s[run] = seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static int compare(const void *one, const void *other) {
  double a = *(const double *)one, b = *(const double *)other;
  return (a > b) - (a < b);
}

static double median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, compare);
  return values[n / 2];
}

static void print_row(const char *script, int runs, const double *wall, const double *processor) {
  fprintf(stderr, "| `%s` | %d |", script, runs);
  for (int form = 0; form < FORMS; form++)
    fprintf(stderr, " %.1f ms |", 1e3 * wall[form]);
  for (int form = 0; form < FORMS; form++)
    fprintf(stderr, " %.1f ms |", 1e3 * processor[form]);
  fputs("\n", stderr);
}

/* The forms take turns, so that what else the machine does meets all of them. */
static void check(const char *script, int runs) {
  static struct times times[FORMS];
  double wall[FORMS], processor[FORMS];
  for (int run = -1; run < runs; run++) /* one round to warm up */
    for (int form = 0; form < FORMS; form++)
      measure((enum form)form, script, &times[form], run < 0 ? 0 : run);
  for (int form = 0; form < FORMS; form++) {
    wall[form] = median(times[form].wall_s, runs);
    processor[form] = median(times[form].processor_s, runs);
  }
  print_row(script, runs, wall, processor);
  cr_assert(processor[PRELOADED] - processor[ALONE] < felt_s, "%s: the preload can be felt",
            script);
  cr_assert(processor[LAUNCHED] - processor[ALONE] < felt_s + look_s, "%s: so can the launcher",
            script);
}

Test(startup, cannot_be_felt, .timeout = 1800) {
  client_begin("torch");
  fputs(
      "| | runs of each | wall: alone | `LD_PRELOAD` | `nccl-join run` | user and system: alone | "
      "`LD_PRELOAD` | `nccl-join run` |\n|---|---|---|---|---|---|---|---|\n",
      stderr);
  char path[8192]; /* the Python with PyTorch first */
  snprintf(path, sizeof path, "%s:%s", getenv("BIN"), getenv("PATH"));
  setenv("PATH", path, 1);
  check("/bin/true", 101);
  check("python3 -c pass", 51);
  check("python3 -c 'import torch'", 11);
  client_end();
}
