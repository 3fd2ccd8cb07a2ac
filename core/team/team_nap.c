/* Sleeping by one's own clock (team_nap.h). */
#include "core/team/team_nap.h"

#include "core/team/team_private.h"

/* As team_wait: the bell is read first, then said that this rank sleeps, then looked once more.
 */
enum team_verdict team_announce(struct team *team, struct unit *unit, bool rung, uint32_t *bell) {
  *bell = plane_bell(team->plane);
  if (rung)
    plane_say_waiting(team->shared);
  else
    plane_say_napping(team->shared);
  return team_poll(team, unit);
}

bool team_is_passed(const struct team *team) {
  return plane_first_past(team->plane, team->head) != team->plane->nranks;
}

bool team_is_called(const struct team *team, uint32_t bell) {
  return plane_bell(team->plane) != bell || team_is_passed(team);
}

bool team_may_nap(const struct team *team) {
  return !peers_are_tracked(team->plane);
}

bool team_foresees(struct team *team, struct unit *unit) {
  team->followed.handed_out = unit_table_looks(team->table, team->symbol_expected);
  return unit_table_get(team->table, team->symbol_expected, unit);
}

void team_rehearse(const struct team *team) {
  (void)team_rehearse_following(team);
  (void)team_rehearse_expecting(team);
}

/* Bodies up to this length have a place for each position. */
#define BODY_MAX 1024u
#define CONTEXT 16u

uint32_t team_loop_place(const struct team *team) {
  uint32_t length = learner_body_length(team->learner);
  if (length > 0 && length <= BODY_MAX)
    return 1 + learner_body_position(team->learner);
  uint32_t mixed = team->symbol_expected;
  for (uint32_t back = 0; back < CONTEXT; back++)
    mixed = (mixed ^ learner_symbol(team->learner, back)) * UINT32_C(0x9e3779b1) + (mixed >> 15);
  return mixed | UINT32_C(1) << 31;
}
