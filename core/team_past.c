/* What each rank did, in the past that the logs still hold, with the units that are claimed now: a
 * rank that shadowed a unit whenever it came, and never issued it, does not have it in its program.
 */
#include "core/settle.h"
#include "core/team_private.h"

/* Units that some ranks only follow by intent say nothing about who has data. */
static bool is_ours(const struct team *team, uint64_t index) {
  struct unit unit;
  return unit_table_get(team->table, team_symbol_at(team, index), &unit) &&
         (unit_mark(unit) != MARK_NONE || unit_is_state(unit));
}

/* Whether all ranks issued G[index] for real, and, if so, since when they have. */
static bool all_issued(const struct team *team, uint64_t index, uint64_t *since) {
  *since = 0;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_entry *entry = &team->plane->logs[rank]->entries[index % PLANE_RING];
    uint64_t start = log_unwrap(LOAD(entry->run_start), index);
    if (!(LOAD(entry->flags) & ENTRY_REAL))
      return false;
    *since = start > *since ? start : *since;
  }
  return true;
}

/* The last unit since the last reunion that not all ranks issued for real; false if there is none,
 * as far as the logs go. */
static bool find_uneven(const struct team *team, uint64_t *index) {
  uint64_t floor = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  if (team->together > floor)
    floor = team->together;
  for (uint64_t end = team->head, since; end > floor; end = since) {
    if (all_issued(team, end - 1, &since))
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

bool team_was_active_last(const struct team *team, uint32_t rank) {
  uint64_t index;
  return !find_uneven(team, &index) ||
         (LOAD(team->plane->logs[rank]->entries[index % PLANE_RING].flags) & ENTRY_REAL);
}

/* Bits: more units at once than these are not told apart. */
enum { UNITS_MAX = 32 };

/* Numbers the units claimed; the claims of one unit have one number. Returns how many there are. */
static uint32_t number_units(struct claim *claims, uint32_t nranks) {
  uint32_t units = 0;
  for (uint32_t rank = 0; rank < nranks; rank++) {
    struct claim *claim = &claims[rank];
    claim->unit = 0;
    claim->issued = claim->skipped = claim->times = 0;
    if (claim->symbol == SYMBOL_NONE)
      continue;
    for (uint32_t other = 0; other < rank && claim->unit == 0; other++)
      if (claims[other].symbol == claim->symbol)
        claim->unit = claims[other].unit;
    if (claim->unit == 0 && units < UNITS_MAX)
      claim->unit = UINT32_C(1) << units++;
  }
  return units;
}

/* Whether an index was one of the units; and which. */
static uint32_t unit_at(const struct team *team, uint64_t index) {
  symbol_t symbol = team_symbol_at(team, index);
  for (uint32_t rank = 0; rank < team->plane->nranks && symbol != SYMBOL_NONE; rank++)
    if (team->claims[rank].symbol == symbol)
      return team->claims[rank].unit;
  return 0;
}

void team_look_back(struct team *team) {
  uint32_t nranks = team->plane->nranks;
  uint32_t units = number_units(team->claims, nranks);
  uint64_t floor = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  for (uint64_t at = team->head; at > floor && units > 1; at--) {
    uint32_t unit = unit_at(team, at - 1);
    for (uint32_t rank = 0; rank < nranks && unit != 0; rank++) {
      team->claims[rank].times += team->claims[rank].unit == unit;
      const struct plane_entry *entry = &team->plane->logs[rank]->entries[(at - 1) % PLANE_RING];
      if (LOAD(entry->flags) & ENTRY_REAL)
        team->claims[rank].issued |= unit;
      else
        team->claims[rank].skipped |= unit;
    }
  }
  for (uint32_t rank = 0; rank < nranks; rank++)
    team->claims[rank].skipped &= ~team->claims[rank].issued;
}
