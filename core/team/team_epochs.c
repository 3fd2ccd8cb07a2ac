/* Whether ranks are in step: in the same round of the outermost loop of their program (team.h).
 *
 * A point that each round comes to once is a clock of rounds: each rank counts how often it has
 * issued it for real, and says so where it claims it. Ranks that guessed wrong once, and are a
 * round apart from then on, are told by it. */
#include "core/team/team_private.h"

void team_count_epoch(struct team *team, uint32_t place, uint32_t times) {
  struct known_place *known = team_known_place(team, place);
  if (known != NULL)
    known->epochs += times;
}

uint32_t team_epoch(const struct team *team) {
  const struct known_place *known = team_known_place(team, unit_place(team->claim));
  if (!unit_may_have_place(team->claim) || known == NULL || !known->common || !team->was_uneven ||
      !place_is_of_each_epoch(&known->place))
    return 0;
  return known->epochs + 1;
}
