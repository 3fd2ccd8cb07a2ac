/* Passing an index that some rank has passed (team.h): what G has there is read in its log, or in
 * that of the rank it had it from. */
#include "core/team/team_private.h"

#define ENTRY_OF_ALL                                                                               \
  (ENTRY_EXPECTED | ENTRY_LEAVE | ENTRY_MEETING | ENTRY_REFUSED | ENTRY_DEVIATION | ENTRY_REJOIN | \
   ENTRY_RESYNC | ENTRY_ALL | ENTRY_COMMON | ENTRY_APART | ENTRY_BEHIND | ENTRY_EVEN |             \
   ENTRY_COUNTED | ENTRY_COUNTED_WITHIN)

/* Whether the unit that G has here is the one that this rank claims. */
static bool is_mine(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                    const struct place *place) {
  if (!team->claim.open)
    return false;
  if (team->claim.left && (flags & ENTRY_EXPECTED))
    return false;
  if (team_is_behind(team) && team->behind.ahead && team_stands_in_left(team, unit))
    return false;
  if (team->claim.hash != hash)
    return team_is_mine(team, unit, hash, flags, place);
  /* Not claim.epoch: behind a yield that is of an index before. */
  uint32_t epoch = flags & ENTRY_BEHIND ? team_epoch(team) : 0;
  return epoch == 0 || (epoch & UINT8_MAX) == team->epoch_behind;
}

/* The others hear of it before they issue anything more (team_events). */
static void note_left(struct team *team, struct unit unit) {
  team->claim.left = team->places.unsteady = true;
  log_say_unsteady(team->own);
  plane_add_event(team->shared, &team->calm);
  team->telling.guessed = true;
  team->telling.guess = (struct team_guess){.kind = GUESS_EPOCH,
                                            .rank = team->plane->rank,
                                            .other = team->source,
                                            .epochs = 1,
                                            .member = unit.members[0]};
  team_copy_text(team->telling.guess.place, &team->claim.own_place);
}

bool team_rehearse_following(const struct team *team) {
  struct unit unit;
  if (!unit_table_get(team->table, team->symbol_expected, &unit))
    return false;
  uint64_t hash = unit_hash(unit);
  return unit_table_find_hash(team->table, hash) == team->symbol_expected &&
         is_mine((struct team *)team, unit, hash, ENTRY_EXPECTED, NULL);
}

enum team_verdict team_pass(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                            uint32_t source, const struct place *place) {
  uint32_t common = flags & ENTRY_OF_ALL;
  bool mine = is_mine(team, unit, hash, flags, place);
  if (place != NULL)
    (void)place_table_add(team->places.table,
                          place); /* which may forget where my claim's unit stands */
  team->source = source;
  team_tell_blind(team);
  if (mine) {
    bool doubts = team_doubt(team, unit, hash, flags);
    if ((team_round_begun(team) || doubts) && (team->claim.flags & CLAIM_SURE)) {
      team_fail(team, FAILURE_UNSURE, source, team->head);
      return TEAM_FAILED;
    }
    team->claim.open = false;
    team_note_issued(team, unit, hash);
    team_publish(team, unit, hash, common | ENTRY_REAL, team->claim.text, source);
    if (flags & ENTRY_LEAVE)
      return TEAM_LEFT;
    return flags & ENTRY_REFUSED ? TEAM_REFUSED : TEAM_REAL;
  }
  if (team_is_outside(team) && team->outside.hash == hash) {
    team_publish(team, unit, hash, common | ENTRY_REAL, team->outside.text, source);
    return TEAM_SHADOW; /* nothing is left to be issued */
  }
  if ((team_doubt_apart(team, unit, hash, flags) || team_doubt_passed(team, unit, flags)) &&
      (team->claim.flags & CLAIM_SURE)) {
    team_fail(team, FAILURE_UNSURE, source, team->head);
    return TEAM_FAILED;
  }
  team_tell_hidden(team, unit);
  if (unit.nmembers != 0 && team_is_left(team, unit, flags))
    note_left(team, unit);
  team_publish(team, unit, hash, common, 0, source);
  return flags & ENTRY_REFUSED ? TEAM_PARKED : TEAM_SHADOW;
}

/* Where the members of G[head] are written, given the entry of a rank that has passed it: in the
 * log of the rank whose unit it was (which may not have passed the index itself yet, and then still
 * claims it). */
static bool find_text(const struct team *team, const struct log_entry *entry, uint32_t *rank,
                      uint32_t *position) {
  if (entry->source >= team->plane->nranks)
    return false;
  *rank = entry->source;
  const struct plane_log *log = log_of(team->plane, *rank);
  if (log_passed(log) <= team->head) {
    struct log_claim claim;
    if (log_read_claim(log, team->head, &claim)) {
      *position = claim.text;
      return true;
    }
    /* It has passed the index in this moment, and claims another already. */
    if (log_passed(log) <= team->head)
      return false;
  }
  struct log_entry theirs = log_entry(log, team->head);
  *position = theirs.text;
  return (theirs.flags & ENTRY_REAL) != 0;
}

/* A rank that gives up takes its claim away, and with it what others may just be following: its
 * failure, or the one that it has heard of, is there or will be. */
static bool has_given_up(const struct team *team, uint32_t rank) {
  const struct plane_log *log = log_of(team->plane, rank);
  return log_claimed(log) == 0 && log_passed(log) <= team->head;
}

/* No rank runs so far ahead that its ring has turned past our index: who believed that it does
 * would follow for ever what is in the ring. And units are refused for ranks that there are, and
 * rejoins have a last joiner. */
static bool is_possible(const struct team *team, const struct plane_log *log,
                        const struct log_entry *entry) {
  return log_passed(log) - team->head <= PLANE_RUN_AHEAD &&
         (!(entry->flags & ENTRY_REJOIN) || entry->last_joiner < team->plane->nranks) &&
         (!(entry->flags & (ENTRY_REFUSED | ENTRY_STOPPED)) ||
          log_refused_for(log) < team->plane->nranks);
}

/* Whether a unit's text has to be read for its place, or where it is waited for. A unit too big for
 * a text has none there. */
static bool is_place_missing(const struct team *team, struct unit unit) {
  return unit_may_have_place(unit) && unit.nmembers <= UNIT_MEMBERS_MAX &&
         team_known_place(team, unit_place(unit)) == NULL;
}

/* The unit that an entry speaks of, and its place if that is not known yet. */
static enum read_result find_unit(struct team *team, const struct log_entry *entry, uint32_t rank,
                                  struct text *text) {
  uint32_t position;
  *text = (struct text){.hash = entry->hash};
  if (entry->flags & ENTRY_EXPECTED) {
    if (!unit_table_get(team->table, team->symbol_expected, &text->unit))
      return READ_CORRUPT;
    text->hash = unit_hash(text->unit);
    return READ_UNIT;
  }
  if (team->claim.open && team->claim.unit.nmembers != 0 && team->claim.hash == entry->hash &&
      !is_place_missing(team, team->claim.unit)) {
    text->unit = team->claim.unit;
    return READ_UNIT;
  }
  if (find_text(team, entry, &rank, &position))
    return team_read_text(team, log_of(team->plane, rank), position, text);
  return has_given_up(team, rank) ? READ_GIVEN_UP : READ_CORRUPT;
}

/* The rank whose unit an entry of `rank` is. */
static uint32_t team_issuer(const struct team *team, uint32_t rank, const struct log_entry *entry) {
  bool own = (entry->flags & (ENTRY_REAL | ENTRY_EXPECTED)) == (ENTRY_REAL | ENTRY_EXPECTED);
  return own || entry->source >= team->plane->nranks ? rank : entry->source;
}

static enum team_verdict follow_unit(struct team *team, uint32_t rank,
                                     const struct log_entry *entry, struct unit *unit) {
  struct text text;
  enum read_result read = find_unit(team, entry, rank, &text);
  if (read == READ_GIVEN_UP)
    return TEAM_PARKED;
  *unit = text.unit;
  if (read == READ_UNIT && entry->hash == text.hash)
    return team_pass(team, *unit, text.hash, entry->flags, team_issuer(team, rank, entry),
                     text.place);
  team_fail(team, read == READ_TOO_BIG ? FAILURE_TOO_BIG : FAILURE_CORRUPT, rank, team->head);
  return TEAM_FAILED;
}

enum team_verdict team_follow(struct team *team, uint32_t rank, const struct log_entry *entry,
                              struct unit *unit) {
  const struct plane_log *log = log_of(team->plane, rank);
  uint32_t flags = entry->flags;
  if (!is_possible(team, log, entry)) {
    team_fail(team, FAILURE_CORRUPT, rank, team->head);
    return TEAM_FAILED;
  }
  if (flags & ENTRY_REJOIN)
    team->last_joiner = entry->last_joiner;
  if (flags & ENTRY_BEHIND)
    team->epoch_behind = entry->epoch;
  if (flags & ENTRY_APART)
    team->apart = entry->apart;
  if (flags & ENTRY_REFUSED)
    log_set_refused_for(team->own, log_refused_for(log));
  if (!(flags & ENTRY_NO_UNIT))
    return follow_unit(team, rank, entry, unit);
  if ((flags & ENTRY_STOPPED) && (team->claim.open || team_is_yielding(team)))
    return team_pass_stop(team, entry->hash, log_refused_for(log), entry->text != 0);
  if ((flags & ENTRY_LEAVE) && !(flags & ENTRY_STOPPED) && team->claim.open &&
      team->claim.unit.nmembers == 0)
    return team_pass(team, (struct unit){NULL, 0}, 0, flags, rank, NULL);
  team_fail(team, FAILURE_CORRUPT, rank, team->head);
  return TEAM_FAILED;
}

bool team_somebody_passed(const struct team *team, uint32_t *rank, struct log_entry *entry) {
  *rank = plane_first_past(team->plane, team->head);
  if (*rank == team->plane->nranks)
    return false;
  *entry = log_entry(log_of(team->plane, *rank), team->head);
  return true;
}

/* ---- where all stop (team_stop.h) ---- */

static bool is_stopped_elsewhere(const struct team *team) {
  return team->stopped == team->head + 1;
}

enum team_verdict team_pass_stop(struct team *team, uint64_t hash, uint32_t rank, bool elsewhere) {
  bool heard = is_stopped_elsewhere(team);
  uint64_t own_hash = team->claim.open && !team_is_yielding(team) ? team->claim.hash : 0;
  team->stop.rank = rank;
  team->stop.elsewhere = elsewhere;
  team->stop.exhausted = own_hash != hash;
  log_set_refused_for(team->own, rank);
  if (!heard)
    team->claim.open = false;
  /* Real: all ranks were together here. */
  team_publish(team, (struct unit){NULL, 0}, hash, ENTRY_STOPPED | ENTRY_REAL, elsewhere, rank);
  return heard ? TEAM_PARKED : TEAM_STOPPED;
}
