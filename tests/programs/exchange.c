/* Sends and receives in loops.
 *
 * ring: an all-reduce, and one group that sends to the right and receives from the left. plain: the
 * same without groups, between pairs of neighbours (0 to 1, 2 to 3). pipeline: each stage receives
 * from the one before and passes on what it got; no collective. rounds: epochs of ring exchanges
 * with nothing else in the loop, and an all-reduce after each. rings: the same, and a ring exchange
 * of half the size instead of the all-reduce; alike: of the same size. stages: pipelines, and the
 * stages pass on one more after each epoch. warm: pipelines whose first iterations are a loop of
 * their own, longer the more stages come after (1F1B). pairs: as ring, but each pair of
 * ranks (0 and 1, 2 and 3) exchanges on a communicator of its own. turned: as ring, on a second
 * communicator in which the ranks stand the other way round. threads: all-reduces on one thread,
 * the exchanges on another one, with a communicator each.
 *
 * If NCCL refuses a call as invalid usage, the loop is left, and some all-reduces more are done.
 *
 * Results: "sum <iteration>" (mask of ranks and sum of iteration + 1), "got <iteration>" (100 times
 * the sender's rank + 1, and its iteration + 1), "refused <call>", "after <step>" and "met <epoch>"
 * (as sum).
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *iterations = "3+1", *end = "finalize", *mode = "ring";
static int count = 64, then = 3, sync_every = 1;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1; epochs of rounds: 3,4/4,3"},
    {"--mode", &mode, NULL,
     "ring, plain, pipeline, rounds, rings, alike, stages, warm, pairs, turned or threads"},
    {"--count", NULL, &count, "elements"},
    {"--sync-every", NULL, &sync_every, "iterations between waits for the device; 0: at the end"},
    {"--then", NULL, &then, "all-reduces after a refusal"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { REST = 1000 }; /* number of what alike and stages do after the first epoch */

struct state {
  struct ranks ranks;
  struct tape *tape;
  ncclComm_t comm;       /* for sends and receives, */
  int rank, nranks;      /* and the rank there */
  float *sum, *out, *in; /* count each */
};

/* Whether NCCL refused the call; every other failure ends the program. */
static bool was_refused(const struct state *state, ncclResult_t result, const char *call) {
  if (result == ncclInvalidUsage) {
    ranks_result(&state->ranks, "refused %s", call);
    fprintf(stderr, "refused: %s\n", ncclGetLastError(NULL));
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

static ncclResult_t send(struct state *state, const float *data, int peer) {
  struct ranks *ranks = &state->ranks;
  return ncclSend(data, (size_t)count, ncclFloat, peer, state->comm, ranks->stream);
}

static ncclResult_t receive(struct state *state, int peer) {
  struct ranks *ranks = &state->ranks;
  tape_clear(state->tape, state->in, (size_t)count * sizeof(float));
  return ncclRecv(state->in, (size_t)count, ncclFloat, peer, state->comm, ranks->stream);
}

static void read_in(struct state *state, int i) {
  tape_read(state->tape, ncclFloat, state->in, 1, (size_t)count, "got %d", i);
}

static void fill_out(struct state *state, int i) {
  tape_fill(state->tape, ncclFloat, state->out, (size_t)count, 100 * (state->ranks.rank + 1),
            i + 1);
}

static bool exchange(struct state *state, int i) {
  int rank = state->rank, nranks = state->nranks;
  fill_out(state, i);
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(send(state, state->out, (rank + 1) % nranks));
  CHECK_NCCL(receive(state, (rank + nranks - 1) % nranks));
  if (was_refused(state, ncclGroupEnd(), "group"))
    return false;
  read_in(state, i);
  return true;
}

static bool exchange_plainly(struct state *state, int i) {
  int rank = state->ranks.rank, nranks = state->ranks.nranks;
  fill_out(state, i);
  if (rank % 2 == 0)
    return rank + 1 == nranks || !was_refused(state, send(state, state->out, rank + 1), "send");
  if (was_refused(state, receive(state, rank - 1), "recv"))
    return false;
  read_in(state, i);
  return true;
}

/* What the first stage sends arrives at the last one. */
static bool pass_on(struct state *state, int i) {
  int rank = state->ranks.rank, nranks = state->ranks.nranks;
  fill_out(state, i);
  if (rank > 0) {
    if (was_refused(state, receive(state, rank - 1), "recv"))
      return false;
    read_in(state, i);
  }
  return rank + 1 == nranks ||
         !was_refused(state, send(state, rank == 0 ? state->out : state->in, rank + 1), "send");
}

/* What comes after an epoch, at another place of the program. */
static bool exchange_half(struct state *state, int i) {
  count /= 2;
  bool goes_on = exchange(state, i);
  count *= 2;
  return goes_on;
}

static bool end_epoch(struct state *state, int epoch, int i) {
  bool goes_on = true;
  if (strcmp(mode, "rounds") == 0)
    goes_on = sum(state, "met", epoch);
  else if (strcmp(mode, "rings") == 0)
    goes_on = exchange_half(state, i);
  else if (strcmp(mode, "alike") == 0)
    goes_on = exchange(state, REST + epoch);
  else if (strcmp(mode, "stages") == 0)
    goes_on = pass_on(state, REST + epoch);
  tape_play(state->tape);
  return goes_on;
}

static bool run_warm(struct state *state, int n) {
  int i = 0;
  bool goes_on = true;
  for (; goes_on && i < n && i < state->nranks - 1 - state->rank; i++)
    goes_on = pass_on(state, i);
  for (; goes_on && i < n; i++) {
    goes_on = pass_on(state, i);
    tape_play(state->tape);
  }
  return goes_on;
}

static bool iterate(struct state *state, int i) {
  bool goes_on;
  if (strcmp(mode, "pipeline") == 0 || strcmp(mode, "stages") == 0)
    goes_on = pass_on(state, i);
  else if (strcmp(mode, "rounds") == 0 || strcmp(mode, "rings") == 0 || strcmp(mode, "alike") == 0)
    goes_on = exchange(state, i);
  else if (strcmp(mode, "plain") == 0)
    goes_on = sum(state, "sum", i) && exchange_plainly(state, i);
  else
    goes_on = sum(state, "sum", i) && exchange(state, i);
  if (sync_every > 0 && (i + 1) % sync_every == 0)
    tape_play(state->tape);
  return goes_on;
}

/* A communicator of its own for sends and receives. */
static void split(struct state *state, int color, int key) {
  struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclCommSplit(ranks->comms[0], color, key, &ranks->comms[1], NULL));
  ranks->ncomms = 2;
  state->comm = ranks->comms[1];
  CHECK_NCCL(ncclCommUserRank(state->comm, &state->rank));
  CHECK_NCCL(ncclCommCount(state->comm, &state->nranks));
}

/* The thread of the exchanges: everything of its own. It says when the first one is done. */
struct partner {
  struct state state;
  int iterations;
  pthread_barrier_t begun;
};

static void exchange_alone(struct state *state, float *host) {
  int rank = state->rank, nranks = state->nranks;
  cudaStream_t stream = state->ranks.stream;
  CHECK_CUDA(cudaMemcpyAsync(state->out, host, sizeof *host, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclSend(state->out, 1, ncclFloat, (rank + 1) % nranks, state->comm, stream));
  CHECK_NCCL(ncclRecv(state->in, 1, ncclFloat, (rank + nranks - 1) % nranks, state->comm, stream));
  CHECK_NCCL(ncclGroupEnd());
  CHECK_CUDA(cudaMemcpyAsync(host, state->in, sizeof *host, cudaMemcpyDeviceToHost, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
}

static void *run_exchanges(void *argument) {
  struct partner *partner = argument;
  struct state *state = &partner->state;
  float *host;
  int device;
  CHECK_NCCL(ncclCommCuDevice(state->comm, &device));
  CHECK_CUDA(cudaSetDevice(device));
  CHECK_CUDA(cudaStreamCreateWithFlags(&state->ranks.stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaMallocHost((void **)&host, sizeof *host));
  for (int i = 0; i < partner->iterations; i++) {
    *host = (float)(1000 * (state->rank + 1) + i);
    exchange_alone(state, host);
    ranks_result(&state->ranks, "thread %d %g", i, (double)*host);
    if (i == 0)
      pthread_barrier_wait(&partner->begun);
    usleep(1000 * (useconds_t)(state->rank + 1));
  }
  return NULL;
}

static void run_threads(struct state *state) {
  struct partner partner = {.state = *state,
                            .iterations = schedule_iterations(iterations, 0, state->rank)};
  pthread_t thread;
  pthread_barrier_init(&partner.begun, NULL, 2);
  pthread_create(&thread, NULL, run_exchanges, &partner);
  pthread_barrier_wait(&partner.begun);
  for (int i = 0; i < partner.iterations; i++) {
    sum(state, "sum", i);
    tape_play(state->tape);
  }
  pthread_join(thread, NULL);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Sends and receives in loops.", options);
  struct state state;
  ranks_begin(&state.ranks);
  state.comm = ranks_communicator(&state.ranks);
  state.rank = state.ranks.rank;
  state.nranks = state.ranks.nranks;
  if (strcmp(mode, "pairs") == 0)
    split(&state, state.rank / 2, state.rank);
  else if (strcmp(mode, "turned") == 0 || strcmp(mode, "threads") == 0)
    split(&state, 0, strcmp(mode, "turned") == 0 ? state.nranks - state.rank : state.rank);
  state.tape = tape_create(&state.ranks);
  float **buffers[] = {&state.sum, &state.out, &state.in};
  for (int i = 0; i < 3; i++)
    CHECK_CUDA(cudaMalloc((void **)buffers[i], (size_t)count * sizeof(float)));

  bool allowed = true;
  if (strcmp(mode, "threads") == 0) {
    run_threads(&state);
    return ranks_leave(&state.ranks, ending_named(list_item(end, state.ranks.rank)));
  }
  for (int epoch = 0; allowed && epoch < schedule_epochs(iterations); epoch++) {
    int n = schedule_iterations(iterations, epoch, state.ranks.rank);
    if (strcmp(mode, "warm") == 0) {
      allowed = run_warm(&state, n);
      continue;
    }
    for (int i = 0; allowed && i < n; i++)
      allowed = iterate(&state, i);
    allowed = allowed && end_epoch(&state, epoch, n);
  }
  for (int step = 0; !allowed && step < then; step++)
    sum(&state, "after", step);
  tape_play(state.tape);
  return ranks_leave(&state.ranks, ending_named(list_item(end, state.ranks.rank)));
}
