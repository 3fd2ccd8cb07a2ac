/* From team to team (wait_private.h). */
#include "interpose/park/wait_private.h"

#include "core/team/team_stop.h"
#include "interpose/comm/report.h"

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
  return other->state == RANK_PRESENT && other->place != NULL && endpoint_is_own(other) &&
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
