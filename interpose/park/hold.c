/* Holding sends and receives back behind a loop (hold.h). */
#include "interpose/park/hold.h"

#include "core/transport/plane_view.h"
#include "interpose/comm/apart.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/park/outcome.h"
#include "interpose/park/wait_private.h"
#include "interpose/self/environment.h"

/* For a peer that computes: longer than an iteration takes, but no longer than
 * NCCL_JOIN_STALL_WARN. It may also wait for this rank in a way that nobody sees (a barrier of MPI
 * between a send and its receive): a quarter of it after each time in vain. */
#define HOLD_MS UINT64_C(20000)

static uint64_t hold_patience(const struct endpoint *end) {
  uint32_t in_vain = atomic_load(&end->posts_in_vain);
  uint64_t stall_ms = join_settings()->stall_warn_s * 1000;
  uint64_t patience_ms = stall_ms != 0 && stall_ms < HOLD_MS ? stall_ms : HOLD_MS;
  return in_vain < 5 ? patience_ms >> (2 * in_vain) : 0;
}

/* For one that waits for this rank in another team: so the program wants it, or it is uneven there,
 * too. */
#define HOLD_ELSEWHERE_MS UINT64_C(1000)

void hold_begin(struct request *request) {
  struct endpoint *end = request->end;
  team_hold(end->team);
  bool left = team_has_left_together(end->team);
  if (left || apart_is_set(end))
    hold_end(request, left);
}

void hold_end(struct request *request, bool left) {
  struct endpoint *end = request->end;
  team_release(end->team, left);
  report_guess(end, request->unit);
  outcome_returns(end);
  wait_settle(request, ncclSuccess);
}

/* Whether a rank of the team waits for this one in another. */
static bool is_awaited_elsewhere(const struct wait *wait, const struct endpoint *end) {
  for (const struct endpoint *other = wait->all; other != NULL; other = other->next) {
    if (other == end || other->identity != end->identity || other->state != RANK_PRESENT)
      continue;
    const struct plane *there = other->team->plane;
    for (uint32_t rank = 0; rank < there->nranks; rank++)
      if (rank != there->rank && plane_is_parked(there, rank) &&
          plane_passed(there, rank) == other->team->head &&
          endpoint_has_rank(end, other->identities[rank]))
        return true;
  }
  return false;
}

void hold_look(const struct wait *wait, struct request *request, uint64_t moved_ms) {
  struct endpoint *end = request->end;
  uint64_t quiet_ms = now_ms() - moved_ms, patience_ms = hold_patience(end);
  if (is_awaited_elsewhere(wait, end) && patience_ms > HOLD_ELSEWHERE_MS)
    patience_ms = HOLD_ELSEWHERE_MS;
  if (quiet_ms < patience_ms || team_is_yielding(end->team))
    return;
  atomic_fetch_add(&end->posts_in_vain, 1);
  report_held_in_vain(end, request->behind, quiet_ms);
  hold_end(request, false);
}

bool hold_answers(const struct request *request) {
  return request->behind == NULL || team_has_answered_loop(request->end->team);
}
