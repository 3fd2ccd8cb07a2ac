/* Keeping step with the ranks of other teams, before a call and after it (wait.h, overlap.h). */
#include "core/team/team.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
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

_Static_assert(OVERLAP_PATIENCE_MS > 2 * (7 * OVERLAP_STEP_MS + OVERLAP_STAGGER),
               "ranks that are all parked have answered each other by half of it");

/* Who has asked does not wait longer for anybody: nothing more is to come of that. */
static bool is_over(const struct wait *wait, const struct overlap_behind *behind,
                    uint64_t waited_ms) {
  bool over = true;
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    const struct request *request = &wait->requests[i];
    const struct endpoint *end = request->end;
    if (request->settled)
      continue;
    uint64_t patience_ms = overlap_patience(end->overlap, wait->issued ? NULL : end->team, behind);
    if (wait->issued && patience_ms > OVERLAP_PATIENCE_MS)
      patience_ms = OVERLAP_PATIENCE_MS;
    over = over && waited_ms >= patience_ms;
  }
  return over;
}

static void say_waited(const struct wait *wait, const struct overlap_behind *behind, bool in_vain,
                       uint64_t waited_ms) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (!wait->requests[i].settled)
      overlap_waited(wait->requests[i].end->overlap, behind, in_vain);
  for (struct endpoint *end = wait->all; in_vain && !wait->issued && end != NULL; end = end->next)
    if (end->team == behind->team)
      report_goes_on(wait->requests[0].end, end, waited_ms);
}

void wait_keep_step(struct wait *wait) {
  struct overlap_behind behind;
  uint64_t waited_ms = 0;
  bool over = false;
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
    wait->behind = behind.team;
    wait_look_after(wait);
    team_wait_others(behind.team, behind.index, WAIT_SEVERAL_MS);
    waited_ms = (now_ns() - wait->since_ns) / 1000000;
  } while (is_early(wait, &behind) && !(over = is_over(wait, &behind, waited_ms)));
  say_waited(wait, &behind, over, waited_ms);
  wait_issue_all(wait);
  wait_stop_answering(wait);
  for (uint32_t i = 0; i < wait->nrequests; i++)
    overlap_return(wait->requests[i].end->overlap);
  communicator_release_endpoints();
  wait->all = NULL;
  wait->behind = NULL;
  wait->stall_ms = 0;
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
