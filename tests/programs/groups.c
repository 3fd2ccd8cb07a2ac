/* Collectives between ncclGroupStart and ncclGroupEnd, and two communicators of the same ranks.
 *
 * Results: "<what> <iteration>" with the mask of the ranks that took part (the broadcast: 100 times
 * its root's rank + 1) and the sum of their iteration + 1.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <string.h>

static const char *iterations = "3+1", *end = "finalize", *mode = "group";

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--mode", &mode, NULL,
     "group: two all-reduces and a broadcast as one; nested: the same in groups inside; two: two "
     "communicators in turn; both: two communicators in one group"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { BUFFERS = 3 };
static const size_t counts[BUFFERS] = {512, 40, 256};

struct state {
  struct ranks ranks;
  struct tape *tape;
  float *buffers[BUFFERS];
};

static void fill(struct state *state, int buffer, double value, int i) {
  tape_fill(state->tape, ncclFloat, state->buffers[buffer], counts[buffer], value, i + 1);
}

static void print(struct state *state, int buffer, const char *what, int i) {
  tape_read(state->tape, ncclFloat, state->buffers[buffer], 1, counts[buffer], "%s %d", what, i);
}

static void sum(struct state *state, int comm, int buffer) {
  float *data = state->buffers[buffer];
  CHECK_NCCL(ncclAllReduce(data, data, counts[buffer], ncclFloat, ncclSum, state->ranks.comms[comm],
                           state->ranks.stream));
}

/* One communicator: two all-reduces and a broadcast from the last rank, issued as one. */
static void group(struct state *state, int i, bool nested) {
  int root = state->ranks.nranks - 1;
  fill(state, 0, 1 << state->ranks.rank, i);
  fill(state, 1, 1 << state->ranks.rank, i);
  fill(state, 2, (state->ranks.rank + 1) * 100, i);
  CHECK_NCCL(ncclGroupStart());
  if (nested)
    CHECK_NCCL(ncclGroupStart());
  sum(state, 0, 0);
  sum(state, 0, 1);
  if (nested)
    CHECK_NCCL(ncclGroupEnd());
  CHECK_NCCL(ncclBcast(state->buffers[2], counts[2], ncclFloat, root, state->ranks.comms[0],
                       state->ranks.stream));
  CHECK_NCCL(ncclGroupEnd());
  print(state, 0, "large", i);
  print(state, 1, "small", i);
  print(state, 2, "broadcast", i);
}

/* Two communicators in turn; the second has one more in every other iteration. */
static void take_turns(struct state *state, int i) {
  for (int k = 0; k < 2 + i % 2; k++) {
    int comm = k > 0;
    fill(state, comm, 1 << state->ranks.rank, i);
    sum(state, comm, comm);
    print(state, comm, comm == 0 ? "first" : k == 1 ? "second" : "third", i);
  }
}

static void group_of_both(struct state *state, int i) {
  for (int comm = 0; comm < 2; comm++)
    fill(state, comm, 1 << state->ranks.rank, i);
  CHECK_NCCL(ncclGroupStart());
  for (int comm = 0; comm < 2; comm++)
    sum(state, comm, comm);
  CHECK_NCCL(ncclGroupEnd());
  print(state, 0, "first", i);
  print(state, 1, "second", i);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Groups and two communicators.", options);
  struct state state;
  ranks_begin(&state.ranks);
  ranks_communicator(&state.ranks);
  if (strcmp(mode, "two") == 0 || strcmp(mode, "both") == 0)
    ranks_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  for (int buffer = 0; buffer < BUFFERS; buffer++)
    CHECK_CUDA(cudaMalloc((void **)&state.buffers[buffer], counts[buffer] * sizeof(float)));

  for (int i = 0; i < schedule_iterations(iterations, 0, state.ranks.rank); i++) {
    if (strcmp(mode, "two") == 0)
      take_turns(&state, i);
    else if (strcmp(mode, "both") == 0)
      group_of_both(&state, i);
    else
      group(&state, i, strcmp(mode, "nested") == 0);
    tape_play(state.tape);
  }
  return ranks_leave(&state.ranks, ending_named(list_item(end, state.ranks.rank)));
}
