/* What DistributedDataParallel keeps on a device, and the collectives it issues in an iteration:
 * gradients in buckets of different sizes, buffers in two datatypes, one stream that computes and
 * one for NCCL (PyTorch's ProcessGroupNCCL), ordered by events. The host waits for nothing here but
 * where a function says so.
 *
 * What is reduced says who took part and in which iteration, and is read back: model_check. The
 * device's computing is a host function that sleeps, so that simulated devices do not take the
 * processors that the ranks need.
 */
#ifndef TOOLS_BENCH_DDP_MODEL_H
#define TOOLS_BENCH_DDP_MODEL_H

#include <stdbool.h>

#include "tests/programs/ranks.h"

enum { MODEL_BUCKETS = 4, MODEL_PARAMETERS = 4096 };

/* How the ranks' schedules and roles are told to model_check. */
struct model_plan {
  const char *iterations; /* as schedule_iterations takes them */
  bool divide_by_active;  /* gradients are divided by the ranks that take part; otherwise by all */
  bool root_is_highest;   /* buffers come from the highest rank in the loop; otherwise from rank 0,
                             or the lowest rank in the loop if rank 0 is not */
};

struct model {
  struct ranks ranks;
  ncclComm_t comm;
  cudaStream_t communication; /* ranks.stream computes */
  cudaEvent_t ready, done;
  int buffers;                  /* whether there are any */
  long forward_ns, backward_ns; /* the device computes so long; backward: for each bucket */
  long host_ns;                 /* the host does, before it launches an iteration */
  float *bucket[MODEL_BUCKETS], *parameters, *running;
  float *zeros; /* as large as the largest bucket */
  long long *tracked;
  int collectives, reads; /* issued so far; waits of the host for a value so far */
  /* Pinned, one piece for each iteration: the host runs ahead of the device. */
  struct contribution *contributions;
  struct outcome *outcomes;
  float *gradients; /* the rest of every bucket's contribution */
};

/* `iterations`: the schedule, as schedule_iterations takes it. */
void model_create(struct model *model, const char *iterations);

/* Everything enqueued has been done. The host waits. */
void model_wait(struct model *model);

/* One thread's time is taken for host_ns. */
void model_compute_on_host(const struct model *model);

void model_forward(struct model *model);

/* Buffers become those of `root`. Each rank's own carry its number before. */
void model_broadcast_buffers(struct model *model, int iteration, int root);

/* A bucket's part of the backward pass, and its all-reduce behind it. */
void model_reduce_bucket(struct model *model, int iteration, int bucket, double divisor);

/* The stream that computes goes on when the buckets are reduced, and takes a step. */
void model_step(struct model *model, int iteration);

/* What a rank does that has no data left: all-reduces of zeros in place of the buckets. */
void model_reduce_zeros(struct model *model);

/* Buffers as a rank without data sees them: it takes part and gets the root's. */
void model_receive_buffers(struct model *model, int root);

/* Parameters become those of `root`; how DDP's join ends, or a training script that is careful. The
 * host waits. */
void model_broadcast_parameters(struct model *model, int root);

/* Puts the next collectives behind what the computing stream has enqueued; what it enqueues next
 * comes behind them only after model_end_collectives. */
void model_begin_collectives(struct model *model);
void model_all_reduce(struct model *model, float *values, size_t count, ncclRedOp_t reduction);
void model_broadcast(struct model *model, void *values, size_t count, ncclDataType_t datatype,
                     int root);
void model_end_collectives(struct model *model);

/* How many values of the first `iterations` iterations, and of the parameters, are not what the
 * plan says; each of the first few is printed. */
int model_check(const struct model *model, const struct model_plan *plan, int iterations,
                int last_root);

#endif
