/* Sends and receives right behind a loop of collectives, in a loop of epochs: what training
 * programs do to bring logs together.
 *
 * Each batch of an epoch is an all-reduce. Behind the batches comes, by --mode:
 *   gather     one group: rank 0 receives from all others; the others send
 *   scatter    the other way round
 *   turns      rank 0 receives from one after the other, without a group
 *   chain      each rank receives from the one before, and then sends to the one after
 *   pair       the last two ranks alone: the last one sends to the one before it
 *   later      as gather, but rank 0 receives after its first batch of the next epoch, or at the end: in
 *              another order than the others send, on a stream of their own (with --second 1 only)
 *   wait       as gather, but rank 0 waits first for a word of rank 1, on the same machine, that it has
 *              called ncclSend
 *
 * With --evaluations each epoch goes on so: a loop of batches of another kind, and the same behind
 * that, at a place of its own. In results it is epoch 100 + <epoch>.
 *
 * With --meet 1 each epoch ends with an all-reduce of all ranks, epoch 200 + <epoch>.
 *
 * With --inside each batch of training also has a ring of sends and receives: 1 before the
 * all-reduce, 2 behind it. "in <epoch> <batch>" with 100 times the rank before + 1, or 0 if that
 * had left, is what came.
 *
 * Results: "sum <epoch> <batch>" with the mask of the ranks that took part and the sum of 1000 *
 * epoch + batch + 1 over them; "got <epoch> <from>" with 100 times the sender's rank + 1, and the
 * epoch + 1.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *iterations = "3+1", *evaluations = "", *mode = "gather", *end = "finalize";
static int count = 64, inside = 0, meet = 0, second = 0, sync_every = 1, slow_rank = -1,
           slow_ms = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--evaluations", &evaluations, NULL, "likewise; none: no evaluation. Not with later or wait"},
    {"--mode", &mode, NULL, "gather, scatter, turns, chain, pair, later or wait"},
    {"--count", NULL, &count, "elements of each send"},
    {"--second", NULL, &second, "1: sends and receives have a communicator of their own"},
    {"--inside", NULL, &inside, "1: a ring in each batch, before the all-reduce; 2: behind it"},
    {"--meet", NULL, &meet, "1: an all-reduce at the end of each epoch"},
    {"--sync-every", NULL, &sync_every, "batches between waits for the device; 0: at the end"},
    {"--slow", NULL, &slow_rank, "a rank that takes --ms for each batch"},
    {"--ms", NULL, &slow_ms, "milliseconds"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { COUNT = 256 };

struct state {
  struct ranks ranks;
  struct tape *tape;
  ncclComm_t comm;     /* of sends and receives, */
  cudaStream_t stream; /* and their stream */
  int rank, nranks;
  float *sum, *out, *in; /* in: count for each rank */
  float *ring;           /* what is sent round there, and what comes */
};

static bool is(const char *name) {
  return strcmp(mode, name) == 0;
}

static void add(struct state *state, int epoch, int i) {
  tape_fill(state->tape, ncclFloat, state->sum, COUNT, 1 << state->rank, 1000 * epoch + i + 1);
  CHECK_NCCL(ncclAllReduce(state->sum, state->sum, COUNT, ncclFloat, ncclSum, state->ranks.comms[0],
                           state->ranks.stream));
  tape_read(state->tape, ncclFloat, state->sum, 1, COUNT, "sum %d %d", epoch, i);
}

static void fill(struct state *state, int epoch) {
  tape_fill(state->tape, ncclFloat, state->out, (size_t)count, 100 * (state->rank + 1), epoch + 1);
  if (state->stream != state->ranks.stream)
    CHECK_CUDA(cudaStreamSynchronize(state->ranks.stream));
}

static float *in_from(const struct state *state, int from) {
  return state->in + (size_t)from * (size_t)count;
}

static void read_from(struct state *state, int epoch, int from) {
  tape_read(state->tape, ncclFloat, in_from(state, from), 1, (size_t)count, "got %d %d", epoch,
            from);
}

static void send_to(struct state *state, int to) {
  CHECK_NCCL(ncclSend(state->out, (size_t)count, ncclFloat, to, state->comm, state->stream));
}

static void receive_from(struct state *state, int from) {
  CHECK_NCCL(
      ncclRecv(in_from(state, from), (size_t)count, ncclFloat, from, state->comm, state->stream));
}

static void receive_from_all(struct state *state, int epoch) {
  CHECK_NCCL(ncclGroupStart());
  for (int from = 1; from < state->nranks; from++)
    receive_from(state, from);
  CHECK_NCCL(ncclGroupEnd());
  if (state->stream != state->ranks.stream)
    CHECK_CUDA(cudaStreamSynchronize(state->stream));
  for (int from = 1; from < state->nranks; from++)
    read_from(state, epoch, from);
}

static void gather(struct state *state, int epoch) {
  fill(state, epoch);
  if (state->rank == 0)
    receive_from_all(state, epoch);
  else
    send_to(state, 0);
}

static void scatter(struct state *state, int epoch) {
  fill(state, epoch);
  if (state->rank != 0) {
    receive_from(state, 0);
    read_from(state, epoch, 0);
    return;
  }
  CHECK_NCCL(ncclGroupStart());
  for (int to = 1; to < state->nranks; to++)
    send_to(state, to);
  CHECK_NCCL(ncclGroupEnd());
}

static void take_turns(struct state *state, int epoch) {
  fill(state, epoch);
  if (state->rank != 0)
    send_to(state, 0);
  for (int from = 1; state->rank == 0 && from < state->nranks; from++) {
    receive_from(state, from);
    read_from(state, epoch, from);
  }
}

static void pass_along(struct state *state, int epoch) {
  fill(state, epoch);
  if (state->rank > 0) {
    receive_from(state, state->rank - 1);
    read_from(state, epoch, state->rank - 1);
  }
  if (state->rank + 1 < state->nranks)
    send_to(state, state->rank + 1);
}

static void pass_in_pair(struct state *state, int epoch) {
  int last = state->nranks - 1;
  fill(state, epoch);
  if (state->rank == last)
    send_to(state, last - 1);
  if (state->rank == last - 1) {
    receive_from(state, last);
    read_from(state, epoch, last);
  }
}

/* Of this job. */
static sem_t *open_word(char name[64]) {
  const char *port = getenv("MASTER_PORT");
  snprintf(name, 64, "/behind-%s", port == NULL ? "0" : port);
  sem_t *word = sem_open(name, O_CREAT, 0600, 0);
  if (word == SEM_FAILED) {
    perror("behind: sem_open");
    exit(1);
  }
  return word;
}

static void gather_after_word(struct state *state, int epoch) {
  char name[64];
  sem_t *word = open_word(name);
  if (state->rank == 0)
    sem_wait(word);
  gather(state, epoch);
  if (state->rank == 1)
    sem_post(word);
  sem_close(word);
  if (state->rank == 0 && epoch + 1 == schedule_epochs(iterations))
    sem_unlink(name);
}

static void end_epoch(struct state *state, int epoch) {
  if (is("gather") || (is("later") && state->rank != 0))
    gather(state, epoch);
  else if (is("scatter"))
    scatter(state, epoch);
  else if (is("turns"))
    take_turns(state, epoch);
  else if (is("chain"))
    pass_along(state, epoch);
  else if (is("pair"))
    pass_in_pair(state, epoch);
  else if (is("wait"))
    gather_after_word(state, epoch);
}

static void pass_round(struct state *state, int epoch, int i) {
  int next = (state->rank + 1) % state->nranks;
  int before = (state->rank + state->nranks - 1) % state->nranks;
  float *come = state->ring + COUNT;
  tape_fill(state->tape, ncclFloat, state->ring, COUNT, 100 * (state->rank + 1), i + 1);
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(
      ncclSend(state->ring, COUNT, ncclFloat, next, state->ranks.comms[0], state->ranks.stream));
  CHECK_NCCL(ncclRecv(come, COUNT, ncclFloat, before, state->ranks.comms[0], state->ranks.stream));
  CHECK_NCCL(ncclGroupEnd());
  tape_read(state->tape, ncclFloat, come, 1, COUNT, "in %d %d", epoch, i);
}

static void batch(struct state *state, int epoch, int i) {
  if (state->rank == slow_rank)
    usleep(1000 * (useconds_t)slow_ms);
  if (inside == 1)
    pass_round(state, epoch, i);
  add(state, epoch, i);
  if (inside == 2)
    pass_round(state, epoch, i);
  if (is("later") && state->rank == 0 && i == 0 && epoch > 0)
    gather(state, epoch - 1);
  if (sync_every > 0 && (i + 1) % sync_every == 0)
    tape_play(state->tape);
}

static void evaluate(struct state *state, int epoch) {
  int n = schedule_iterations(evaluations, epoch, state->rank);
  for (int i = 0; i < n; i++) {
    add(state, 100 + epoch, i);
    if (sync_every > 0)
      tape_play(state->tape);
  }
  end_epoch(state, 100 + epoch);
  if (sync_every > 0)
    tape_play(state->tape);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Sends and receives behind a loop of collectives.", options);
  struct state state;
  struct ranks *ranks = &state.ranks;
  ranks_begin(ranks);
  state.comm = ranks_communicator(ranks);
  state.rank = ranks->rank;
  state.nranks = ranks->nranks;
  if (second) {
    CHECK_NCCL(ncclCommSplit(state.comm, 0, state.rank, &ranks->comms[1], NULL));
    ranks->ncomms = 2;
    state.comm = ranks->comms[1];
  }
  state.tape = tape_create(ranks);
  state.stream = ranks->stream;
  if (is("later"))
    CHECK_CUDA(cudaStreamCreateWithFlags(&state.stream, cudaStreamNonBlocking));
  size_t bytes = (size_t)count * sizeof(float);
  CHECK_CUDA(cudaMalloc((void **)&state.sum, COUNT * sizeof(float)));
  CHECK_CUDA(cudaMalloc((void **)&state.out, bytes));
  CHECK_CUDA(cudaMalloc((void **)&state.in, bytes * (size_t)state.nranks));
  CHECK_CUDA(cudaMalloc((void **)&state.ring, 2 * COUNT * sizeof(float)));
  int epochs = schedule_epochs(iterations);
  if (is("later") || is("wait"))
    gather(&state, -1); /* NCCL connects two ranks when both call it for the first time */
  for (int epoch = 0; epoch < epochs; epoch++) {
    int n = schedule_iterations(iterations, epoch, state.rank);
    for (int i = 0; i < n; i++)
      batch(&state, epoch, i);
    end_epoch(&state, epoch);
    if (sync_every > 0)
      tape_play(state.tape);
    if (*evaluations != '\0')
      evaluate(&state, epoch);
    if (meet) {
      add(&state, 200 + epoch, 0);
      tape_play(state.tape);
    }
  }
  if (is("later") && state.rank == 0)
    gather(&state, epochs - 1);
  tape_play(state.tape);
  return ranks_leave(ranks, ending_named(list_item(end, state.rank)));
}
