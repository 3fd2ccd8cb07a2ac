/* How a wish ends (outcome.h). */
#include "interpose/park/outcome.h"

#include "interpose/comm/apart.h"
#include "interpose/comm/patience.h"
#include "interpose/comm/report.h"
#include "interpose/park/stay.h"

static void fail_endpoint(struct endpoint *end) {
  endpoint_retire(end, RANK_FAILED);
  team_give_up(end->team);
}

bool wish_only_leaves(const struct wish *wish) {
  return unit_is_leave(wish->unit) || unit_is_door(wish->unit);
}

void outcome_well(struct wish *wish) {
  const struct team *team = wish->end->team;
  wish->reunion = team_is_reunion(team);
  wish->resync = team_is_resync(team);
  stay_settle(wish, ncclSuccess);
}

void outcome_returns(struct endpoint *end) {
  if (end->shadows == 0)
    return;
  report_return(end, team_index(end->team));
  end->shadows = 0;
}

void outcome_aside(struct wish *wish) {
  apart_stand_aside(wish->end);
  wish->settled = true;
  wish->result = ncclSuccess;
}

void outcome_broken(struct wish *wish) {
  int broken = atomic_load(&wish->end->broken);
  fail_endpoint(wish->end);
  stay_settle(wish, (ncclResult_t)broken);
}

/* The team has failed: everybody in it who is parked must hear of it. Only a rank that wants to
 * leave, and finds that another has gone already, has nothing to complain of. */
void outcome_failed(struct wish *wish) {
  struct endpoint *end = wish->end;
  if (atomic_load(&end->broken) != ncclSuccess) {
    outcome_broken(wish);
    return;
  }
  if (end->team->failure == FAILURE_ENDED && wish_only_leaves(wish)) {
    endpoint_retire(end, RANK_DONE);
    stay_settle(wish, ncclSuccess);
    return;
  }
  if (end->team->failure == FAILURE_RANK)
    team_find_culprit(end->team);
  report_failure(end, wish->unit);
  report_event(end, TRACE_FAIL, end->team->head, wish->unit, (int)end->team->failure_rank);
  if (end->team->failure != FAILURE_RANK)
    team_end(end->team, RANK_FAILED);
  fail_endpoint(end);
  stay_settle(wish, ncclRemoteError);
}

/* A LEAVE stays claimed: the others can still leave with it. */
static void leave_late(struct wish *wish) {
  endpoint_retire(wish->end, RANK_DONE);
  stay_settle(wish, ncclSuccess);
}

bool outcome_late(struct wish *wish) {
  struct endpoint *end = wish->end;
  if (!unit_is_leave(wish->unit) && patience_is_programs_own(end)) {
    report_slow(end, wish->unit);
    return false;
  }
  report_timeout(end, wish->unit);
  report_event(end, TRACE_FAIL, end->team->head, wish->unit, -1);
  if (wish_only_leaves(wish)) {
    leave_late(wish);
    return true;
  }
  fail_endpoint(end);
  team_end(end->team, RANK_FAILED);
  stay_settle(wish, ncclRemoteError);
  return true;
}

void outcome_in_another_order(struct wish *wish) {
  if (!team_all_leaving(wish->end->team))
    wish->stalled = false;
  else if (!wish->stalled)
    wish->stalled = true;
  else
    leave_late(wish);
}
