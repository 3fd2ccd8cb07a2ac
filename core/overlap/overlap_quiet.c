/* Who waits, and for how long nothing has moved (overlap.h): what ranks of several teams do when
 * all of them are parked. */
#include "core/overlap/overlap_private.h"
#include "core/team/team_private.h"

static void publish_busy(struct overlap *overlap, uint64_t until) {
  overlap->busy_until = until;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    log_say_busy(overlap->teams[i]->team->own, until);
}

static void overlap_quiet_park(struct overlap *overlap, bool waits, uint64_t now_ms) {
  if (overlap_is_single(overlap))
    return;
  overlap_enter(overlap);
  overlap->parked = true;
  overlap->waits = waits;
  overlap->shadowed = false;
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    overlap->teams[i]->answering = 0;
    overlap->teams[i]->wait_from = overlap->teams[i]->team->head;
  }
  overlap_forget_held(overlap);
  overlap_count(overlap);
  overlap->guess_said = false;
  overlap->moved_at = now_ms;
  publish_busy(overlap, now_ms);
  overlap_leave(overlap);
}

void overlap_park(struct overlap *overlap, uint64_t now_ms) {
  overlap_quiet_park(overlap, false, now_ms);
}

void overlap_wait(struct overlap *overlap, uint64_t now_ms) {
  overlap_quiet_park(overlap, true, now_ms);
}

void overlap_return(struct overlap *overlap) {
  if (overlap_is_single(overlap))
    return;
  overlap_enter(overlap);
  overlap->parked = overlap->waits = false;
  overlap_say_keeps_step(overlap, false);
  overlap_forget_held(overlap);
  publish_busy(overlap, 0);
  overlap_leave(overlap);
}

void overlap_moved(struct overlap *overlap, uint64_t now_ms) {
  if (overlap_is_single(overlap))
    return;
  overlap_enter(overlap);
  overlap->moved_at = now_ms;
  overlap_forget_held(overlap);
  publish_busy(overlap, now_ms);
  overlap_leave(overlap);
}

void overlap_issues(struct overlap *overlap, uint64_t now_ms) {
  if (overlap_is_single(overlap))
    return;
  overlap_enter(overlap);
  publish_busy(overlap, now_ms + OVERLAP_ISSUE_MS);
  overlap_leave(overlap);
}

static bool is_waited_for(const struct overlap_team *team, uint32_t rank) {
  const struct plane_log *log = log_of(team->team->plane, rank);
  if (team->overlap->waits)
    return team->awaited && overlap_is_behind(team, rank);
  return team->team->claim.open && !log_claims(log, team->team->head) &&
         log_passed(log) <= team->team->head;
}

/* A rank says that in all its teams. One that has yet to come to this team says it in another. */
static uint64_t busy_until(const struct overlap_team *place, uint32_t rank) {
  const struct overlap *overlap = place->overlap;
  uint64_t until = log_busy_until(log_of(place->team->plane, rank));
  for (uint32_t i = 0; until == 0 && i < overlap->nteams; i++) {
    uint32_t there = overlap_rank_there(place, i, rank);
    if (there != NOWHERE)
      until = log_busy_until(log_of(overlap->teams[i]->team->plane, there));
  }
  return until;
}

uint64_t overlap_quiet(struct overlap *overlap, uint64_t now_ms) {
  if (overlap_is_single(overlap))
    return 0;
  overlap_enter(overlap);
  uint64_t until = overlap->moved_at;
  overlap_begin_asking(overlap);
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    struct overlap_team *place = overlap->teams[i];
    const struct team *team = place->team;
    for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
      if (rank == team->plane->rank || !is_waited_for(place, rank))
        continue;
      uint64_t theirs = busy_until(place, rank);
      if (theirs == 0)
        theirs = overlap_busy_of_holder(place, rank, now_ms);
      if (theirs > until)
        until = theirs;
    }
  }
  overlap_end_asking(overlap);
  publish_busy(overlap, until);
  overlap_leave(overlap);
  return now_ms > until ? now_ms - until : 0;
}
