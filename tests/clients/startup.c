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

struct times {
  double wall_s[RUNS_MAX], processor_s[RUNS_MAX];
};

static double seconds(struct timeval time) {
  return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

static void measure(const char *const *words, const char *preload, struct times *times, int run) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  pid_t pid = fork();
  cr_assert(pid >= 0);
  if (pid == 0) {
    if (preload != NULL)
      setenv("LD_PRELOAD", preload, 1);
    execvp(words[0], (char *const *)words);
    _exit(127);
  }
  int status;
  struct rusage usage;
  cr_assert(wait4(pid, &status, 0, &usage) == pid && status == 0, "%s: status %d", words[0],
            status);
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

/* Runs with and without take turns, so that what else the machine does meets both. */
static void check(const char *title, const char *const *words, int runs) {
  static struct times without, with;
  measure(words, getenv("P"), &with, 0);
  for (int run = 0; run < runs; run++) {
    measure(words, NULL, &without, run);
    measure(words, getenv("P"), &with, run);
  }
  double wall[] = {median(without.wall_s, runs), median(with.wall_s, runs)};
  double processor[] = {median(without.processor_s, runs), median(with.processor_s, runs)};
  fprintf(stderr, "| `%s` | %d | %.1f ms | %.1f ms | %+.1f ms | %.1f ms | %.1f ms | %+.1f ms |\n",
          title, runs, 1e3 * wall[0], 1e3 * wall[1], 1e3 * (wall[1] - wall[0]), 1e3 * processor[0],
          1e3 * processor[1], 1e3 * (processor[1] - processor[0]));
  cr_assert(processor[1] - processor[0] < felt_s, "%s: the start can be felt", title);
}

Test(startup, cannot_be_felt, .timeout = 900) {
  client_begin("torch");
  const char *python = getenv("PY");
  fputs("| start of | runs of each | wall, without | with | difference | user and system, without "
        "| with | difference |\n|---|---|---|---|---|---|---|---|\n",
        stderr);
  check("true", (const char *const[]){"/bin/true", NULL}, 101);
  check("python -c pass", (const char *const[]){python, "-c", "pass", NULL}, 51);
  check("python -c 'import torch'", (const char *const[]){python, "-c", "import torch", NULL}, 15);
  client_end();
}
