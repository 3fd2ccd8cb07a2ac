/* What the modes cost in which ranks wait for each other: early termination meets where an
 * iteration begins, a divisor by the active ranks in every reduction that it concerns. An iteration
 * of eight all-reduces of a loop that has been learnt, no rank has joined; from the first call to
 * the last one's return. Variants take turns.
 */
#include <stdio.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define SECTION "Modes in which ranks wait: an iteration of 8 all-reduces, nobody joined"
#define SCENARIO "modes"
#define ROUNDS_MAX 32
#define ITERATIONS 64

enum { JOIN, THROW, DIVISOR, VARIANTS };

static const struct variant {
  const char *name;
  struct rank_setup setup;
} variants[VARIANTS] = {
    [JOIN] = {"default", {.preload = JOB_JOIN, .nccl = JOB_EMPTY}},
    [THROW] = {"NCCL_JOIN_EARLY_EXIT=throw",
               {.preload = JOB_JOIN,
                .nccl = JOB_EMPTY,
                .setting = {"NCCL_JOIN_EARLY_EXIT", "throw"}}},
    [DIVISOR] = {"NCCL_JOIN_DIVISOR=active-sum",
                 {.preload = JOB_JOIN,
                  .nccl = JOB_EMPTY,
                  .setting = {"NCCL_JOIN_DIVISOR", "active-sum"}}},
};

static int run_rank(struct area *area, int rank) {
  ncclComm_t comm = loop_communicator(area->nranks, rank);
  for (int i = 0; i < LOOP_LEARNT; i++)
    loop_iteration(comm);
  for (int batch = 0; batch < (row_is_quick() ? 2 : 20); batch++) {
    area_meet(area);
    loop_iteration(comm);
    uint64_t start = area_now();
    for (int i = 0; i < ITERATIONS; i++)
      loop_iteration(comm);
    area_add_sample(area, rank, (double)(area_now() - start) / ITERATIONS / 1000);
  }
  area_meet(area);
  ncclCommDestroy(comm);
  return 0;
}

/* A sample is the median of a job's batches. */
static void measure(struct area *area, uint32_t nranks) {
  size_t rounds = row_is_quick() ? 2 : 7;
  double samples[VARIANTS][ROUNDS_MAX];
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++) {
      struct job job = job_alike(SCENARIO, nranks, variants[variant].setup);
      job_run(&job, area);
      struct area_rank *measured = &area->ranks[0];
      samples[variant][round] = row_quantile(measured->samples, measured->nsamples, 0.5);
    }
  for (int variant = 0; variant < VARIANTS; variant++) {
    char name[128];
    snprintf(name, sizeof name, "%u ranks, %s", nranks, variants[variant].name);
    row_print(&(struct row){SECTION, name, "us", NULL}, samples[variant], rounds);
  }
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  (void)argv;
  if (argc == 2 && area != NULL)
    return run_rank(area, rank);
  area = job_area();
  for (uint32_t nranks = 2; nranks <= AREA_RANKS; nranks *= 2)
    measure(area, nranks);
  return 0;
}
