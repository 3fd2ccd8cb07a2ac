/* A program that stops with an error if NCCL says so, in order: no more iterations, the device done
 * with what it has, and then perhaps some all-reduces by which all ranks go on together. Or at
 * once, with status 1, as if nobody had caught the error.
 *
 * The body sums buckets, which all have sizes of their own. What NCCL refuses as invalid usage ends
 * the loop, wherever it is; every other failure ends the program.
 *
 * Results: "bucket <epoch> <iteration> <bucket>" with the mask of the ranks that took part and the
 * sum of their iteration + 1; "barrier <epoch>" with the mask; "stopped <epoch> <iteration>
 * <bucket>", "stopped barrier <epoch>" or "stopped leaving"; "idle" when the device is done; "after
 * <step>".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static const char *iterations = "3+1", *end = "finalize", *synchronise = "iteration", *caught = "1";
static int buckets = 3, before = 0, begin = 0, barrier = 0, group = 0, pairs = 0, ring = 0,
           then = 0, slow = -1, held = -1;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5/4"},
    {"--buckets", NULL, &buckets, "all-reduces in an iteration"},
    {"--before", NULL, &before, "1: the first epoch's loop comes after one more, like its last"},
    {"--begin", NULL, &begin, "so many before the loop of each epoch, each of a size of its own"},
    {"--barrier", NULL, &barrier, "1: all ranks meet after each epoch"},
    {"--group", NULL, &group, "1: those of an iteration are one group"},
    {"--pairs", NULL, &pairs, "1: in the group also a sum over pairs of neighbours"},
    {"--ring", NULL, &ring, "1: in the group also a send to the next rank"},
    {"--sync", &synchronise, NULL, "wait for the device after each iteration, or only at the end"},
    {"--slow", NULL, &slow, "in this iteration rank 0's device sleeps before the last bucket"},
    {"--held", NULL, &held, "in this one it waits there until the program is told to stop"},
    {"--caught", &caught, NULL, "0: a rank ends where it is stopped; one, or one per rank"},
    {"--then", NULL, &then, "all-reduces after the loop has been stopped"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct state {
  struct ranks ranks;
  struct tape *tape;
  ncclComm_t pair;
  float *data, *more; /* more: what is sent, received, and summed over pairs */
};

static bool uncaught; /* of this rank */

static _Atomic bool told; /* that it is to stop */

static void hold(void *unused) {
  (void)unused;
  while (!told)
    usleep(1000);
}

static void doze(void *unused) {
  (void)unused;
  usleep(500000);
}

static size_t bucket_count(int bucket) {
  return 64 + 32 * (size_t)bucket;
}

/* Whether NCCL said that the loop is to end here. */
static bool was_stopped(ncclResult_t result) {
  told |= result == ncclInvalidUsage;
  if (result != ncclInvalidUsage || uncaught)
    CHECK_NCCL(result);
  return result == ncclInvalidUsage;
}

static ncclResult_t sum(struct state *state, size_t count, int i) {
  struct ranks *ranks = &state->ranks;
  tape_fill(state->tape, ncclFloat, state->data, count, 1 << ranks->rank, i + 1);
  return ncclAllReduce(state->data, state->data, count, ncclFloat, ncclSum, ranks->comms[0],
                       ranks->stream);
}

static void add_to_group(const struct state *state) {
  const struct ranks *ranks = &state->ranks;
  int next = (ranks->rank + 1) % ranks->nranks;
  int last = (ranks->rank + ranks->nranks - 1) % ranks->nranks;
  if (pairs)
    CHECK_NCCL(
        ncclAllReduce(state->more, state->more, 8, ncclFloat, ncclSum, state->pair, ranks->stream));
  if (!ring)
    return;
  CHECK_NCCL(ncclSend(state->more + 8, 8, ncclFloat, next, ranks->comms[0], ranks->stream));
  CHECK_NCCL(ncclRecv(state->more + 16, 8, ncclFloat, last, ranks->comms[0], ranks->stream));
}

static bool iterate_in_group(struct state *state, int epoch, int i) {
  struct ranks *ranks = &state->ranks;
  size_t count = bucket_count(buckets);
  tape_fill(state->tape, ncclFloat, state->data, (size_t)buckets * count, 1 << ranks->rank, i + 1);
  CHECK_NCCL(ncclGroupStart());
  for (int b = 0; b < buckets; b++)
    CHECK_NCCL(ncclAllReduce(state->data + (size_t)b * count, state->data + (size_t)b * count,
                             bucket_count(b), ncclFloat, ncclSum, ranks->comms[0], ranks->stream));
  add_to_group(state);
  if (was_stopped(ncclGroupEnd())) {
    ranks_result(ranks, "stopped %d %d 0", epoch, i);
    return false;
  }
  for (int b = 0; b < buckets; b++)
    tape_read(state->tape, ncclFloat, state->data + (size_t)b * count, 1, bucket_count(b),
              "bucket %d %d %d", epoch, i, b);
  return true;
}

static bool iterate(struct state *state, int epoch, int i) {
  for (int b = 0; b < buckets; b++) {
    if ((i == slow || i == held) && b == buckets - 1 && state->ranks.rank == 0)
      CHECK_CUDA(cudaLaunchHostFunc(state->ranks.stream, i == slow ? doze : hold, NULL));
    if (was_stopped(sum(state, bucket_count(b), i))) {
      ranks_result(&state->ranks, "stopped %d %d %d", epoch, i, b);
      return false;
    }
    tape_read(state->tape, ncclFloat, state->data, 1, bucket_count(b), "bucket %d %d %d", epoch, i,
              b);
  }
  return true;
}

/* One epoch; false if it was stopped. */
static bool run_epoch(struct state *state, int epoch) {
  int n = schedule_iterations(iterations, epoch, state->ranks.rank);
  for (int b = 0; b < begin; b++)
    CHECK_NCCL(sum(state, 2 + (size_t)b, 0));
  for (int i = 0; i < n; i++) {
    if (!(group ? iterate_in_group(state, epoch, i) : iterate(state, epoch, i)))
      return false;
    if (strcmp(synchronise, "iteration") == 0)
      tape_play(state->tape);
  }
  if (!barrier)
    return true;
  if (was_stopped(sum(state, 1, 0))) {
    ranks_result(&state->ranks, "stopped barrier %d", epoch);
    return false;
  }
  tape_read(state->tape, ncclFloat, state->data, 1, 1, "barrier %d", epoch);
  return true;
}

/* Whether the program may go on with its communicator. */
static bool leave(struct ranks *ranks, enum ending how, bool *stopped) {
  ncclComm_t comm = ranks->comms[0];
  ncclResult_t result = how == ENDING_FINALIZE  ? ncclCommFinalize(comm)
                        : how == ENDING_DESTROY ? ncclCommDestroy(comm)
                        : how == ENDING_ABORT   ? ncclCommAbort(comm)
                                                : ncclSuccess;
  *stopped = was_stopped(result);
  if (*stopped)
    ranks_result(ranks, "stopped leaving");
  if (how == ENDING_FINALIZE && !*stopped)
    CHECK_NCCL(ncclCommDestroy(comm));
  return how == ENDING_FINALIZE && *stopped;
}

static void go_on(struct state *state) {
  tape_play(state->tape);
  ranks_result(&state->ranks, "idle");
  for (int step = 0; step < then; step++) {
    CHECK_NCCL(sum(state, 16, step));
    tape_read(state->tape, ncclFloat, state->data, 1, 16, "after %d", step);
  }
  tape_play(state->tape);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Stops in order when it is told to.", options);
  struct state state;
  ranks_begin(&state.ranks);
  ranks_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  size_t size = (size_t)(buckets + 1) * bucket_count(buckets) * sizeof(float);
  CHECK_CUDA(cudaMalloc((void **)&state.data, size));
  CHECK_CUDA(cudaMalloc((void **)&state.more, 24 * sizeof(float)));
  int rank = state.ranks.rank;
  uncaught = strcmp(list_item(caught, rank), "0") == 0;
  if (pairs)
    CHECK_NCCL(ncclCommSplit(state.ranks.comms[0], rank / 2, rank, &state.pair, NULL));
  if (before)
    CHECK_NCCL(sum(&state, bucket_count(buckets - 1), 0));
  bool stopped = false;
  for (int epoch = 0; !stopped && epoch < schedule_epochs(iterations); epoch++)
    stopped = !run_epoch(&state, epoch);
  enum ending how = ending_named(list_item(end, state.ranks.rank));
  if (!stopped) {
    tape_play(state.tape);
    if (how == ENDING_RETURN || how == ENDING_EXIT)
      return ranks_leave(&state.ranks, how);
    if (!leave(&state.ranks, how, &stopped))
      return 0;
  }
  go_on(&state);
  if (pairs)
    CHECK_NCCL(ncclCommDestroy(state.pair));
  return ranks_leave(&state.ranks, how);
}
