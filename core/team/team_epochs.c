/* Whether ranks are in step: in the same round of the outermost loop of their program (team.h).
 *
 * A point that each round comes to once is a clock of rounds: each rank counts how often it has
 * issued it for real, and says so where it claims it. Ranks that guessed wrong once, and are a
 * round apart from then on, are told by it.
 *
 * Code does not show all ways: a call through a pointer may go elsewhere in another round, an
 * exception or longjmp may skip the point, and the loop may be gone into again and again from where
 * nobody looks (a thread for each epoch). So each rank looks whether its own counts fit each other,
 * and says nothing where they do not. */
#include "core/team/team_private.h"

/* How often this rank has issued something outside the outermost loop around a place. */
static uint32_t team_outside(const struct team *team, const struct place *place) {
  uint32_t at = 0, times = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (!place_shares_epoch(place, &other->place))
      times += other->epochs;
  return times;
}

void team_count_epoch(struct team *team, uint32_t place, uint32_t times) {
  struct known_place *known = team_known_place(team, place);
  if (known == NULL)
    return;
  if (known->epochs == 0 && place_is_of_each_epoch(&known->place))
    known->epochs_outside = team_outside(team, &known->place);
  known->epochs += times;
}

/* Of a rank that stands at a point of each round: whether it has come to another point of the loop
 * as often as it should. It has no mark at the beginning of some rounds. What is in no loop within comes at most once in a round. */
static bool team_fits(const struct known_place *known, const struct known_place *other) {
  const struct place *place = &other->place;
  if (other == known || place_is_begin(place) || !place_shares_epoch(&known->place, place) ||
      !place_is_in_one_loop(place))
    return true;
  int32_t ahead = (int32_t)(other->epochs - known->epochs);
  int32_t least = place_goes_first(place, &known->place), most = 1;
  if (place_goes_first(&known->place, place))
    most = 0;
  return ahead <= most && (ahead >= least || !place_is_of_each_epoch(place));
}

/* The same of all other points; and whether it has stayed in the loop since it first came here. */
static bool fits_other_counts(const struct team *team, const struct known_place *known) {
  uint32_t at = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (!team_fits(known, other))
      return false;
  return known->epochs == 0 || team_outside(team, &known->place) == known->epochs_outside;
}

uint32_t team_epoch(struct team *team) {
  const struct known_place *known = team_known_place(team, unit_place(team->claim.unit));
  if (!unit_may_have_place(team->claim.unit) || unit_is_round(team->claim.unit) || known == NULL ||
      !known->common || !team->telling.was_uneven || team->claim.clock == CLOCK_NONE ||
      !place_is_of_each_epoch(&known->place))
    return 0;
  if (team->claim.clock == CLOCK_UNKNOWN)
    team->claim.clock = fits_other_counts(team, known) ? CLOCK_FITS : CLOCK_NONE;
  return team->claim.clock == CLOCK_FITS ? known->epochs + 1 : 0;
}

bool team_counts_rounds(const struct team *team, const struct place *begin) {
  uint32_t at = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (other->counted && place_shares_epoch(begin, &other->place))
      return true;
  return false;
}
