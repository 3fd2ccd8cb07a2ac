/* Parked: waiting for a request to settle, and answering the others meanwhile (wait.h). */
#include "interpose/park/wait.h"

#include "core/report/trace.h"
#include "core/transport/plane_view.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/park/wait_private.h"

/* In all teams of this thread: they are where others may be waiting for it. */
static void say_leaving(const struct wait *wait, bool leaving) {
  if (!unit_is_leave(wait->requests[0].unit))
    return;
  for (struct endpoint *end = wait->all; end != NULL; end = end->next)
    if (wait_is_requested(wait, end) || endpoint_is_own(end))
      team_say_leaving(end->team, leaving);
}

static bool all_settled(const struct wait *wait) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (!wait->requests[i].settled)
      return false;
  return true;
}

static void say_parked(const struct wait *wait, uint64_t since_ms) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    plane_say_parked(wait->requests[i].end->team->plane, since_ms);
}

/* Until all requests have settled. */
static void wait_park(struct wait *wait) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (!wait->requests[i].settled)
      report_event(wait->requests[i].end, TRACE_PARK, wait->requests[i].end->team->head,
                   wait->requests[i].unit, -1);
  wait->all = communicator_hold_endpoints();
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_park(wait->requests[i].end->overlap, now_ms());
  wait_be_patient(wait);
  wait->look_ms = now_ms() + LOOK_FOR_DEAD_MS;
  say_leaving(wait, true);
  say_parked(wait, now_ms());
  while (!all_settled(wait)) {
    if (wait_look(wait)) {
      wait_be_patient(wait);
      continue;
    }
    wait_look_after(wait);
    if (!all_settled(wait))
      wait_a_little(wait);
  }
  wait_issue_all(wait);
  wait_free(wait);
  say_parked(wait, 0);
  say_leaving(wait, false);
  wait_stop_answering(wait);
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_return(wait->requests[i].end->overlap);
  communicator_release_endpoints();
}

uint32_t wait_with_room(struct request *requests, uint32_t nrequests, uint32_t room) {
  struct wait wait = {.requests = requests,
                      .nrequests = nrequests,
                      .room_for_requests = room,
                      .since_ns = now_ns()};
  for (uint32_t i = 0; i < nrequests; i++) {
    requests[i].settled = requests[i].stalled = requests[i].rejoin = requests[i].resync = false;
    requests[i].stopped = requests[i].outside = requests[i].asked = false;
    requests[i].watched_ns = 0;
    requests[i].notice = ncclSuccess;
  }
  if (nrequests == 0 || requests[0].behind == NULL)
    wait_keep_step(&wait);
  wait.begun = true;
  request_find_marks(requests, nrequests);
  for (uint32_t i = 0; i < nrequests; i++)
    if (!requests[i].settled)
      request_begin(&requests[i]);
  if (all_settled(&wait))
    wait_free(&wait);
  else
    wait_park(&wait);
  return wait.nrequests;
}

void wait_until_settled(struct request *requests, uint32_t nrequests) {
  wait_with_room(requests, nrequests, 0);
}
