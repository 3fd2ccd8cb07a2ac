/* The operations of torch.distributed, made of NCCL's calls as PyTorch's NCCL backend makes them
 * (ProcessGroupNCCL.cpp, nccl.cpp): what is in place, what is a group, what several calls.
 *
 * In a loop with an all-reduce before. If NCCL refuses a call as invalid usage, the loop is left,
 * and some all-reduces more are done. After each epoch there may be a barrier, and an all-reduce of
 * all.
 *
 * Rank r sends to rank d 100 (r + 1) + d and iteration + 1; what is reduced is 2^r and iteration
 * + 1.
 *
 * Results: "sum <iteration>", "<operation> <iteration> <tensor> [<from>]" with what has been
 * received, "refused", "after <step>", "met <epoch>".
 */
#include "tests/programs/options.h"
#include "tests/programs/tensors.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *iterations = "3+1", *end = "finalize", *operation_name = "all_reduce",
                  *form = "plain", *memory = "plain";
static int root = 0, then = 3, barriers = 0, step = 0, release = 0, deregister = 0, late = -1;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1; epochs: 3,4/4,3"},
    {"--operation", &operation_name, NULL, "broadcast, all_reduce, reduce, all_gather, ..."},
    {"--form", &form, NULL,
     "plain; coalesced: two tensors in one group; repeated: two of one size, one after the other"},
    {"--root", NULL, &root, "of a broadcast, reduce, gather or scatter"},
    {"--barrier", NULL, &barriers, "1: a barrier after each epoch"},
    {"--step", NULL, &step,
     "1: what is sent changes after each iteration, to 1000 + iteration; 2: and it takes a while"},
    {"--free", NULL, &release, "1: the tensors are freed before the rank leaves"},
    {"--memory", &memory, NULL,
     "of the tensors: plain; registered with the communicator: registered, mapped, private, "
     "pieces, window (arena.h)"},
    {"--late", NULL, &late, "this rank comes to each operation half a second after the others"},
    {"--deregister", NULL, &deregister, "1: they are no longer registered when the rank leaves"},
    {"--then", NULL, &then, "all-reduces after a refusal"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { METRIC = 6 };

struct operation {
  const char *name;
  ncclResult_t (*issue)(struct state *state, const struct tensor *tensor);
  /* Prints what this rank has received. */
  void (*read)(struct state *state, const struct tensor *tensor);
  bool reduces;
};
static const struct operation *operation;

static ncclResult_t worst(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess ? a : b;
}

/* ---- collectives that are one call ---- */

static ncclResult_t broadcast(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclBcast(tensor->send, tensor->n, ncclFloat, root, ranks->comms[0], ranks->stream);
}

static ncclResult_t all_reduce(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAllReduce(tensor->send, tensor->send, tensor->n, ncclFloat, ncclSum, ranks->comms[0],
                       ranks->stream);
}

static ncclResult_t all_reduce_apart(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAllReduce(tensor->send, tensor->result, tensor->n, ncclFloat, ncclSum, ranks->comms[0],
                       ranks->stream);
}

static ncclResult_t reduce(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclReduce(tensor->send, tensor->send, tensor->n, ncclFloat, ncclSum, root,
                    ranks->comms[0], ranks->stream);
}

static ncclResult_t all_gather(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAllGather(tensor->send, tensor->result, tensor->n, ncclFloat, ranks->comms[0],
                       ranks->stream);
}

static ncclResult_t reduce_scatter(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclReduceScatter(tensor->send, tensor->result, tensor->n, ncclFloat, ncclSum,
                           ranks->comms[0], ranks->stream);
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
static ncclResult_t all_to_all_single(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  return ncclAlltoAll(tensor->send, tensor->result, tensor->n, ncclFloat, ranks->comms[0],
                      ranks->stream);
}
#endif

/* Zeros, and the host waits. */
static ncclResult_t barrier(struct state *state, const struct tensor *tensor) {
  const struct ranks *ranks = &state->ranks;
  tape_clear(state->tape, tensor->result, sizeof(float));
  ncclResult_t result = ncclAllReduce(tensor->result, tensor->result, 1, ncclFloat, ncclSum,
                                      ranks->comms[0], ranks->stream);
  if (result == ncclSuccess)
    ranks_synchronise(&state->ranks);
  return result;
}

static void read_barrier(struct state *state, const struct tensor *tensor) {
  tape_read(state->tape, ncclFloat, tensor->result, 1, 1, "barrier %d", state->iteration);
}

/* ---- collectives of uneven sizes: groups of calls with a root each ---- */

static size_t part_size(const struct tensor *tensor, int rank) {
  return tensor->n - 2 * (size_t)rank;
}

static ncclResult_t all_gather_uneven(struct state *state, const struct tensor *tensor) {
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

static void read_uneven_parts(struct state *state, const struct tensor *tensor) {
  for (int r = 0; r < state->ranks.nranks; r++)
    read_part(state, tensor, r, part_size(tensor, r));
}

static ncclResult_t reduce_scatter_uneven(struct state *state, const struct tensor *tensor) {
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

static void read_own_part(struct state *state, const struct tensor *tensor) {
  tape_read(state->tape, ncclFloat, tensor->result, 1, part_size(tensor, state->ranks.rank),
            "%s %d %d", operation->name, state->iteration, tensor->number);
}

/* ---- collectives that are groups of sends and receives ---- */

static void send(const struct state *state, const float *data, size_t n, int peer) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclSend(data, n, ncclFloat, peer, ranks->comms[0], ranks->stream));
}

static void receive(const struct state *state, float *data, size_t n, int peer) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclRecv(data, n, ncclFloat, peer, ranks->comms[0], ranks->stream));
}

static void copy(const struct state *state, float *to, const float *from, size_t n) {
  CHECK_CUDA(
      cudaMemcpyAsync(to, from, n * sizeof(float), cudaMemcpyDeviceToDevice, state->ranks.stream));
}

/* Nothing, half a block or a block. What is empty is sent all the same. */
static size_t split_size(const struct tensor *tensor, int from, int to) {
  return tensor->n * (size_t)((from + 2 * to) % 3) / 2;
}

static ncclResult_t all_to_all(struct state *state, const struct tensor *tensor) {
  int rank = state->ranks.rank;
  CHECK_NCCL(ncclGroupStart());
  for (int r = 0; r < state->ranks.nranks; r++) {
    size_t offset = (size_t)r * tensor->n;
    send(state, tensor->send + offset, split_size(tensor, rank, r), r);
    receive(state, tensor->result + offset, split_size(tensor, r, rank), r);
  }
  return ncclGroupEnd();
}

static void read_splits(struct state *state, const struct tensor *tensor) {
  for (int r = 0; r < state->ranks.nranks; r++)
    read_part(state, tensor, r, split_size(tensor, r, state->ranks.rank));
}

static ncclResult_t gather(struct state *state, const struct tensor *tensor) {
  CHECK_NCCL(ncclGroupStart());
  if (state->ranks.rank != root)
    send(state, tensor->send, tensor->n, root);
  for (int r = 0; r < state->ranks.nranks && state->ranks.rank == root; r++) {
    float *output = tensor->result + (size_t)r * tensor->n;
    if (r == root)
      copy(state, output, tensor->send, tensor->n);
    else
      receive(state, output, tensor->n, r);
  }
  return ncclGroupEnd();
}

static ncclResult_t scatter(struct state *state, const struct tensor *tensor) {
  CHECK_NCCL(ncclGroupStart());
  if (state->ranks.rank != root)
    receive(state, tensor->result, tensor->n, root);
  for (int r = 0; r < state->ranks.nranks && state->ranks.rank == root; r++) {
    const float *input = tensor->send + (size_t)r * tensor->n;
    if (r == root)
      copy(state, tensor->result, input, tensor->n);
    else
      send(state, input, tensor->n, r);
  }
  return ncclGroupEnd();
}

/* ---- point to point ---- */

/* From 0 to 1, from 2 to 3: each call in a group of its own. */
static ncclResult_t send_recv(struct state *state, const struct tensor *tensor) {
  int rank = state->ranks.rank;
  CHECK_NCCL(ncclGroupStart());
  if (rank % 2 == 1)
    receive(state, tensor->result, tensor->n, rank - 1);
  else if (rank + 1 < state->ranks.nranks)
    send(state, tensor->send + (size_t)(rank + 1) * tensor->n, tensor->n, rank + 1);
  return ncclGroupEnd();
}

static void read_if_odd(struct state *state, const struct tensor *tensor) {
  if (state->ranks.rank % 2 == 1)
    read_one(state, tensor);
}

/* To both neighbours, from both. */
static ncclResult_t batch_isend_irecv(struct state *state, const struct tensor *tensor) {
  int rank = state->ranks.rank, nranks = state->ranks.nranks;
  int left = (rank + nranks - 1) % nranks, right = (rank + 1) % nranks;
  CHECK_NCCL(ncclGroupStart());
  send(state, tensor->send + (size_t)right * tensor->n, tensor->n, right);
  receive(state, tensor->result, tensor->n, left);
  send(state, tensor->send + (size_t)left * tensor->n, tensor->n, left);
  receive(state, tensor->result + tensor->n, tensor->n, right);
  return ncclGroupEnd();
}

static void read_both(struct state *state, const struct tensor *tensor) {
  read_blocks(state, tensor, tensor->result, 2);
}

/* ---- objects ---- */

/* Sizes, and then as many bytes from each rank as the largest has. Rank r's object has
 * 8 (r + 1 + iteration mod 3) bytes. */
static ncclResult_t all_gather_object(struct state *state, const struct tensor *tensor) {
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

static void read_nothing(struct state *state, const struct tensor *tensor) {
  (void)state;
  (void)tensor;
}

static const struct operation operations[] = {
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
    {"barrier", barrier, read_barrier, false},
};

static const struct operation *find_operation(const char *name) {
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
    if (strcmp(operations[i].name, name) == 0)
      return &operations[i];
  fprintf(stderr, "no operation of this NCCL is called %s\n", name);
  exit(2);
}

/* ---- the loop ---- */

static bool was_refused(const struct state *state, ncclResult_t result) {
  if (result == ncclInvalidUsage) {
    ranks_result(&state->ranks, "refused");
    return true;
  }
  CHECK_NCCL(result);
  return false;
}

/* An all-reduce with its name and number in the results; false if it was refused. */
static bool sum(struct state *state, size_t n, const char *name, int number) {
  struct ranks *ranks = &state->ranks;
  tape_fill(state->tape, ncclFloat, state->gradients, n, 1 << ranks->rank, number + 1);
  ncclResult_t result = ncclAllReduce(state->gradients, state->gradients, n, ncclFloat, ncclSum,
                                      ranks->comms[0], ranks->stream);
  if (was_refused(state, result))
    return false;
  tape_read(state->tape, ncclFloat, state->gradients, 1, n, "%s %d", name, number);
  return true;
}

static void fill(struct state *state, const struct tensor *tensor, int value) {
  int rank = state->ranks.rank;
  for (int d = 0; d < state->ranks.nranks; d++)
    tape_fill(state->tape, ncclFloat, tensor->send + (size_t)d * tensor->n, tensor->n,
              operation->reduces ? 1 << rank : 1000 * tensor->number + 100 * (rank + 1) + d, value);
}

/* The device is not done with an iteration when the host is. */
static void take_a_while(void *unused) {
  (void)unused;
  usleep(20000);
}

/* The operation with all tensors of the form; false if it was refused. */
static bool operate(struct state *state) {
  bool coalesced = strcmp(form, "coalesced") == 0;
  int tensors = strcmp(form, "plain") == 0 ? 1 : TENSORS;
  ncclResult_t result = ncclSuccess;
  for (int t = 0; t < tensors; t++) {
    fill(state, &state->tensors[t], state->iteration + 1);
    tape_clear(state->tape, state->tensors[t].result,
               (size_t)state->ranks.nranks * state->tensors[t].n * sizeof(float));
  }
  if (coalesced)
    CHECK_NCCL(ncclGroupStart());
  for (int t = 0; t < tensors; t++)
    result = worst(result, operation->issue(state, &state->tensors[t]));
  if (coalesced)
    result = worst(ncclGroupEnd(), result);
  if (was_refused(state, result))
    return false;
  for (int t = 0; t < tensors; t++)
    operation->read(state, &state->tensors[t]);
  tape_play(state->tape);
  if (step == 2)
    CHECK_CUDA(cudaLaunchHostFunc(state->ranks.stream, take_a_while, NULL));
  for (int t = 0; t < tensors && step; t++)
    fill(state, &state->tensors[t], 1000 + state->iteration);
  return true;
}

/* No rank comes out of the barrier before all have gone in. */
static bool meet(struct state *state, int epoch) {
  char name[32];
  snprintf(name, sizeof name, "in %d", epoch);
  ranks_time(&state->ranks, name);
  if (was_refused(state, barrier(state, &state->tensors[1])))
    return false;
  snprintf(name, sizeof name, "out %d", epoch);
  ranks_time(&state->ranks, name);
  return sum(state, METRIC, "met", epoch);
}

static void wait_if_late(const struct state *state) {
  if (state->ranks.rank == late)
    usleep(500000);
}

static bool run_epoch(struct state *state, int epoch) {
  int n = schedule_iterations(iterations, epoch, state->ranks.rank);
  for (state->iteration = 0; state->iteration < n; state->iteration++) {
    if (!sum(state, GRADIENTS, "sum", state->iteration))
      return false;
    wait_if_late(state);
    if (!operate(state))
      return false;
  }
  return !barriers || meet(state, epoch);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "The operations of torch.distributed, as its NCCL backend makes them.",
               options);
  operation = find_operation(operation_name);
  struct state state;
  state.root = root;
  state.name = operation->name;
  ranks_begin(&state.ranks);
  ranks_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  struct arena *arena =
      tensors_make(&state, memory, strcmp(form, "repeated") == 0 ? COUNT : COUNT_OF_SECOND);

  bool allowed = true;
  for (int epoch = 0; allowed && epoch < schedule_epochs(iterations); epoch++)
    allowed = run_epoch(&state, epoch);
  for (int number = 0; !allowed && number < then; number++)
    sum(&state, GRADIENTS, "after", number);
  tape_play(state.tape);
  for (int t = 0; t < TENSORS && release; t++)
    CHECK_CUDA(cudaFree(state.tensors[t].send));
  if (deregister)
    arena_deregister(arena);
  return ranks_leave(&state.ranks, ending_named(list_item(end, state.ranks.rank)));
}
