/* What a rank knows of the others beyond the sequence itself: who took part, what went wrong, who
 * has failed, and saying the same of itself. */
#include <assert.h>

#include "core/team/team_private.h"

bool team_look_for_failures(struct team *team) {
  uint32_t rank = plane_first_failed(team->plane, team->head);
  if (rank != team->plane->nranks)
    team_fail(team, FAILURE_RANK, rank, log_failed_index(log_of(team->plane, rank)));
  return team->failed.how != FAILURE_NONE;
}

enum team_verdict team_is_active(struct team *team, uint64_t index, uint32_t rank, bool *active) {
  const struct plane_log *log = log_of(team->plane, rank);
  assert(index < team->head && team->head - index <= PLANE_RUN_AHEAD);
  if (log_passed(log) <= index)
    return team_look_for_failures(team) ? TEAM_FAILED : TEAM_PARKED;
  *active = log_is_real(log, index);
  return TEAM_REAL;
}

uint64_t team_joined_since(const struct team *team, uint64_t index, uint32_t rank) {
  return log_run_start(log_of(team->plane, rank), index);
}

enum team_verdict team_active(struct team *team, uint64_t index, bool *active) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    enum team_verdict verdict = team_is_active(team, index, rank, &active[rank]);
    if (verdict != TEAM_REAL)
      return verdict;
  }
  return TEAM_REAL;
}

static uint32_t last_flags(const struct team *team) {
  return team->head == 0 ? 0 : log_flags(team->own, team->head - 1);
}

bool team_is_rejoin(const struct team *team) {
  return (last_flags(team) & ENTRY_REJOIN) != 0;
}

bool team_is_resync(const struct team *team) {
  return (last_flags(team) & ENTRY_RESYNC) != 0;
}

uint32_t team_last_joiner(const struct team *team) {
  return team->last_joiner;
}

bool team_was_last(const struct team *team) {
  return team->was_last;
}

void team_wait_others(struct team *team, uint64_t index, unsigned milliseconds) {
  for (uint64_t since = 0; team->plane->spin(team->plane, &since);)
    if (plane_all_past(team->plane, index))
      return;
  uint32_t bell = plane_bell(team->plane);
  plane_say_waiting(team->shared);
  if (plane_all_past(team->plane, index))
    return;
  log_say_awaits(team->own, true);
  if (plane_is_napping(team->shared))
    team_tell(team);
  team->plane->wait(team->plane, bell, milliseconds);
  log_say_awaits(team->own, false);
}

static void report_lossy(struct team *team, uint8_t kind, uint32_t peer, uint64_t index) {
  log_add_lossy(team->own, &(struct log_lossy){.index = index, .kind = kind, .peer = peer});
  plane_add_event(team->shared, &team->calm);
}

void team_report_lossy(struct team *team, uint8_t kind) {
  report_lossy(team, kind, 0, team_index(team));
}

void team_report_lossy_post(struct team *team, uint8_t kind, uint32_t peer) {
  report_lossy(team, kind, peer, team_passed(team));
}

/* Whether a rank has shadowed something lossy since this one has last asked. */
static bool has_event(const struct team *team, uint32_t rank, uint32_t *count,
                      struct lossy_event *event) {
  const struct plane_log *log = log_of(team->plane, rank);
  *count = log_lossy_count(log);
  struct log_lossy lossy = log_last_lossy(log);
  *event = (struct lossy_event){rank, lossy.peer, lossy.index, (uint8_t)lossy.kind};
  return *count != atomic_load(&team->settling.lossy_seen[rank]);
}

/* Nothing is committed that was looked up before. */
static void look_for_unsteady(struct team *team) {
  if (team->places.unsteady || !plane_any_unsteady(team->plane))
    return;
  team->places.unsteady = true;
  *team->expected = &team_nothing;
}

bool team_events(struct team *team, struct lossy_event *event) {
  plane_calm_t calm = plane_calm(team->shared);
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    uint32_t count;
    if (!has_event(team, rank, &count, event))
      continue;
    atomic_store(&team->settling.lossy_seen[rank], count);
    if (rank != team->plane->rank)
      return true;
  }
  look_for_unsteady(team);
  team->calm = calm;
  return false;
}

bool team_find_event(const struct team *team, struct lossy_event *event) {
  uint32_t count;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (rank != team->plane->rank && has_event(team, rank, &count, event))
      return true;
  return false;
}

bool team_has_shadowed(const struct team *team, uint64_t index) {
  return index < team->head && team->head - index <= PLANE_RING &&
         !(log_flags(team->own, index) & (ENTRY_REAL | ENTRY_LEAVE));
}

void team_say_leaving(struct team *team, bool leaving) {
  log_say_leaving(team->own, leaving);
}

bool team_all_leaving(const struct team *team) {
  return plane_all_leave(team->plane, team->head);
}

void team_look_for_the_dead(struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (rank != team->plane->rank && !team->plane->alive(team->plane, rank))
      log_fail(log_of(team->plane, rank));
}

void team_end_absent(struct team *team, uint32_t rank, enum rank_state state) {
  struct plane_log *log = log_of(team->plane, rank);
  if (log_state(log) != RANK_ABSENT)
    return;
  log_end(log, state, 0);
  plane_add_event(team->shared, NULL);
  team->plane->ring(team->plane);
}

bool team_is_answering(const struct team *team) {
  return team->owner.is_answering == NULL ||
         team->owner.is_answering(team->owner.is_answering_context);
}

enum post_result team_post(struct team *team, const struct posts *posts) {
  enum post_result result = peers_post(team->peers, posts, team_passed(team));
  if (result != POST_DONE || posts->nmembers == 0)
    return result;
  team_tell(team);
  return result;
}

enum post_result team_post_later(struct team *team, const struct posts *posts,
                                 unsigned milliseconds) {
  uint32_t bell = plane_bell(team->plane);
  plane_say_waiting(team->shared);
  enum post_result result = team_post(team, posts);
  if (result == POST_FULL)
    team->plane->wait(team->plane, bell, milliseconds);
  return result;
}

void team_look_at_posts(struct team *team, const struct posts *posts, unsigned milliseconds) {
  uint32_t bell = plane_bell(team->plane);
  plane_say_waiting(team->shared);
  peers_look_again(team->peers, posts);
  if (posts->unequal->open)
    team->plane->wait(team->plane, bell, milliseconds);
}

void team_stop_answering(struct team *team) {
  log_stop_answering(team->own);
}

/* Who dies says nothing of others, and is first. */
static unsigned failed_before_others(const struct plane_log *log) {
  return log_has_died(log) ? 2 : !log_has_followed(log);
}

/* Of the ranks that have failed before they had issued so many units the one that began it: one
 * that has died, else one that failed while no other had, else the one that had issued least;
 * nranks: none. */
static uint32_t find_failed(const struct team *team, uint64_t units) {
  const struct plane *plane = team->plane;
  uint32_t found = plane->nranks;
  unsigned found_before = 0;
  uint64_t found_index = units;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    const struct plane_log *log = log_of(plane, rank);
    uint64_t index = log_failed_index(log);
    if (rank == plane->rank || log_state(log) != RANK_FAILED || index >= units)
      continue;
    unsigned before = failed_before_others(log);
    if (before < found_before || (before == found_before && index >= found_index))
      continue;
    found = rank;
    found_before = before;
    found_index = index;
  }
  return found;
}

void team_find_culprit(struct team *team) {
  team_look_for_the_dead(team);
  uint32_t rank = find_failed(team, UINT64_MAX);
  if (rank == team->plane->nranks)
    return;
  team->failed.how = FAILURE_RANK;
  team->failed.rank = rank;
  team->failed.index = log_failed_index(log_of(team->plane, rank));
}

bool team_is_apart(const struct team *team) {
  return plane_is_apart(team->shared);
}

uint64_t team_passed(const struct team *team) {
  return log_passed(team->own);
}

/* One that has stopped (team_stop.h) counts as failed, but has passed what every rank has. */
bool team_find_lost(const struct team *team, uint64_t units, uint32_t *rank, uint64_t *issued) {
  uint32_t other = find_failed(team, units);
  if (other == team->plane->nranks)
    return false;
  *rank = other;
  *issued = log_failed_index(log_of(team->plane, other));
  return true;
}

/* What others are told is what the rank itself has found out by now. Said twice, the first word
 * holds. */
static void end_after(struct team *team, enum rank_state state, uint64_t issued) {
  bool failed = log_state(team->own) == RANK_FAILED;
  if (state == RANK_FAILED && !failed)
    team_look_for_the_dead(team);
  if (state == RANK_FAILED && !failed && find_failed(team, UINT64_MAX) != team->plane->nranks)
    log_fail_after(team->own, issued);
  else if (!failed)
    log_end(team->own, state, issued);
  plane_add_event(team->shared, NULL);
  team->plane->ring(team->plane);
}

void team_end(struct team *team, enum rank_state state) {
  end_after(team, state, team_passed(team));
}

void team_end_short(struct team *team) {
  uint64_t passed = team_passed(team);
  end_after(team, RANK_FAILED, passed > 0 ? passed - 1 : 0);
}

bool team_is_valid(const struct team *team) {
  const struct plane *plane = team->plane;
  return team->own == log_of(plane, plane->rank) && team->head <= team->limit &&
         team->expected >= team->ahead.foreseen &&
         team->expected - team->ahead.foreseen <= (ptrdiff_t)TEAM_FORESEEN &&
         (team->ahead.foreseen[0] == &team_nothing || team->symbol_expected != SYMBOL_NONE) &&
         (!team->claim.open || team->claim.unit.nmembers == 0 || team->claim.hash != 0);
}
