/* What each rank did since all were last together, as far as the logs go: who took part last. */
#include "core/team/team_private.h"

/* The symbol of G[index]: of the learner's history, in which no LEAVE stands. SYMBOL_NONE for a
 * LEAVE, and for what is too long ago. */
static symbol_t team_symbol_at(const struct team *team, uint64_t index) {
  uint64_t after = 0; /* LEAVEs after the index */
  for (; after < team->leaves; after++) {
    uint64_t at = team->left_at[(team->leaves - 1 - after) % TEAM_LEAVES];
    if (at == index || after == TEAM_LEAVES)
      return SYMBOL_NONE;
    if (at < index)
      break;
  }
  return learner_symbol(team->learner, team->head - 1 - index - after);
}

/* Marks and resynchronised buffers are the protocol's own: they do not tell who has data. Nor does
 * an exchange alone: a rank may have nothing to send or receive in one (experts without a token),
 * and be seen to come to it by nobody. */
static bool is_ours(const struct team *team, uint64_t index) {
  struct unit unit;
  return unit_table_get(team->table, team_symbol_at(team, index), &unit) &&
         (unit_mark(unit) != MARK_NONE || unit_is_state(unit) || unit_is_exchange(unit));
}

/* The last unit since the last rejoin that not all ranks issued for real; false if there is none,
 * as far as the logs go. */
static bool find_uneven(const struct team *team, uint64_t *index) {
  uint64_t floor = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  if (team->together > floor)
    floor = team->together;
  for (uint64_t end = team->head, since; end > floor; end = since) {
    if (plane_all_real_since(team->plane, end - 1, &since))
      continue;
    since = end - 1;
    if (is_ours(team, since))
      continue;
    *index = since;
    return true;
  }
  return false;
}

bool team_is_uneven(const struct team *team) {
  uint64_t index;
  return find_uneven(team, &index);
}

bool team_find_last_joiner(const struct team *team, const rank_set_t *set, uint32_t *rank) {
  uint64_t index = team->head;
  if (find_uneven(team, &index))
    *rank = plane_last_real(team->plane, set, index);
  else
    *rank = rank_set_last(set, team->plane->nranks);
  return *rank != team->plane->nranks;
}

bool team_was_active_last(const struct team *team, uint32_t rank) {
  uint64_t index;
  return !find_uneven(team, &index) || log_is_real(log_of(team->plane, rank), index);
}
