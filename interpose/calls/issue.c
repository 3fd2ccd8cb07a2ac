/* Agreeing on calls and issuing them, team by team (issue.h). */
#include "interpose/calls/issue.h"

#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/calls/child_communicators.h"
#include "interpose/calls/capture.h"
#include "interpose/calls/point_to_point.h"
#include "interpose/calls/rounds.h"
#include "interpose/comm/registered.h"
#include "interpose/data/divisors.h"
#include "interpose/data/lossy.h"
#include "interpose/data/roots.h"
#include "interpose/nccl/real.h"
#include "interpose/park/transaction.h"
#include "interpose/self/thread.h"

/* The calls of a group, sorted by team: what each team has to agree on. */
struct agreement {
  struct request *requests;
  uint32_t nrequests;
  struct member *members; /* of all requests, one after the other */
  look_t *looks;          /* likewise */
  uint32_t *request_of;   /* by call; none: not part of a unit */
  enum fate *fates;       /* by call: of sends and receives */
  size_t *call_of;        /* by post: see struct exchange */
  size_t room;            /* calls that all of them have room for */
  bool alone;             /* one call that stands in no group */
  uint32_t place;         /* of the group */
};
#define NO_REQUEST UINT32_MAX

/* Kept for the thread's next group. Empty while in use: a callback of the program could open a
 * group on this thread. */
static _Thread_local struct agreement kept;

static void agreement_free(struct agreement *agreement) {
  free(agreement->requests);
  free(agreement->members);
  free(agreement->looks);
  free(agreement->request_of);
  free(agreement->fates);
  free(agreement->call_of);
}

/* What a thread has kept goes with it: calls outside of groups come here, too. */
static void agreement_release(void) {
  agreement_free(&kept);
  kept = (struct agreement){0};
}

static bool agreement_take(struct agreement *agreement, size_t ncalls) {
  *agreement = kept;
  kept = (struct agreement){0};
  agreement->nrequests = 0;
  agreement->alone = false;
  if (agreement->room >= ncalls) {
    memset(agreement->fates, 0, ncalls * sizeof(*agreement->fates));
    return true;
  }
  agreement_free(agreement);
  thread_at_end(agreement_release);
  *agreement = (struct agreement){
      .requests = calloc(ncalls, sizeof(struct request)),
      .members = calloc(ncalls, sizeof(struct member)),
      .looks = calloc(ncalls, sizeof(look_t)),
      .request_of = calloc(ncalls, sizeof(uint32_t)),
      .fates = calloc(ncalls, sizeof(enum fate)),
      .call_of = calloc(ncalls, sizeof(size_t)),
      .room = ncalls,
  };
  if (agreement->requests != NULL && agreement->members != NULL && agreement->looks != NULL &&
      agreement->request_of != NULL && agreement->fates != NULL && agreement->call_of != NULL)
    return true;
  agreement_free(agreement);
  return false;
}

static void agreement_keep(struct agreement *agreement) {
  agreement_free(&kept);
  kept = *agreement;
}

static uint32_t request_for(struct agreement *agreement, struct endpoint *end) {
  for (uint32_t i = 0; i < agreement->nrequests; i++)
    if (agreement->requests[i].end == end)
      return i;
  agreement->requests[agreement->nrequests] = (struct request){.end = end};
  return agreement->nrequests++;
}

/* Puts the requests of one team next to each other, and teams in an order that is the same on all
 * ranks. */
static void sort_requests(struct agreement *agreement, size_t ncalls) {
  for (uint32_t at = 0; at < agreement->nrequests; at++) {
    uint32_t least = at;
    for (uint32_t i = at + 1; i < agreement->nrequests; i++)
      if (agreement->requests[i].end->tag < agreement->requests[least].end->tag)
        least = i;
    if (least == at)
      continue;
    struct request request = agreement->requests[at];
    agreement->requests[at] = agreement->requests[least];
    agreement->requests[least] = request;
    for (size_t i = 0; i < ncalls; i++)
      if (agreement->request_of[i] == at || agreement->request_of[i] == least)
        agreement->request_of[i] = agreement->request_of[i] == at ? least : at;
  }
}

static void sort_call(struct agreement *agreement, const struct call *call, struct member *member) {
  struct communicator *comm = communicator_find(call->handle);
  call_member(call, comm, member);
  agreement->looks[member - agreement->members] = registered_look_of(comm, call, member);
}

/* Calls of a communicator without a team, and with count 0, go as they are; for sends and receives
 * see point_to_point.h. */
static void sort_calls(struct agreement *agreement, const struct call *calls, size_t ncalls,
                       uint32_t place) {
  bool ask = true;
  for (size_t i = 0; i < ncalls; i++) {
    struct communicator *comm = communicator_find(calls[i].handle);
    struct member member;
    agreement->request_of[i] = NO_REQUEST;
    if (comm != NULL && capture_takes(&calls[i], comm, ask)) {
      agreement->fates[i] = FATE_POSTED; /* nor are peers told */
      continue;
    }
    /* NCCL takes no group of which a part is captured: one answer is good for all. */
    ask = ask && calls[i].kind == MEMBER_SPLIT;
    if (comm != NULL && call_member(&calls[i], comm, &member)) {
      agreement->request_of[i] = request_for(agreement, comm->end);
      struct request *request = &agreement->requests[agreement->request_of[i]];
      if (request->unit.nmembers++ == 0)
        request->stream = calls[i].stream;
    }
  }
  sort_requests(agreement, ncalls);
  struct member *next = agreement->members;
  for (uint32_t request = 0; request < agreement->nrequests; request++) {
    agreement->requests[request].unit.members = next;
    agreement->requests[request].looks = agreement->looks + (next - agreement->members);
    for (size_t i = 0; i < ncalls; i++)
      if (agreement->request_of[i] == request)
        sort_call(agreement, &calls[i], next++);
    call_stands_at(next - agreement->requests[request].unit.nmembers, place);
  }
}

/* The part of a group that is agreed on and issued together: what it has for one team. A rank that
 * has left may have to shadow that alone, and could not wait for the rest, as NCCL may block until
 * all ranks have issued it. What needs no agreement goes with the last part. */
struct part {
  uint32_t first, end; /* of the requests */
  bool last;
};

static struct part next_part(const struct agreement *agreement, uint32_t first) {
  struct part part = {.first = first, .end = first};
  while (part.end < agreement->nrequests &&
         agreement->requests[part.end].end->tag == agreement->requests[first].end->tag)
    part.end++;
  part.last = part.end == agreement->nrequests;
  return part;
}

static bool is_to_be_issued(const struct agreement *agreement, const struct part *part,
                            size_t call) {
  uint32_t request = agreement->request_of[call];
  if (request == NO_REQUEST)
    return part->last && agreement->fates[call] != FATE_REFUSED;
  return request >= part->first && request < part->end &&
         agreement->requests[request].result == ncclSuccess;
}

/* What the calls of a request send from, where that is remembered. */
static void issue_remember(const struct agreement *agreement, uint32_t request,
                           const struct call *calls, size_t ncalls) {
  const struct request *of = &agreement->requests[request];
  if (of->end->sent == NULL || of->result != ncclSuccess)
    return;
  struct lossy_member member = {.end = of->end, .unit = of->unit, .hash = unit_signature(of->unit)};
  for (size_t i = 0; i < ncalls; i++) {
    if (agreement->request_of[i] != request)
      continue;
    member.comm = communicator_find(calls[i].handle);
    lossy_remember(&member, calls[i].send);
    member.position++;
  }
}

/* All ranks stop instead of issuing the part (core/team/team_stop.h). */
static bool is_stopped(const struct agreement *agreement, const struct part *part) {
  for (uint32_t i = part->first; i < part->end; i++)
    if (agreement->requests[i].stopped)
      return true;
  return false;
}

/* Roots and divisors: what takes the place of what the program has said, once it is known who is
 * active. Before the real group is opened, for it may have to wait. A unit of which one call cannot
 * be issued is not issued. False: nothing is to be, since a rank is gone. *result: what the program
 * must be given. */
static bool settle_calls(const struct agreement *agreement, const struct part *part,
                         struct call *calls, size_t ncalls, ncclResult_t *result) {
  *result = ncclSuccess;
  for (size_t i = 0; i < ncalls; i++) {
    uint32_t at = agreement->request_of[i];
    if (at == NO_REQUEST || !is_to_be_issued(agreement, part, i))
      continue;
    struct request *request = &agreement->requests[at];
    bool issue = true;
    if (member_elects_root((uint8_t)calls[i].kind))
      *result =
          transaction_worse(*result, roots_apply(&calls[i], request->unit, request->index, &issue));
    if (!issue)
      return false;
    ncclResult_t divided = divisors_apply(&calls[i], request->index, &issue);
    if (!issue)
      request->result = divided;
    *result = transaction_worse(*result, divided);
    if (divided == ncclRemoteError)
      return false;
  }
  return true;
}

static ncclResult_t expect_children(struct children *children, const struct agreement *agreement,
                                    const struct part *part, const struct call *calls,
                                    size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++)
    if (calls[i].kind == MEMBER_SPLIT && agreement->request_of[i] != NO_REQUEST &&
        is_to_be_issued(agreement, part, i) && !children_expect(children, &calls[i]))
      return ncclSystemError;
  return ncclSuccess;
}

/* The calls themselves; children are expected of those that split. */
static ncclResult_t issue_part(const struct agreement *agreement, const struct part *part,
                               struct call *calls, size_t ncalls) {
  if (agreement->alone)
    return is_to_be_issued(agreement, part, 0) ? call_issue(calls) : ncclSuccess;
  struct children children = {0};
  ncclResult_t result = expect_children(&children, agreement, part, calls, ncalls);
  bool open = result == ncclSuccess && (result = real.GroupStart()) == ncclSuccess;
  for (size_t i = 0; open && i < ncalls; i++)
    if (is_to_be_issued(agreement, part, i))
      result = transaction_worse(result, call_issue(&calls[i]));
  if (open)
    result = transaction_worse(result, real.GroupEnd());
  children_end(&children, result);
  return result;
}

/* The request of a group that is an exchange; NULL: it is none. */
static const struct request *agreement_exchange(const struct agreement *agreement) {
  return agreement->nrequests == 1 && agreement->requests->posts != NULL ? agreement->requests
                                                                         : NULL;
}

static ncclResult_t issue_agreed(const struct agreement *agreement, const struct part *part,
                                 struct call *calls, size_t ncalls) {
  ncclResult_t refused = ncclSuccess;
  bool agreed = part->first == part->end;
  const struct request *exchange = agreement_exchange(agreement);
  for (uint32_t i = part->first; i < part->end; i++) {
    refused = transaction_worse(
        refused, transaction_worse(agreement->requests[i].result, agreement->requests[i].notice));
    issue_remember(agreement, i, calls, ncalls);
    agreed |= agreement->requests[i].result == ncclSuccess;
  }
  /* Nor are sends and receives, which the peer's group has too. */
  if (!agreed && (is_stopped(agreement, part) || exchange != NULL))
    return refused;
  ncclResult_t settled, result = ncclSuccess;
  bool issue = settle_calls(agreement, part, calls, ncalls, &settled);
  refused = transaction_worse(refused, settled);
  if (issue && part->last)
    refused = transaction_worse(
        refused, point_to_point_post(calls, ncalls, agreement->fates, agreement->place,
                                     exchange != NULL && !exchange->outside));
  if (issue)
    result = issue_part(agreement, part, calls, ncalls);
  for (size_t i = 0; i < ncalls; i++)
    divisors_done(&calls[i]);
  return transaction_worse(refused, result);
}

/* The calls of each unit that has been issued. */
static void watch_startup(const struct agreement *agreement, const struct part *part,
                          const struct call *calls, size_t ncalls) {
  for (uint32_t request = part->first; request < part->end; request++) {
    const struct request *of = &agreement->requests[request];
    if (of->result != ncclSuccess || !startup_is_watched(of->end))
      continue;
    const struct call **in_unit = calloc(ncalls, sizeof(struct call *));
    uint32_t n = 0;
    for (size_t i = 0; i < ncalls && in_unit != NULL; i++)
      if (agreement->request_of[i] == request)
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

/* A rank that has been stopped requests nothing more. */
static ncclResult_t issue_parts(const struct agreement *agreement, struct call *calls,
                                size_t ncalls) {
  ncclResult_t result = ncclSuccess;
  struct issue issue = {.agreement = agreement, .calls = calls, .ncalls = ncalls};
  do {
    issue.part = next_part(agreement, issue.part.end);
    struct transaction transaction = {
        .kind = TRANSACTION_CALL,
        .requests = agreement->requests + issue.part.first,
        .nrequests = issue.part.end - issue.part.first,
        .issue = issue_in_turn,
        .context = &issue,
    };
    result = transaction_worse(result, transaction_make(&transaction));
  } while (!issue.part.last && !is_stopped(agreement, &issue.part));
  return result;
}

static bool is_refused(const struct call *calls, size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++)
    if (communicator_find(calls[i].handle) == NULL && communicator_is_refused(calls[i].handle))
      return true;
  return false;
}

ncclResult_t issue_group(struct call *calls, size_t ncalls, uint32_t place) {
  struct agreement agreement;
  if (is_refused(calls, ncalls))
    return ncclInvalidUsage;
  if (!agreement_take(&agreement, ncalls)) {
    log_line(LOG_LEVEL_ERROR,
             "out of memory in a group of %zu calls: ncclSystemError. Leave the process more host "
             "memory",
             ncalls);
    return ncclSystemError;
  }
  agreement.place = place;
  ncclResult_t begun = rounds_begin(calls, ncalls);
  if (begun != ncclSuccess) {
    agreement_keep(&agreement);
    return begun;
  }
  sort_calls(&agreement, calls, ncalls, place);
  struct exchange exchange;
  ncclResult_t refused = ncclSuccess;
  if (agreement.nrequests == 0 && agreement.fates[0] == FATE_UNDECIDED &&
      point_to_point_exchanges(&exchange, calls, ncalls, place, agreement.members,
                               agreement.call_of)) {
    refused = point_to_point_begin(&exchange, agreement.fates);
    agreement.requests[agreement.nrequests++] = (struct request){.end = exchange.comm->end,
                                                                 .unit = {&exchange.unit, 1},
                                                                 .stream = calls[0].stream,
                                                                 .posts = &exchange.posts};
  }
  ncclResult_t result = issue_parts(&agreement, calls, ncalls);
  agreement_keep(&agreement);
  return transaction_worse(refused, result);
}

ncclResult_t issue_alone(struct call *call, struct communicator *comm,
                         const struct member *member) {
  ncclResult_t begun = rounds_begin(call, 1);
  if (begun != ncclSuccess)
    return begun;
  look_t look = registered_look_of(comm, call, member);
  struct request request = {
      .end = comm->end, .unit = {member, 1}, .stream = call->stream, .looks = &look};
  uint32_t request_of = 0;
  enum fate fate = FATE_UNDECIDED;
  const struct agreement agreement = {.requests = &request,
                                      .nrequests = 1,
                                      .request_of = &request_of,
                                      .fates = &fate,
                                      .alone = true};
  return issue_parts(&agreement, call, 1);
}
