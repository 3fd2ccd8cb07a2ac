/* The operations of torch.distributed (torch_operations.h) in a loop, with an all-reduce before. If
 * NCCL refuses a call as invalid usage, the loop is left, and some all-reduces more are done. After
 * each epoch there may be a barrier, and an all-reduce of all.
 *
 * Results: "sum <iteration>", those of the operation, "refused", "after <step>", "met <epoch>".
 */
#include "tests/programs/arena.h"
#include "tests/programs/options.h"
#include "tests/programs/torch_operations.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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

enum { COUNT = 64, COUNT_OF_SECOND = 40, GRADIENTS = 96, METRIC = 6 };

static float *gradients; /* GRADIENTS */

static ncclResult_t worst(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess ? a : b;
}

static bool was_refused(const struct torch *state, ncclResult_t result) {
  if (result == ncclInvalidUsage) {
    ranks_result(&state->ranks, "refused");
    return true;
  }
  CHECK_NCCL(result);
  return false;
}

/* An all-reduce with its name and number in the results; false if it was refused. */
static bool sum(struct torch *state, size_t n, const char *name, int number) {
  struct ranks *ranks = &state->ranks;
  tape_fill(state->tape, ncclFloat, gradients, n, 1 << ranks->rank, number + 1);
  ncclResult_t result =
      ncclAllReduce(gradients, gradients, n, ncclFloat, ncclSum, ranks->comms[0], ranks->stream);
  if (was_refused(state, result))
    return false;
  tape_read(state->tape, ncclFloat, gradients, 1, n, "%s %d", name, number);
  return true;
}

static void fill(struct torch *state, const struct torch_tensor *tensor, int value) {
  int rank = state->ranks.rank;
  for (int d = 0; d < state->ranks.nranks; d++)
    tape_fill(state->tape, ncclFloat, tensor->send + (size_t)d * tensor->n, tensor->n,
              state->operation->reduces ? 1 << rank : 1000 * tensor->number + 100 * (rank + 1) + d,
              value);
}

/* The device is not done with an iteration when the host is. */
static void take_a_while(void *unused) {
  (void)unused;
  usleep(20000);
}

/* The operation with all tensors of the form; false if it was refused. */
static bool operate(struct torch *state) {
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
    result = worst(result, state->operation->issue(state, &state->tensors[t]));
  if (coalesced)
    result = worst(ncclGroupEnd(), result);
  if (was_refused(state, result))
    return false;
  for (int t = 0; t < tensors; t++)
    state->operation->read(state, &state->tensors[t]);
  tape_play(state->tape);
  if (step == 2)
    CHECK_CUDA(cudaLaunchHostFunc(state->ranks.stream, take_a_while, NULL));
  for (int t = 0; t < tensors && step; t++)
    fill(state, &state->tensors[t], 1000 + state->iteration);
  return true;
}

/* No rank comes out of the barrier before all have gone in. */
static bool meet(struct torch *state, int epoch) {
  char name[32];
  snprintf(name, sizeof name, "in %d", epoch);
  ranks_time(&state->ranks, name);
  if (was_refused(state, torch_barrier(state, &state->tensors[1])))
    return false;
  snprintf(name, sizeof name, "out %d", epoch);
  ranks_time(&state->ranks, name);
  return sum(state, METRIC, "met", epoch);
}

static void wait_if_late(const struct torch *state) {
  if (state->ranks.rank == late)
    usleep(500000);
}

static bool run_epoch(struct torch *state, int epoch) {
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

/* arena NULL: memory of its own. */
static void *new_buffer(struct arena *arena, size_t size) {
  void *buffer = NULL;
  if (arena != NULL)
    return arena_take(arena, size);
  CHECK_CUDA(cudaMalloc(&buffer, size));
  return buffer;
}

static struct arena *make_tensors(struct torch *state) {
  size_t nranks = (size_t)state->ranks.nranks;
  bool repeated = strcmp(form, "repeated") == 0;
  struct arena *arena =
      strcmp(memory, "plain") == 0
          ? NULL
          : arena_create(&state->ranks, memory, (nranks + 2) * GRADIENTS * sizeof(double));
  gradients = new_buffer(arena, GRADIENTS * sizeof(float));
  state->sizes = new_buffer(arena, (nranks + 1) * sizeof *state->sizes);
  for (int t = 0; t < TENSORS; t++) {
    struct torch_tensor *tensor = &state->tensors[t];
    *tensor = (struct torch_tensor){.number = t, .n = t == 0 || repeated ? COUNT : COUNT_OF_SECOND};
    tensor->send = new_buffer(arena, nranks * tensor->n * sizeof(float));
    tensor->result = new_buffer(arena, nranks * tensor->n * sizeof(float));
  }
  return arena;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "The operations of torch.distributed, as its NCCL backend makes them.",
               options);
  struct torch state = {.root = root, .operation = torch_operation_named(operation_name)};
  ranks_begin(&state.ranks);
  ranks_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  struct arena *arena = make_tensors(&state);

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
