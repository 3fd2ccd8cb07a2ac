/* A rank that is stopped: passed on to its other teams (wait_private.h), and told to its program
 * once its device is done (wait.h). */
#include "interpose/park/wait_private.h"

#include "core/report/log.h"
#include "core/team/team_stop.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/self/environment.h"

/* Of all waits of the process: so that a team hears of a stop once in each. */
static uint64_t number_of(struct wait *wait) {
  static _Atomic uint64_t waits;
  if (wait->number == 0)
    wait->number = ++waits;
  return wait->number;
}

/* The caller has entered the endpoint, or holds its `turn`. */
static void stopping_hear(struct wait *wait, struct endpoint *end, bool here) {
  struct team *team = end->team;
  if (!here && end->stopped_in != number_of(wait) && !team->claim.open &&
      team->failed.how == FAILURE_NONE)
    team_stop(team);
  end->stopped = true;
  end->stopped_in = number_of(wait);
}

static bool is_free(struct endpoint *other) {
  return other->state == RANK_PRESENT && other->in_overlap != NULL && endpoint_is_own(other) &&
         atomic_load(&other->inside) == 0 && pthread_mutex_trylock(&other->turn) == 0;
}

static void stop_request(struct wait *wait, struct request *request, const struct endpoint *where) {
  request->stopped = true;
  request->notice = ncclInvalidUsage;
  if (wait->begun || request->settled)
    return;
  stopping_hear(wait, request->end, request->end == where);
  wait_settle(request, ncclInvalidUsage);
}

void stop_rank(struct wait *wait, struct endpoint *end, struct unit wanted) {
  bool told = false;
  stopping_hear(wait, end, true);
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    if (wait->requests[i].end->overlap != end->overlap)
      continue;
    told |= wait->requests[i].stopped;
    stop_request(wait, &wait->requests[i], end);
  }
  if (!told)
    report_stop(end, wanted);
  for (struct endpoint *other = communicator_endpoints(); other != NULL; other = other->next) {
    if (other->overlap != end->overlap || wait_is_requested(wait, other) || other == end ||
        !is_free(other))
      continue;
    stopping_hear(wait, other, false);
    pthread_mutex_unlock(&other->turn);
  }
}

/* ---- told ---- */

static bool is_with(const struct endpoint *other, const struct endpoint *end) {
  return other->overlap == end->overlap && other->state == RANK_PRESENT;
}

static bool sends_and_receives(const struct endpoint *end) {
  bool tracked = false;
  for (struct endpoint *other = communicator_hold_endpoints(); other != NULL; other = other->next)
    tracked |= is_with(other, end) && peers_are_tracked(other->team->plane);
  communicator_release_endpoints();
  return tracked;
}

static bool is_lost(void *context) {
  const struct endpoint *end = context;
  bool lost = false;
  for (struct endpoint *other = communicator_hold_endpoints(); other != NULL; other = other->next)
    lost |= is_with(other, end) && team_stop_is_lost(other->team);
  communicator_release_endpoints();
  return lost;
}

void stopping_finish(const struct request *requests, uint32_t nrequests) {
  for (uint32_t i = 0; i < nrequests; i++) {
    struct endpoint *end = requests[i].end;
    char reason[REASON_SIZE] = "";
    struct shadow_limit limit = {.until_ns =
                                     now_ns() + join_settings()->timeout_s * UINT64_C(1000000000),
                                 .give_up = is_lost,
                                 .context = end};
    if (!requests[i].stopped || end->state != RANK_PRESENT || sends_and_receives(end) ||
        shadows_finish(end, &limit, reason))
      continue;
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u is told to stop before its device is done: %s. A rank that waits for it on its "
        "device may wait for ever if this one ends now: synchronise the device before",
        end->team->plane->rank, reason);
  }
}
