/* Agreeing on calls and issuing them, team by team (issue.h). */
#include "interpose/calls/issue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/calls/births.h"
#include "interpose/calls/capture.h"
#include "interpose/calls/posts.h"
#include "interpose/calls/startup.h"
#include "interpose/comm/registered.h"
#include "interpose/data/divisors.h"
#include "interpose/data/lossy.h"
#include "interpose/data/roots.h"
#include "interpose/nccl/real.h"
#include "interpose/park/transaction.h"

/* The calls of a group, sorted by team: what each team has to agree on. */
struct agreement {
  struct wish *wishes;
  uint32_t nwishes;
  struct member *members; /* of all wishes, one after the other */
  look_t *looks;          /* likewise */
  uint32_t *wish_of;      /* by call; none: not part of a unit */
  enum fate *fates;       /* by call: of sends and receives */
  size_t room;            /* calls that all of them have room for */
  bool alone;             /* one call that stands in no group */
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

/* What a thread has kept goes with it: calls outside of groups come here, too. */
static void free_kept(void *unused) {
  (void)unused;
  agreement_free(&kept);
  kept = (struct agreement){0};
}
static pthread_key_t thread_end;
static pthread_once_t thread_end_made = PTHREAD_ONCE_INIT;

static void make_thread_end(void) {
  pthread_key_create(&thread_end, free_kept);
}

static bool agreement_take(struct agreement *agreement, size_t ncalls) {
  *agreement = kept;
  kept = (struct agreement){0};
  agreement->nwishes = 0;
  agreement->alone = false;
  if (agreement->room >= ncalls) {
    memset(agreement->fates, 0, ncalls * sizeof(*agreement->fates));
    return true;
  }
  agreement_free(agreement);
  pthread_once(&thread_end_made, make_thread_end);
  pthread_setspecific(thread_end, &kept);
  *agreement = (struct agreement){
      .wishes = calloc(ncalls, sizeof(struct wish)),
      .members = calloc(ncalls, sizeof(struct member)),
      .looks = calloc(ncalls, sizeof(look_t)),
      .wish_of = calloc(ncalls, sizeof(uint32_t)),
      .fates = calloc(ncalls, sizeof(enum fate)),
      .room = ncalls,
  };
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
    if (member_elects_root((uint8_t)calls[i].kind))
      rooted = roots_apply(&calls[i], wish->unit, wish->index);
    if (rooted == ncclRemoteError)
      return rooted;
    ncclResult_t divided = divisors_apply(&calls[i], wish->index, &issue);
    if (!issue)
      wish->result = divided;
    result = transaction_worse(result, transaction_worse(rooted, divided));
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
  if (agreement->alone)
    return is_to_be_issued(agreement, part, 0) ? call_issue(calls) : ncclSuccess;
  struct births births = {0};
  ncclResult_t result = expect_births(&births, agreement, part, calls, ncalls);
  bool open = result == ncclSuccess && (result = real.GroupStart()) == ncclSuccess;
  for (size_t i = 0; open && i < ncalls; i++)
    if (is_to_be_issued(agreement, part, i))
      result = transaction_worse(result, call_issue(&calls[i]));
  if (open)
    result = transaction_worse(result, real.GroupEnd());
  births_end(&births, result);
  return result;
}

static ncclResult_t issue_agreed(const struct agreement *agreement, const struct part *part,
                                 struct call *calls, size_t ncalls) {
  ncclResult_t refused = ncclSuccess;
  bool agreed = part->first == part->end;
  for (uint32_t i = part->first; i < part->end; i++) {
    refused = transaction_worse(
        refused, transaction_worse(agreement->wishes[i].result, agreement->wishes[i].notice));
    remember(agreement, i, calls, ncalls);
    agreed |= agreement->wishes[i].result == ncclSuccess;
  }
  /* Nor are sends and receives, which the peer's group has too. */
  if (!agreed && is_stopped(agreement, part))
    return refused;
  ncclResult_t settled = settle_calls(agreement, part, calls, ncalls);
  refused = transaction_worse(refused, settled);
  if (settled != ncclRemoteError && part->last)
    refused = transaction_worse(refused, posts_make(calls, ncalls, agreement->fates));
  ncclResult_t result = ncclSuccess;
  if (settled != ncclRemoteError)
    result = issue_part(agreement, part, calls, ncalls);
  for (size_t i = 0; i < ncalls; i++)
    divisors_done(&calls[i]);
  return transaction_worse(refused, result);
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

/* ---- agreed and issued ---- */

/* One part, in its transaction. */
struct issue {
  const struct agreement *agreement;
  struct part part;
  struct call *calls;
  size_t ncalls;
};

static ncclResult_t issue_in_turn(void *context) {
  const struct issue *issue = context;
  ncclResult_t result = issue_agreed(issue->agreement, &issue->part, issue->calls, issue->ncalls);
  watch_startup(issue->agreement, &issue->part, issue->calls, issue->ncalls);
  return result;
}

/* A rank that has been stopped wishes nothing more. */
static ncclResult_t issue_parts(const struct agreement *agreement, struct call *calls,
                                size_t ncalls) {
  ncclResult_t result = ncclSuccess;
  struct issue issue = {.agreement = agreement, .calls = calls, .ncalls = ncalls};
  do {
    issue.part = next_part(agreement, issue.part.end);
    struct transaction transaction = {
        .kind = TRANSACTION_CALL,
        .wishes = agreement->wishes + issue.part.first,
        .nwishes = issue.part.end - issue.part.first,
        .issue = issue_in_turn,
        .context = &issue,
    };
    result = transaction_worse(result, transaction_make(&transaction));
  } while (!issue.part.last && !is_stopped(agreement, &issue.part));
  return result;
}

ncclResult_t issue_group(struct call *calls, size_t ncalls, uint32_t place) {
  struct agreement agreement;
  if (!agreement_take(&agreement, ncalls)) {
    log_line(LOG_LEVEL_ERROR, "out of memory in a group of %zu calls", ncalls);
    return ncclSystemError;
  }
  sort_calls(&agreement, calls, ncalls, place);
  ncclResult_t result = issue_parts(&agreement, calls, ncalls);
  agreement_keep(&agreement);
  return result;
}

ncclResult_t issue_alone(struct call *call, struct communicator *comm,
                         const struct member *member) {
  look_t look = registered_look_of(comm, call, member);
  struct wish wish = {
      .end = comm->end, .unit = {member, 1}, .stream = call->stream, .looks = &look};
  uint32_t wish_of = 0;
  enum fate fate = FATE_UNDECIDED;
  const struct agreement agreement = {
      .wishes = &wish, .nwishes = 1, .wish_of = &wish_of, .fates = &fate, .alone = true};
  return issue_parts(&agreement, call, 1);
}
