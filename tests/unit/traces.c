/* The generators of traces.h. An operation is what the coarse symbol tells apart; the count makes
 * the symbol. */
#include "tests/unit/traces.h"

#include <stdlib.h>

/* Operations; any other number is one too. */
enum operation { ALLREDUCE = 1, ALLGATHER, REDUCESCATTER, BROADCAST, METRIC, BARRIER };

uint32_t trace_random(uint64_t *state, uint32_t below) {
  *state ^= *state >> 12;
  *state ^= *state << 25;
  *state ^= *state >> 27;
  return (uint32_t)((*state * 0x2545f4914f6cdd1du) >> 33) % below;
}

void trace_add(struct trace *trace, uint32_t operation, uint32_t count) {
  if (trace->nunits == trace->room) {
    trace->room = trace->room ? 2 * trace->room : 1024;
    trace->units = realloc(trace->units, trace->room * sizeof *trace->units);
    if (!trace->units)
      abort();
  }
  trace->units[trace->nunits++] = (struct trace_unit){operation << 20 | (count + 1), operation};
}

static void add_times(struct trace *trace, uint32_t operation, uint32_t count, uint32_t times) {
  for (uint32_t i = 0; i < times; i++)
    trace_add(trace, operation, count);
}

/* One iteration of data-parallel training: all-reduces that differ in their counts alone. */
static void add_buckets(struct trace *trace, uint32_t buckets) {
  for (uint32_t i = 0; i < buckets; i++)
    trace_add(trace, ALLREDUCE, 1000 + i);
}

static void ddp_first_differs(struct trace *trace) {
  for (uint32_t i = 0; i < 12; i++)
    trace_add(trace, ALLREDUCE, 500 + i);
  for (int iteration = 0; iteration < 3000; iteration++)
    add_buckets(trace, 10);
}

static void fsdp(struct trace *trace) {
  add_times(trace, BROADCAST, 1, 4);
  for (int iteration = 0; iteration < 1500; iteration++) {
    add_times(trace, ALLGATHER, 1, 32);
    for (int layer = 0; layer < 32; layer++) {
      trace_add(trace, ALLGATHER, 1);
      trace_add(trace, REDUCESCATTER, 1);
    }
    trace_add(trace, ALLREDUCE, 1);
  }
}

static void gradient_accumulation(struct trace *trace) {
  for (int iteration = 0; iteration < 2000; iteration++) {
    for (int micro = 0; micro < 8; micro++) {
      trace_add(trace, ALLGATHER, 1);
      trace_add(trace, REDUCESCATTER, 1);
    }
    add_buckets(trace, 4);
    trace_add(trace, ALLREDUCE, 1);
  }
}

static void ddp_op_every_50(struct trace *trace) {
  for (int iteration = 1; iteration <= 5000; iteration++) {
    add_buckets(trace, 10);
    if (iteration % 50 == 0)
      trace_add(trace, METRIC, 1);
  }
}

static void ddp_log_and_eval(struct trace *trace) {
  for (int iteration = 1; iteration <= 4000; iteration++) {
    add_buckets(trace, 6);
    if (iteration % 10 == 0)
      trace_add(trace, ALLREDUCE, 1); /* the usual log line: an all-reduce of one number */
    if (iteration % 200 == 0) {
      add_times(trace, ALLREDUCE, 2, 80);
      trace_add(trace, BARRIER, 1);
    }
  }
}

static void megatron(struct trace *trace) {
  for (int iteration = 0; iteration < 150; iteration++) {
    for (int micro = 0; micro < 32; micro++) {
      for (uint32_t layer = 0; layer < 12; layer++) {
        add_times(trace, ALLREDUCE, 7, 2);
        trace_add(trace, ALLGATHER, 7);
        trace_add(trace, REDUCESCATTER, 7);
      }
      trace_add(trace, BROADCAST, 7);
    }
    add_buckets(trace, 5);
    trace_add(trace, METRIC, 1);
  }
}

static void random_count(struct trace *trace) {
  uint64_t state = 7;
  for (int iteration = 0; iteration < 2000; iteration++) {
    for (uint32_t i = 0; i < 12; i++)
      trace_add(trace, i % 3 + 1, i == 5 ? 100 + trace_random(&state, 10000) : i);
  }
}

static void shared_preamble(struct trace *trace) {
  static const uint32_t preamble[] = {2, 0, 3, 3, 1};
  for (int i = 0; i < 5; i++)
    trace_add(trace, BROADCAST, preamble[i]);
  for (int iteration = 0; iteration < 2000; iteration++)
    for (uint32_t i = 0; i < 4; i++)
      trace_add(trace, BROADCAST, i);
}

static void epochs_with_metrics(struct trace *trace) {
  for (int epoch = 0; epoch < 30; epoch++) {
    for (int iteration = 0; iteration < 97; iteration++)
      add_buckets(trace, 8);
    add_times(trace, METRIC, 1, 3);
  }
}

/* ---- more than the survey's ---- */

static void equal_buckets(struct trace *trace) {
  for (int iteration = 0; iteration < 3000; iteration++) {
    add_times(trace, ALLREDUCE, 1, 3);
    trace_add(trace, ALLREDUCE, 2);
  }
}

static void random_logs(struct trace *trace) {
  uint64_t state = 3;
  for (int iteration = 0; iteration < 3000; iteration++) {
    add_buckets(trace, 10);
    if (trace_random(&state, 20) == 0)
      trace_add(trace, ALLREDUCE, 1);
  }
}

/* Epochs of random length, so that no longer body ever is true. */
static void epochs_with_eval(struct trace *trace) {
  uint64_t state = 5;
  for (int epoch = 0; epoch < 40; epoch++) {
    for (uint32_t n = 100 + trace_random(&state, 20); n > 0; n--)
      add_buckets(trace, 10);
    for (uint32_t n = 20 + trace_random(&state, 10); n > 0; n--) {
      trace_add(trace, ALLGATHER, 5);
      trace_add(trace, METRIC, 5);
    }
  }
}

static void regular_epochs_with_eval(struct trace *trace) {
  for (int epoch = 0; epoch < 40; epoch++) {
    for (int iteration = 0; iteration < 60; iteration++)
      add_buckets(trace, 10);
    add_times(trace, METRIC, 5, 40);
  }
}

static void new_buckets(struct trace *trace) {
  for (int iteration = 0; iteration < 1000; iteration++)
    add_buckets(trace, 10);
  for (int iteration = 0; iteration < 1000; iteration++)
    for (uint32_t i = 0; i < 7; i++)
      trace_add(trace, ALLREDUCE, 300 + i);
}

/* A unit with a random count whose count is 0 now and then: NCCL drops it, so the stream has a gap.
 */
static void dropped_units(struct trace *trace) {
  uint64_t state = 9;
  for (int iteration = 0; iteration < 3000; iteration++) {
    for (uint32_t i = 0; i < 10; i++) {
      uint32_t count = i == 4 ? trace_random(&state, 8) * 50 : 1000 + i;
      if (count)
        trace_add(trace, i == 4 ? ALLGATHER : ALLREDUCE, count);
    }
  }
}

static void random_count_and_op(struct trace *trace) {
  uint64_t state = 13;
  for (int iteration = 1; iteration <= 2000; iteration++) {
    for (uint32_t i = 0; i < 12; i++)
      trace_add(trace, ALLREDUCE, i == 5 ? 100 + trace_random(&state, 10000) : i);
    if (iteration % 50 == 0)
      trace_add(trace, METRIC, 1);
  }
}

static void one_unit(struct trace *trace) {
  add_times(trace, ALLREDUCE, 1, 20000);
}

static void longest(struct trace *trace) {
  for (int iteration = 0; iteration < 6; iteration++) {
    add_times(trace, ALLREDUCE, 1, LEARNER_BODY_MAX - 2);
    trace_add(trace, METRIC, 1);
    trace_add(trace, METRIC, 2);
  }
}

static void noise(struct trace *trace) {
  uint64_t state = 11;
  for (int i = 0; i < 50000; i++)
    trace_add(trace, 1 + trace_random(&state, 3), trace_random(&state, 40));
}

const struct trace_kind trace_kinds[] = {
    {"DDP 10 buckets, first iteration differs", ddp_first_differs, 10, 0, 42},
    {"FSDP L=32", fsdp, 97, 0, 295},
    {"gradient accumulation", gradient_accumulation, 21, 0, 63},
    {"DDP + an op every 50 iterations", ddp_op_every_50, 501, 0, 1503},
    {"DDP + log every 10 + eval every 200", ddp_log_and_eval, 1301, 0, 3903},
    {"Megatron-like", megatron, 1574, 0, 4722},
    {"1 op in 12 with a random count", random_count, 12, 834, 36},
    {"preamble that shares loop symbols", shared_preamble, 4, 0, 17},
    {"epochs: 97 iterations + 3 metrics", epochs_with_metrics, 779, 0, 2337},
    {"three equal buckets and a fourth", equal_buckets, 4, 0, 12},
    {"random log lines", random_logs, 10, 60, 0},
    {"epochs of random length with evaluation", epochs_with_eval, 0, 40, 0},
    {"regular epochs with evaluation", regular_epochs_with_eval, 640, 0, 1920},
    {"buckets change", new_buckets, 7, 30, 10021},
    {"units dropped for count 0", dropped_units, 10, 1100, 60},
    {"1 op in 12 with a random count + an op every 50", random_count_and_op, 601, 834, 1803},
    {"one unit", one_unit, 1, 0, 3},
    {"the longest body", longest, LEARNER_BODY_MAX, 0, 3 * LEARNER_BODY_MAX},
    {"noise", noise, 0, 10000, 0},
};
const size_t trace_kind_count = sizeof trace_kinds / sizeof *trace_kinds;

struct trace trace_generate(const struct trace_kind *kind) {
  struct trace trace = {.name = kind->name};
  kind->generate(&trace);
  return trace;
}

void trace_free(struct trace *trace) {
  free(trace->units);
  trace->units = NULL;
}
