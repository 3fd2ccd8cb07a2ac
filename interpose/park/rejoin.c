/* Being together again (rejoin.h).
 *
 * Resynchronising is part of the agreed sequence: the last joiner claims its buffers, some at a
 * time, and all others claim the mark that comes after them, and follow. So no rank need know what
 * another has registered.
 */
#include "interpose/park/rejoin.h"

#include <stdlib.h>

#include "core/report/log.h"
#include "hooks/contribution.h"
#include "hooks/plugins.h"
#include "interpose/comm/registered.h"
#include "interpose/park/shadows.h"
#include "interpose/self/environment.h"

/* Buffers of one unit: what a few units hold fits into the texts of a log (core/transport/plane.h).
 */
#define BUFFERS_AT_ONCE 256

/* What one endpoint has yet to claim. */
struct resync {
  struct endpoint *end;
  struct member *buffers; /* of the last joiner; NULL for the others */
  look_t *looks;          /* likewise: who has none of them receives as if it had */
  uint32_t nbuffers, claimed;
  struct member done;
};

/* ---- resynchronising ---- */

/* The last joiner's buffers, as they are now. */
static void take_stock(struct resync *resync) {
  struct endpoint *end = resync->end;
  uint32_t nbuffers;
  struct state_buffer *buffers = state_list(&end->buffers, &nbuffers);
  resync->buffers = buffers == NULL ? NULL : calloc(nbuffers, sizeof *resync->buffers);
  resync->looks = buffers == NULL ? NULL : calloc(nbuffers, sizeof *resync->looks);
  for (uint32_t i = 0; i < nbuffers && resync->buffers != NULL && resync->looks != NULL; i++) {
    struct communicator *comm = endpoint_communicator(end, buffers[i].comm);
    if (comm == NULL || comm->unfit != NULL || !shadows_has(end, &buffers[i]))
      continue;
    struct member *member = &resync->buffers[resync->nbuffers];
    *member = (struct member){
        .count = buffers[i].count,
        .comm = buffers[i].comm,
        .root = communicator_rank_of(comm, end->team->plane->rank),
        .reduction = REDUCTION_NONE,
        .kind = MEMBER_STATE,
        .datatype = buffers[i].datatype,
        .number = buffers[i].number,
    };
    unsigned look =
        registered_look(comm, buffers[i].address, member->count * contribution_fill(member).size);
    resync->looks[resync->nbuffers++] = look_of(look, look, true);
  }
  free(buffers);
}

/* The last joiner's buffers, then, as for all others, the mark. */
static bool next_state(struct request *request) {
  struct resync *resync = request->next_context;
  uint32_t left = resync->nbuffers - resync->claimed;
  if (unit_mark(request->unit) != MARK_NONE)
    return false;
  if (left > BUFFERS_AT_ONCE)
    left = BUFFERS_AT_ONCE;
  if (left > 0)
    request->unit = (struct unit){resync->buffers + resync->claimed, left};
  else
    request->unit = (struct unit){&resync->done, 1};
  request->looks = left > 0 ? resync->looks + resync->claimed : NULL;
  resync->claimed += left;
  return true;
}

static struct request begin_resync(struct resync *resync, struct endpoint *end) {
  *resync = (struct resync){.end = end, .done = mark_member(MARK_STATE_DONE)};
  /* What is in stock now must be there when it is issued. */
  state_hold(&end->buffers);
  if (atomic_load(&end->last_joiner) == end->team->plane->rank)
    take_stock(resync);
  struct request request = {.end = end, .next = next_state, .next_context = resync};
  next_state(&request);
  return request;
}

static void say_resynchronised(const struct endpoint *end, uint32_t nbuffers) {
  if (atomic_load(&end->last_joiner) == end->team->plane->rank)
    log_line_of(endpoint_subject(end), LOG_LEVEL_INFO,
                "rank %u, whose data lasted longest: %u buffers of it are all ranks' now",
                end->team->plane->rank, nbuffers);
}

/* All endpoints of this thread at once: they may be each other's peers. */
static ncclResult_t rejoin_resynchronise(const struct request *rejoins, uint32_t nrejoins) {
  struct resync *resyncs = calloc(nrejoins, sizeof *resyncs);
  struct request *requests = calloc(nrejoins, sizeof *requests);
  uint32_t nrequests = 0;
  ncclResult_t result = ncclSuccess;
  if (resyncs == NULL || requests == NULL) {
    log_line(LOG_LEVEL_ERROR,
             "out of memory for a resynchronisation: ncclSystemError. Leave the process more "
             "host memory");
    result = ncclSystemError;
  }
  for (uint32_t i = 0; i < nrejoins && result == ncclSuccess; i++)
    if (rejoins[i].resync) {
      requests[nrequests] = begin_resync(&resyncs[nrequests], rejoins[i].end);
      nrequests++;
    }
  if (nrequests > 0)
    wait_until_settled(requests, nrequests);
  for (uint32_t i = 0; i < nrequests; i++) {
    ncclResult_t of_one =
        requests[i].result != ncclSuccess ? requests[i].result : requests[i].notice;
    result = result == ncclSuccess ? of_one : result;
    if (of_one == ncclSuccess)
      say_resynchronised(requests[i].end, resyncs[i].nbuffers);
    state_release(&requests[i].end->buffers);
    free(resyncs[i].buffers);
    free(resyncs[i].looks);
  }
  free(requests);
  free(resyncs);
  return result;
}

/* ---- post hooks ---- */

static ncclResult_t call_post_hooks(const struct request *request, bool was_last) {
  const struct endpoint *end = request->end;
  const struct communicator *comm = endpoint_eldest(end);
  if (comm == NULL)
    return ncclSuccess;
  const ncclJoinReunion_v1_t rejoin = {
      .comm = comm->handle,
      .rank = comm->rank,
      .nRanks = comm->nranks,
      .lastJoiner = communicator_rank_of(comm, atomic_load(&end->last_joiner)),
      .isLastJoiner = was_last,
      .index = request->index,
  };
  return plugins_post(&rejoin);
}

/* ---- */

/* Asked before anything else is issued: the sequence goes on. */
static bool note_rejoin(struct endpoint *end) {
  uint32_t last = team_last_joiner(end->team);
  atomic_store(&end->last_joiner, last);
  log_line_of(endpoint_subject(end), LOG_LEVEL_INFO,
              "all ranks are together again; the data of rank %u lasted longest", last);
  if (join_settings()->resync == RESYNC_BROADCASTS && state_is_empty(&end->buffers))
    log_once_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "NCCL_JOIN_RESYNC=broadcasts, but the program has broadcast nothing before its first "
        "other collective: nothing is resynchronised. Register the buffers (nccl_join.h)");
  return team_was_last(end->team);
}

ncclResult_t rejoin_complete(const struct request *requests, uint32_t nrequests) {
  uint32_t rejoins = 0, resyncs = 0;
  for (uint32_t i = 0; i < nrequests; i++) {
    rejoins += requests[i].rejoin;
    resyncs += requests[i].resync;
  }
  if (rejoins == 0)
    return ncclSuccess;
  bool *was_last = calloc(nrequests, sizeof *was_last);
  if (was_last == NULL)
    return ncclSystemError;
  for (uint32_t i = 0; i < nrequests; i++)
    if (requests[i].rejoin)
      was_last[i] = note_rejoin(requests[i].end);
  ncclResult_t result = resyncs > 0 ? rejoin_resynchronise(requests, nrequests) : ncclSuccess;
  for (uint32_t i = 0; i < nrequests && result == ncclSuccess; i++)
    if (requests[i].rejoin)
      result = call_post_hooks(&requests[i], was_last[i]);
  free(was_last);
  return result;
}
