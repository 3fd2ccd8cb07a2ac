/* The calls of each operation, and what is read of it (torch_operations.h). */
#include "tests/programs/torch_operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static void read_blocks(struct torch *state, const struct torch_tensor *tensor, const float *data,
                        int blocks) {
  tape_read(state->tape, ncclFloat, data, (size_t)blocks, tensor->n, "%s %d %d",
            state->operation->name, state->iteration, tensor->number);
}

/* A part of its own size from one rank. */
static void read_part(struct torch *state, const struct torch_tensor *tensor, int from, size_t n) {
  if (n > 0)
    tape_read(state->tape, ncclFloat, tensor->result + (size_t)from * tensor->n, 1, n,
              "%s %d %d %d", state->operation->name, state->iteration, tensor->number, from);
}

static void read_in_place(struct torch *state, const struct torch_tensor *tensor) {
  read_blocks(state, tensor, tensor->send, 1);
}

static void read_in_place_at_root(struct torch *state, const struct torch_tensor *tensor) {
  if (state->ranks.rank == state->root)
    read_blocks(state, tensor, tensor->send, 1);
}

static void read_one(struct torch *state, const struct torch_tensor *tensor) {
  read_blocks(state, tensor, tensor->result, 1);
}

static void read_all(struct torch *state, const struct torch_tensor *tensor) {
  read_blocks(state, tensor, tensor->result, state->ranks.nranks);
}

static void read_all_at_root(struct torch *state, const struct torch_tensor *tensor) {
  if (state->ranks.rank == state->root)
    read_all(state, tensor);
}

/* ---- collectives that are one call ---- */

static ncclResult_t broadcast(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclBcast(tensor->send, tensor->n, ncclFloat, state->root, ranks->comms[0], ranks->stream);
}

static ncclResult_t all_reduce(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAllReduce(tensor->send, tensor->send, tensor->n, ncclFloat, ncclSum, ranks->comms[0],
                       ranks->stream);
}

static ncclResult_t all_reduce_apart(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAllReduce(tensor->send, tensor->result, tensor->n, ncclFloat, ncclSum, ranks->comms[0],
                       ranks->stream);
}

static ncclResult_t reduce(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclReduce(tensor->send, tensor->send, tensor->n, ncclFloat, ncclSum, state->root,
                    ranks->comms[0], ranks->stream);
}

static ncclResult_t all_gather(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAllGather(tensor->send, tensor->result, tensor->n, ncclFloat, ranks->comms[0],
                       ranks->stream);
}

static ncclResult_t reduce_scatter(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclReduceScatter(tensor->send, tensor->result, tensor->n, ncclFloat, ncclSum,
                           ranks->comms[0], ranks->stream);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static ncclResult_t all_to_all_single(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAlltoAll(tensor->send, tensor->result, tensor->n, ncclFloat, ranks->comms[0],
                      ranks->stream);
}
#endif

ncclResult_t torch_barrier(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  tape_clear(state->tape, tensor->result, sizeof(float));
  ncclResult_t result = ncclAllReduce(tensor->result, tensor->result, 1, ncclFloat, ncclSum,
                                      ranks->comms[0], ranks->stream);
  if (result == ncclSuccess)
    ranks_synchronise(&state->ranks);
  return result;
}

static void read_barrier(struct torch *state, const struct torch_tensor *tensor) {
  tape_read(state->tape, ncclFloat, tensor->result, 1, 1, "barrier %d", state->iteration);
}

/* ---- collectives of uneven sizes: groups of calls with a root each ---- */

static size_t part_size(const struct torch_tensor *tensor, int rank) {
  return tensor->n - 2 * (size_t)rank;
}

static ncclResult_t all_gather_uneven(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclGroupStart());
  for (int r = 0; r < ranks->nranks; r++) {
    float *output = tensor->result + (size_t)r * tensor->n;
    const float *input = r == ranks->rank ? tensor->send : output;
    CHECK_NCCL(ncclBroadcast(input, output, part_size(tensor, r), ncclFloat, r, ranks->comms[0],
                             ranks->stream));
  }
  return ncclGroupEnd();
}

static void read_uneven_parts(struct torch *state, const struct torch_tensor *tensor) {
  for (int r = 0; r < state->ranks.nranks; r++)
    read_part(state, tensor, r, part_size(tensor, r));
}

static ncclResult_t reduce_scatter_uneven(struct torch *state, const struct torch_tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclGroupStart());
  for (int r = 0; r < ranks->nranks; r++) {
    float *input = tensor->send + (size_t)r * tensor->n;
    float *output = r == ranks->rank ? tensor->result : input;
    CHECK_NCCL(ncclReduce(input, output, part_size(tensor, r), ncclFloat, ncclSum, r,
                          ranks->comms[0], ranks->stream));
  }
  return ncclGroupEnd();
}

static void read_own_part(struct torch *state, const struct torch_tensor *tensor) {
  tape_read(state->tape, ncclFloat, tensor->result, 1, part_size(tensor, state->ranks.rank),
            "%s %d %d", state->operation->name, state->iteration, tensor->number);
}

/* ---- collectives that are groups of sends and receives ---- */

static void send(const struct torch *state, const float *data, size_t n, int peer) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclSend(data, n, ncclFloat, peer, ranks->comms[0], ranks->stream));
}

static void receive(const struct torch *state, float *data, size_t n, int peer) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclRecv(data, n, ncclFloat, peer, ranks->comms[0], ranks->stream));
}

static void copy(const struct torch *state, float *to, const float *from, size_t n) {
  CHECK_CUDA(
      cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDeviceToDevice, state->ranks.stream));
}

/* Nothing, half a block or a block. What is empty is sent all the same. */
static size_t split_size(const struct torch_tensor *tensor, int from, int to) {
  return tensor->n * (size_t)((from + 2 * to) % 3) / 2;
}

static ncclResult_t all_to_all(struct torch *state, const struct torch_tensor *tensor) {
  int rank = state->ranks.rank;
  CHECK_NCCL(ncclGroupStart());
  for (int r = 0; r < state->ranks.nranks; r++) {
    size_t offset = (size_t)r * tensor->n;
    send(state, tensor->send + offset, split_size(tensor, rank, r), r);
    receive(state, tensor->result + offset, split_size(tensor, r, rank), r);
  }
  return ncclGroupEnd();
}

static void read_splits(struct torch *state, const struct torch_tensor *tensor) {
  for (int r = 0; r < state->ranks.nranks; r++)
    read_part(state, tensor, r, split_size(tensor, r, state->ranks.rank));
}

static ncclResult_t gather(struct torch *state, const struct torch_tensor *tensor) {
  CHECK_NCCL(ncclGroupStart());
  if (state->ranks.rank != state->root)
    send(state, tensor->send, tensor->n, state->root);
  for (int r = 0; r < state->ranks.nranks && state->ranks.rank == state->root; r++) {
    float *output = tensor->result + (size_t)r * tensor->n;
    if (r == state->root)
      copy(state, output, tensor->send, tensor->n);
    else
      receive(state, output, tensor->n, r);
  }
  return ncclGroupEnd();
}

static ncclResult_t scatter(struct torch *state, const struct torch_tensor *tensor) {
  CHECK_NCCL(ncclGroupStart());
  if (state->ranks.rank != state->root)
    receive(state, tensor->result, tensor->n, state->root);
  for (int r = 0; r < state->ranks.nranks && state->ranks.rank == state->root; r++) {
    const float *input = tensor->send + (size_t)r * tensor->n;
    if (r == state->root)
      copy(state, tensor->result, input, tensor->n);
    else
      send(state, input, tensor->n, r);
  }
  return ncclGroupEnd();
}

/* ---- point to point ---- */

/* From 0 to 1, from 2 to 3: each call in a group of its own. */
static ncclResult_t send_recv(struct torch *state, const struct torch_tensor *tensor) {
  int rank = state->ranks.rank;
  CHECK_NCCL(ncclGroupStart());
  if (rank % 2 == 1)
    receive(state, tensor->result, tensor->n, rank - 1);
  else if (rank + 1 < state->ranks.nranks)
    send(state, tensor->send + (size_t)(rank + 1) * tensor->n, tensor->n, rank + 1);
  return ncclGroupEnd();
}

static void read_if_odd(struct torch *state, const struct torch_tensor *tensor) {
  if (state->ranks.rank % 2 == 1)
    read_one(state, tensor);
}

/* To both neighbours, from both. */
static ncclResult_t batch_isend_irecv(struct torch *state, const struct torch_tensor *tensor) {
  int rank = state->ranks.rank, nranks = state->ranks.nranks;
  int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
  CHECK_NCCL(ncclGroupStart());
  send(state, tensor->send + (size_t)right * tensor->n, tensor->n, right);
  receive(state, tensor->result, tensor->n, left);
  send(state, tensor->send + (size_t)left * tensor->n, tensor->n, left);
  receive(state, tensor->result + tensor->n, tensor->n, right);
  return ncclGroupEnd();
}

static void read_both(struct torch *state, const struct torch_tensor *tensor) {
  read_blocks(state, tensor, tensor->result, 2);
}

/* ---- objects ---- */

/* Sizes, and then as many bytes from each rank as the largest has. Rank r's object has
 * 8 (r + 1 + iteration mod 3) bytes. */
static ncclResult_t all_gather_object(struct torch *state, const struct torch_tensor *tensor) {
  struct ranks *ranks = &state->ranks;
  int64_t sizes[16] = {0}, own = 8 * (ranks->rank + 1 + state->iteration % 3), largest = 0;
  unsigned char *bytes = (unsigned char *)tensor->send;
  tape_fill(state->tape, ncclInt64, state->sizes, 1, (double)own, 0);
  tape_fill(state->tape, ncclUint8, bytes, (size_t)own, ranks->rank + 1, state->iteration + 1);
  ncclResult_t result =
      ncclAllGather(state->sizes, state->sizes + 1, 1, ncclInt64, ranks->comms[0], ranks->stream);
  if (result != ncclSuccess)
    return result;
  CHECK_CUDA(cudaMemcpyAsync(sizes, state->sizes + 1, (size_t)ranks->nranks * sizeof *sizes,
                             cudaMemcpyDeviceToHost, ranks->stream));
  ranks_synchronise(ranks);
  for (int r = 0; r < ranks->nranks; r++)
    largest = sizes[r] > largest ? sizes[r] : largest;
  result = ncclAllGather(bytes, tensor->result, (size_t)largest, ncclUint8, ranks->comms[0],
                         ranks->stream);
  const unsigned char *from = (const unsigned char *)tensor->result;
  for (int r = 0; result == ncclSuccess && r < ranks->nranks; r++, from += largest)
    if (sizes[r] > 0)
      tape_read(state->tape, ncclUint8, from, 1, (size_t)sizes[r], "all_gather_object %d %d",
                state->iteration, r);
  return result;
}

static void read_nothing(struct torch *state, const struct torch_tensor *tensor) {
  (void)state;
  (void)tensor;
}

static const struct torch_operation operations[] = {
    {"broadcast", broadcast, read_in_place, false},
    {"all_reduce", all_reduce, read_in_place, true},
    {"all_reduce_apart", all_reduce_apart, read_one, true},
    {"reduce", reduce, read_in_place_at_root, true},
    {"all_gather", all_gather, read_all, false},
    {"all_gather_uneven", all_gather_uneven, read_uneven_parts, false},
    {"all_gather_object", all_gather_object, read_nothing, false},
    {"reduce_scatter", reduce_scatter, read_one, true},
    {"reduce_scatter_uneven", reduce_scatter_uneven, read_own_part, true},
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
    {"all_to_all_single", all_to_all_single, read_all, false},
#endif
    {"all_to_all", all_to_all, read_splits, false},
    {"gather", gather, read_all_at_root, false},
    {"scatter", scatter, read_one, false},
    {"send_recv", send_recv, read_if_odd, false},
    {"batch_isend_irecv", batch_isend_irecv, read_both, false},
    {"barrier", torch_barrier, read_barrier, false},
};

const struct torch_operation *torch_operation_named(const char *name) {
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
    if (strcmp(operations[i].name, name) == 0)
      return &operations[i];
  fprintf(stderr, "no operation of this NCCL is called %s\n", name);
  exit(2);
}
