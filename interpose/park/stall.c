/* Saying that nothing moves (wait_private.h). */
#include "core/transport/plane_view.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/park/wait_private.h"
#include "interpose/self/environment.h"

static uint64_t passed_by_all(const struct plane *plane) {
  uint64_t passed = 0;
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    passed += plane_passed(plane, rank);
  return passed;
}

/* What all ranks of the teams that are waited in have passed. */
static uint64_t moves_of(const struct wait *wait) {
  uint64_t moves = wait->behind == NULL ? 0 : passed_by_all(wait->behind->plane);
  for (uint32_t i = 0; i < wait->nrequests; i++)
    moves += passed_by_all(wait->requests[i].end->team->plane);
  return moves;
}

static bool is_speaker(const struct plane *plane) {
  for (uint32_t rank = 0; rank < plane->rank; rank++)
    if (plane_is_parked(plane, rank))
      return false;
  return true;
}

static struct request *first_open(const struct wait *wait) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (!wait->requests[i].settled)
      return &wait->requests[i];
  return NULL;
}

/* Ranks that wait for each other through their devices go on after half of NCCL_JOIN_TIMEOUT only,
 * if nobody sees that (core/overlap/overlap_held.c): that is said sooner than other stalls. */
#define RING_MS 10000

/* When that ends for a rank that waits, in milliseconds of the clock; 0: it is none. Who leaves
 * does so in the end, but does not answer before: it may come to what it is waited for (destroy one
 * communicator, and go on with another). */
static uint64_t end_of_ring(const struct wait *wait, const struct request *request, bool *leaves) {
  *leaves = false;
  if (!overlap_holds_up(request->end->overlap))
    return 0;
  if (!clock_is_programs_own(request->end))
    return wait->resort_ms;
  *leaves = unit_is_leave(request->unit);
  return *leaves ? wait->deadline_ms : 0;
}

/* The communicator in which others are waited for. */
static const struct endpoint *place_of(const struct wait *wait, const struct request *request) {
  const struct endpoint *end = wait->behind == NULL ? NULL : wait->all;
  while (end != NULL && end->team != wait->behind)
    end = end->next;
  return end == NULL ? request->end : end;
}

void stall_look(struct wait *wait) {
  uint64_t limit_ms = join_settings()->stall_warn_s * 1000, now = now_ms(), moves = moves_of(wait);
  if (wait->stall_ms == 0 || moves != wait->stall_moves) {
    wait->stall_moves = moves;
    wait->stall_ms = now;
    wait->stall_told = false;
  }
  struct request *request = first_open(wait);
  uint64_t stalled_ms = now - wait->stall_ms;
  if (limit_ms == 0 || wait->stall_told || request == NULL ||
      stalled_ms < (limit_ms < RING_MS ? limit_ms : RING_MS))
    return;
  const struct endpoint *end = place_of(wait, request);
  struct stall stall = {.seconds = stalled_ms / 1000, .before = end != request->end};
  uint64_t ends_ms = end_of_ring(wait, request, &stall.leaves);
  if ((ends_ms <= now && stalled_ms < limit_ms) || !is_speaker(end->team->plane))
    return;
  wait->stall_told = true;
  stall.ring_s = ends_ms <= now ? 0 : (ends_ms - now + 999) / 1000;
  report_stall(end, request->unit, &stall);
}
