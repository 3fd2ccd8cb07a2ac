/* Keeping step with the ranks of other teams, before a call and after it (wait.h, overlap.h). */
#include "core/team/team.h"
#include "interpose/comm/clock.h"
#include "interpose/park/wait_private.h"
#include "interpose/self/environment.h"

static bool is_nothing_to_issue(struct unit unit) {
  return unit_is_leave(unit) || unit_mark(unit) != MARK_NONE;
}

static bool is_early(const struct wait *wait, struct overlap_behind *behind) {
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    const struct request *request = &wait->requests[i];
    if (!request->settled && !is_nothing_to_issue(request->unit) &&
        request->end->state == RANK_PRESENT &&
        overlap_must_wait(request->end->overlap, wait->issued ? NULL : request->end->team, behind))
      return true;
  }
  return false;
}

/* Mostly they are just about to come. */
static bool is_early_for_long(const struct wait *wait, struct overlap_behind *behind) {
  if (!is_early(wait, behind))
    return false;
  for (uint64_t since = 0; behind->team->plane->spin(behind->team->plane, &since);)
    if (!is_early(wait, behind))
      return false;
  return true;
}

/* All that ranks wait before they answer each other takes less than half of it. What keeps somebody
 * longer may be the program: a peer that comes only once this rank has told it to, outside of NCCL.
 */
#define BEHIND_NS (UINT64_C(1000) * 1000 * 1000)
_Static_assert(BEHIND_NS / 1000000 > 2 * (7 * OVERLAP_STEP_MS + OVERLAP_STAGGER), "half of it");

static bool is_over(const struct wait *wait) {
  return wait->issued && now_ns() - wait->since_ns > BEHIND_NS;
}

void wait_keep_step(struct wait *wait) {
  struct overlap_behind behind;
  if (!is_early_for_long(wait, &behind))
    return;
  wait->all = communicator_hold_endpoints();
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_wait(wait->requests[i].end->overlap, now_ms());
  wait_be_patient(wait);
  do {
    if (wait_look(wait)) {
      wait_be_patient(wait);
      continue;
    }
    if (now_ms() >= wait->look_ms)
      team_look_for_the_dead(behind.team);
    wait_look_after(wait);
    team_wait_others(behind.team, behind.index, WAIT_SEVERAL_MS);
  } while (is_early(wait, &behind) && !is_over(wait));
  wait_issue_all(wait);
  wait_stop_answering(wait);
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_return(wait->requests[i].end->overlap);
  communicator_release_endpoints();
  wait->all = NULL;
}

/* With NCCL_JOIN_EARLY_EXIT=throw nobody is answered: all stop. */
void wait_for_those_behind(struct request *requests, uint32_t nrequests) {
  struct wait wait = {
      .requests = requests, .nrequests = nrequests, .issued = true, .since_ns = now_ns()};
  bool asked = false;
  for (uint32_t i = 0; i < nrequests; i++) {
    requests[i].settled = !requests[i].asked || requests[i].result != ncclSuccess;
    asked |= !requests[i].settled;
  }
  if (asked && join_settings()->early_exit != EARLY_EXIT_THROW) {
    wait_keep_step(&wait);
    wait_free(&wait);
  }
  for (uint32_t i = 0; i < nrequests; i++)
    requests[i].settled = true;
}
