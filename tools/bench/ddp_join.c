/* PyTorch's Join protocol (ddp_join.h). */
#include "tools/bench/ddp_join.h"

/* What a rank contributes. */
enum value { VALUE_ZERO, VALUE_ONE, VALUE_RANK, VALUE_NOBODY, VALUES };

/* All-reduces one float; the computing stream does not wait. */
static void reduce(struct join *join, struct join_tensor *tensor, enum value value,
                   ncclRedOp_t reduction) {
  struct model *model = join->model;
  CHECK_CUDA(cudaMemcpyAsync(tensor->device, &join->values[value], sizeof(float),
                             cudaMemcpyHostToDevice, model->ranks.stream));
  model_begin_collectives(model);
  model_all_reduce(model, tensor->device, 1, reduction);
  CHECK_CUDA(cudaEventRecord(tensor->reduced, model->communication));
}

static float read_value(struct join *join, const struct join_tensor *tensor) {
  cudaStream_t stream = join->model->ranks.stream;
  join->model->reads++;
  CHECK_CUDA(cudaStreamWaitEvent(stream, tensor->reduced, 0));
  CHECK_CUDA(
      cudaMemcpyAsync(join->host, tensor->device, sizeof(float), cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  return *join->host;
}

static void tensor_create(struct join_tensor *tensor) {
  CHECK_CUDA(cudaMalloc((void **)&tensor->device, sizeof(float)));
  CHECK_CUDA(cudaEventCreateWithFlags(&tensor->reduced, cudaEventDisableTiming));
}

void join_create(struct join *join, struct model *model, enum join_variant variant) {
  *join = (struct join){.model = model, .variant = variant};
  tensor_create(&join->alive);
  tensor_create(&join->scalar);
  CHECK_CUDA(cudaMallocHost((void **)&join->values, VALUES * sizeof(float)));
  CHECK_CUDA(cudaMallocHost((void **)&join->host, sizeof(float)));
  join->values[VALUE_ZERO] = 0;
  join->values[VALUE_ONE] = 1;
  join->values[VALUE_RANK] = (float)model->ranks.rank;
  join->values[VALUE_NOBODY] = -1;
}

bool join_notify(struct join *join) {
  reduce(join, &join->alive, VALUE_ONE, ncclSum);
  if (join->variant != JOIN_THROW)
    return true;
  reduce(join, &join->scalar, VALUE_ZERO, ncclSum);
  return read_value(join, &join->scalar) == 0;
}

static int elect(struct join *join, enum value candidate) {
  reduce(join, &join->scalar, candidate, ncclMax);
  return (int)read_value(join, &join->scalar);
}

int join_elect(struct join *join) {
  return elect(join, VALUE_RANK);
}

void join_announce_gradients(struct join *join) {
  reduce(join, &join->scalar, VALUE_ONE, ncclSum);
}

double join_divisor(struct join *join) {
  if (join->variant != JOIN_ACTIVE)
    return join->model->ranks.nranks;
  return read_value(join, &join->alive);
}

/* One iteration of the others. */
static void shadow(struct join *join) {
  join->shadowed = true;
  if (join->model->buffers)
    model_receive_buffers(join->model, elect(join, VALUE_NOBODY));
  reduce(join, &join->scalar, VALUE_ZERO, ncclSum);
  if (read_value(join, &join->scalar) > 0)
    model_reduce_zeros(join->model);
}

int join_leave(struct join *join) {
  for (;;) {
    reduce(join, &join->alive, VALUE_ZERO, ncclSum);
    if (read_value(join, &join->alive) == 0)
      break;
    if (join->variant == JOIN_THROW) {
      reduce(join, &join->scalar, VALUE_ONE, ncclSum);
      model_wait(join->model);
      return -1;
    }
    shadow(join);
  }
  int root = elect(join, join->shadowed ? VALUE_NOBODY : VALUE_RANK);
  model_broadcast_parameters(join->model, root);
  return root;
}
