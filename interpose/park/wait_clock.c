/* What of a wait counts as waiting (wait_private.h). */
#include "interpose/comm/clock.h"
#include "interpose/park/wait_private.h"
#include "interpose/self/environment.h"

void wait_be_patient(struct wait *wait) {
  uint64_t now = now_ms(), timeout_ms = join_settings()->timeout_s * 1000;
  wait->looked_ms = now;
  wait->deadline_ms = now + timeout_ms;
  wait->resort_ms = now + timeout_ms / 2;
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_moved(wait->requests[i].end->overlap, now);
}

void wait_leave_out_stop(struct wait *wait, uint64_t now) {
  uint64_t stopped_ms = clock_stopped(&wait->looked_ms, now);
  if (stopped_ms == 0)
    return;
  wait->deadline_ms += stopped_ms;
  wait->resort_ms += stopped_ms;
  if (wait->stall_ms != 0)
    wait->stall_ms = clock_without(wait->stall_ms, stopped_ms, now);
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_moved(wait->requests[i].end->overlap, now);
}

uint64_t wait_quiet(const struct wait *wait, struct overlap *overlap) {
  uint64_t now = now_ms();
  return now >= wait->resort_ms ? OVERLAP_NEVER - 1 : overlap_quiet(overlap, now);
}
