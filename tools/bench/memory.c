/* What nccl-join needs besides time: memory of a rank, and what it adds to a program that has
 * nothing to do with NCCL, which a preload object meets too.
 */
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define SECTION "Memory"
#define TRUE_SECTION "The preload object in front of true"
#define EVEN "even"
#define UNEVEN "uneven"
#define ROUNDS_MAX 1024

/* ---- a rank ---- */

static double kibibytes_left(void) {
  size_t left, total;
  if (cudaMemGetInfo(&left, &total) != cudaSuccess)
    _exit(1);
  return (double)left / 1024;
}

static double heap_kibibytes(void) {
  struct mallinfo2 heap = mallinfo2();
  return (double)(heap.uordblks + heap.hblkhd) / 1024;
}

/* Memory of the segments that this process has open. Their files have no names any more, and must
 * not be opened (core/transport/plane_shm.h). */
static double shared_kibibytes(void) {
  double sum = 0;
  DIR *open = opendir("/proc/self/fd");
  struct dirent *entry;
  while (open != NULL && (entry = readdir(open)) != NULL) {
    char path[300], file[300] = "";
    struct stat segment;
    snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
    if (readlink(path, file, sizeof file - 1) > 0 &&
        strncmp(file, "/dev/shm/nccl-join-", 19) == 0 && stat(path, &segment) == 0)
      sum += (double)segment.st_blocks * 512 / 1024;
  }
  if (open != NULL)
    closedir(open);
  return sum;
}

/* Samples: device memory taken, heap taken, and shared memory of all ranks. */
static int run_even(struct area *area, int rank) {
  cudaSetDevice(0);
  double left = kibibytes_left(), heap = heap_kibibytes();
  ncclComm_t comm = loop_communicator(area->nranks, rank);
  for (int i = 0; i < LOOP_LEARNT; i++)
    loop_iteration(comm);
  area_meet(area);
  area_add_sample(area, rank, left - kibibytes_left());
  area_add_sample(area, rank, heap_kibibytes() - heap);
  area_add_sample(area, rank, shared_kibibytes());
  area_meet(area);
  ncclCommDestroy(comm);
  return 0;
}

/* What is left at least while this rank is joined. */
static void *watch_device(void *lowest) {
  for (int i = 0; i < 50; i++) {
    double left = kibibytes_left();
    *(double *)lowest = left < *(double *)lowest ? left : *(double *)lowest;
    area_sleep_us(1000);
  }
  return NULL;
}

/* Rank 1 leaves, rank 0 goes on for an iteration, and for another at the end of the watch. */
static int run_uneven(struct area *area, int rank) {
  pthread_t watcher;
  cudaSetDevice(0);
  double left = kibibytes_left(), lowest = left;
  ncclComm_t comm = loop_communicator(area->nranks, rank);
  for (int i = 0; i < LOOP_LEARNT; i++)
    loop_iteration(comm);
  if (rank == 1) {
    pthread_create(&watcher, NULL, watch_device, &lowest);
  } else {
    area_sleep_us(10000);
    loop_iteration(comm);
    area_sleep_us(100000);
  }
  ncclCommDestroy(comm);
  if (rank == 1)
    pthread_join(watcher, NULL);
  area_add_sample(area, rank, left - lowest);
  return 0;
}

/* ---- the driver ---- */

static void print(const char *section, const char *name, const char *unit, const char *goal,
                  double value) {
  row_print_exact(&(struct row){section, name, unit, goal}, value);
}

static void measure_memory(struct area *area) {
  struct rank_setup direct = {.nccl = JOB_EMPTY};
  struct rank_setup joined = {.preload = JOB_JOIN, .nccl = JOB_EMPTY};
  char name[64];
  for (uint32_t nranks = 2; nranks <= AREA_RANKS; nranks *= 4) {
    struct job job = job_alike(EVEN, nranks, joined);
    job_run(&job, area);
    snprintf(name, sizeof name, "shared memory per rank, %u ranks", nranks);
    print(SECTION, name, "KiB", "at most 1024", area->ranks[0].samples[2] / nranks);
  }
  double device = area->ranks[0].samples[0], heap = area->ranks[0].samples[1];
  struct job job = job_alike(EVEN, AREA_RANKS, direct);
  job_run(&job, area);
  print(SECTION, "heap of a rank's process, 8 ranks", "KiB", NULL,
        heap - area->ranks[0].samples[1]);
  print(SECTION, "device memory before the first shadow", "KiB", "0",
        device - area->ranks[0].samples[0]);
  job = job_alike(UNEVEN, 2, joined);
  job_run(&job, area);
  print(SECTION, "device memory while joined, all-reduces of up to 31 KiB", "KiB", NULL,
        area->ranks[1].samples[0]);
}

static pid_t start_true(const char *preload, bool stepped) {
  pid_t child = fork();
  if (child != 0)
    return child;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", getenv("BENCH_BUILD"), preload == NULL ? "" : preload);
  if (preload != NULL)
    setenv("LD_PRELOAD", path, 1);
  if (stepped)
    steps_allow();
  execlp("true", "true", (char *)NULL);
  _exit(127);
}

/* Microseconds of processor time, from fork to the end: what passes by the clock depends on who
 * else runs. */
static double time_true(const char *preload) {
  struct rusage used;
  int status = -1;
  wait4(start_true(preload, false), &status, 0, &used);
  if (status == 0)
    return 1e6 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  fprintf(stderr, "true ended with wait status %d\n", status);
  exit(1);
}

static double system_calls_of_true(const char *preload) {
  long calls = steps_count_system_calls(start_true(preload, true));
  if (calls >= 0)
    return (double)calls;
  fprintf(stderr, "the system calls of true could not be counted\n");
  exit(1);
}

static void measure_true(void) {
  static const struct {
    const char *name, *preload;
  } variants[] = {{"without", NULL}, {"bare shim", JOB_SHIM}, {"nccl-join", JOB_JOIN}};
  enum { WITHOUT, SHIM, JOIN, VARIANTS };
  static double samples[VARIANTS][ROUNDS_MAX], added[ROUNDS_MAX];
  size_t rounds = row_is_quick() ? 3 : 300;
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++)
      samples[variant][round] = time_true(variants[variant].preload);
  for (size_t round = 0; round < rounds; round++)
    added[round] = samples[JOIN][round] - samples[WITHOUT][round];
  char name[64];
  for (int variant = 0; variant < VARIANTS; variant++) {
    snprintf(name, sizeof name, "%s, processor time from fork to end", variants[variant].name);
    row_print(&(struct row){TRUE_SECTION, name, "us", NULL}, samples[variant], rounds);
  }
  row_print(&(struct row){TRUE_SECTION, "processor time added by nccl-join", "us", NULL}, added,
            rounds);
  for (int variant = 0; variant < VARIANTS; variant++) {
    snprintf(name, sizeof name, "%s, system calls", variants[variant].name);
    print(TRUE_SECTION, name, "calls", NULL, system_calls_of_true(variants[variant].preload));
  }
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  if (argc == 2 && area != NULL && strcmp(argv[1], EVEN) == 0)
    return run_even(area, rank);
  if (argc == 2 && area != NULL && strcmp(argv[1], UNEVEN) == 0)
    return run_uneven(area, rank);
  area = job_area();
  measure_memory(area);
  measure_true();
  return 0;
}
