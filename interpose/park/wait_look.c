/* One look at all teams of a rank that waits: its requests, and what the others want of it
 * (wait_private.h). */
#include "interpose/park/wait.h"

#include <stdlib.h>

#include "core/team/team_stop.h"
#include "hooks/plugins.h"
#include "interpose/comm/apart.h"
#include "interpose/self/environment.h"
#include "interpose/park/follower.h"
#include "interpose/park/hold.h"
#include "interpose/data/lossy.h"
#include "interpose/park/orphans.h"
#include "interpose/park/outcome.h"
#include "interpose/park/own_join.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/gathering.h"
#include "interpose/data/membership.h"
#include "interpose/comm/report.h"
#include "interpose/park/shadows.h"
#include "interpose/park/wait_private.h"
#include "interpose/park/watched.h"

/* Whether the rank comes back where the others did not wait for it, and there would have been
 * something to do. */
static bool has_missed_rejoin(const struct endpoint *end) {
  return end->shadows > 0 && (!state_is_empty(&end->buffers) || plugins_have_post()) &&
         (plane_flags(end->team->plane, end->team->plane->rank, team_index(end->team)) &
          ENTRY_EXPECTED);
}

static void request_granted(struct wait *wait, struct request *request) {
  struct endpoint *end = request->end;
  if (request->behind != NULL) {
    hold_end(request, true);
    return;
  }
  report_guess(end, request->unit);
  report_event(end, TRACE_SETTLE, team_index(end->team), request->unit, (int)end->team->source);
  if (!unit_is_state(request->unit))
    overlap_issued(end->overlap, end->team, request->unit);
  else if (!wait_find(wait, end, request->unit, false))
    return; /* it has failed */
  if (own_join_is_agreed(request)) {
    outcome_aside(request);
    return;
  }
  if (request_claim_next(request))
    return;
  if (has_missed_rejoin(end))
    report_missed_rejoin(end);
  outcome_returns(end);
  outcome_well(request);
}

static void wait_handle(struct wait *wait, struct request *request, enum team_verdict verdict,
                        struct unit unit) {
  struct endpoint *end = request->end;
  switch (verdict) {
  case TEAM_PARKED:
    return;
  case TEAM_SHADOW:
  case TEAM_MIRROR:
    wait_find(wait, end, unit, false);
    return;
  case TEAM_REAL:
    request_granted(wait, request);
    return;
  case TEAM_OUTSIDE:
    request->outside = true;
    outcome_returns(end);
    wait_settle(request, ncclSuccess);
    return;
  case TEAM_LEFT:
    report_guess(end, request->unit);
    overlap_issued(end->overlap, end->team, request->unit);
    report_event(end, TRACE_DONE, team_index(end->team), request->unit, -1);
    end->shadows = 0;
    report_active(end);
    /* Others may only now have come to what the rank issued last, and no other call tells of it. */
    request->notice = request_hear(end, true);
    outcome_well(request);
    return;
  case TEAM_REFUSED:
    report_refused(request->end, request->unit);
    wait_settle(request, ncclInvalidUsage);
    return;
  case TEAM_STOPPED:
    stop_rank(wait, end, request->unit);
    outcome_returns(end);
    wait_settle(request, ncclInvalidUsage);
    return;
  case TEAM_FAILED:
    if (request->notice == ncclSuccess && !request_only_leaves(request))
      request->notice = wait_notice(end);
    outcome_failed(request);
    return;
  }
}

/* Whether a rank that belongs to both teams sends in `other` to us, or receives from us, and has
 * not passed our claim: we shall not do our part before that. `other` is looked at first: a rank
 * that has posted there only because it has meanwhile passed our claim must not count. */
static bool is_asked(const struct endpoint *parked, const struct endpoint *other) {
  const struct plane *here = parked->team->plane, *there = other->team->plane;
  if (!peers_are_tracked(there))
    return false;
  for (uint32_t b = 0; b < there->nranks; b++) {
    if (there->rank == b || !peers_is_asked_by(other->team->peers, b, other->team->head))
      continue;
    for (uint32_t a = 0; a < here->nranks; a++)
      if (a != here->rank && other->identities[b] == parked->identities[a] &&
          plane_passed(here, a) <= parked->team->head)
        return true;
  }
  return false;
}

/* Another shadow there might keep us from answering anybody. */
static bool is_full(const struct endpoint *end) {
  return end->shadow != NULL && shadow_is_full(end->shadow);
}

/* Not what another thread uses, and not what has no room. A team of which a unit has been published
 * in this call but not issued yet must wait until it has been. */
static bool is_available(const struct wait *wait, const struct endpoint *other) {
  if (wait_is_requested(wait, other))
    return !wait->begun && other->state == RANK_PRESENT && !is_full(other);
  return other->state == RANK_PRESENT && endpoint_is_own(other) &&
         atomic_load(&other->inside) == 0 && !is_full(other);
}

static bool is_answering(const struct wait *wait, const struct endpoint *other) {
  bool parked = false;
  if (!is_available(wait, other) || other->in_overlap == NULL)
    return false;
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    const struct request *request = &wait->requests[i];
    if (request->settled || request->end->overlap != other->overlap || !hold_answers(request))
      continue;
    if (request->for_good || is_asked(request->end, other))
      return true;
    parked = true;
  }
  if (!parked || !overlap_answers(other->in_overlap))
    return false;
  report_yield(other);
  return true;
}

/* Those of other ranks may end with another thread in this moment. */
static bool is_of_a_request(const struct wait *wait, const struct overlap *overlap) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (wait->requests[i].end->overlap == overlap)
      return true;
  return false;
}

static void look_at_overlap(struct wait *wait) {
  for (struct endpoint *other = wait->all; other != NULL; other = other->next)
    if (is_of_a_request(wait, other->overlap) && other->in_overlap != NULL)
      overlap_set_available(other->in_overlap,
                            wait_is_requested(wait, other) || is_available(wait, other));
  if (now_ms() >= wait->resort_ms && clock_is_programs_own(wait->requests[0].end))
    wait->resort_ms = now_ms() + join_settings()->timeout_s * 500;
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (!wait->requests[i].settled)
      overlap_look(wait->requests[i].end->overlap,
                   wait_quiet(wait, wait->requests[i].end->overlap));
}

static bool look_at_requests(struct wait *wait) {
  bool moved = false;
  for (uint32_t i = 0; wait->begun && i < wait->nrequests; i++) {
    struct request *request = &wait->requests[i];
    if (request->settled || wait_has_found(wait, request->end) || is_full(request->end))
      continue;
    if (apart_is_set(request->end)) {
      if (request->behind != NULL)
        hold_end(request, false);
      else
        outcome_aside(request);
      moved = true;
      continue;
    }
    struct unit unit = {0};
    enum team_verdict verdict = team_poll(request->end->team, &unit);
    moved |= verdict != TEAM_PARKED;
    wait_handle(wait, request, verdict, unit);
  }
  return moved;
}

bool wait_look(struct wait *wait) {
  look_at_overlap(wait);
  bool moved = look_at_requests(wait);
  if (moved)
    look_at_requests(wait);
  for (struct endpoint *other = wait->all; other != NULL; other = other->next) {
    struct unit unit;
    bool locked = !wait_is_requested(wait, other); /* those are */
    if (wait_has_found(wait, other) || !is_answering(wait, other) ||
        (locked && pthread_mutex_trylock(&other->turn) != 0))
      continue;
    enum team_verdict verdict = team_poll(other->team, &unit);
    if (verdict == TEAM_STOPPED)
      stop_rank(wait, other, (struct unit){0});
    bool found = verdict == TEAM_SHADOW || verdict == TEAM_MIRROR;
    moved |= found || verdict == TEAM_STOPPED;
    if (verdict == TEAM_PARKED)
      follower_consider(wait, other);
    if ((!found || !wait_find(wait, other, unit, locked)) && locked)
      pthread_mutex_unlock(&other->turn);
  }
  wait_issue(wait);
  return moved;
}

/* Ranks of this process that nobody else leaves with: orphans.h. */
static void wait_adopt(struct wait *wait) {
  struct endpoint *other;
  while (wait->nrequests < wait->room_for_requests && (other = orphans_enter_next(wait)) != NULL) {
    struct request *request = &wait->requests[wait->nrequests++];
    *request = (struct request){.end = other, .for_good = wait->requests[0].for_good};
    request_begin(request);
    team_say_leaving(other->team, true);
    overlap_park(other->overlap, now_ms());
  }
}

/* Nothing moves any more: who has heard that joined ranks have spoiled a collective may issue
 * nothing more, and live on. The others, which have heard it or are to, do not wait for that one.
 */
static void look_for_refused(const struct wait *wait, struct request *request) {
  if (request->settled || request_only_leaves(request) ||
      now_ms() < wait->stall_ms + MEMBERSHIP_REFUSED_MS)
    return;
  if (request->notice == ncclSuccess && membership_is_unheard(request->end))
    request->notice = wait_notice(request->end);
  if (request->notice == ncclInvalidUsage)
    outcome_refused(request);
}

void wait_look_after(struct wait *wait) {
  uint64_t now = now_ms();
  bool looking = now >= wait->look_ms, late = false;
  wait_leave_out_stop(wait, now);
  if (looking) {
    wait->look_ms = now + LOOK_FOR_DEAD_MS;
    for (uint32_t i = 0; i < wait->nrequests; i++) {
      team_look_for_the_dead(wait->requests[i].end->team);
      gathering_look(wait->requests[i].end);
    }
  }
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    struct request *request = &wait->requests[i];
    if (request->settled)
      continue;
    if (atomic_load(&request->end->broken) != ncclSuccess)
      outcome_broken(request);
    else if (now >= wait->deadline_ms)
      late |= !outcome_late(request);
    else if (unit_is_leave(request->unit) && looking)
      outcome_in_another_order(request);
    else if (request->behind != NULL && looking)
      hold_look(wait, request, wait->deadline_ms - join_settings()->timeout_s * 1000);
  }
  if (late)
    wait_be_patient(wait);
  if (looking) {
    watched_look(wait);
    stall_look(wait);
    for (uint32_t i = 0; i < wait->nrequests; i++)
      look_for_refused(wait, &wait->requests[i]);
    wait_adopt(wait);
  }
}

void wait_a_little(struct wait *wait) {
  bool several = wait->all != NULL && wait->all->next != NULL;
  if (wait_for_root(wait, several ? WAIT_SEVERAL_MS : WAIT_ALONE_MS)) {
    wait_issue(wait);
    return;
  }
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    struct request *request = &wait->requests[i];
    if (request->settled)
      continue;
    if (is_full(request->end)) {
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
      break;
    }
    struct unit unit = {0};
    enum team_verdict verdict =
        follower_wait(wait, request->end, &unit, several ? WAIT_SEVERAL_MS : WAIT_ALONE_MS);
    if (verdict != TEAM_PARKED)
      wait_be_patient(wait);
    wait_handle(wait, request, verdict, unit);
    break;
  }
  wait_issue(wait);
}

void wait_stop_answering(const struct wait *wait) {
  for (struct endpoint *end = wait->all; end != NULL; end = end->next) {
    if (!wait_is_requested(wait, end) && atomic_load(&end->user) == endpoint_this_thread())
      team_stop_answering(end->team);
    if (wait_is_requested(wait, end) || endpoint_is_own(end))
      lossy_return(end, wait_stream(wait, end));
  }
}

void wait_free(struct wait *wait) {
  wait_finish_states(wait);
  shadows_free(&wait->shadows);
  free(wait->found);
}
