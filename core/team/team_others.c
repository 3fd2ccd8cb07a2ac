/* What a rank knows of the others beyond the sequence itself: who took part, what went wrong, who
 * has failed, and saying the same of itself. */
#include <assert.h>

#include "core/team/team_private.h"

bool team_has_stopped(const struct team *team, const struct plane_log *log) {
  return atomic_load(&log->claim) > team->head &&
         (atomic_load_explicit(&log->claim_flags, memory_order_acquire) & CLAIM_STOPPED) != 0;
}

bool team_look_for_failures(struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    if (atomic_load_explicit(&log->state, memory_order_acquire) == RANK_FAILED &&
        !team_has_stopped(team, log))
      team_fail(team, FAILURE_RANK, rank, LOAD(log->failed_index));
  }
  return team->failed.how != FAILURE_NONE;
}

enum team_verdict team_is_active(struct team *team, uint64_t index, uint32_t rank, bool *active) {
  const struct plane_log *log = team->plane->logs[rank];
  assert(index < team->head && team->head - index <= PLANE_RUN_AHEAD);
  if (atomic_load_explicit(&log->head, memory_order_acquire) <= index)
    return team_look_for_failures(team) ? TEAM_FAILED : TEAM_PARKED;
  *active = (LOAD(log->entries[index % PLANE_RING].flags) & ENTRY_REAL) != 0;
  return TEAM_REAL;
}

uint64_t team_joined_since(const struct team *team, uint64_t index, uint32_t rank) {
  const struct plane_entry *entry = &team->plane->logs[rank]->entries[index % PLANE_RING];
  return log_unwrap(LOAD(entry->run_start), index);
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
  return team->head == 0 ? 0 : LOAD(team->own->entries[(team->head - 1) % PLANE_RING].flags);
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

static bool somebody_is_late(const struct team *team, uint64_t index) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (atomic_load(&team->plane->logs[rank]->head) <= index)
      return true;
  return false;
}

void team_wait_others(struct team *team, uint64_t index, unsigned milliseconds) {
  for (uint64_t since = 0; team->plane->spin(team->plane, &since);)
    if (!somebody_is_late(team, index))
      return;
  uint32_t bell = plane_bell(team->plane);
  atomic_fetch_or(&team->shared->attention, PLANE_WAITING);
  if (!somebody_is_late(team, index))
    return;
  if (atomic_load(&team->shared->napping) != 0)
    team_tell(team);
  team->plane->wait(team->plane, bell, milliseconds);
}

static void report_lossy(struct team *team, uint8_t kind, uint32_t peer, uint64_t index) {
  atomic_store(&team->own->lossy_kind, kind);
  atomic_store(&team->own->lossy_peer, peer);
  atomic_store(&team->own->lossy_index, index);
  atomic_fetch_add(&team->own->lossy_count, 1);
  team->calm += PLANE_EVENT;
  atomic_fetch_add(&team->shared->attention, PLANE_EVENT);
}

void team_report_lossy(struct team *team, uint8_t kind) {
  report_lossy(team, kind, 0, team_index(team));
}

void team_report_lossy_post(struct team *team, uint8_t kind, uint32_t peer) {
  report_lossy(team, kind, peer, atomic_load(&team->own->head));
}

/* Whether a rank has shadowed something lossy since this one has last asked. */
static bool has_event(const struct team *team, uint32_t rank, uint32_t *count,
                      struct lossy_event *event) {
  const struct plane_log *log = team->plane->logs[rank];
  *count = atomic_load(&log->lossy_count);
  *event = (struct lossy_event){rank, atomic_load(&log->lossy_peer), atomic_load(&log->lossy_index),
                                (uint8_t)atomic_load(&log->lossy_kind)};
  return *count != atomic_load(&team->settling.lossy_seen[rank]);
}

bool team_events(struct team *team, struct lossy_event *event) {
  /* Noted first: what happens while we look is looked for again. */
  uint64_t calm = atomic_load(&team->shared->attention) / PLANE_EVENT * PLANE_EVENT;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    uint32_t count;
    if (!has_event(team, rank, &count, event))
      continue;
    atomic_store(&team->settling.lossy_seen[rank], count);
    if (rank != team->plane->rank)
      return true;
  }
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
  const struct plane_entry *entry = &team->own->entries[index % PLANE_RING];
  return index < team->head && team->head - index <= PLANE_RING &&
         !(LOAD(entry->flags) & (ENTRY_REAL | ENTRY_LEAVE));
}

void team_say_leaving(struct team *team, bool leaving) {
  atomic_store(&team->own->leaving, leaving);
}

bool team_all_leaving(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    bool leaves_here =
        atomic_load(&log->claim) == team->head + 1 &&
        atomic_load_explicit(&log->claim_hash, memory_order_acquire) == 0 &&
        !(atomic_load_explicit(&log->claim_flags, memory_order_acquire) & CLAIM_YIELD);
    if (!leaves_here && !atomic_load(&log->leaving))
      return false;
  }
  return true;
}

void team_look_for_the_dead(struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    struct plane_log *log = team->plane->logs[rank];
    if (rank == team->plane->rank || team->plane->alive(team->plane, rank))
      continue;
    uint32_t state = atomic_load(&log->state);
    if (state == RANK_DONE || state == RANK_FAILED)
      continue;
    STORE(log->failed_index, atomic_load(&log->head));
    atomic_compare_exchange_strong(&log->state, &state, RANK_FAILED);
  }
}

bool team_is_answering(const struct team *team) {
  return team->owner.is_answering == NULL ||
         team->owner.is_answering(team->owner.is_answering_context);
}

enum post_result team_post(struct team *team, const struct member *members, uint32_t nmembers) {
  enum post_result result =
      peers_post(team->peers, members, nmembers, atomic_load(&team->own->head));
  if (result != POST_DONE || nmembers == 0)
    return result;
  team_tell(team);
  return result;
}

enum post_result team_post_later(struct team *team, const struct member *members, uint32_t nmembers,
                                 unsigned milliseconds) {
  uint32_t bell = plane_bell(team->plane);
  atomic_fetch_or(&team->shared->attention, PLANE_WAITING);
  enum post_result result = team_post(team, members, nmembers);
  if (result == POST_FULL)
    team->plane->wait(team->plane, bell, milliseconds);
  return result;
}

void team_stop_answering(struct team *team) {
  if (LOAD(team->own->answering) != 0)
    atomic_store(&team->own->answering, 0);
}

void team_find_culprit(struct team *team) {
  team_look_for_the_dead(team);
  bool culprit_dead = false;
  uint64_t culprit_index = UINT64_MAX;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    if (rank == team->plane->rank || atomic_load(&log->state) != RANK_FAILED)
      continue;
    bool dead = !team->plane->alive(team->plane, rank);
    uint64_t index = LOAD(log->failed_index);
    if (dead < culprit_dead || (dead == culprit_dead && index >= culprit_index))
      continue;
    culprit_dead = dead;
    culprit_index = index;
    team->failed.rank = rank;
    team->failed.index = index;
  }
}

bool team_is_apart(const struct team *team) {
  return atomic_load(&team->shared->apart) != 0;
}

uint64_t team_passed(const struct team *team) {
  return atomic_load(&team->own->head);
}

/* One that has stopped (team_stop.h) counts as failed, but has passed what every rank has. */
bool team_find_lost(const struct team *team, uint32_t *rank, uint64_t *issued) {
  for (uint32_t other = 0; other < team->plane->nranks; other++) {
    const struct plane_log *log = team->plane->logs[other];
    if (other == team->plane->rank ||
        atomic_load_explicit(&log->state, memory_order_acquire) != RANK_FAILED ||
        LOAD(log->failed_index) >= team_passed(team))
      continue;
    *rank = other;
    *issued = LOAD(log->failed_index);
    return true;
  }
  return false;
}

static void end_after(struct team *team, enum rank_state state, uint64_t issued) {
  STORE(team->own->failed_index, issued);
  atomic_store(&team->own->state, state);
  atomic_fetch_add(&team->shared->attention, PLANE_EVENT);
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
  return team->own == plane->logs[plane->rank] && team->head == atomic_load(&team->own->head) &&
         team->head <= team->limit && team->expected >= team->ahead.foreseen &&
         team->expected - team->ahead.foreseen <= (ptrdiff_t)TEAM_FORESEEN &&
         (team->ahead.foreseen[0] == &team_nothing || team->symbol_expected != SYMBOL_NONE) &&
         (!team->claim.open || team->claim.unit.nmembers == 0 || team->claim.hash != 0);
}
