/* From team to team (stay.h). */
#include "interpose/park/stay.h"

#include "core/team/team_stop.h"
#include "interpose/comm/report.h"

/* Of all stays of the process: so that a team hears of a stop once in each. */
static uint64_t number_of(struct stay *stay) {
  static _Atomic uint64_t stays;
  if (stay->number == 0)
    stay->number = ++stays;
  return stay->number;
}

/* The caller has entered the endpoint, or holds its `turn`. */
static void hear(struct stay *stay, struct endpoint *end, bool here) {
  struct team *team = end->team;
  if (!here && end->stopped_in != number_of(stay) && !team->claimed &&
      team->failure == FAILURE_NONE)
    team_stop(team);
  end->stopped = true;
  end->stopped_in = number_of(stay);
}

static bool is_free(struct endpoint *other) {
  return other->state == RANK_PRESENT && other->place != NULL && endpoint_is_own(other) &&
         atomic_load(&other->inside) == 0 && pthread_mutex_trylock(&other->turn) == 0;
}

static void stop_wish(struct stay *stay, struct wish *wish, const struct endpoint *where) {
  wish->stopped = true;
  wish->notice = ncclInvalidUsage;
  if (stay->begun || wish->settled)
    return;
  hear(stay, wish->end, wish->end == where);
  stay_settle(wish, ncclInvalidUsage);
}

void stop_rank(struct stay *stay, struct endpoint *end, struct unit wanted) {
  bool told = false;
  hear(stay, end, true);
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    if (stay->wishes[i].end->overlap != end->overlap)
      continue;
    told |= stay->wishes[i].stopped;
    stop_wish(stay, &stay->wishes[i], end);
  }
  if (!told)
    report_stop(end, wanted);
  for (struct endpoint *other = communicator_endpoints(); other != NULL; other = other->next) {
    if (other->overlap != end->overlap || stay_is_wished(stay, other) || other == end ||
        !is_free(other))
      continue;
    hear(stay, other, false);
    pthread_mutex_unlock(&other->turn);
  }
}
