/* Wishes as they begin (wish.h): what the rank hears first, and what it commits or claims. */
#include "interpose/park/wish.h"

#include "core/report/log.h"
#include "core/team/team_stop.h"
#include "interpose/comm/apart.h"
#include "interpose/comm/lossy_policy.h"
#include "interpose/comm/report.h"
#include "interpose/nccl/real.h"
#include "interpose/park/outcome.h"
#include "interpose/park/stay.h"
#include "interpose/places/places.h"
#include "interpose/self/environment.h"

ncclResult_t wish_hear(struct endpoint *end, bool leaving) {
  struct lossy_event event;
  ncclResult_t result = ncclSuccess;
  while (team_must_attend(end->team) && team_events(end->team, &event)) {
    /* Issued before the program heard of the first: nothing that it could have done about it. Or
     * by others: nothing that it wants to know. */
    if (event.index < end->lossy_told || team_has_shadowed(end->team, event.index))
      continue;
    report_lossy_event(&event);
    if (!leaving || !member_is_point_to_point(event.kind))
      result = ncclInvalidUsage;
  }
  return result;
}

ncclResult_t answer_notice(struct endpoint *end) {
  ncclResult_t result = wish_hear(end, false);
  /* What this call is about to issue, the program can do nothing about either. */
  if (result != ncclSuccess) {
    end->lossy_told = end->team->head + 1;
    last_error_is_ours();
  }
  return result;
}

/* Whether all ranks are to stop if not all of them wish the same. Buffers that are resynchronised
 * are one rank's alone. */
static bool wish_stops_early(const struct wish *wish) {
  return join_settings()->early_exit == EARLY_EXIT_THROW && !unit_is_leave(wish->unit) &&
         !unit_is_state(wish->unit) && unit_mark(wish->unit) != MARK_STATE_DONE;
}

/* What the others must know of the claim. */
static uint32_t wish_flags(const struct wish *wish) {
  const struct endpoint *end = wish->end;
  uint32_t flags = overlap_claim_flags(end->overlap, end->team, wish->unit);
  if (lossy_strict_member(wish->unit) != NULL)
    flags |= CLAIM_STRICT;
  if (wish_stops_early(wish))
    flags |= CLAIM_TOGETHER;
  if (join_settings()->unsure == UNSURE_STOP)
    flags |= CLAIM_SURE;
  /* Whoever ends with its process has no use for them. */
  if (!wish->for_good && !state_is_empty(&end->buffers))
    flags |= CLAIM_RESYNC;
  return flags;
}

void wish_begin(struct wish *wish) {
  struct endpoint *end = wish->end;
  if (apart_is_set(end)) {
    outcome_aside(wish);
    return;
  }
  bool meets = wish_stops_early(wish) && team_must_meet(end->team);
  end->stopped = false;
  /* Before anything new is issued: all ranks that wait for the device in between hear of it in the
   * same call. */
  wish->notice = wish_only_leaves(wish) ? ncclSuccess : answer_notice(end);
  if (end->state != RANK_PRESENT) {
    stay_settle(wish, wish_only_leaves(wish) ? ncclSuccess : ncclRemoteError);
  } else if (unit_is_leave(wish->unit)) {
    report_event(end, TRACE_LEAVE, end->team->head, wish->unit, -1);
    team_claim(end->team, wish->unit, wish_flags(wish), NULL);
  } else if (!meets && overlap_may_commit(end->overlap, end->team) &&
             team_commit(end->team, wish->unit)) {
    overlap_issued(end->overlap, end->team, wish->unit);
    report_event(end, TRACE_COMMIT, team_index(end->team), wish->unit, -1);
    stay_settle(wish, ncclSuccess);
  } else {
    report_event(end, TRACE_CLAIM, end->team->head, wish->unit, -1);
    struct place place;
    bool known = unit_may_have_place(wish->unit) && places_describe(&place);
    uint32_t flags = wish_flags(wish);
    if (unit_may_have_place(wish->unit) && (!known || !place_says_anything(&place)) &&
        places_are_missed())
      flags |= CLAIM_BLIND;
    team_claim_looking(end->team, wish->unit, flags, known ? &place : NULL, wish->looks);
  }
}

bool wish_claim_next(struct wish *wish) {
  if (wish->next == NULL || !wish->next(wish))
    return false;
  report_event(wish->end, TRACE_CLAIM, wish->end->team->head, wish->unit, -1);
  team_claim_looking(wish->end->team, wish->unit, 0, NULL, wish->looks);
  return true;
}
