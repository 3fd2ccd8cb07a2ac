/* Saying that nothing moves (wait_private.h). */
#include "core/transport/plane_view.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/park/wait_private.h"
#include "interpose/self/environment.h"

/* What all ranks of the teams that are waited in have passed. */
static uint64_t moves_of(const struct wait *wait) {
  uint64_t moves = 0;
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    const struct plane *plane = wait->requests[i].end->team->plane;
    for (uint32_t rank = 0; rank < plane->nranks; rank++)
      moves += plane_passed(plane, rank);
  }
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

void stall_look(struct wait *wait) {
  uint64_t limit_s = join_settings()->stall_warn_s, now = now_ms(), moves = moves_of(wait);
  if (wait->stall_ms == 0 || moves != wait->stall_moves) {
    wait->stall_moves = moves;
    wait->stall_ms = now;
    wait->stall_told = false;
  }
  struct request *request = first_open(wait);
  if (limit_s == 0 || wait->stall_told || request == NULL ||
      now < wait->stall_ms + limit_s * 1000 || !is_speaker(request->end->team->plane))
    return;
  wait->stall_told = true;
  report_stall(request->end, request->unit, (now - wait->stall_ms) / 1000);
}
