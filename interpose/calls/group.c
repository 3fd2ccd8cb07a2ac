/* Held-back calls, and the ends of groups (group.h). */
#include "interpose/calls/group.h"

#include <stdlib.h>

#include "interpose/calls/child_communicators.h"
#include "interpose/calls/handlers.h"
#include "interpose/calls/issue.h"
#include "interpose/comm/fast_path.h"
#include "interpose/calls/rounds.h"
#include "interpose/places/places.h"
#include "interpose/exits/process.h"
#include "interpose/nccl/real.h"
#include "interpose/park/transaction.h"
#include "interpose/self/thread.h"

struct expected {
  struct arrival arrival;
  ncclComm_t *handle;
};

struct group {
  bool real_open;
  uint64_t driver;
  struct expected *expected;
  size_t nexpected, expected_room;
  bool out_of_memory;
};
static _Thread_local struct group group;
_Thread_local struct group_calls group_calls;

/* What a thread has kept goes with it. */
static void group_release(void) {
  free(group_calls.calls);
  free(group.expected);
  group_calls = (struct group_calls){0};
  group = (struct group){0};
}

static void *group_grown(void *array, size_t count, size_t *room, size_t size) {
  if (count < *room)
    return array;
  size_t more = *room == 0 ? 16 : 2 * *room;
  void *new = realloc(array, more * size);
  thread_at_end(group_release);
  if (new != NULL)
    *room = more;
  return new;
}

bool group_grow(void) {
  size_t room = group_calls.room;
  struct call *calls = group_grown(group_calls.calls, group_calls.count, &room, sizeof(*calls));
  if (calls == NULL) {
    group.out_of_memory = true;
    return false;
  }
  group_calls.calls = calls;
  group_calls.room = (uint32_t)room;
  return true;
}

ncclResult_t group_open_real(void) {
  if (group.real_open)
    return ncclSuccess;
  ncclResult_t result = real.GroupStart();
  group.real_open = result == ncclSuccess;
  return result;
}

void group_expect(const struct arrival *arrival, ncclComm_t *handle) {
  struct expected *expected =
      group_grown(group.expected, group.nexpected, &group.expected_room, sizeof(*expected));
  if (expected == NULL) {
    struct arrival gone = *arrival;
    communicator_depart(&gone);
    return;
  }
  group.expected = expected;
  group.expected[group.nexpected++] = (struct expected){*arrival, handle};
}

uint64_t group_driver(void) {
  if (group.driver == 0)
    group.driver = communicator_new_driver();
  return group.driver;
}

/* ---- the end of a group ---- */

/* Communicators first, as NCCL does. */
static ncclResult_t end_real(void) {
  if (!group.real_open)
    return ncclSuccess;
  group.real_open = false;
  ncclResult_t result = real.GroupEnd();
  ncclResult_t ended = result;
  for (size_t i = 0; i < group.nexpected; i++) {
    struct expected *expected = &group.expected[i];
    ncclResult_t created = communicator_created(&expected->arrival, expected->handle, ended);
    bool made = created == ncclSuccess || created == ncclInProgress;
    if (made && *expected->handle != NULL)
      communicator_add(&expected->arrival, *expected->handle, group_driver());
    else
      communicator_depart(&expected->arrival);
    if (made)
      process_watch_exit();
    else
      result = created;
  }
  group.nexpected = 0;
  return result;
}

/* ---- groups on the fast path ---- */

/* Whether the calls are the unit that is expected in a team. */
static bool is_expected(const struct endpoint *end, const struct call *calls, uint32_t ncalls,
                        uint32_t place) {
  const struct known_unit *expected = *end->team->expected;
  const struct member *member = expected->members;
  ncclComm_t handle = NULL;
  uint32_t tag = 0;
  if (expected->nmembers != ncalls || member->number != place)
    return false;
  for (const struct call *call = calls; call < calls + ncalls; call++, member++) {
    if (call->handle != handle) {
      const struct communicator *comm = fast_path_place(call->handle)->comm;
      if (comm == NULL || call->handle != comm->handle || comm->end != end)
        return false;
      handle = comm->handle;
      tag = comm->tag;
    }
    if (member->kind != call->kind || member->count != call->count ||
        member->datatype != (unsigned)call->datatype || member->reduction != call->reduction ||
        member->root != call->root || member->comm != tag)
      return false;
  }
  return true;
}

/* As fast_path_commit, for a whole group. */
static bool group_commits(const struct call *calls, uint32_t ncalls, uint32_t place) {
  struct communicator *comm;
  struct seat *seat;
  struct team *team;
  if (!fast_path_begin(calls[0].handle, &comm, &seat, &team))
    return false;
  if (*team->expected == &team_nothing)
    team_look_further(team);
  bool agreed = !team_must_attend(team) && is_expected(comm->end, calls, ncalls, place) &&
                team_commit_expected(team);
  if (agreed && team_is_awaited(team))
    team_published(team);
  endpoint_end_commit(seat);
  return agreed;
}

static ncclResult_t issue_all(const struct call *calls, uint32_t ncalls) {
  ncclResult_t result = real.GroupStart();
  if (result != ncclSuccess)
    return result;
  for (const struct call *call = calls; call < calls + ncalls; call++) {
    ncclResult_t issued = call_issue(call);
    if (issued != ncclSuccess)
      result = transaction_worse(result, issued);
  }
  return transaction_worse(result, real.GroupEnd());
}

ncclResult_t join_GroupStart(void) {
  guard_thread.groups++;
  return ncclSuccess;
}

/* What does not take the fast path: communicators made or ended in the group, and calls to be
 * agreed on. */
static __attribute__((noinline)) ncclResult_t end_slowly(uint32_t place) {
  uint32_t ncalls = group_calls.count;
  bool empty = !group.real_open && ncalls == 0 && !group.out_of_memory;
  if (empty && real.GroupStart() == ncclSuccess)
    return real.GroupEnd();
  group_calls.count = 0;
  group_calls.long_way = false;
  ncclResult_t result = end_real();
  group.driver = 0;
  bool failed = result != ncclSuccess && result != ncclInProgress;
  if (group.out_of_memory)
    failed = true, result = ncclSystemError;
  group.out_of_memory = false;
  if (failed || ncalls == 0) {
    splits_release(group_calls.calls, ncalls);
    return result;
  }
  /* The array is ours while we may be parked: a callback of the program could open a group on this
   * thread. */
  struct group_calls held = group_calls;
  group_calls = (struct group_calls){0};
  result = transaction_worse(result, issue_group(held.calls, ncalls, place));
  splits_release(held.calls, ncalls);
  free(group_calls.calls);
  group_calls = (struct group_calls){held.calls, 0, held.room, false};
  return result;
}

ncclResult_t join_GroupEnd(void) {
  if (guard_thread.groups == 0)
    return real.GroupEnd();
  if (--guard_thread.groups > 0)
    return ncclSuccess;
  uint32_t ncalls = group_calls.count, place = ncalls > 0 ? places_here() : 0;
  bool calls_only = ncalls > 0 && !group_calls.long_way && !group.real_open && !group.out_of_memory;
  /* Of its communicators the first one stands for all. */
  bool due = calls_only && places_may_say_rounds() && rounds_are_due(group_calls.calls[0].handle);
  if (!calls_only || due || !group_commits(group_calls.calls, ncalls, place))
    return end_slowly(place);
  group_calls.count = 0;
  group.driver = 0;
  return issue_all(group_calls.calls, ncalls);
}

ncclResult_t join_GroupSimulateEnd(ncclSimInfo_t *simInfo) {
  if (guard_thread.groups == 0)
    return real.GroupSimulateEnd(simInfo);
  if (--guard_thread.groups > 0)
    return ncclSuccess;
  ncclResult_t result = group_open_real();
  for (size_t i = 0; i < group_calls.count && result == ncclSuccess; i++)
    result = call_issue(&group_calls.calls[i]);
  splits_release(group_calls.calls, group_calls.count);
  group_calls.count = 0;
  group_calls.long_way = false;
  group.real_open = false;
  group.driver = 0;
  return transaction_worse(result, real.GroupSimulateEnd(simInfo));
}
