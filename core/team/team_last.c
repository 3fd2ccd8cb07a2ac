/* What a rank did last, for messages (team.h). */
#include "core/team/team_private.h"

static bool last_known(struct team *team, uint64_t hash, struct team_last *last) {
  if (!unit_table_get(team->table, unit_table_find_hash(team->table, hash), &last->unit))
    return false;
  const struct known_place *known = team_known_place(team, unit_place(last->unit));
  last->place = known != NULL ? known->place.text : "";
  return true;
}

static bool last_read(struct team *team, const struct plane_log *log, uint32_t position,
                      uint64_t hash, struct team_last *last) {
  struct text text;
  if (position == 0 || team_read_text(team, log, position, &text) != READ_UNIT || text.hash != hash)
    return false;
  last->unit = text.unit;
  last->place = text.place != NULL ? text.place->text : "";
  return true;
}

/* A unit that is expected has no text of its own: its rank has claimed it before. */
static bool last_written(struct team *team, const struct plane_log *log, uint64_t passed,
                         uint64_t hash, struct team_last *last) {
  uint64_t from = passed > PLANE_RUN_AHEAD ? passed - PLANE_RUN_AHEAD : 0;
  for (uint64_t index = passed; index-- > from;)
    if (log_hash(log, index) == hash && !(log_flags(log, index) & ENTRY_EXPECTED) &&
        last_read(team, log, log_text(log, index), hash, last))
      return true;
  return false;
}

bool team_last_unit(struct team *team, uint32_t rank, struct team_last *last) {
  const struct plane_log *log = log_of(team->plane, rank);
  uint64_t passed = log_passed(log);
  struct log_claim claim;
  *last = (struct team_last){.place = ""};
  last->parked =
      log_read_claim(log, passed, &claim) && !(claim.flags & (CLAIM_YIELD | CLAIM_STOPPED));
  if (last->parked && claim.hash == 0)
    return true;
  if (last->parked)
    return last_read(team, log, claim.text, claim.hash, last);
  if (passed == 0 || (log_flags(log, passed - 1) & ENTRY_NO_UNIT))
    return false;
  uint64_t hash = log_hash(log, passed - 1);
  return last_known(team, hash, last) || last_written(team, log, passed, hash, last);
}

bool team_is_in_left_loop(struct team *team, uint32_t rank, const struct place *here) {
  struct team_last last;
  if (!team_last_unit(team, rank, &last))
    return false;
  const struct known_place *known = team_known_place(team, unit_place(last.unit));
  return known != NULL && known->epochs > 0 && place_leaves_loop(&known->place, here) &&
         !place_shares_loop(&known->place, here);
}
