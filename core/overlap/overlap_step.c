/* Step by step (overlap.h): who waits with a unit of one team until those of another are no longer
 * behind, and for how long. */
#include "core/overlap/overlap_private.h"
#include "core/team/team_private.h"

bool overlap_is_behind(const struct overlap_team *team, uint32_t rank) {
  const struct plane_log *log = log_of(team->team->plane, rank);
  return log_passed(log) <= team->issued && log_state(log) == RANK_PRESENT;
}

static bool is_awaited(struct overlap_team *team) {
  team->awaited = team->awaited && plane_awaits_any(team->team->plane, team->issued);
  return team->awaited;
}

bool overlap_must_wait(struct overlap *overlap, const struct team *team,
                       struct overlap_behind *behind) {
  bool waits = false;
  if (overlap_is_single(overlap))
    return false;
  overlap_enter(overlap);
  for (uint32_t i = 0; overlap->crosses && !waits && i < overlap->nteams; i++) {
    struct overlap_team *other = overlap->teams[i];
    waits = other->team != team && is_awaited(other);
    if (waits)
      *behind = (struct overlap_behind){other->team, other->issued};
  }
  overlap_leave(overlap);
  return waits;
}

/* ---- for how long ---- */

/* Whether a rank has shadowed anything of late, since all were last together. */
static bool has_joined(const struct team *team, const struct plane_log *log) {
  uint64_t end = log_passed(log);
  uint64_t floor = end > PLANE_RUN_AHEAD ? end - PLANE_RUN_AHEAD + 1 : 0;
  floor = team->together > floor ? team->together : floor;
  while (end > floor && log_is_real(log, end - 1)) {
    uint64_t start = log_run_start(log, end - 1);
    end = start < end ? start : floor;
  }
  for (; end > floor; end--)
    if (!(log_flags(log, end - 1) & (ENTRY_REAL | ENTRY_NO_UNIT | ENTRY_REFUSED)))
      return true;
  return false;
}

/* Whether a rank that leaves for good has not passed what we come to next: it will shadow it. */
static bool is_going(const struct team *team, const struct plane_log *log) {
  return log_passed(log) <= team->head && (log_is_leaving(log) || log_state(log) == RANK_DONE);
}

static bool somebody_joins(const struct overlap *overlap, const struct team *next) {
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    const struct team *team = overlap->teams[i]->team;
    for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
      const struct plane_log *log = log_of(team->plane, rank);
      if (has_joined(team, log) ||
          (team == next && rank != team->plane->rank && is_going(team, log)))
        return true;
    }
  }
  return false;
}

/* Whether those behind are all at work, or wait in turn for others that are; none is parked with a
 * claim. */
static bool are_on_their_way(const struct overlap_team *team) {
  for (uint32_t rank = 0; rank < team->team->plane->nranks; rank++) {
    const struct plane_log *log = log_of(team->team->plane, rank);
    if (rank != team->team->plane->rank && overlap_is_behind(team, rank) && !log_keeps_step(log) &&
        log_busy_until(log) != 0)
      return false;
  }
  return true;
}

void overlap_say_keeps_step(struct overlap *overlap, bool keeps) {
  if (overlap->keeps_step == keeps)
    return;
  overlap->keeps_step = keeps;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    log_say_keeps_step(overlap->teams[i]->team->own, keeps);
}

static struct overlap_team *find_team(const struct overlap *overlap, const struct team *team) {
  for (uint32_t i = 0; i < overlap->nteams; i++)
    if (overlap->teams[i]->team == team)
      return overlap->teams[i];
  return NULL;
}

uint64_t overlap_patience(struct overlap *overlap, const struct team *team,
                          const struct overlap_behind *behind) {
  overlap_enter(overlap);
  const struct overlap_team *there = find_team(overlap, behind->team);
  bool ends = there != NULL && !somebody_joins(overlap, team);
  bool soon = ends && are_on_their_way(there);
  uint64_t patience = !ends  ? OVERLAP_NEVER
                      : soon ? there->patience
                             : there->patience * OVERLAP_PATIENCE_CLAIMED;
  overlap_say_keeps_step(overlap, soon);
  overlap_leave(overlap);
  return patience;
}

void overlap_waited(struct overlap *overlap, const struct overlap_behind *behind, bool in_vain) {
  overlap_enter(overlap);
  struct overlap_team *there = find_team(overlap, behind->team);
  if (there != NULL && in_vain)
    there->patience = there->patience / 4 + OVERLAP_PATIENCE_LEAST_MS;
  else if (there != NULL)
    there->patience += there->patience / 8 + 1;
  if (there != NULL && there->patience > OVERLAP_PATIENCE_MS)
    there->patience = OVERLAP_PATIENCE_MS;
  overlap_leave(overlap);
}
