/* Annotations (hooks/include/nccl_join.h): the functions for programs, exported by name,
 * found with dlsym. Each is a call like one of NCCL's: with the guard raised, and on communicators
 * that are passed through it does nothing.
 */
#include <stdlib.h>

#include "core/report/log.h"
#include "hooks/include/nccl_join.h"
#include "interpose/self/environment.h"
#include "interpose/calls/group.h"
#include "interpose/comm/fast_path.h"
#include "interpose/exits/leaving.h"
#include "interpose/comm/clock.h"
#include "interpose/park/transaction.h"

#define EXPORTED __attribute__((visibility("default")))

/* Found by name only: there are no declarations but these. */
EXPORTED ncclResult_t ncclJoinGetVersion(int *version);
EXPORTED ncclResult_t ncclJoinLeave(ncclComm_t comm);
EXPORTED ncclResult_t ncclJoinEnter(ncclComm_t comm);
EXPORTED ncclResult_t ncclJoinLastJoiner(ncclComm_t comm, int *rank);
EXPORTED ncclResult_t ncclJoinActiveRanks(ncclComm_t comm, int *count, int *ranks);
EXPORTED ncclResult_t ncclJoinRegisterState(ncclComm_t comm, void *buffer, size_t count,
                                            ncclDataType_t datatype);
EXPORTED ncclResult_t ncclJoinDeregisterState(ncclComm_t comm, void *buffer);

/* ---- every call ---- */

/* What the call is about: *comm is NULL if there is nothing to do for it, as for communicators of
 * one rank, and those made in ways that nccl-join passes through. */
static ncclResult_t api_begin(ncclComm_t handle, const char *function, struct communicator **comm) {
  *comm = NULL;
  if (handle == NULL) {
    log_line(LOG_LEVEL_WARN, "%s: the communicator is NULL", function);
    return ncclInvalidArgument;
  }
  *comm = communicator_find(handle);
  return ncclSuccess;
}

static ncclResult_t begin_in_turn(ncclComm_t handle, const char *function,
                                  struct communicator **comm) {
  *comm = NULL;
  if (group_is_open()) {
    log_line(LOG_LEVEL_WARN, "%s must not be called between ncclGroupStart and ncclGroupEnd",
             function);
    return ncclInvalidUsage;
  }
  ncclResult_t result = api_begin(handle, function, comm);
  if (*comm == NULL || !(*comm)->left)
    return result;
  log_line_of(communicator_subject(*comm), LOG_LEVEL_WARN,
              "%s: communicator %08x has been finalized", function, (*comm)->tag);
  *comm = NULL;
  return ncclInvalidUsage;
}

/* The calling thread's calls are acted on: it is not inside of NCCL, nor nccl-join off. */
static bool api_enter(void) {
  if (!guard_acts())
    return false;
  guard_raise();
  return true;
}

static ncclResult_t api_leave(ncclResult_t result) {
  guard_lower();
  return result;
}

/* ---- marks ---- */

/* One thread drives several ranks: its first call speaks for all of them, and those of the others
 * have been made by then. */
static uint32_t requests_for(struct communicator *comm, struct request *requests,
                             const struct member *mark) {
  uint32_t nrequests = 0;
  for (struct communicator *other = communicator_first(); other != NULL; other = other->next) {
    bool known = false;
    if (!leaves_with(comm, other))
      continue;
    if (other != comm)
      other->marks_made++;
    for (uint32_t i = 0; i < nrequests; i++)
      known |= requests[i].end == other->end;
    if (!known)
      requests[nrequests++] = (struct request){.end = other->end, .unit = {mark, 1}};
  }
  return nrequests;
}

static ncclResult_t say_together(struct request *requests, uint32_t nrequests) {
  struct transaction transaction = {
      .kind = TRANSACTION_MARK, .requests = requests, .nrequests = nrequests};
  ncclResult_t together = transaction_make(&transaction);
  return transaction_worse(transaction_result(&transaction), together);
}

static ncclResult_t api_say(ncclComm_t handle, enum mark mark, const char *function) {
  struct communicator *comm;
  if (!api_enter())
    return ncclSuccess;
  ncclResult_t result = begin_in_turn(handle, function, &comm);
  if (comm == NULL)
    return api_leave(result);
  if (comm->marks_made > 0) {
    comm->marks_made--;
    return api_leave(ncclSuccess);
  }
  struct member member = mark_member(mark);
  uint32_t count = 0;
  for (struct communicator *other = communicator_first(); other != NULL; other = other->next)
    count++;
  struct request *requests = calloc(count + 1, sizeof *requests);
  if (requests == NULL)
    return api_leave(ncclSystemError);
  result = say_together(requests, requests_for(comm, requests, &member));
  free(requests);
  fast_path_remember(comm);
  return api_leave(result);
}

ncclResult_t ncclJoinLeave(ncclComm_t comm) {
  return api_say(comm, MARK_LOOP_END, "ncclJoinLeave");
}

ncclResult_t ncclJoinEnter(ncclComm_t comm) {
  return api_say(comm, MARK_LOOP_BEGIN, "ncclJoinEnter");
}

/* ---- questions ---- */

static ncclResult_t refuse_null(const char *function, const char *what) {
  log_line(LOG_LEVEL_WARN, "%s: %s is NULL", function, what);
  return ncclInvalidArgument;
}

ncclResult_t ncclJoinGetVersion(int *version) {
  if (version == NULL)
    return refuse_null("ncclJoinGetVersion", "version");
  *version = NCCL_JOIN_API;
  return ncclSuccess;
}

ncclResult_t ncclJoinLastJoiner(ncclComm_t handle, int *rank) {
  struct communicator *comm;
  if (!api_enter())
    return ncclSuccess;
  if (rank == NULL)
    return api_leave(refuse_null("ncclJoinLastJoiner", "rank"));
  ncclResult_t result = api_begin(handle, "ncclJoinLastJoiner", &comm);
  if (comm != NULL)
    *rank = communicator_rank_of(comm, atomic_load(&comm->end->last_joiner));
  return api_leave(result);
}

/* Who issued the last unit for real; all, if there is none yet. */
static ncclResult_t ask_who_is_active(struct endpoint *end, bool *active) {
  uint64_t deadline_ms = now_ms() + join_settings()->timeout_s * 1000, passed = end->team->head;
  uint64_t looked_ms = 0;
  enum team_verdict verdict = TEAM_REAL;
  for (uint32_t rank = 0; rank < end->team->plane->nranks; rank++)
    active[rank] = true;
  while (passed > 0 && (verdict = team_active(end->team, passed - 1, active)) == TEAM_PARKED &&
         now_ms() < deadline_ms && !atomic_load(&end->broken)) {
    team_wait_others(end->team, passed - 1, WAIT_ALONE_MS);
    team_look_for_the_dead(end->team);
    deadline_ms += clock_stopped(&looked_ms, now_ms());
  }
  if (verdict == TEAM_REAL)
    return ncclSuccess;
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "rank %u asks which ranks are active, but not all ranks have come to collective %llu: "
      "one has failed, or NCCL_JOIN_TIMEOUT=%llu s has passed; ncclRemoteError",
      end->team->plane->rank, (unsigned long long)(passed - 1),
      (unsigned long long)join_settings()->timeout_s);
  return ncclRemoteError;
}

static ncclResult_t list_active(const struct communicator *comm, int *count, int *ranks) {
  struct endpoint *end = comm->end;
  bool *active = calloc(end->team->plane->nranks, sizeof *active);
  if (active == NULL)
    return ncclSystemError;
  endpoint_enter(end);
  ncclResult_t result = ask_who_is_active(end, active);
  endpoint_exit(end);
  int found = 0;
  for (int rank = 0; rank < comm->nranks && result == ncclSuccess; rank++) {
    if (!active[comm->team_rank_of[rank]])
      continue;
    if (ranks != NULL)
      ranks[found] = rank;
    found++;
  }
  if (result == ncclSuccess)
    *count = found;
  free(active);
  return result;
}

ncclResult_t ncclJoinActiveRanks(ncclComm_t handle, int *count, int *ranks) {
  struct communicator *comm;
  if (!api_enter())
    return ncclSuccess;
  if (count == NULL)
    return api_leave(refuse_null("ncclJoinActiveRanks", "count"));
  ncclResult_t result = begin_in_turn(handle, "ncclJoinActiveRanks", &comm);
  if (comm != NULL)
    result = list_active(comm, count, ranks);
  if (comm != NULL)
    fast_path_remember(comm);
  return api_leave(result);
}

/* ---- buffers ---- */

static ncclResult_t register_state(struct communicator *comm, void *buffer, size_t count,
                                   ncclDataType_t datatype) {
  char reason[REASON_SIZE] = "";
  const struct cuda_driver *cuda = cuda_driver_get(reason);
  struct state_buffer added = {.address = buffer,
                               .count = count,
                               .comm = comm->tag,
                               .number = atomic_fetch_add(&comm->states, 1),
                               .datatype = (uint8_t)datatype};
  if (cuda != NULL && (unsigned)datatype <= UINT8_MAX &&
      state_add(&comm->end->buffers, cuda, comm->device, added, reason))
    return ncclSuccess;
  log_line_of(communicator_subject(comm), LOG_LEVEL_WARN, "ncclJoinRegisterState: %s", reason);
  return ncclInvalidArgument;
}

ncclResult_t ncclJoinRegisterState(ncclComm_t handle, void *buffer, size_t count,
                                   ncclDataType_t datatype) {
  struct communicator *comm;
  if (!api_enter())
    return ncclSuccess;
  if (buffer == NULL)
    return api_leave(refuse_null("ncclJoinRegisterState", "buffer"));
  ncclResult_t result = api_begin(handle, "ncclJoinRegisterState", &comm);
  if (comm != NULL)
    result = register_state(comm, buffer, count, datatype);
  return api_leave(result);
}

ncclResult_t ncclJoinDeregisterState(ncclComm_t handle, void *buffer) {
  struct communicator *comm;
  if (!api_enter())
    return ncclSuccess;
  ncclResult_t result = api_begin(handle, "ncclJoinDeregisterState", &comm);
  if (comm != NULL && !state_remove(&comm->end->buffers, comm->tag, buffer)) {
    log_line_of(communicator_subject(comm), LOG_LEVEL_WARN,
                "ncclJoinDeregisterState: %p is not registered on communicator %08x", buffer,
                comm->tag);
    result = ncclInvalidArgument;
  }
  return api_leave(result);
}
