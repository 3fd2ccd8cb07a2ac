/* What a collective costs on the host while nobody has joined: directly, through the least that can
 * stand in front (shim.c), with NCCL_JOIN=0, and with nccl-join. Variants take turns, so that what
 * else goes on in the machine meets all of them. Two ranks, each a process, run a loop that
 * nccl-join has learnt, and meet outside of the timed part, so that neither is ever far ahead.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define SECTION "A collective's host cost, nobody joined"
#define ROUNDS_MAX 64
/* Of a batch. Less than PLANE_RUN_AHEAD units, half as many again untimed before it included. */
#define ITERATIONS 128

enum { DIRECT, SHIM, OFF, JOIN, VARIANTS };

static const struct variant {
  const char *name;
  struct rank_setup setup;
} variants[VARIANTS] = {
    [DIRECT] = {"direct", {.nccl = JOB_EMPTY}},
    [SHIM] = {"bare shim", {.preload = JOB_SHIM, .nccl = JOB_EMPTY}},
    [OFF] = {"NCCL_JOIN=0", {.preload = JOB_JOIN, .nccl = JOB_EMPTY, .off = true}},
    [JOIN] = {"nccl-join", {.preload = JOB_JOIN, .nccl = JOB_EMPTY}},
};

static const struct scenario {
  const char *name, *unit_name;
  void (*iteration)(ncclComm_t comm);
  unsigned units;       /* of an iteration */
  unsigned collectives; /* of a unit */
  int counted;          /* iterations by single steps, which are slow */
} scenarios[] = {
    {"single", "one all-reduce", loop_iteration, LOOP_UNITS, 1, 128},
    {"rounds", "one all-reduce of two lines", loop_rounds, LOOP_UNITS, 1, 64},
    {"group", "a group of 8", loop_groups, 2, 8, 256},
};
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

static int counted_iterations(const struct scenario *scenario) {
  return row_is_quick() ? 2 : scenario->counted;
}

/* ---- a rank ---- */

/* What is measured stands where the loop was learnt: where in the program a call stands is part of
 * what is learnt (interpose/places/places.h). So all iterations of a rank are made by one line. */
struct stretch {
  int iterations;
  bool together; /* the ranks meet before */
  bool timed, counted;
};

static struct stretch learning_stretch(const struct scenario *scenario) {
  return (struct stretch){.iterations = (int)(LOOP_LEARNT_UNITS / scenario->units)};
}

static struct stretch timed_stretch(int number, const struct scenario *scenario) {
  if (number == 0)
    return learning_stretch(scenario);
  if (number % 2 == 1)
    return (struct stretch){.iterations = ITERATIONS / 8, .together = true};
  return (struct stretch){.iterations = ITERATIONS, .timed = true};
}

/* Regions of none and of some iterations, in turns. */
static struct stretch counted_stretch(int number, const struct scenario *scenario) {
  if (number == 0)
    return learning_stretch(scenario);
  return (struct stretch){.iterations = number % 2 == 0 ? counted_iterations(scenario) : 0,
                          .together = true,
                          .counted = true};
}

static void run_stretch(struct area *area, int rank, const struct scenario *scenario,
                        ncclComm_t comm, struct stretch stretch) {
  if (stretch.together)
    area_meet(area);
  if (stretch.counted && rank == 0)
    steps_begin();
  uint64_t start = area_now();
  for (int i = 0; i < stretch.iterations; i++)
    scenario->iteration(comm);
  if (stretch.timed)
    area_add_sample(area, rank,
                    (double)(area_now() - start) /
                        (double)(stretch.iterations * (int)scenario->units));
  if (stretch.counted && rank == 0)
    steps_end();
}

static int run_rank(struct area *area, int rank, const struct scenario *scenario) {
  ncclComm_t comm = loop_communicator(area->nranks, rank);
  if (area->counted && rank == 0)
    steps_watch(&area->watched);
  int stretches = area->counted ? 5 : row_is_quick() ? 5 : 81;
  for (int i = 0; i < stretches; i++)
    run_stretch(area, rank, scenario, comm,
                area->counted ? counted_stretch(i, scenario) : timed_stretch(i, scenario));
  area_meet(area);
  ncclCommDestroy(comm);
  return 0;
}

/* ---- the driver ---- */

static const char *named(char name[128], const struct scenario *scenario, const char *what) {
  snprintf(name, 128, "%s, %s", scenario->unit_name, what);
  return name;
}

static void print(const struct scenario *scenario, const char *what, const char *unit,
                  const char *goal, double *samples, size_t nsamples) {
  char name[128];
  row_print(&(struct row){SECTION, named(name, scenario, what), unit, goal}, samples, nsamples);
}

/* A sample is the median of a job's batches. */
static void measure_times(const struct scenario *scenario, struct area *area) {
  size_t rounds = row_is_quick() ? 2 : 30;
  double samples[VARIANTS][ROUNDS_MAX], over[ROUNDS_MAX];
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++) {
      struct job job = job_alike(scenario->name, 2, variants[variant].setup);
      job_run(&job, area);
      struct area_rank *measured = &area->ranks[0];
      samples[variant][round] = row_quantile(measured->samples, measured->nsamples, 0.5);
    }
  /* Before row_print sorts them. */
  for (size_t round = 0; round < rounds; round++)
    over[round] = (samples[JOIN][round] - samples[SHIM][round]) / scenario->collectives;
  for (int variant = 0; variant < VARIANTS; variant++)
    print(scenario, variants[variant].name, "ns", NULL, samples[variant], rounds);
  print(scenario, "each collective over the bare shim", "ns", "at most 20", over, rounds);
}

/* What the iterations of all regions come to, for one unit. */
static struct steps_per_unit {
  double instructions, locked, system_calls, allocations, mutexes;
} count_steps(const struct scenario *scenario, const struct rank_setup *setup, struct area *area) {
  struct steps_taken taken;
  struct job job = job_alike(scenario->name, 2, *setup);
  job.steps = &taken;
  job_run(&job, area);
  struct steps_per_unit sum = {0};
  double units = taken.nregions / 2.0 * counted_iterations(scenario) * scenario->units;
  for (unsigned region = 0; region < taken.nregions; region++) {
    const struct steps *steps = &taken.regions[region];
    double weight = region % 2 == 1 ? 1 / units : -1 / units;
    sum.instructions += weight * (double)steps->instructions;
    sum.locked += weight * (double)steps->locked;
    sum.system_calls += weight * (double)steps->system_calls;
    sum.allocations += weight * (double)steps->allocations;
    sum.mutexes += weight * (double)steps->mutexes;
  }
  return sum;
}

static void measure_steps(const struct scenario *scenario, struct area *area) {
  struct steps_per_unit counted[VARIANTS];
  char what[64];
  for (int variant = 0; variant < VARIANTS; variant++) {
    counted[variant] = count_steps(scenario, &variants[variant].setup, area);
    snprintf(what, sizeof what, "%s, instructions", variants[variant].name);
    print(scenario, what, "instructions", NULL, &counted[variant].instructions, 1);
  }
  const struct steps_per_unit *join = &counted[JOIN];
  double over = (join->instructions - counted[SHIM].instructions) / scenario->collectives;
  print(scenario, "each collective's instructions over the bare shim", "instructions",
        "at most 140", &over, 1);
  print(scenario, "nccl-join, system calls", "calls", "0", &counted[JOIN].system_calls, 1);
  print(scenario, "nccl-join, calls of malloc and free", "calls", "0", &counted[JOIN].allocations,
        1);
  print(scenario, "nccl-join, calls of mutex functions", "calls", "0", &counted[JOIN].mutexes, 1);
  if (steps_knows_locked())
    print(scenario, "nccl-join, locked instructions", "instructions", NULL, &counted[JOIN].locked,
          1);
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  for (size_t i = 0; i < SCENARIOS; i++)
    if (argc == 2 && area != NULL && strcmp(argv[1], scenarios[i].name) == 0)
      return run_rank(area, rank, &scenarios[i]);
  area = job_area();
  for (size_t i = 0; i < SCENARIOS; i++) {
    measure_times(&scenarios[i], area);
    measure_steps(&scenarios[i], area);
  }
  return 0;
}
