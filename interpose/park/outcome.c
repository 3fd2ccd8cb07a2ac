/* How a request ends (outcome.h). */
#include "interpose/park/outcome.h"

#include "interpose/comm/apart.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/nccl/real.h"
#include "interpose/park/own_join.h"
#include "interpose/park/wait_private.h"

void wait_settle(struct request *request, ncclResult_t result) {
  struct endpoint *end = request->end;
  request->settled = true;
  request->result = result;
  if (result != ncclSuccess)
    last_error_is_ours(result);
  if (result == ncclRemoteError)
    end->told_failed = result;
  request->index = team_index(end->team);
  if (unit_is_exit_point(request->unit))
    return; /* the rank's next call is told */
  if (end->hook_failed)
    request->notice = ncclInvalidUsage;
  end->hook_failed = false;
}

static void fail_endpoint(struct endpoint *end) {
  endpoint_retire(end, RANK_FAILED);
  team_give_up(end->team);
}

bool request_only_leaves(const struct request *request) {
  return unit_is_leave(request->unit) || unit_is_exit_point(request->unit);
}

void outcome_well(struct request *request) {
  const struct team *team = request->end->team;
  request->rejoin = team_is_rejoin(team);
  request->resync = team_is_resync(team);
  wait_settle(request, ncclSuccess);
}

void outcome_returns(struct endpoint *end) {
  if (end->shadows == 0)
    return;
  report_return(end, team_index(end->team));
  end->shadows = 0;
}

void outcome_aside(struct request *request) {
  own_join_restore(request);
  apart_stand_aside(request->end);
  request->settled = true;
  request->result = ncclSuccess;
}

void outcome_broken(struct request *request) {
  int broken = atomic_load(&request->end->broken);
  fail_endpoint(request->end);
  wait_settle(request, (ncclResult_t)broken);
}

/* The team has failed: everybody in it who is parked must hear of it. Only a rank that wants to
 * leave, and finds that another has gone already, has nothing to complain of. */
void outcome_failed(struct request *request) {
  struct endpoint *end = request->end;
  if (atomic_load(&end->broken) != ncclSuccess) {
    outcome_broken(request);
    return;
  }
  if (end->team->failed.how == FAILURE_ENDED && request_only_leaves(request)) {
    endpoint_retire(end, RANK_DONE);
    wait_settle(request, ncclSuccess);
    return;
  }
  /* What this rank's program hears has been heard by the one that failed, which has ended of it:
   * that is the reason, not the failure. */
  if (end->team->failed.how == FAILURE_RANK && request->notice == ncclInvalidUsage) {
    report_event(end, TRACE_FAIL, end->team->head, request->unit, (int)end->team->failed.rank);
    fail_endpoint(end);
    wait_settle(request, ncclInvalidUsage);
    return;
  }
  if (end->team->failed.how == FAILURE_RANK) {
    endpoint_await_death(end, false);
    team_find_culprit(end->team);
  }
  report_failure(end, request->unit);
  bool stops = end->team->failed.how == FAILURE_UNSURE;
  report_event(end, TRACE_FAIL, end->team->head, request->unit,
               (int)(stops ? end->team->plane->rank : end->team->failed.rank));
  if (end->team->failed.how != FAILURE_RANK)
    team_end(end->team, RANK_FAILED);
  fail_endpoint(end);
  wait_settle(request, ncclRemoteError);
}

void outcome_refused(struct request *request) {
  struct endpoint *end = request->end;
  report_event(end, TRACE_FAIL, end->team->head, request->unit, -1);
  team_end(end->team, RANK_FAILED);
  fail_endpoint(end);
  wait_settle(request, ncclInvalidUsage);
}

/* A LEAVE stays claimed: the others can still leave with it. */
static void leave_late(struct request *request) {
  endpoint_retire(request->end, RANK_DONE);
  wait_settle(request, ncclSuccess);
}

bool outcome_late(struct request *request) {
  struct endpoint *end = request->end;
  if (!unit_is_leave(request->unit) && clock_is_programs_own(end)) {
    report_slow(end, request->unit);
    return false;
  }
  report_timeout(end, request->unit);
  report_event(end, TRACE_FAIL, end->team->head, request->unit, -1);
  if (request_only_leaves(request)) {
    leave_late(request);
    return true;
  }
  fail_endpoint(end);
  team_end(end->team, RANK_FAILED);
  wait_settle(request, ncclRemoteError);
  return true;
}

void outcome_in_another_order(struct request *request) {
  if (!team_all_leaving(request->end->team))
    request->stalled = false;
  else if (!request->stalled)
    request->stalled = true;
  else
    leave_late(request);
}
