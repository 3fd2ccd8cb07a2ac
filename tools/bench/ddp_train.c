/* Training as DistributedDataParallel does it, without computing anything: the program that the DDP
 * benchmark runs (ddp.c). An ordinary NCCL program; with --join it contains PyTorch's Join
 * protocol.
 *
 * Prints "RESULT <rank> seconds <s> iterations <n> collectives <c> reads <r>": the time from the
 * end of the warm-up to the model being the same everywhere, the iterations in it, and how many
 * collectives they had and how often they kept the host waiting for a value, the loss not counted.
 * Every sum, every buffer and the final parameters are checked; a wrong one ends the program with
 * status 1.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/programs/options.h"
#include "tools/bench/ddp_join.h"

static const char *schedule = "100", *expected = "as done", *variant = "none";
static int warm_up = 20, buffers = 1, device_us = 0, host_us = 0, read_every = 50;

static const struct option options[] = {
    {"--iterations", &schedule, NULL, "per rank, warm-up included: 100 or 100,50"},
    {"--expect", &expected, NULL, "the iterations that results are checked against"},
    {"--warm-up", NULL, &warm_up, "iterations before the time begins"},
    {"--join", &variant, NULL, "PyTorch's protocol: none, initial, active, throw"},
    {"--buffers", NULL, &buffers, "1: broadcast the model's buffers in each iteration"},
    {"--device-us", NULL, &device_us, "microseconds that the device computes in an iteration"},
    {"--host-us", NULL, &host_us, "microseconds that the host computes in an iteration"},
    {"--read-every", NULL, &read_every, "the loss is read in every k-th iteration; 0: never"},
    {0},
};

static double now_s(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const struct join_variant_name {
  const char *name;
  enum join_variant variant;
} join_variants[] = {{"initial", JOIN_INITIAL}, {"active", JOIN_ACTIVE}, {"throw", JOIN_THROW}};

/* False if the program is to run without the protocol. */
static bool read_variant(enum join_variant *out) {
  if (strcmp(variant, "none") == 0)
    return false;
  for (size_t i = 0; i < sizeof join_variants / sizeof *join_variants; i++) {
    if (strcmp(variant, join_variants[i].name) != 0)
      continue;
    *out = join_variants[i].variant;
    return true;
  }
  fprintf(stderr, "--join %s: known are none, initial, active and throw\n", variant);
  exit(2);
}

/* One iteration; join is NULL without the protocol. False if all shall stop instead. */
static bool iterate(struct model *model, struct join *join, int i) {
  model_compute_on_host(model);
  if (join != NULL && !join_notify(join))
    return false;
  if (model->buffers)
    model_broadcast_buffers(model, i, join != NULL ? join_elect(join) : 0);
  if (join != NULL)
    join_announce_gradients(join);
  model_forward(model);
  double divisor = join != NULL ? join_divisor(join) : model->ranks.nranks;
  for (int bucket = 0; bucket < MODEL_BUCKETS; bucket++)
    model_reduce_bucket(model, i, bucket, divisor);
  model_step(model, i);
  if (read_every != 0 && (i + 1) % read_every == 0)
    model_wait(model);
  return true;
}

/* The rank that trains longest; the highest of several. */
static int longest(const struct model *model) {
  int found = 0;
  for (int rank = 1; rank < model->ranks.nranks; rank++)
    if (schedule_iterations(schedule, 0, rank) >= schedule_iterations(schedule, 0, found))
      found = rank;
  return found;
}

struct timed {
  double start_s, processor_s;
  int iterations, collectives, reads;
};

/* How many iterations this rank did; *stopped if it was told to stop. */
static int train(struct model *model, struct join *join, struct timed *timed, bool *stopped) {
  int iterations = schedule_iterations(schedule, 0, model->ranks.rank), i = 0;
  for (; i < iterations; i++) {
    if (i == warm_up) {
      model_wait(model);
      *timed = (struct timed){now_s(CLOCK_MONOTONIC), now_s(CLOCK_PROCESS_CPUTIME_ID), 0,
                              model->collectives, model->reads};
    }
    *stopped = !iterate(model, join, i);
    if (*stopped)
      break;
  }
  timed->iterations = i - warm_up;
  timed->collectives = model->collectives - timed->collectives;
  timed->reads = model->reads - timed->reads;
  return i;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "DistributedDataParallel's collectives, with PyTorch's Join protocol or not.",
               options);
  struct model model = {.buffers = buffers,
                        .forward_ns = device_us * 1000L / 3,
                        .backward_ns = device_us * 2000L / 3 / MODEL_BUCKETS,
                        .host_ns = host_us * 1000L};
  struct join protocol, *join = NULL;
  enum join_variant wanted = JOIN_INITIAL;
  model_create(&model, schedule);
  if (read_variant(&wanted))
    join_create(join = &protocol, &model, wanted);
  struct timed timed = {.start_s = now_s(CLOCK_MONOTONIC)};
  bool stopped = false;
  int iterations = train(&model, join, &timed, &stopped);
  int root = longest(&model);
  if (join == NULL)
    model_broadcast_parameters(&model, root);
  else
    root = stopped ? -1 : join_leave(join);
  ranks_result(&model.ranks, "seconds %.6f processor %.6f iterations %d collectives %d reads %d",
               now_s(CLOCK_MONOTONIC) - timed.start_s,
               now_s(CLOCK_PROCESS_CPUTIME_ID) - timed.processor_s, timed.iterations,
               timed.collectives, timed.reads);
  struct model_plan plan = {.iterations = strcmp(expected, "as done") == 0 ? schedule : expected,
                            .divide_by_active = join != NULL && wanted == JOIN_ACTIVE,
                            .root_is_highest = join != NULL};
  int wrong = model_check(&model, &plan, iterations, root);
  if (wrong > 0)
    ranks_result(&model.ranks, "wrong %d", wrong);
  int status = ranks_leave(&model.ranks, ENDING_FINALIZE);
  return wrong > 0 ? 1 : status;
}
