/* All-to-alls, each one group of sends and receives between all ranks, in a loop of nothing else: a
 * dispatch and a combine of another size in each iteration, and after each epoch one more, which
 * looks like the dispatch. As programs with experts make them of their tokens.
 *
 * varying: what a rank sends to another one depends on both and on the iteration; after two
 * iterations some send nothing, and then there is no call. server: rank 0 has one group with all
 * others, and each of those one with rank 0; an all-reduce after each epoch.
 *
 * Results: "<name> <epoch>.<iteration> <peer>": 100 times the peer's rank + 1, and what it has
 * called since it began; "met" as in programs/exchange.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *iterations = "3+1", *end = "finalize", *mode = "even";
static int count = 64;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1; several epochs: 3,4/4,3"},
    {"--mode", &mode, NULL, "even, varying or server"},
    {"--count", NULL, &count, "elements of a dispatch"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct state {
  struct ranks ranks;
  struct tape *tape;
  ncclComm_t comm;
  float *out, *in, *sum; /* a block for each rank */
  int calls;
};

/* Elements that a rank sends to another one. */
static int size_of(int size, int from, int to, int i) {
  if (strcmp(mode, "varying") != 0)
    return size;
  return i < 2 ? size / 2 : size * ((from + 2 * to + i) % 3) / 2;
}

static void post(struct state *state, int peer, int size, int i) {
  struct ranks *ranks = &state->ranks;
  int sent = size_of(size, ranks->rank, peer, i), got = size_of(size, peer, ranks->rank, i);
  float *out = state->out + (size_t)peer * (size_t)count * 2;
  float *in = state->in + (size_t)peer * (size_t)count * 2;
  if (sent != 0)
    CHECK_NCCL(ncclSend(out, (size_t)sent, ncclFloat, peer, state->comm, ranks->stream));
  if (got != 0)
    CHECK_NCCL(ncclRecv(in, (size_t)got, ncclFloat, peer, state->comm, ranks->stream));
}

/* The blocks of all ranks before, and what has come after. */
static void fill(struct state *state) {
  size_t all = (size_t)(state->ranks.nranks * count) * 2;
  tape_fill(state->tape, ncclFloat, state->out, all, 100 * (state->ranks.rank + 1), ++state->calls);
  tape_clear(state->tape, state->in, all * sizeof(float));
}

static void print(struct state *state, const char *name, int epoch, int i, int size) {
  for (int peer = 0; peer < state->ranks.nranks; peer++) {
    int got = size_of(size, peer, state->ranks.rank, i);
    if (peer != state->ranks.rank && got != 0)
      tape_read(state->tape, ncclFloat, state->in + (size_t)peer * (size_t)count * 2, 1,
                (size_t)got, "%s %d.%d %d", name, epoch, i, peer);
  }
}

/* One group. */
#define ALL_TO_ALL(state, name, epoch, i, size)                                                    \
  do {                                                                                             \
    fill(state);                                                                                   \
    CHECK_NCCL(ncclGroupStart());                                                                  \
    for (int peer = 0; peer < (state)->ranks.nranks; peer++)                                       \
      if (peer != (state)->ranks.rank)                                                             \
        post(state, peer, size, i);                                                                \
    CHECK_NCCL(ncclGroupEnd());                                                                    \
    print(state, name, epoch, i, size);                                                            \
  } while (0)

static void run_epoch(struct state *state, int epoch) {
  int n = schedule_iterations(iterations, epoch, state->ranks.rank);
  for (int i = 0; i < n; i++) {
    ALL_TO_ALL(state, "dispatch", epoch, i, count);
    ALL_TO_ALL(state, "combine", epoch, i, 2 * count);
    tape_play(state->tape);
  }
  ALL_TO_ALL(state, "after", epoch, 0, count);
  tape_play(state->tape);
}

/* Rank 0 and the others. */
static void serve(struct state *state, int epoch) {
  struct ranks *ranks = &state->ranks;
  int n = schedule_iterations(iterations, epoch, ranks->rank);
  for (int i = 0; i < n; i++) {
    fill(state);
    if (ranks->rank == 0) {
      CHECK_NCCL(ncclGroupStart());
      for (int peer = 1; peer < ranks->nranks; peer++)
        post(state, peer, count, i);
      CHECK_NCCL(ncclGroupEnd());
      print(state, "serve", epoch, i, count);
    } else {
      CHECK_NCCL(ncclGroupStart());
      CHECK_NCCL(ncclRecv(state->in, (size_t)count, ncclFloat, 0, state->comm, ranks->stream));
      CHECK_NCCL(ncclSend(state->out, (size_t)count, ncclFloat, 0, state->comm, ranks->stream));
      CHECK_NCCL(ncclGroupEnd());
      tape_read(state->tape, ncclFloat, state->in, 1, (size_t)count, "serve %d.%d 0", epoch, i);
    }
    tape_play(state->tape);
  }
}

static void meet(struct state *state, int epoch) {
  struct ranks *ranks = &state->ranks;
  tape_fill(state->tape, ncclFloat, state->sum, (size_t)count, 1 << ranks->rank, epoch + 1);
  CHECK_NCCL(ncclAllReduce(state->sum, state->sum, (size_t)count, ncclFloat, ncclSum, state->comm,
                           ranks->stream));
  tape_read(state->tape, ncclFloat, state->sum, 1, (size_t)count, "met %d", epoch);
  tape_play(state->tape);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "All-to-alls made of sends and receives.", options);
  struct state state = {0};
  ranks_begin(&state.ranks);
  state.comm = ranks_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  float **buffers[] = {&state.sum, &state.out, &state.in};
  size_t room = (size_t)(state.ranks.nranks * count) * 2 * sizeof(float);
  for (int i = 0; i < 3; i++)
    CHECK_CUDA(cudaMalloc((void **)buffers[i], room));
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    if (strcmp(mode, "server") != 0) {
      run_epoch(&state, epoch);
      continue;
    }
    serve(&state, epoch);
    meet(&state, epoch);
  }
  return ranks_leave(&state.ranks, ending_named(list_item(end, state.ranks.rank)));
}
