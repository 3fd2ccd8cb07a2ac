/* Passing an index that some rank has passed (team.h): what G has there is read in its log, or in
 * that of the rank it had it from. */
#include "core/team_private.h"

enum team_verdict team_pass(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                            uint32_t source) {
  bool mine = team->claimed && team->claim_hash == hash &&
              !((flags & ENTRY_EXPECTED) && team_is_of_the_loop(team)) &&
              !((flags & ENTRY_OF_LOOP) && team_claims_elsewhere(team));
  team->source = source;
  uint32_t common = flags & (ENTRY_EXPECTED | ENTRY_LEAVE | ENTRY_MEETING | ENTRY_REFUSED |
                             ENTRY_DEVIATION | ENTRY_REUNION | ENTRY_RESYNC | ENTRY_OF_LOOP);
  if (mine) {
    team->claimed = false;
    team_publish(team, team->claim, hash, common | ENTRY_REAL, team->claim_text);
    if (flags & ENTRY_LEAVE)
      return TEAM_LEFT;
    return flags & ENTRY_REFUSED ? TEAM_REFUSED : TEAM_REAL;
  }
  team_publish(team, unit, hash, common, source);
  return flags & ENTRY_REFUSED ? TEAM_PARKED : TEAM_SHADOW;
}

/* Where the members of G[head] are written, given the entry of a rank that has passed it: in that
 * rank's log, or, where it only shadowed the unit, in the log of the rank it had it from (which may
 * not have passed the index itself yet, and then still claims it). */
static bool find_text(const struct team *team, uint32_t *rank, uint32_t flags, uint32_t *position) {
  uint32_t source = flags >> ENTRY_FLAG_BITS;
  if (flags & ENTRY_REAL) {
    *position = source;
    return true;
  }
  if (source >= team->plane->nranks)
    return false;
  *rank = source;
  const struct plane_log *log = team->plane->logs[*rank];
  if (atomic_load_explicit(&log->head, memory_order_acquire) <= team->head) {
    *position = atomic_load_explicit(&log->claim_text, memory_order_acquire);
    if (atomic_load_explicit(&log->claim, memory_order_acquire) == team->head + 1)
      return true;
    /* It has passed the index in this moment, and claims another already. */
    if (atomic_load_explicit(&log->head, memory_order_acquire) <= team->head)
      return false;
  }
  flags = LOAD(log->entries[team->head % PLANE_RING].flags);
  *position = flags >> ENTRY_FLAG_BITS;
  return (flags & ENTRY_REAL) != 0;
}

/* A rank that gives up takes its claim away, and with it what others may just be following: its
 * failure, or the one that it has heard of, is there or will be. */
static bool has_given_up(const struct team *team, uint32_t rank) {
  const struct plane_log *log = team->plane->logs[rank];
  return atomic_load(&log->claim) == 0 && atomic_load(&log->head) <= team->head;
}

/* No rank runs so far ahead that its ring has turned past our index: who believed that it does
 * would follow for ever what is in the ring. And units are refused for ranks that there are, and
 * reunions have a last joiner. */
static bool is_possible(const struct team *team, const struct plane_log *log,
                        const struct plane_entry *entry, uint32_t flags) {
  uint64_t head = atomic_load_explicit(&log->head, memory_order_relaxed);
  return head - team->head <= PLANE_RUN_AHEAD &&
         (!(flags & ENTRY_REUNION) || LOAD(entry->last_joiner) < team->plane->nranks) &&
         (!(flags & (ENTRY_REFUSED | ENTRY_STOPPED)) ||
          LOAD(log->refused_for) < team->plane->nranks);
}

/* The rank whose unit an entry of `rank` is: its own, or, where it only shadowed it, that of the
 * rank it had it from, which did not. */
static uint32_t issuer(const struct team *team, uint32_t rank, uint32_t flags) {
  uint32_t from = flags >> ENTRY_FLAG_BITS;
  return (flags & ENTRY_REAL) || from >= team->plane->nranks ? rank : from;
}

enum team_verdict team_follow(struct team *team, uint32_t rank, const struct plane_entry *entry,
                              struct unit *unit) {
  uint32_t flags = LOAD(entry->flags), position;
  uint64_t expected = LOAD(entry->hash), hash = 0;
  enum read_result read = READ_UNIT;
  if (!is_possible(team, team->plane->logs[rank], entry, flags)) {
    team_fail(team, FAILURE_CORRUPT, rank, team->head);
    return TEAM_FAILED;
  }
  if (flags & ENTRY_REUNION)
    team->last_joiner = LOAD(entry->last_joiner);
  if (flags & ENTRY_REFUSED)
    STORE(team->own->refused_for, LOAD(team->plane->logs[rank]->refused_for));
  if (flags & ENTRY_STOPPED) {
    if (team->claimed || team_is_yielding(team))
      return team_pass_stop(team, expected, LOAD(team->plane->logs[rank]->refused_for),
                            flags >> ENTRY_FLAG_BITS != 0);
    read = READ_CORRUPT;
  } else if (flags & ENTRY_LEAVE) {
    if (team->claimed && team->claim.nmembers == 0)
      return team_pass(team, *unit, 0, flags, rank);
    read = READ_CORRUPT;
  } else if (team->claimed && team->claim.nmembers != 0 && team->claim_hash == expected) {
    hash = team->claim_hash;
    *unit = team->claim;
  } else if (flags & ENTRY_EXPECTED) {
    read = unit_table_get(team->table, team->symbol_expected, unit) ? READ_UNIT : READ_CORRUPT;
    hash = read == READ_UNIT ? unit_hash(*unit) : 0;
  } else if (find_text(team, &rank, flags, &position)) {
    read = team_read_text(team, team->plane->logs[rank], position, &hash, unit);
  } else if (has_given_up(team, rank)) {
    return TEAM_PARKED;
  } else {
    read = READ_CORRUPT;
  }
  if (read == READ_UNIT && expected == hash)
    return team_pass(team, *unit, hash, flags, issuer(team, rank, flags));
  team_fail(team, read == READ_TOO_BIG ? FAILURE_TOO_BIG : FAILURE_CORRUPT, rank, team->head);
  return TEAM_FAILED;
}

bool team_somebody_passed(const struct team *team, uint32_t *rank_out,
                          const struct plane_entry **out) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    /* Sequentially consistent: the other half of what makes team_commit see a waiter. */
    if (atomic_load(&log->head) <= team->head)
      continue;
    *rank_out = rank;
    *out = &log->entries[team->head % PLANE_RING];
    return true;
  }
  return false;
}
