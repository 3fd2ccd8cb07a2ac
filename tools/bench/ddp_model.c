/* DDP's device side (ddp_model.h), in CUDA's host API. */
#include "tools/bench/ddp_model.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "tests/programs/options.h"

enum { RUNNING = 512, TRACKED = 16, LARGEST = 16384, TELLING = 2 };

/* Elements; DDP's first bucket is smaller than the others, and the last is what is left. */
static const size_t bucket_size[MODEL_BUCKETS] = {4096, LARGEST, LARGEST, 8192};

/* The first elements of every bucket of one iteration: 2^rank and the iteration + 1, divided. */
struct contribution {
  float gradients[MODEL_BUCKETS][TELLING], running;
  long long tracked;
};

/* What came back. */
struct outcome {
  float gradients[MODEL_BUCKETS][TELLING], running;
  long long tracked;
};

static void *pinned(size_t count, size_t size) {
  void *memory;
  CHECK_CUDA(cudaMallocHost(&memory, count * size));
  memset(memory, 0, count * size);
  return memory;
}

static void *on_device(size_t count, size_t size) {
  void *memory;
  CHECK_CUDA(cudaMalloc(&memory, count * size));
  CHECK_CUDA(cudaMemset(memory, 0, count * size));
  return memory;
}

void model_create(struct model *model, const char *iterations) {
  ranks_begin(&model->ranks);
  size_t room = (size_t)schedule_iterations(iterations, 0, model->ranks.rank) + 1;
  model->comm = ranks_communicator(&model->ranks);
  CHECK_CUDA(cudaStreamCreateWithFlags(&model->communication, cudaStreamNonBlocking));
  CHECK_CUDA(cudaEventCreateWithFlags(&model->ready, cudaEventDisableTiming));
  CHECK_CUDA(cudaEventCreateWithFlags(&model->done, cudaEventDisableTiming));
  for (int bucket = 0; bucket < MODEL_BUCKETS; bucket++)
    model->bucket[bucket] = on_device(bucket_size[bucket], sizeof(float));
  model->zeros = on_device(LARGEST, sizeof(float));
  model->parameters = on_device(MODEL_PARAMETERS, sizeof(float));
  model->running = on_device(RUNNING, sizeof(float));
  model->tracked = on_device(TRACKED, sizeof(long long));
  model->contributions = pinned(room, sizeof(struct contribution));
  model->outcomes = pinned(room, sizeof(struct outcome));
  model->gradients = pinned(LARGEST, sizeof(float));
  CHECK_CUDA(cudaDeviceSynchronize()); /* cudaMemset does not wait, nor do these streams for it */
}

void model_wait(struct model *model) {
  CHECK_CUDA(cudaStreamSynchronize(model->communication));
  CHECK_CUDA(cudaStreamSynchronize(model->ranks.stream));
}

/* ---- computing ---- */

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void model_compute_on_host(const struct model *model) {
  if (model->host_ns == 0)
    return;
  uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + model->host_ns;
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
    ;
}

/* The stand-in for a kernel: `argument` points to its nanoseconds. */
static void compute(void *argument) {
  static _Thread_local bool exact;
  if (!exact)
    exact = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
  struct timespec duration = {.tv_nsec = *(const long *)argument};
  nanosleep(&duration, NULL);
}

static void compute_on_device(struct model *model, long *nanoseconds) {
  if (*nanoseconds > 0)
    CHECK_CUDA(cudaLaunchHostFunc(model->ranks.stream, compute, nanoseconds));
}

void model_forward(struct model *model) {
  compute_on_device(model, &model->forward_ns);
}

/* ---- collectives ---- */

void model_begin_collectives(struct model *model) {
  CHECK_CUDA(cudaEventRecord(model->ready, model->ranks.stream));
  CHECK_CUDA(cudaStreamWaitEvent(model->communication, model->ready, 0));
}

void model_all_reduce(struct model *model, float *values, size_t count, ncclRedOp_t reduction) {
  model->collectives++;
  CHECK_NCCL(ncclAllReduce(values, values, count, ncclFloat, reduction, model->comm,
                           model->communication));
}

void model_broadcast(struct model *model, void *values, size_t count, ncclDataType_t datatype,
                     int root) {
  model->collectives++;
  CHECK_NCCL(
      ncclBroadcast(values, values, count, datatype, root, model->comm, model->communication));
}

void model_end_collectives(struct model *model) {
  CHECK_CUDA(cudaEventRecord(model->done, model->communication));
  CHECK_CUDA(cudaStreamWaitEvent(model->ranks.stream, model->done, 0));
}

void model_receive_buffers(struct model *model, int root) {
  model_begin_collectives(model);
  model_broadcast(model, model->running, RUNNING, ncclFloat, root);
  model_broadcast(model, model->tracked, TRACKED, ncclInt64, root);
  model_end_collectives(model);
}

void model_broadcast_buffers(struct model *model, int iteration, int root) {
  struct contribution *mine = &model->contributions[iteration];
  struct outcome *outcome = &model->outcomes[iteration];
  cudaStream_t stream = model->ranks.stream;
  mine->running = (float)(model->ranks.rank + 1);
  mine->tracked = (long long)(model->ranks.rank + 1) << 32 | (iteration + 1);
  CHECK_CUDA(cudaMemcpyAsync(model->running, &mine->running, sizeof mine->running,
                             cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(model->tracked, &mine->tracked, sizeof mine->tracked,
                             cudaMemcpyHostToDevice, stream));
  model_receive_buffers(model, root);
  CHECK_CUDA(cudaMemcpyAsync(&outcome->running, model->running, sizeof outcome->running,
                             cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaMemcpyAsync(&outcome->tracked, model->tracked, sizeof outcome->tracked,
                             cudaMemcpyDeviceToHost, stream));
}

void model_reduce_bucket(struct model *model, int iteration, int bucket, double divisor) {
  struct contribution *mine = &model->contributions[iteration];
  cudaStream_t stream = model->ranks.stream;
  mine->gradients[bucket][0] = (float)((1 << model->ranks.rank) / divisor);
  mine->gradients[bucket][1] = (float)((iteration + 1) / divisor);
  compute_on_device(model, &model->backward_ns);
  CHECK_CUDA(cudaMemcpyAsync(model->bucket[bucket], model->gradients,
                             bucket_size[bucket] * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK_CUDA(cudaMemcpyAsync(model->bucket[bucket], mine->gradients[bucket],
                             sizeof mine->gradients[bucket], cudaMemcpyHostToDevice, stream));
  model_begin_collectives(model);
  model_all_reduce(model, model->bucket[bucket], bucket_size[bucket], ncclSum);
}

void model_step(struct model *model, int iteration) {
  struct outcome *outcome = &model->outcomes[iteration];
  model_end_collectives(model);
  for (int bucket = 0; bucket < MODEL_BUCKETS; bucket++)
    CHECK_CUDA(cudaMemcpyAsync(outcome->gradients[bucket], model->bucket[bucket],
                               sizeof outcome->gradients[bucket], cudaMemcpyDeviceToHost,
                               model->ranks.stream));
}

void model_reduce_zeros(struct model *model) {
  for (int bucket = 0; bucket < MODEL_BUCKETS; bucket++) {
    CHECK_CUDA(
        cudaMemsetAsync(model->zeros, 0, bucket_size[bucket] * sizeof(float), model->ranks.stream));
    model_begin_collectives(model);
    model_all_reduce(model, model->zeros, bucket_size[bucket], ncclSum);
    model_end_collectives(model);
  }
}

void model_broadcast_parameters(struct model *model, int root) {
  float mine = (float)(model->ranks.rank + 1);
  CHECK_CUDA(cudaMemcpyAsync(model->parameters, &mine, sizeof mine, cudaMemcpyHostToDevice,
                             model->ranks.stream));
  model_begin_collectives(model);
  model_broadcast(model, model->parameters, MODEL_PARAMETERS, ncclFloat, root);
  model_end_collectives(model);
  model_wait(model);
}

/* ---- results ---- */

static bool takes_part(const struct model_plan *plan, int rank, int iteration) {
  return iteration < schedule_iterations(plan->iterations, 0, rank);
}

static int root_of_buffers(const struct model *model, const struct model_plan *plan,
                           int iteration) {
  int root = -1;
  for (int rank = 0; rank < model->ranks.nranks; rank++)
    if (takes_part(plan, rank, iteration) && (root < 0 || plan->root_is_highest))
      root = rank;
  return root;
}

/* Whether it is another; says so, unless it has been said often enough. */
static bool differs(const struct model *model, int *wrong, int iteration, const char *what,
                    double value, double expected) {
  if (fabs(value - expected) <= 1e-5 * fabs(expected))
    return false;
  if ((*wrong)++ < 5)
    fprintf(stderr, "rank %d: iteration %d: %s is %g, not %g\n", model->ranks.rank, iteration, what,
            value, expected);
  return true;
}

static void check_gradients(const struct model *model, const struct model_plan *plan, int iteration,
                            int *wrong) {
  int active = 0, mask = 0;
  for (int rank = 0; rank < model->ranks.nranks; rank++) {
    if (!takes_part(plan, rank, iteration))
      continue;
    active++;
    mask |= 1 << rank;
  }
  double divisor = plan->divide_by_active ? active : model->ranks.nranks;
  for (int bucket = 0; bucket < MODEL_BUCKETS; bucket++) {
    const float *gradients = model->outcomes[iteration].gradients[bucket];
    differs(model, wrong, iteration, "who took part", gradients[0], mask / divisor);
    differs(model, wrong, iteration, "the gradient", gradients[1],
            active * (iteration + 1.0) / divisor);
  }
}

int model_check(const struct model *model, const struct model_plan *plan, int iterations,
                int last_root) {
  int wrong = 0;
  for (int i = 0; i < iterations; i++) {
    const struct outcome *outcome = &model->outcomes[i];
    check_gradients(model, plan, i, &wrong);
    if (!model->buffers)
      continue;
    long long root = root_of_buffers(model, plan, i);
    differs(model, &wrong, i, "the buffers' rank", outcome->running, (double)(root + 1));
    differs(model, &wrong, i, "the other buffers' rank", (double)(outcome->tracked >> 32),
            (double)(root + 1));
    differs(model, &wrong, i, "the buffers' iteration", (double)(outcome->tracked & 0xffffffff),
            i + 1);
  }
  float parameters;
  CHECK_CUDA(cudaMemcpy(&parameters, model->parameters, sizeof parameters, cudaMemcpyDeviceToHost));
  if (last_root >= 0)
    differs(model, &wrong, iterations, "the parameters' rank", parameters, last_root + 1);
  return wrong;
}
