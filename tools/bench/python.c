/* What a call from Python costs on the host while nobody has joined: from call to return through
 * ctypes, the interpreter's own work included. Of the variants, which take turns, the differences
 * count. A rank is python_calls.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/rows.h"

#define SECTION "A collective's host cost from Python, nobody joined"
#define SCRIPT "tools/bench/python_calls.py"
#define RANKS 2
#define ROUNDS_MAX 9
#define NUMBERS 512
#define RESULTS_VARIABLE "BENCH_PYTHON_RESULTS"

enum { SHIM, OFF, HIDDEN, JOIN, VARIANTS };

static const struct variant {
  const char *name;
  struct rank_setup setup;
} variants[VARIANTS] = {
    [SHIM] = {"bare shim", {.preload = JOB_SHIM, .nccl = JOB_EMPTY}},
    [OFF] = {"NCCL_JOIN=0", {.preload = JOB_JOIN, .nccl = JOB_EMPTY, .off = true}},
    [HIDDEN] = {"NCCL_JOIN_PLACES=0",
                {.preload = JOB_JOIN, .nccl = JOB_EMPTY, .setting = {"NCCL_JOIN_PLACES", "0"}}},
    [JOIN] = {"nccl-join", {.preload = JOB_JOIN, .nccl = JOB_EMPTY}},
};

static int become_python(int rank) {
  char number[16];
  snprintf(number, sizeof number, "%d", rank);
  execlp("python3", "python3", SCRIPT, getenv(RESULTS_VARIABLE), number, "2", (char *)NULL);
  perror("python3");
  return 127;
}
_Static_assert(RANKS == 2, "as the script is told");

/* What the ranks write, by the name of the file; NULL, with a line on stderr: none. */
static double *make_results(char path[64]) {
  size_t size = NUMBERS * sizeof(double);
  int fd = memfd_create("results", 0);
  if (fd < 0 || ftruncate(fd, (off_t)size) != 0) {
    perror("python: no memory");
    return NULL;
  }
  snprintf(path, 64, "/proc/%d/fd/%d", getpid(), fd);
  double *numbers = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return numbers == MAP_FAILED ? NULL : numbers;
}

/* What a call costs in the job's quick batches: an interpreter's call is long enough for others to
 * come in between in most batches, on a machine with other work. */
static double run(const struct variant *variant, struct area *area, double *numbers) {
  memset(numbers, 0, NUMBERS * sizeof *numbers);
  struct job job = job_alike("python", RANKS, variant->setup);
  job_run(&job, area);
  size_t nsamples = 0;
  while (RANKS + nsamples < NUMBERS && numbers[RANKS + nsamples] != 0)
    nsamples++;
  return row_quantile(numbers + RANKS, nsamples, 0.1);
}

static void print(const char *name, const char *goal, double *samples, size_t nsamples) {
  row_print(&(struct row){SECTION, name, "ns", goal}, samples, nsamples);
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  if (argc == 2 && area != NULL && strcmp(argv[1], "python") == 0)
    return become_python(rank);
  char path[64];
  double samples[VARIANTS][ROUNDS_MAX], over[ROUNDS_MAX], *numbers = make_results(path);
  size_t rounds = row_is_quick() ? 1 : ROUNDS_MAX;
  if (numbers == NULL)
    return 1;
  // NOLINTNEXTLINE(cert-env33-c): a measurement, of the python3 that a shell finds
  if (system("python3 -c 'import ctypes' 2>/dev/null") != 0) {
    fputs("python: there is none, or it has no ctypes\n", stderr);
    return 0;
  }
  setenv(RESULTS_VARIABLE, path, 1);
  area = job_area();
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++)
      samples[variant][round] = run(&variants[variant], area, numbers);
  for (size_t round = 0; round < rounds; round++)
    over[round] = samples[JOIN][round] - samples[SHIM][round];
  for (int variant = 0; variant < VARIANTS; variant++)
    print(variants[variant].name, NULL, samples[variant], rounds);
  print("each call over the bare shim", "at most 400", over, rounds);
  return 0;
}
