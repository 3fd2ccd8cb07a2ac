/* Collectives whose buffers are each rank's own choice: where they begin, in place or not, of which
 * memory. NCCL lets ranks differ in all of this. Counts are everybody's, and may be 0.
 *
 * In a loop with an all-reduce before, or with it in one group. Rank r contributes 2^r to what is
 * reduced and 100 (r + 1) to what is not, and iteration + 1.
 *
 * Results: "sum <iteration>", "<collective> <iteration>" with what has been received.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRADIENTS = 96 };

static const char *iterations = "3+1", *name = "all_reduce", *offsets = "0", *places = "apart",
                  *kinds = "device";
static int count = 64, group = 0, policy = -1, least = 0, most = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--collective", &name, NULL,
     "all_reduce, reduce, broadcast (both with root 0), reduce_scatter, all_gather, exchange"},
    {"--count", NULL, &count, "elements of a rank's part"},
    {"--offset", &offsets, NULL, "elements in front of a rank's buffers: 0,1,3"},
    {"--place", &places, NULL, "of a rank's buffers: in (place; never of an exchange), or apart"},
    {"--memory", &kinds, NULL, "of a rank's buffers: device, managed, host or async"},
    {"--group", NULL, &group, "1: both collectives of an iteration are one group"},
    {"--policy", NULL, &policy, "the communicator's CTAPolicy; -1: NCCL's default"},
    {"--least", NULL, &least, "its minCTAs; 0: likewise"},
    {"--most", NULL, &most, "its maxCTAs; 0: likewise"},
    {0},
};

struct state {
  struct ranks ranks;
  ncclComm_t comm;
  struct tape *tape;
  float *gradients, *send, *receive;
  bool in_place;
};

static ncclResult_t all_reduce(const struct state *state) {
  return ncclAllReduce(state->send, state->receive, (size_t)count, ncclFloat, ncclSum, state->comm,
                       state->ranks.stream);
}

static ncclResult_t reduce(const struct state *state) {
  return ncclReduce(state->send, state->receive, (size_t)count, ncclFloat, ncclSum, 0, state->comm,
                    state->ranks.stream);
}

static ncclResult_t broadcast(const struct state *state) {
  return ncclBroadcast(state->send, state->receive, (size_t)count, ncclFloat, 0, state->comm,
                       state->ranks.stream);
}

static ncclResult_t reduce_scatter(const struct state *state) {
  return ncclReduceScatter(state->send, state->receive, (size_t)count, ncclFloat, ncclSum,
                           state->comm, state->ranks.stream);
}

static ncclResult_t all_gather(const struct state *state) {
  return ncclAllGather(state->send, state->receive, (size_t)count, ncclFloat, state->comm,
                       state->ranks.stream);
}

static ncclResult_t exchange(const struct state *state) {
  const struct ranks *ranks = &state->ranks;
  CHECK_NCCL(ncclGroupStart());
  for (int peer = 0; peer < ranks->nranks; peer++) {
    size_t at = (size_t)(peer * count);
    CHECK_NCCL(
        ncclSend(state->send + at, (size_t)count, ncclFloat, peer, state->comm, ranks->stream));
    CHECK_NCCL(
        ncclRecv(state->receive + at, (size_t)count, ncclFloat, peer, state->comm, ranks->stream));
  }
  return ncclGroupEnd();
}

static const struct collective {
  const char *name;
  ncclResult_t (*issue)(const struct state *state);
  bool reduces;
  bool sends_all, receives_all; /* a part for each rank */
} collectives[] = {
    {"all_reduce", all_reduce, true, false, false},
    {"reduce", reduce, true, false, false},
    {"broadcast", broadcast, false, false, false},
    {"reduce_scatter", reduce_scatter, true, true, false},
    {"all_gather", all_gather, false, false, true},
    {"exchange", exchange, false, true, true},
};
static const struct collective *collective;

/* ---- buffers ---- */

static float *new_memory(const struct ranks *ranks, size_t elements) {
  const char *kind = list_item(kinds, ranks->rank);
  size_t size = elements * sizeof(float);
  void *memory = NULL;
  if (strcmp(kind, "device") == 0)
    CHECK_CUDA(cudaMalloc(&memory, size));
  else if (strcmp(kind, "managed") == 0)
    CHECK_CUDA(cudaMallocManaged(&memory, size, cudaMemAttachGlobal));
  else if (strcmp(kind, "host") == 0)
    CHECK_CUDA(cudaMallocHost(&memory, size));
  else if (strcmp(kind, "async") == 0)
    CHECK_CUDA(cudaMallocAsync(&memory, size, ranks->stream));
  else {
    fprintf(stderr, "no kind of memory is called %s\n", kind);
    exit(2);
  }
  return memory;
}

/* In place is what NCCL's guide calls so: a rank's part of the longer buffer is its shorter one. */
static void make_buffers(struct state *state) {
  const struct ranks *ranks = &state->ranks;
  size_t offset = strtoul(list_item(offsets, ranks->rank), NULL, 10),
         all = (size_t)(ranks->nranks * count), own = (size_t)(ranks->rank * count);
  state->gradients = new_memory(ranks, offset + GRADIENTS);
  state->gradients += offset;
  bool may_be = !(collective->sends_all && collective->receives_all);
  state->in_place = may_be && strcmp(list_item(places, ranks->rank), "in") == 0;
  state->send = state->receive = new_memory(ranks, offset + 2 * all + 1) + offset;
  if (!state->in_place)
    state->receive += all + 1;
  else if (collective->sends_all)
    state->receive += own;
  else if (collective->receives_all)
    state->send += own;
}

/* ---- the loop ---- */

/* What only the root sends, the others have where they receive: one of them may become the root. */
static void fill(const struct state *state, int i) {
  int rank = state->ranks.rank;
  float *from = rank > 0 && strcmp(name, "broadcast") == 0 ? state->receive : state->send;
  for (int part = 0; part < (collective->sends_all ? state->ranks.nranks : 1); part++)
    tape_fill(state->tape, ncclFloat, from + (size_t)(part * count), (size_t)count,
              collective->reduces ? 1 << rank : 100 * (rank + 1), i + 1);
}

static void read_result(const struct state *state, int i) {
  bool nothing = count == 0 || (strcmp(name, "reduce") == 0 && state->ranks.rank != 0);
  if (!nothing)
    tape_read(state->tape, ncclFloat, state->receive,
              collective->receives_all ? (size_t)state->ranks.nranks : 1, (size_t)count, "%s %d",
              name, i);
}

static void iterate(const struct state *state, int i) {
  if (!state->in_place)
    tape_clear(state->tape, state->receive, (size_t)count * sizeof(float));
  fill(state, i);
  tape_fill(state->tape, ncclFloat, state->gradients, GRADIENTS, 1 << state->ranks.rank, i + 1);
  if (group)
    CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclAllReduce(state->gradients, state->gradients, GRADIENTS, ncclFloat, ncclSum,
                           state->comm, state->ranks.stream));
  CHECK_NCCL(collective->issue(state));
  if (group)
    CHECK_NCCL(ncclGroupEnd());
  tape_read(state->tape, ncclFloat, state->gradients, 1, GRADIENTS, "sum %d", i);
  read_result(state, i);
  tape_play(state->tape);
}

/* A communicator of all ranks with the configuration that has been asked for. */
static ncclComm_t new_communicator(struct ranks *ranks) {
  ncclComm_t comm = ranks_communicator(ranks);
  if (policy < 0 && least == 0 && most == 0)
    return comm;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  if (policy >= 0)
    config.CTAPolicy = policy;
#endif
  if (least > 0)
    config.minCTAs = least;
  if (most > 0)
    config.maxCTAs = most;
  CHECK_NCCL(ncclCommSplit(comm, 0, ranks->rank, &ranks->comms[ranks->ncomms], &config));
  return ranks->comms[ranks->ncomms++];
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Collectives with buffers of each rank's own choice.", options);
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    if (strcmp(collectives[i].name, name) == 0)
      collective = &collectives[i];
  if (collective == NULL) {
    fprintf(stderr, "no collective is called %s\n", name);
    return 2;
  }
  static struct state state;
  ranks_begin(&state.ranks);
  state.comm = new_communicator(&state.ranks);
  state.tape = tape_create(&state.ranks);
  make_buffers(&state);
  for (int i = 0; i < schedule_iterations(iterations, 0, state.ranks.rank); i++)
    iterate(&state, i);
  return ranks_leave(&state.ranks, ENDING_FINALIZE);
}
