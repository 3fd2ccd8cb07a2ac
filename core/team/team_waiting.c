/* Where units stand that have no place in G (team_private.h).
 *
 * An engine's thread issues them (autograd's, gradients), and the place is that of the thread which
 * waits for it. That cannot always be read, so it is no part of the unit: ranks would take one
 * gradient for two. Who claims such a unit says where it waits, if it knows; and all ranks read the
 * same rank's words, with the unit itself. So the place is known of what nobody is asked for, too.
 */
#include "core/team/team_private.h"

/* Of a unit that has been claimed from several places: it says nothing of where a rank stands. */
#define WAITED_FOR_ANYWHERE UINT32_MAX

void team_note_waited_for(struct team *team, struct unit unit, const struct place *place) {
  if (place == NULL || !unit_may_have_place(unit) || unit_place(unit) != 0)
    return;
  /* As the table has it: who settles knows no more of a place that is in it already. */
  const struct known_place *known = place_table_find(team->places.table, place->id);
  if (known == NULL || known->place.nnodes == 0)
    return;
  symbol_t symbol = unit_table_intern(team->table, unit);
  struct team_waited_for *waited = &team->places.waited_for[symbol % UNIT_TABLE_PLACES];
  if (symbol == SYMBOL_NONE)
    return; /* the unit is learnt next, and that fails */
  if (waited->symbol != symbol)
    *waited = (struct team_waited_for){.symbol = symbol, .place = place->id};
  else if (waited->place != place->id)
    waited->place = WAITED_FOR_ANYWHERE;
}

uint32_t team_place_of(const struct team *team, const struct known_unit *known) {
  struct unit unit = {known->members, known->nmembers};
  const struct team_waited_for *waited =
      &team->places.waited_for[known->symbol % UNIT_TABLE_PLACES];
  if (unit_place(unit) != 0 || !unit_may_have_place(unit))
    return unit_place(unit);
  bool is_one = waited->symbol == known->symbol && waited->place != WAITED_FOR_ANYWHERE;
  return is_one ? waited->place : 0;
}

uint32_t team_place_of_unit(const struct team *team, struct unit unit) {
  if (unit_place(unit) != 0 || !unit_may_have_place(unit))
    return unit_place(unit);
  const struct known_unit *known =
      unit_table_known(team->table, unit_table_find_hash(team->table, unit_hash(unit)));
  return known == NULL ? 0 : team_place_of(team, known);
}
