/* A joined rank that shadows for long: what a unit costs it, and that nothing grows. Rank 1 has
 * learnt the loop and leaves by ncclCommDestroy at once; rank 0 issues 100,000 units more.
 */
#include <cuda_runtime_api.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define SECTION "A joined rank that shadows 100,000 units"
#define LONG "long"
#define CHUNK 1000 /* units of a sample; rank 0 stays at most so far ahead */

enum { PROCESSOR_TIME, HEAP, RESIDENT, DEVICE }; /* samples of rank 1 */

static uint64_t units(void) {
  return row_is_quick() ? 10 * CHUNK : 100 * CHUNK;
}

/* ---- rank 0 ---- */

/* Nanoseconds a unit, until the joined rank has followed. */
static void run_active(struct area *area, ncclComm_t comm) {
  for (uint64_t issued = LOOP_LEARNT_UNITS; issued < LOOP_LEARNT_UNITS + units();) {
    uint64_t start = area_now();
    for (int i = 0; i < CHUNK; i++)
      loop_unit(comm, issued++ % LOOP_UNITS);
    area_wait_entered(area, 1, issued);
    area_add_sample(area, 0, (double)(area_now() - start) / CHUNK);
  }
  while (atomic_load(&area->ranks[1].progress) == 0)
    area_sleep_us(1000);
}

/* ---- rank 1 ---- */

struct memory {
  double heap, resident, device; /* KiB */
};

/* Memory of this process alone: the benchmark's own stamps are shared. */
static double resident_kibibytes(void) {
  char line[128], *next = line;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL || fgets(line, sizeof line, file) == NULL)
    _exit(1);
  fclose(file);
  (void)strtol(next, &next, 10); /* the size of the address space */
  long resident = strtol(next, &next, 10), shared = strtol(next, &next, 10);
  return (double)((resident - shared) * sysconf(_SC_PAGESIZE)) / 1024;
}

static struct memory memory_now(void) {
  struct mallinfo2 heap = mallinfo2();
  size_t left = 0, total = 0;
  if (cudaMemGetInfo(&left, &total) != cudaSuccess)
    _exit(1);
  return (struct memory){(double)(heap.uordblks + heap.hblkhd) / 1024, resident_kibibytes(),
                         (double)(total - left) / 1024};
}

/* What is more at the end than after three quarters, when every ring is full: the last is the
 * learner's (LEARNER_HISTORY). */
static void *watch(void *argument) {
  struct area *area = argument;
  cudaSetDevice(0);
  memory_now(); /* what asking needs is there */
  area_wait_entered(area, 1, LOOP_LEARNT_UNITS + units() / 4 * 3);
  struct memory first = memory_now();
  area_wait_entered(area, 1, LOOP_LEARNT_UNITS + units());
  struct memory last = memory_now();
  double *samples = area->ranks[1].samples;
  samples[HEAP] = last.heap - first.heap;
  samples[RESIDENT] = last.resident - first.resident;
  samples[DEVICE] = last.device - first.device;
  atomic_store(&area->ranks[1].progress, 1);
  return NULL;
}

static double processor_ns(void) {
  struct rusage used;
  getrusage(RUSAGE_SELF, &used);
  return 1e9 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static int run_rank(struct area *area, int rank) {
  pthread_t watcher;
  cudaSetDevice(0);
  ncclComm_t comm = loop_communicator(area->nranks, rank);
  for (int i = 0; i < LOOP_LEARNT; i++)
    loop_iteration(comm);
  if (rank == 1)
    pthread_create(&watcher, NULL, watch, area);
  else
    run_active(area, comm);
  double before = processor_ns();
  ncclCommDestroy(comm);
  if (rank == 1) {
    area->ranks[1].samples[PROCESSOR_TIME] = (processor_ns() - before) / (double)units();
    pthread_join(watcher, NULL);
  }
  return 0;
}

/* ---- the driver ---- */

static void print(const char *name, const char *unit, const char *goal, double value) {
  row_print_exact(&(struct row){SECTION, name, unit, goal}, value);
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  if (argc == 2 && area != NULL && strcmp(argv[1], LONG) == 0)
    return run_rank(area, rank);
  area = job_area();
  struct job job = job_alike(LONG, 2, (struct rank_setup){.preload = JOB_JOIN, .nccl = JOB_EMPTY});
  job.setup[1].nccl = JOB_STAMPING;
  job_run(&job, area);
  row_print(&(struct row){SECTION, "a unit, until the joined rank has followed", "ns", NULL},
            area->ranks[0].samples, area->ranks[0].nsamples);
  const double *samples = area->ranks[1].samples;
  print("a unit, processor time of the joined rank", "ns", NULL, samples[PROCESSOR_TIME]);
  print("heap of the joined rank, growth in the last quarter", "KiB", "0", samples[HEAP]);
  print("resident memory of its process, the same", "KiB", "0", samples[RESIDENT]);
  print("device memory, the same", "KiB", "0", samples[DEVICE]);
  return 0;
}
