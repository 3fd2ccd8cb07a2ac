/* The protocol of PyTorch's Join with DistributedDataParallel, call by call, as PyTorch 2.6 has it:
 * torch/distributed/algorithms/join.py, _DDPJoinHook and _pre_forward in
 * torch/nn/parallel/distributed.py, Reducer::set_divide_factor in reducer.cpp. Left out is what
 * happens once in a training (the rebuilding of buckets) and what the model here has no use for
 * (the map of unused parameters).
 *
 * A "read" is a tensor's .item(): the value is copied to the host behind everything that the
 * computing stream has enqueued, and the host waits for it.
 */
#ifndef TOOLS_BENCH_DDP_JOIN_H
#define TOOLS_BENCH_DDP_JOIN_H

#include <stdbool.h>

#include "tools/bench/ddp_model.h"

enum join_variant {
  JOIN_INITIAL, /* divide_by_initial_world_size=True, the default */
  JOIN_ACTIVE,  /* divide_by_initial_world_size=False */
  JOIN_THROW,   /* throw_on_early_termination=True */
};

/* A tensor of one element, and its last all-reduce. */
struct join_tensor {
  float *device;
  cudaEvent_t reduced;
};

struct join {
  struct model *model;
  enum join_variant variant;
  struct join_tensor alive, scalar;
  float *values, *host; /* pinned: what may be contributed; what was read */
  bool shadowed;        /* this rank has joined before others had */
};

void join_create(struct join *join, struct model *model, enum join_variant variant);

/* Before an iteration: says that this rank is in the loop. False if another has left it and all
 * shall stop (JOIN_THROW). */
bool join_notify(struct join *join);

/* By a rank in the loop: the rank whose buffers are everybody's, which is the highest there. Read.
 */
int join_elect(struct join *join);

/* Says that this iteration's gradients will be reduced. */
void join_announce_gradients(struct join *join);

/* What gradients are divided by. JOIN_ACTIVE: read. */
double join_divisor(struct join *join);

/* After the loop: answers the others until all have left it, then makes the parameters those of the
 * last. Returns the rank they are from; -1 if all stop instead (JOIN_THROW). */
int join_leave(struct join *join);

#endif
