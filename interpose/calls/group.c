/* Held-back calls and their agreement (group.h). */
#include "interpose/calls/group.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/park/answer.h"
#include "interpose/comm/registered.h"
#include "interpose/comm/apart.h"
#include "interpose/calls/capture.h"
#include "interpose/calls/children.h"
#include "interpose/data/divisors.h"
#include "interpose/calls/handlers.h"
#include "interpose/comm/hot.h"
#include "interpose/data/lossy.h"
#include "interpose/places/places.h"
#include "interpose/calls/posts.h"
#include "interpose/exits/process.h"
#include "interpose/nccl/real.h"
#include "interpose/park/reunion.h"
#include "interpose/data/roots.h"
#include "interpose/calls/startup.h"

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
static void free_kept(void *unused);
static pthread_key_t thread_end;
static pthread_once_t thread_end_made = PTHREAD_ONCE_INIT;

static void make_thread_end(void) {
  pthread_key_create(&thread_end, free_kept);
}

static void keep_until_thread_ends(void) {
  pthread_once(&thread_end_made, make_thread_end);
  pthread_setspecific(thread_end, &group);
}

static void *grown(void *array, size_t count, size_t *room, size_t size) {
  if (count < *room)
    return array;
  size_t more = *room == 0 ? 16 : 2 * *room;
  void *new = realloc(array, more * size);
  keep_until_thread_ends();
  if (new != NULL)
    *room = more;
  return new;
}

bool group_grow(void) {
  size_t room = group_calls.room;
  struct call *calls = grown(group_calls.calls, group_calls.count, &room, sizeof(*calls));
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
  if (made && group.nexpected > 0)
    process_watch_exit();
  group.nexpected = 0;
  return result;
}

/* The calls of a group, sorted by team: what each team has to agree on. */
struct agreement {
  struct wish *wishes;
  uint32_t nwishes;
  struct member *members; /* of all wishes, one after the other */
  look_t *looks;          /* likewise */
  uint32_t *wish_of;      /* by call; none: not part of a unit */
  enum fate *fates;       /* by call: of sends and receives */
  size_t room;            /* calls that all of them have room for */
};
#define NO_WISH UINT32_MAX

/* Kept for the thread's next group. Empty while in use: a callback of the program could open a
 * group on this thread. */
static _Thread_local struct agreement kept;

static void agreement_free(struct agreement *agreement) {
  free(agreement->wishes);
  free(agreement->members);
  free(agreement->looks);
  free(agreement->wish_of);
  free(agreement->fates);
}

static void free_kept(void *unused) {
  (void)unused;
  free(group_calls.calls);
  free(group.expected);
  agreement_free(&kept);
  group_calls = (struct group_calls){0};
  group = (struct group){0};
  kept = (struct agreement){0};
}

static bool agreement_take(struct agreement *agreement, size_t ncalls) {
  *agreement = kept;
  kept = (struct agreement){0};
  agreement->nwishes = 0;
  if (agreement->room >= ncalls) {
    memset(agreement->fates, 0, ncalls * sizeof(*agreement->fates));
    return true;
  }
  agreement_free(agreement);
  *agreement = (struct agreement){
      .wishes = calloc(ncalls, sizeof(struct wish)),
      .members = calloc(ncalls, sizeof(struct member)),
      .looks = calloc(ncalls, sizeof(look_t)),
      .wish_of = calloc(ncalls, sizeof(uint32_t)),
      .fates = calloc(ncalls, sizeof(enum fate)),
      .room = ncalls,
  };
  keep_until_thread_ends();
  if (agreement->wishes != NULL && agreement->members != NULL && agreement->looks != NULL &&
      agreement->wish_of != NULL && agreement->fates != NULL)
    return true;
  agreement_free(agreement);
  return false;
}

static void agreement_keep(struct agreement *agreement) {
  agreement_free(&kept);
  kept = *agreement;
}

static uint32_t wish_for(struct agreement *agreement, struct endpoint *end) {
  for (uint32_t i = 0; i < agreement->nwishes; i++)
    if (agreement->wishes[i].end == end)
      return i;
  agreement->wishes[agreement->nwishes] = (struct wish){.end = end};
  return agreement->nwishes++;
}

/* Puts the wishes of one team next to each other, and teams in an order that is the same on all
 * ranks. */
static void sort_wishes(struct agreement *agreement, size_t ncalls) {
  for (uint32_t at = 0; at < agreement->nwishes; at++) {
    uint32_t least = at;
    for (uint32_t i = at + 1; i < agreement->nwishes; i++)
      if (agreement->wishes[i].end->tag < agreement->wishes[least].end->tag)
        least = i;
    if (least == at)
      continue;
    struct wish wish = agreement->wishes[at];
    agreement->wishes[at] = agreement->wishes[least];
    agreement->wishes[least] = wish;
    for (size_t i = 0; i < ncalls; i++)
      if (agreement->wish_of[i] == at || agreement->wish_of[i] == least)
        agreement->wish_of[i] = agreement->wish_of[i] == at ? least : at;
  }
}

static void sort_call(struct agreement *agreement, const struct call *call, struct member *member) {
  struct communicator *comm = communicator_find(call->handle);
  call_member(call, comm, member);
  agreement->looks[member - agreement->members] = registered_look_of(comm, call, member);
}

/* Calls of a communicator without a team, and with count 0, go as they are; for sends and receives
 * see posts.h. */
static void sort_calls(struct agreement *agreement, const struct call *calls, size_t ncalls,
                       uint32_t place) {
  bool ask = true;
  for (size_t i = 0; i < ncalls; i++) {
    struct communicator *comm = communicator_find(calls[i].handle);
    struct member member;
    agreement->wish_of[i] = NO_WISH;
    if (comm != NULL && capture_takes(&calls[i], comm, ask)) {
      agreement->fates[i] = FATE_POSTED; /* nor are peers told */
      continue;
    }
    /* NCCL takes no group of which a part is captured: one answer is good for all. */
    ask = ask && calls[i].kind == MEMBER_SPLIT;
    if (comm != NULL && call_member(&calls[i], comm, &member)) {
      agreement->wish_of[i] = wish_for(agreement, comm->end);
      struct wish *wish = &agreement->wishes[agreement->wish_of[i]];
      if (wish->unit.nmembers++ == 0)
        wish->stream = calls[i].stream;
    }
  }
  sort_wishes(agreement, ncalls);
  struct member *next = agreement->members;
  for (uint32_t wish = 0; wish < agreement->nwishes; wish++) {
    agreement->wishes[wish].unit.members = next;
    agreement->wishes[wish].looks = agreement->looks + (next - agreement->members);
    for (size_t i = 0; i < ncalls; i++)
      if (agreement->wish_of[i] == wish)
        sort_call(agreement, &calls[i], next++);
    call_stands_at(next - agreement->wishes[wish].unit.nmembers, place);
  }
}

static __attribute__((noinline)) ncclResult_t worse(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess && a != ncclInProgress ? a : b != ncclSuccess ? b : a;
}

/* The part of a group that is agreed on and issued together: what it has for one team. A rank that
 * has left may have to shadow that alone, and could not wait for the rest, as NCCL may block until
 * all ranks have issued it. What needs no agreement goes with the last part. */
struct part {
  uint32_t first, end; /* of the wishes */
  bool last;
};

static struct part next_part(const struct agreement *agreement, uint32_t first) {
  struct part part = {.first = first, .end = first};
  while (part.end < agreement->nwishes &&
         agreement->wishes[part.end].end->tag == agreement->wishes[first].end->tag)
    part.end++;
  part.last = part.end == agreement->nwishes;
  return part;
}

static bool is_to_be_issued(const struct agreement *agreement, const struct part *part,
                            size_t call) {
  uint32_t wish = agreement->wish_of[call];
  if (wish == NO_WISH)
    return part->last && agreement->fates[call] != FATE_REFUSED;
  return wish >= part->first && wish < part->end && agreement->wishes[wish].result == ncclSuccess;
}

/* What the calls of a wish send from, where that is remembered. */
static void remember(const struct agreement *agreement, uint32_t wish, const struct call *calls,
                     size_t ncalls) {
  const struct wish *of = &agreement->wishes[wish];
  if (of->end->sent == NULL || of->result != ncclSuccess)
    return;
  struct lossy_member member = {.end = of->end, .unit = of->unit, .hash = unit_signature(of->unit)};
  for (size_t i = 0; i < ncalls; i++) {
    if (agreement->wish_of[i] != wish)
      continue;
    member.comm = communicator_find(calls[i].handle);
    lossy_remember(&member, calls[i].send);
    member.place++;
  }
}

/* All ranks stop instead of issuing the part (core/team/team_stop.h). */
static bool is_stopped(const struct agreement *agreement, const struct part *part) {
  for (uint32_t i = part->first; i < part->end; i++)
    if (agreement->wishes[i].stopped)
      return true;
  return false;
}

/* Roots and divisors: what takes the place of what the program has said, once it is known who is
 * active. Before the real group is opened, for it may have to wait. A unit of which one call cannot
 * be issued is not issued. */
static ncclResult_t settle_calls(const struct agreement *agreement, const struct part *part,
                                 struct call *calls, size_t ncalls) {
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < ncalls; i++) {
    uint32_t at = agreement->wish_of[i];
    if (at == NO_WISH || !is_to_be_issued(agreement, part, i))
      continue;
    struct wish *wish = &agreement->wishes[at];
    bool issue = true;
    ncclResult_t rooted = ncclSuccess;
    if (calls[i].kind == MEMBER_BROADCAST)
      rooted = roots_apply(&calls[i], wish->unit, wish->index);
    if (rooted == ncclRemoteError)
      return rooted;
    ncclResult_t divided = divisors_apply(&calls[i], wish->index, &issue);
    if (!issue)
      wish->result = divided;
    result = worse(result, worse(rooted, divided));
  }
  return result;
}

static ncclResult_t expect_births(struct births *births, const struct agreement *agreement,
                                  const struct part *part, const struct call *calls,
                                  size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++)
    if (calls[i].kind == MEMBER_SPLIT && agreement->wish_of[i] != NO_WISH &&
        is_to_be_issued(agreement, part, i) && !births_expect(births, &calls[i]))
      return ncclSystemError;
  return ncclSuccess;
}

/* The calls themselves; children are expected of those that split. */
static ncclResult_t issue_part(const struct agreement *agreement, const struct part *part,
                               struct call *calls, size_t ncalls) {
  struct births births = {0};
  ncclResult_t result = expect_births(&births, agreement, part, calls, ncalls);
  bool open = result == ncclSuccess && (result = real.GroupStart()) == ncclSuccess;
  for (size_t i = 0; open && i < ncalls; i++)
    if (is_to_be_issued(agreement, part, i))
      result = worse(result, call_issue(&calls[i]));
  if (open)
    result = worse(result, real.GroupEnd());
  births_end(&births, result);
  return result;
}

static ncclResult_t issue_agreed(const struct agreement *agreement, const struct part *part,
                                 struct call *calls, size_t ncalls) {
  ncclResult_t refused = ncclSuccess;
  bool agreed = part->first == part->end;
  for (uint32_t i = part->first; i < part->end; i++) {
    refused = worse(refused, worse(agreement->wishes[i].result, agreement->wishes[i].notice));
    remember(agreement, i, calls, ncalls);
    agreed |= agreement->wishes[i].result == ncclSuccess;
  }
  /* Nor are sends and receives, which the peer's group has too. */
  if (!agreed && is_stopped(agreement, part))
    return refused;
  ncclResult_t settled = settle_calls(agreement, part, calls, ncalls);
  refused = worse(refused, settled);
  if (settled != ncclRemoteError && part->last)
    refused = worse(refused, posts_make(calls, ncalls, agreement->fates));
  ncclResult_t result = ncclSuccess;
  if (settled != ncclRemoteError)
    result = issue_part(agreement, part, calls, ncalls);
  for (size_t i = 0; i < ncalls; i++)
    divisors_done(&calls[i]);
  return worse(refused, result);
}

/* The calls of each unit that has been issued. */
static void watch_startup(const struct agreement *agreement, const struct part *part,
                          const struct call *calls, size_t ncalls) {
  for (uint32_t wish = part->first; wish < part->end; wish++) {
    const struct wish *of = &agreement->wishes[wish];
    if (of->result != ncclSuccess || !startup_is_watched(of->end))
      continue;
    const struct call **in_unit = calloc(ncalls, sizeof(struct call *));
    uint32_t n = 0;
    for (size_t i = 0; i < ncalls && in_unit != NULL; i++)
      if (agreement->wish_of[i] == wish)
        in_unit[n++] = &calls[i];
    if (in_unit != NULL)
      startup_issued(of, in_unit);
    free(in_unit);
  }
}

/* In the order of addresses, so that two threads whose groups overlap do not wait for each other.
 */
static void enter_all(const struct agreement *agreement, const struct part *part) {
  const struct endpoint *last = NULL;
  for (uint32_t entered = part->first; entered < part->end; entered++) {
    const struct wish *next = NULL;
    for (uint32_t i = part->first; i < part->end; i++) {
      const struct wish *wish = &agreement->wishes[i];
      if (wish->end > last && (next == NULL || wish->end < next->end))
        next = wish;
    }
    apart_enter(next->end, next->unit.members[0].comm);
    last = next->end;
  }
}

static ncclResult_t agree_and_issue(struct call *calls, size_t ncalls, uint32_t place) {
  struct agreement agreement;
  if (!agreement_take(&agreement, ncalls)) {
    log_line(LOG_LEVEL_ERROR, "out of memory in a group of %zu calls", ncalls);
    return ncclSystemError;
  }
  sort_calls(&agreement, calls, ncalls, place);
  ncclResult_t result = ncclSuccess;
  struct part part = {0};
  /* A rank that has been stopped wishes nothing more. */
  do {
    part = next_part(&agreement, part.end);
    enter_all(&agreement, &part);
    answer(agreement.wishes + part.first, part.end - part.first);
    result = worse(result, issue_agreed(&agreement, &part, calls, ncalls));
    watch_startup(&agreement, &part, calls, ncalls);
    result = worse(result, reunion_hold(agreement.wishes + part.first, part.end - part.first));
    for (uint32_t i = part.first; i < part.end; i++)
      endpoint_exit(agreement.wishes[i].end);
  } while (!part.last && !is_stopped(&agreement, &part));
  for (uint32_t i = 0; i < agreement.nwishes; i++)
    for (struct communicator *comm = agreement.wishes[i].end->comms; comm != NULL;
         comm = comm->next_in_team)
      hot_remember(comm);
  agreement_keep(&agreement);
  return result;
}

ncclResult_t group_issue_alone(struct call *call) {
  return agree_and_issue(call, 1, places_here());
}

/* ---- groups that are hot ---- */

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
      const struct communicator *comm = hot_place(call->handle)->comm;
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

/* As hot_commit, for a whole group. */
static bool commits(const struct call *calls, uint32_t ncalls, uint32_t place) {
  struct communicator *comm;
  struct seat *seat;
  struct team *team;
  if (!hot_begin(calls[0].handle, &comm, &seat, &team))
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
      result = worse(result, issued);
  }
  return worse(result, real.GroupEnd());
}

ncclResult_t join_GroupStart(void) {
  guard_thread.groups++;
  return ncclSuccess;
}

/* What is not hot: communicators made or ended in the group, and calls to be agreed on. */
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
  result = worse(result, agree_and_issue(held.calls, ncalls, place));
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
  if (!calls_only || !commits(group_calls.calls, ncalls, place))
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
  return worse(result, real.GroupSimulateEnd(simInfo));
}
