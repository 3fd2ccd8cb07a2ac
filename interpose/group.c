/* Held-back calls and their agreement (group.h). */
#include "interpose/group.h"

#include <stdlib.h>

#include "core/log.h"
#include "interpose/answer.h"
#include "interpose/handlers.h"
#include "interpose/real.h"
#include "interpose/roots.h"

struct expected {
  struct arrival arrival;
  ncclComm_t *handle;
};

struct group {
  bool real_open;
  uint64_t driver;
  struct call *calls;
  size_t ncalls, room;
  struct expected *expected;
  size_t nexpected, expected_room;
  bool out_of_memory;
};
static _Thread_local struct group group;

static void *grown(void *array, size_t count, size_t *room, size_t size) {
  if (count < *room)
    return array;
  size_t more = *room == 0 ? 16 : 2 * *room;
  void *new = realloc(array, more * size);
  if (new != NULL)
    *room = more;
  return new;
}

ncclResult_t group_hold(const struct call *call) {
  struct call *calls = grown(group.calls, group.ncalls, &group.room, sizeof(*calls));
  if (calls == NULL) {
    group.out_of_memory = true;
    return ncclSystemError;
  }
  group.calls = calls;
  group.calls[group.ncalls++] = *call;
  return ncclSuccess;
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
      grown(group.expected, group.nexpected, &group.expected_room, sizeof(*expected));
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
  bool made = result == ncclSuccess || result == ncclInProgress;
  for (size_t i = 0; i < group.nexpected; i++) {
    struct expected *expected = &group.expected[i];
    if (made && *expected->handle != NULL)
      communicator_add(&expected->arrival, *expected->handle, group_driver());
    else
      communicator_depart(&expected->arrival);
  }
  group.nexpected = 0;
  return result;
}

/* The calls of a group, sorted by team: what each team has to agree on. */
struct agreement {
  struct wish *wishes;
  uint32_t nwishes;
  struct member *members; /* of all wishes, one after the other */
  uint32_t *wish_of;      /* by call; none: not part of a unit */
};
#define NO_WISH UINT32_MAX

static uint32_t wish_for(struct agreement *agreement, struct endpoint *end) {
  for (uint32_t i = 0; i < agreement->nwishes; i++)
    if (agreement->wishes[i].end == end)
      return i;
  agreement->wishes[agreement->nwishes] = (struct wish){.end = end};
  return agreement->nwishes++;
}

/* Calls of a communicator without a team, with count 0, and point to point go as they are. */
static void sort_calls(struct agreement *agreement, const struct call *calls, size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++) {
    struct communicator *comm = communicator_find(calls[i].handle);
    struct member member;
    agreement->wish_of[i] = NO_WISH;
    if (comm != NULL && call_member(&calls[i], comm, &member)) {
      agreement->wish_of[i] = wish_for(agreement, comm->end);
      agreement->wishes[agreement->wish_of[i]].unit.nmembers++;
    }
  }
  struct member *next = agreement->members;
  for (uint32_t wish = 0; wish < agreement->nwishes; wish++) {
    agreement->wishes[wish].unit.members = next;
    for (size_t i = 0; i < ncalls; i++)
      if (agreement->wish_of[i] == wish)
        call_member(&calls[i], communicator_find(calls[i].handle), next++);
  }
}

static ncclResult_t worse(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess && a != ncclInProgress ? a : b != ncclSuccess ? b : a;
}

static bool is_to_be_issued(const struct agreement *agreement, size_t call) {
  uint32_t wish = agreement->wish_of[call];
  return wish == NO_WISH || agreement->wishes[wish].result == ncclSuccess;
}

static ncclResult_t issue_agreed(const struct agreement *agreement, struct call *calls,
                                 size_t ncalls) {
  ncclResult_t refused = ncclSuccess;
  for (uint32_t i = 0; i < agreement->nwishes; i++)
    refused = worse(refused, worse(agreement->wishes[i].result, agreement->wishes[i].notice));
  /* Before the real group is opened: it may have to wait for a root. */
  for (size_t i = 0; i < ncalls; i++) {
    uint32_t wish = agreement->wish_of[i];
    if (calls[i].kind == MEMBER_BROADCAST && wish != NO_WISH && is_to_be_issued(agreement, i) &&
        !roots_apply(&calls[i], agreement->wishes[wish].index))
      return ncclRemoteError;
  }
  ncclResult_t result = real.GroupStart();
  if (result != ncclSuccess)
    return result;
  for (size_t i = 0; i < ncalls; i++)
    if (is_to_be_issued(agreement, i))
      result = worse(result, call_issue(&calls[i]));
  return worse(refused, worse(result, real.GroupEnd()));
}

/* In the order of addresses, so that two threads whose groups overlap do not wait for each other.
 */
static void enter_all(const struct agreement *agreement) {
  const struct endpoint *last = NULL;
  for (uint32_t entered = 0; entered < agreement->nwishes; entered++) {
    struct endpoint *next = NULL;
    for (uint32_t i = 0; i < agreement->nwishes; i++) {
      struct endpoint *end = agreement->wishes[i].end;
      if (end > last && (next == NULL || end < next))
        next = end;
    }
    endpoint_enter(next);
    atomic_store(&next->user, endpoint_this_thread());
    last = next;
  }
}

static ncclResult_t agree_and_issue(struct call *calls, size_t ncalls) {
  struct agreement agreement = {
      .wishes = calloc(ncalls, sizeof(struct wish)),
      .members = calloc(ncalls, sizeof(struct member)),
      .wish_of = calloc(ncalls, sizeof(uint32_t)),
  };
  ncclResult_t result = ncclSystemError;
  if (agreement.wishes != NULL && agreement.members != NULL && agreement.wish_of != NULL) {
    sort_calls(&agreement, calls, ncalls);
    enter_all(&agreement);
    answer(agreement.wishes, agreement.nwishes);
    result = issue_agreed(&agreement, calls, ncalls);
    for (uint32_t i = 0; i < agreement.nwishes; i++)
      endpoint_exit(agreement.wishes[i].end);
  } else {
    log_line(LOG_LEVEL_ERROR, "out of memory in a group of %zu calls", ncalls);
  }
  free(agreement.wishes);
  free(agreement.members);
  free(agreement.wish_of);
  return result;
}

ncclResult_t join_GroupStart(void) {
  guard_thread.groups++;
  return ncclSuccess;
}

ncclResult_t join_GroupEnd(void) {
  if (guard_thread.groups == 0)
    return real.GroupEnd();
  if (--guard_thread.groups > 0)
    return ncclSuccess;
  bool empty = !group.real_open && group.ncalls == 0;
  if (empty && real.GroupStart() == ncclSuccess)
    return real.GroupEnd();
  size_t ncalls = group.ncalls;
  group.ncalls = 0;
  ncclResult_t result = end_real();
  group.driver = 0;
  bool failed = result != ncclSuccess && result != ncclInProgress;
  if (group.out_of_memory)
    failed = true, result = ncclSystemError;
  group.out_of_memory = false;
  if (!failed && ncalls > 0) {
    /* The array is ours while we may be parked: a callback of the program could open a group on
     * this thread. */
    struct call *calls = group.calls;
    size_t room = group.room;
    group.calls = NULL;
    group.room = 0;
    result = worse(result, agree_and_issue(calls, ncalls));
    free(group.calls);
    group.calls = calls;
    group.room = room;
  }
  return result;
}

ncclResult_t join_GroupSimulateEnd(ncclSimInfo_t *simInfo) {
  if (guard_thread.groups == 0)
    return real.GroupSimulateEnd(simInfo);
  if (--guard_thread.groups > 0)
    return ncclSuccess;
  ncclResult_t result = group_open_real();
  for (size_t i = 0; i < group.ncalls && result == ncclSuccess; i++)
    result = call_issue(&group.calls[i]);
  group.ncalls = 0;
  group.real_open = false;
  group.driver = 0;
  return worse(result, real.GroupSimulateEnd(simInfo));
}
