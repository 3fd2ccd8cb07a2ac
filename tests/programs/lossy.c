/* Collectives whose result has a part from every rank, in a loop with an all-reduce before.
 *
 * An average of integers counts among them: what one rank lacks, the others cannot make up for.
 *
 * If NCCL refuses one as invalid usage, the loop is left, and some all-reduces more are done, as a
 * program would that goes on without them.
 *
 * Results: "sum <iteration>" (mask of ranks and sum of iteration + 1), "got <iteration>" (a pair
 * for each rank that is heard: 100 times rank + 1, and iteration + 1), "refused <call>", "after
 * <step>" (as sum).
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *iterations = "3+1", *end = "finalize", *collective = "allgather";
static int count = 64, root = 0, then = 3, group = 0, strict = 0, late = -1, behind = -1,
           linger_ms = 0, blunder = 0, ask = 0, final = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--collective", &collective, NULL,
     "allgather, alltoall, gather, scatter, broadcast, reducescatter, average"},
    {"--count", NULL, &count, "elements from, or to, each rank"},
    {"--root", NULL, &root, "of a gather, scatter or broadcast"},
    {"--group", NULL, &group, "1: in a group with one more all-reduce"},
    {"--then", NULL, &then, "all-reduces after a refusal"},
    {"--strict", NULL, &strict, "1: a refusal ends the program, as any other error"},
    {"--late", NULL, &late,
     "the last rank comes late to this iteration; others wait for it on the device, and hear of "
     "errors only then"},
    {"--linger", NULL, &linger_ms, "milliseconds for which who is refused does nothing at all"},
    {"--blunder", NULL, &blunder,
     "1: a wrong call, after an asynchronous error and before the program prints what that is"},
    {"--ask", NULL, &ask, "1: who waits for the device asks for errors meanwhile"},
    {"--final", NULL, &final,
     "1: nobody waits for the device in the late iteration, and a sum is behind the loop"},
    {"--behind", NULL, &behind, "root of a broadcast behind it, or -1: there is none"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

struct state {
  struct ranks ranks;
  struct tape *tape;
  float *sum, *send, *receive; /* count, count * nranks, count * nranks */
};

static ncclDataType_t datatype(void) {
  return strcmp(collective, "average") == 0 ? ncclInt32 : ncclFloat;
}

/* The collective under test, and how many blocks it leaves in the receive buffer of this rank. */
static ncclResult_t issue(const struct state *state, size_t *blocks) {
  const struct ranks *ranks = &state->ranks;
  ncclComm_t comm = ranks->comms[0];
  size_t n = (size_t)count, nranks = (size_t)ranks->nranks;
  float *send = state->send, *receive = state->receive;
  *blocks = 1;
  if (strcmp(collective, "broadcast") == 0)
    return ncclBroadcast(send, receive, n, ncclFloat, root, comm, ranks->stream);
  if (strcmp(collective, "average") == 0)
    return ncclAllReduce(send, receive, n, ncclInt32, ncclAvg, comm, ranks->stream);
  if (strcmp(collective, "reducescatter") == 0)
    return ncclReduceScatter(send, receive, n, ncclFloat, ncclSum, comm, ranks->stream);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  if (strcmp(collective, "scatter") == 0)
    return ncclScatter(send, receive, n, ncclFloat, root, comm, ranks->stream);
  if (strcmp(collective, "gather") == 0) {
    *blocks = ranks->rank == root ? nranks : 0;
    return ncclGather(send, receive, n, ncclFloat, root, comm, ranks->stream);
  }
  if (strcmp(collective, "alltoall") == 0) {
    *blocks = nranks;
    return ncclAlltoAll(send, receive, n, ncclFloat, comm, ranks->stream);
  }
#endif
  if (strcmp(collective, "allgather") != 0) {
    fprintf(stderr, "no collective of this NCCL is called %s\n", collective);
    exit(2);
  }
  *blocks = nranks;
  return ncclAllGather(send, receive, n, ncclFloat, comm, ranks->stream);
}

static ncclResult_t issue_in_group(const struct state *state, size_t *blocks) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(issue(state, blocks));
  CHECK_NCCL(ncclAllReduce(state->sum, state->sum, (size_t)count, ncclFloat, ncclSum,
                           ranks->comms[0], ranks->stream));
  return ncclGroupEnd();
}

/* Whether NCCL refused the call; every other failure ends the program. */
static bool was_refused(const struct state *state, ncclResult_t result, const char *call) {
  if (result == ncclInvalidUsage && !strict) {
    ranks_result(&state->ranks, "refused %s", call);
    usleep((useconds_t)linger_ms * 1000);
    return true;
  }
  CHECK_NCCL(result);
  return false;
}

/* An all-reduce with its name and number in the results; false if it was refused. */
static bool sum(struct state *state, const char *name, int i) {
  struct ranks *ranks = &state->ranks;
  size_t n = (size_t)count;
  tape_fill(state->tape, ncclFloat, state->sum, n, 1 << ranks->rank, i + 1);
  ncclResult_t result =
      ncclAllReduce(state->sum, state->sum, n, ncclFloat, ncclSum, ranks->comms[0], ranks->stream);
  if (was_refused(state, result, "allreduce"))
    return false;
  tape_read(state->tape, ncclFloat, state->sum, 1, n, "%s %d", name, i);
  return true;
}

/* One iteration; false if it was refused. */
static bool iterate(struct state *state, int i) {
  struct ranks *ranks = &state->ranks;
  size_t n = (size_t)count, all = n * (size_t)ranks->nranks, blocks;
  bool is_late = i == late && ranks->rank == ranks->nranks - 1;
  if (is_late)
    usleep(300000);
  if (!sum(state, "sum", i))
    return false;
  tape_fill(state->tape, datatype(), state->send, all, 100 * (ranks->rank + 1), i + 1);
  tape_clear(state->tape, state->receive, all * sizeof(float));
  ncclResult_t result = group ? issue_in_group(state, &blocks) : issue(state, &blocks);
  if (was_refused(state, result, collective))
    return false;
  if (blocks > 0)
    tape_read(state->tape, datatype(), state->receive, blocks, n, "got %d", i);
  if (behind >= 0 && was_refused(state,
                                 ncclBroadcast(state->receive, state->receive, n, ncclFloat, behind,
                                               ranks->comms[0], ranks->stream),
                                 "broadcast"))
    return false;
  if (i == late && final)
    return true;
  if (i == late && !is_late && !ask)
    CHECK_CUDA(cudaStreamSynchronize(ranks->stream));
  if (ask)
    ranks_synchronise(ranks);
  tape_play(state->tape);
  return true;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Collectives that need a part from every rank.", options);
  struct state state;
  ranks_begin(&state.ranks);
  state.ranks.blunders = blunder != 0;
  ranks_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  size_t all = (size_t)count * (size_t)state.ranks.nranks;
  CHECK_CUDA(cudaMalloc((void **)&state.sum, (size_t)count * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&state.send, all * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&state.receive, all * sizeof(float)));

  int n = schedule_iterations(iterations, 0, state.ranks.rank);
  bool allowed = true;
  for (int i = 0; allowed && i < n; i++)
    allowed = iterate(&state, i);
  if (allowed && final)
    allowed = sum(&state, "final", n);
  for (int step = 0; !allowed && step < then; step++)
    sum(&state, "after", step);
  tape_play(state.tape);
  return ranks_leave(&state.ranks, ending_named(list_item(end, state.ranks.rank)));
}
