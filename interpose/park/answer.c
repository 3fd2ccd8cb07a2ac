/* Parked: waiting for a wish to settle, and answering the others meanwhile (answer.h). */
#include "interpose/park/answer.h"

#include <stdlib.h>

#include "core/report/log.h"
#include "core/team/team_stop.h"
#include "hooks/contribution.h"
#include "hooks/plugins.h"
#include "interpose/comm/apart.h"
#include "interpose/self/environment.h"
#include "interpose/park/follower.h"
#include "interpose/nccl/real.h"
#include "interpose/data/lossy.h"
#include "interpose/park/orphans.h"
#include "interpose/park/outcome.h"
#include "interpose/comm/patience.h"
#include "interpose/places/places.h"
#include "interpose/comm/report.h"
#include "interpose/park/shadows.h"
#include "interpose/park/stay.h"
#include "interpose/park/watched.h"
#include "interpose/park/wish.h"

/* ---- the loop ---- */

/* Whether the rank comes back where the others did not wait for it, and there would have been
 * something to do. */
static bool has_missed_reunion(const struct endpoint *end) {
  uint64_t at = team_index(end->team) % PLANE_RING;
  return end->shadows > 0 && (!state_is_empty(&end->buffers) || plugins_have_post()) &&
         (atomic_load(&end->team->own->entries[at].flags) & ENTRY_EXPECTED);
}

static void wish_granted(struct stay *stay, struct wish *wish) {
  struct endpoint *end = wish->end;
  report_guess(end, wish->unit);
  report_event(end, TRACE_SETTLE, team_index(end->team), wish->unit, (int)end->team->source);
  if (!unit_is_state(wish->unit))
    overlap_issued(end->overlap, end->team, wish->unit);
  else if (!stay_find(stay, end, wish->unit, false))
    return; /* it has failed */
  if (wish_claim_next(wish))
    return;
  if (has_missed_reunion(end))
    report_missed_reunion(end);
  outcome_returns(end);
  outcome_well(wish);
}

static void handle(struct stay *stay, struct wish *wish, enum team_verdict verdict,
                   struct unit unit) {
  struct endpoint *end = wish->end;
  switch (verdict) {
  case TEAM_PARKED:
    return;
  case TEAM_SHADOW:
  case TEAM_MIRROR:
    stay_find(stay, end, unit, false);
    return;
  case TEAM_REAL:
    wish_granted(stay, wish);
    return;
  case TEAM_LEFT:
    overlap_issued(end->overlap, end->team, wish->unit);
    report_event(end, TRACE_DONE, team_index(end->team), wish->unit, -1);
    end->shadows = 0;
    /* Others may only now have come to what the rank issued last, and no other call tells of it. */
    wish->notice = wish_hear(end, true);
    outcome_well(wish);
    return;
  case TEAM_REFUSED:
    report_refused(wish->end, wish->unit);
    stay_settle(wish, ncclInvalidUsage);
    return;
  case TEAM_STOPPED:
    stop_rank(stay, end, wish->unit);
    outcome_returns(end);
    stay_settle(wish, ncclInvalidUsage);
    return;
  case TEAM_FAILED:
    outcome_failed(wish);
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
          atomic_load(&here->logs[a]->head) <= parked->team->head)
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
static bool is_available(const struct stay *stay, const struct endpoint *other) {
  if (stay_is_wished(stay, other))
    return !stay->begun && other->state == RANK_PRESENT && !is_full(other);
  return other->state == RANK_PRESENT && endpoint_is_own(other) &&
         atomic_load(&other->inside) == 0 && !is_full(other);
}

static bool is_answering(const struct stay *stay, const struct endpoint *other) {
  bool parked = false;
  if (!is_available(stay, other) || other->place == NULL)
    return false;
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    const struct wish *wish = &stay->wishes[i];
    if (wish->settled || wish->end->overlap != other->overlap)
      continue;
    if (wish->for_good || is_asked(wish->end, other))
      return true;
    parked = true;
  }
  if (!parked || !overlap_answers(other->place))
    return false;
  report_yield(other);
  return true;
}

/* How long the ranks that we wait for have been waiting themselves. Shortly before the program
 * would get an error they are taken to be: one that is at work may wait for us on its device, which
 * nobody sees. */
static uint64_t quiet(const struct stay *stay, struct overlap *overlap) {
  uint64_t now = now_ms();
  return now >= stay->resort_ms ? OVERLAP_NEVER - 1 : overlap_quiet(overlap, now);
}

/* Those of other ranks may end with another thread in this moment. */
static bool is_of_a_wish(const struct stay *stay, const struct overlap *overlap) {
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (stay->wishes[i].end->overlap == overlap)
      return true;
  return false;
}

static void look_at_overlap(struct stay *stay) {
  for (struct endpoint *other = stay->all; other != NULL; other = other->next)
    if (is_of_a_wish(stay, other->overlap) && other->place != NULL)
      overlap_set_available(other->place, stay_is_wished(stay, other) || is_available(stay, other));
  if (now_ms() >= stay->resort_ms && patience_is_programs_own(stay->wishes[0].end))
    stay->resort_ms = now_ms() + join_settings()->timeout_s * 500;
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (!stay->wishes[i].settled)
      overlap_look(stay->wishes[i].end->overlap, quiet(stay, stay->wishes[i].end->overlap));
}

static bool look_at_wishes(struct stay *stay) {
  bool moved = false;
  for (uint32_t i = 0; stay->begun && i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled || stay_has_found(stay, wish->end) || is_full(wish->end))
      continue;
    if (apart_is_set(wish->end)) {
      outcome_aside(wish);
      moved = true;
      continue;
    }
    struct unit unit = {0};
    enum team_verdict verdict = team_poll(wish->end->team, &unit);
    moved |= verdict != TEAM_PARKED;
    handle(stay, wish, verdict, unit);
  }
  return moved;
}

/* One look at everything; false if nothing has moved. Wishes are looked at twice: of several ranks
 * of one thread, the first may have seen what others had published before the last had published
 * its own part. */
static bool look(struct stay *stay) {
  look_at_overlap(stay);
  bool moved = look_at_wishes(stay);
  if (moved)
    look_at_wishes(stay);
  for (struct endpoint *other = stay->all; other != NULL; other = other->next) {
    struct unit unit;
    bool locked = !stay_is_wished(stay, other); /* those are */
    if (stay_has_found(stay, other) || !is_answering(stay, other) ||
        (locked && pthread_mutex_trylock(&other->turn) != 0))
      continue;
    enum team_verdict verdict = team_poll(other->team, &unit);
    if (verdict == TEAM_STOPPED)
      stop_rank(stay, other, (struct unit){0});
    bool found = verdict == TEAM_SHADOW || verdict == TEAM_MIRROR;
    moved |= found || verdict == TEAM_STOPPED;
    if (verdict == TEAM_PARKED)
      follower_consider(stay, other);
    if ((!found || !stay_find(stay, other, unit, locked)) && locked)
      pthread_mutex_unlock(&other->turn);
  }
  stay_issue(stay);
  return moved;
}

/* In all teams of this thread: they are where others may be waiting for it. */
static void say_leaving(const struct stay *stay, bool leaving) {
  if (!unit_is_leave(stay->wishes[0].unit))
    return;
  for (struct endpoint *end = stay->all; end != NULL; end = end->next)
    if (stay_is_wished(stay, end) || endpoint_is_own(end))
      team_say_leaving(end->team, leaving);
}

/* As long as something moves, somebody is at work: NCCL_JOIN_TIMEOUT is for when nothing does. */
static void be_patient(struct stay *stay) {
  uint64_t now = now_ms(), patience = join_settings()->timeout_s * 1000;
  stay->deadline_ms = now + patience;
  stay->resort_ms = now + patience / 2;
  for (uint32_t i = 0; i < stay->nwishes; i++)
    overlap_moved(stay->wishes[i].end->overlap, now);
}

/* Ranks of this process that nobody else leaves with: orphans.h. */
static void adopt(struct stay *stay) {
  struct endpoint *other;
  while (stay->nwishes < stay->room_for_wishes && (other = orphans_enter_next(stay)) != NULL) {
    struct wish *wish = &stay->wishes[stay->nwishes++];
    *wish = (struct wish){.end = other, .for_good = stay->wishes[0].for_good};
    wish_begin(wish);
    team_say_leaving(other->team, true);
    overlap_park(other->overlap, now_ms());
  }
}

/* What a wait that lasts has to look after. */
static void look_after(struct stay *stay) {
  uint64_t now = now_ms();
  bool looking = now >= stay->look_ms, late = false;
  if (looking) {
    stay->look_ms = now + LOOK_FOR_DEAD_MS;
    for (uint32_t i = 0; i < stay->nwishes; i++)
      team_look_for_the_dead(stay->wishes[i].end->team);
  }
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled)
      continue;
    if (atomic_load(&wish->end->broken) != ncclSuccess)
      outcome_broken(wish);
    else if (now >= stay->deadline_ms)
      late |= !outcome_late(wish);
    else if (unit_is_leave(wish->unit) && looking)
      outcome_in_another_order(wish);
  }
  if (late)
    be_patient(stay);
  if (looking) {
    watched_warn(stay);
    adopt(stay);
  }
}

static void wait_a_little(struct stay *stay) {
  bool several = stay->all != NULL && stay->all->next != NULL;
  if (stay_wait_for_root(stay, several ? WAIT_SEVERAL_MS : WAIT_ALONE_MS)) {
    stay_issue(stay);
    return;
  }
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled)
      continue;
    if (is_full(wish->end)) {
      nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
      break;
    }
    struct unit unit = {0};
    enum team_verdict verdict =
        follower_wait(stay, wish->end, &unit, several ? WAIT_SEVERAL_MS : WAIT_ALONE_MS);
    if (verdict != TEAM_PARKED)
      be_patient(stay);
    handle(stay, wish, verdict, unit);
    break;
  }
  stay_issue(stay);
}

static bool all_settled(const struct stay *stay) {
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (!stay->wishes[i].settled)
      return false;
  return true;
}

/* The program goes on, and may send and receive again, and write to its buffers. */
static void stop_answering(const struct stay *stay) {
  for (struct endpoint *end = stay->all; end != NULL; end = end->next) {
    if (!stay_is_wished(stay, end) && atomic_load(&end->user) == endpoint_this_thread())
      team_stop_answering(end->team);
    if (stay_is_wished(stay, end) || endpoint_is_own(end))
      lossy_return(end, stay_stream(stay, end));
  }
}

/* ---- keeping step with those of other teams ---- */

static bool is_nothing_to_issue(struct unit unit) {
  return unit_is_leave(unit) || unit_mark(unit) != MARK_NONE;
}

static bool is_early(const struct stay *stay, struct overlap_behind *behind) {
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    const struct wish *wish = &stay->wishes[i];
    if (!wish->settled && !is_nothing_to_issue(wish->unit) && wish->end->state == RANK_PRESENT &&
        overlap_must_wait(wish->end->overlap, wish->end->team, behind))
      return true;
  }
  return false;
}

/* Mostly they are just about to come. */
static bool is_early_for_long(const struct stay *stay, struct overlap_behind *behind) {
  if (!is_early(stay, behind))
    return false;
  for (uint64_t since = 0; behind->team->plane->spin(behind->team->plane, &since);)
    if (!is_early(stay, behind))
      return false;
  return true;
}

static void keep_step(struct stay *stay) {
  struct overlap_behind behind;
  if (!is_early_for_long(stay, &behind))
    return;
  stay->all = communicator_hold_endpoints();
  for (uint32_t i = 0; i < stay->nwishes; i++)
    overlap_wait(stay->wishes[i].end->overlap, now_ms());
  be_patient(stay);
  do {
    if (look(stay)) {
      be_patient(stay);
      continue;
    }
    if (now_ms() >= stay->look_ms)
      team_look_for_the_dead(behind.team);
    look_after(stay);
    team_wait_others(behind.team, behind.index, WAIT_SEVERAL_MS);
  } while (is_early(stay, &behind));
  stay_issue_all(stay);
  stop_answering(stay);
  for (uint32_t i = 0; i < stay->nwishes; i++)
    overlap_return(stay->wishes[i].end->overlap);
  communicator_release_endpoints();
  stay->all = NULL;
}

static void free_stay(struct stay *stay) {
  stay_finish_states(stay);
  shadows_free(&stay->shadows);
  free(stay->found);
}

/* Until all wishes have settled. */
static void park(struct stay *stay) {
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (!stay->wishes[i].settled)
      report_event(stay->wishes[i].end, TRACE_PARK, stay->wishes[i].end->team->head,
                   stay->wishes[i].unit, -1);
  stay->all = communicator_hold_endpoints();
  for (uint32_t i = 0; i < stay->nwishes; i++)
    overlap_park(stay->wishes[i].end->overlap, now_ms());
  be_patient(stay);
  stay->look_ms = now_ms() + LOOK_FOR_DEAD_MS;
  say_leaving(stay, true);
  while (!all_settled(stay)) {
    if (look(stay)) {
      be_patient(stay);
      continue;
    }
    look_after(stay);
    if (!all_settled(stay))
      wait_a_little(stay);
  }
  stay_issue_all(stay);
  free_stay(stay);
  say_leaving(stay, false);
  stop_answering(stay);
  for (uint32_t i = 0; i < stay->nwishes; i++)
    overlap_return(stay->wishes[i].end->overlap);
  communicator_release_endpoints();
}

uint32_t answer_with_room(struct wish *wishes, uint32_t nwishes, uint32_t room) {
  struct stay stay = {
      .wishes = wishes, .nwishes = nwishes, .room_for_wishes = room, .since_ns = now_ns()};
  for (uint32_t i = 0; i < nwishes; i++) {
    wishes[i].settled = wishes[i].stalled = wishes[i].reunion = wishes[i].resync = false;
    wishes[i].stopped = false;
    wishes[i].notice = ncclSuccess;
  }
  keep_step(&stay);
  stay.begun = true;
  for (uint32_t i = 0; i < nwishes; i++)
    if (!wishes[i].settled)
      wish_begin(&wishes[i]);
  if (all_settled(&stay))
    free_stay(&stay);
  else
    park(&stay);
  return stay.nwishes;
}

void answer(struct wish *wishes, uint32_t nwishes) {
  answer_with_room(wishes, nwishes, 0);
}
