/* Passing an index that all ranks claim (team.h): the claims are read, weighed by what is known of
 * the past, and the same one wins on every rank (settle.h). */
#include "core/settle.h"
#include "core/team_private.h"

/* The index after the last one that all ranks issued for real, looking back as far as the logs go.
 * All ranks stand at our index. */
static uint64_t last_together(const struct team *team) {
  uint64_t floor = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  uint64_t end = team->head;
  while (end > floor) {
    uint64_t back = end;
    for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
      const struct plane_entry *entry = &team->plane->logs[rank]->entries[(end - 1) % PLANE_RING];
      if (LOAD(entry->flags) & ENTRY_REAL)
        continue;
      uint64_t start = log_unwrap(LOAD(entry->run_start), end - 1);
      if (start < back)
        back = start;
    }
    if (back == end)
      return end;
    end = back;
  }
  return floor;
}

/* How many units from one index to another the rank has issued for real. */
static uint32_t reals_between(const struct plane_log *log, uint64_t from, uint64_t to) {
  uint32_t reals = 0;
  while (to > from) {
    const struct plane_entry *entry = &log->entries[(to - 1) % PLANE_RING];
    uint64_t start = log_unwrap(LOAD(entry->run_start), to - 1);
    if (start < from)
      start = from;
    if (LOAD(entry->flags) & ENTRY_REAL)
      reals += (uint32_t)(to - start);
    to = start;
  }
  return reals;
}

bool team_gather_claims(struct team *team) {
  uint64_t at = team->head + 1;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    struct plane_log *log = team->plane->logs[rank];
    if (atomic_load(&log->claim) != at)
      return false;
    struct claim *claim = &team->claims[rank];
    uint64_t hash = atomic_load_explicit(&log->claim_hash, memory_order_acquire);
    claim->bytes = atomic_load_explicit(&log->claim_bytes, memory_order_acquire);
    claim->flags = atomic_load_explicit(&log->claim_flags, memory_order_acquire);
    claim->hash = claim_identity(hash, claim->flags);
    claim->mark = claim->flags >> CLAIM_MARK_SHIFT;
    claim->text = atomic_load_explicit(&log->claim_text, memory_order_acquire);
    claim->recent_elsewhere = atomic_load_explicit(&log->claim_reals, memory_order_acquire);
    if (atomic_load_explicit(&log->claim, memory_order_acquire) != at)
      return false;
  }
  return true;
}

symbol_t team_symbol_at(const struct team *team, uint64_t index) {
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

static bool issued_by_all(const struct team *team, uint64_t index) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (!(LOAD(team->plane->logs[rank]->entries[index % PLANE_RING].flags) & ENTRY_REAL))
      return false;
  return true;
}

/* Where the ranks went on the last time they had all issued the unit at which they last met: behind
 * that occurrence. It is looked for among what the logs still hold, then among the units that all
 * claimed. UINT64_MAX if this is the first time. */
static uint64_t after_last_meeting(const struct team *team, uint64_t together) {
  uint64_t oldest = team->head > TEAM_HISTORY ? team->head - TEAM_HISTORY : 0;
  uint64_t held = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  if (together == 0)
    return UINT64_MAX;
  symbol_t met = team_symbol_at(team, together - 1);
  for (uint64_t at = together - 1; at > held; at--)
    if (team_symbol_at(team, at - 1) == met && issued_by_all(team, at - 1))
      return at;
  for (uint64_t i = team->ndeviations; i > 0 && i + TEAM_DEVIATIONS > team->ndeviations; i--) {
    uint64_t index = team->deviations[(i - 1) % TEAM_DEVIATIONS];
    if (index >= oldest && index < together - 1 && team_symbol_at(team, index) == met)
      return index + 1;
  }
  return UINT64_MAX;
}

/* Of the first time nothing is known but how often each unit has come: those of the loop have come
 * more often than what follows it. */
static uint64_t order_from(const struct team *team, uint64_t from, symbol_t symbol) {
  uint64_t oldest = team->head > TEAM_HISTORY ? team->head - TEAM_HISTORY : 0, count = 0;
  if (symbol == SYMBOL_NONE)
    return UINT64_MAX;
  for (uint64_t at = from == UINT64_MAX ? oldest : from; at < team->head; at++) {
    if (team_symbol_at(team, at) != symbol)
      continue;
    if (from != UINT64_MAX)
      return at - from;
    count++;
  }
  return UINT64_MAX - count;
}

/* A loss, or a barrier. */
static bool is_one_element(struct unit unit) {
  return unit.nmembers == 1 && unit.members->count == 1;
}

/* Where a barrier is claimed, which of the others go on as before: most claims are of the same few
 * units, which are looked for once. */
static void weigh_what_goes_on(struct team *team) {
  bool barrier = false, goes_on = false;
  symbol_t known = SYMBOL_NONE;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    barrier |= team->claims[rank].is_barrier;
  for (uint32_t rank = 0; rank < team->plane->nranks && barrier; rank++) {
    struct claim *claim = &team->claims[rank];
    if (claim->is_barrier || claim->symbol == SYMBOL_NONE)
      continue;
    if (claim->symbol != known)
      goes_on = team_goes_on_so(team, team->symbol_last, claim->symbol);
    known = claim->symbol;
    claim->goes_on = goes_on;
  }
}

/* What the winner rule needs beyond what is published as such. */
static bool weigh_claims(struct team *team) {
  uint64_t together = last_together(team);
  uint64_t from = after_last_meeting(team, together);
  uint64_t expected = 0;
  struct unit unit;
  if (unit_table_get(team->table, team->symbol_expected, &unit))
    expected = unit_hash(unit);
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    struct claim *claim = &team->claims[rank];
    claim->recent = reals_between(log, together, team->head);
    claim->recent_elsewhere -= log_reals_before(log, together); /* it was claim_reals */
    claim->on_course = (claim->flags & CLAIM_ON_COURSE) != 0;
    claim->expected = claim->hash != 0 && claim->hash == expected;
    claim->seen = claim->is_barrier = claim->goes_on = false;
    claim->order = UINT64_MAX;
    claim->symbol = SYMBOL_NONE;
    if (claim->hash == 0)
      continue;
    uint64_t hash = 0;
    enum read_result read = team_read_text(team, log, claim->text, &hash, &unit);
    switch (claim_identity(hash, claim->flags) == claim->hash ? read : READ_CORRUPT) {
    case READ_UNIT:
      if (claim->flags & CLAIM_ELSEWHERE)
        break; /* what is known is known of the other one */
      claim->symbol = unit_table_find(team->table, unit);
      claim->seen = claim->symbol != SYMBOL_NONE;
      claim->order = order_from(team, from, claim->symbol);
      claim->is_barrier = together == team->head && claim->seen && is_one_element(unit) &&
                          team_is_meeting(team, team->symbol_last, claim->symbol);
      break;
    case READ_TOO_BIG:
      break;
    case READ_CORRUPT:
      team_fail(team, FAILURE_CORRUPT, rank, team->head);
      return false;
    }
  }
  weigh_what_goes_on(team);
  team_look_back(team);
  return true;
}

/* Whether a rank was waiting at the index before: it issued that as a shadow. */
static bool somebody_waited(const struct team *team) {
  if (team->head == 0)
    return false;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_entry *entry =
        &team->plane->logs[rank]->entries[(team->head - 1) % PLANE_RING];
    if (!(LOAD(entry->flags) & ENTRY_REAL))
      return true;
  }
  return false;
}

/* Whether one of the ranks that would have to shadow the winner's unit would spoil it. */
static bool is_refused(const struct team *team, const struct claim *winner, struct unit unit) {
  if (!(winner->flags & CLAIM_STRICT) || team->is_lossy == NULL)
    return false;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    bool issues = team->claims[rank].hash == winner->hash ||
                  ((winner->flags & CLAIM_ELSEWHERE) &&
                   team->claims[rank].hash == claim_identity(winner->hash, CLAIM_ELSEWHERE));
    if (issues || !team->is_lossy(team->is_lossy_context, unit, rank))
      continue;
    STORE(team->own->refused_for, rank);
    return true;
  }
  return false;
}

uint32_t team_refused_for(const struct team *team) {
  return LOAD(team->own->refused_for);
}

/* A loop has ended here, not for the first time perhaps: it had gone round often, and nothing else
 * came in between. */
#define LOOP_ROUNDS 8
static bool loop_has_ended(const struct team *team) {
  uint64_t body = learner_body_length(team->learner);
  uint64_t deviated =
      team->ndeviations == 0 ? 0 : team->deviations[(team->ndeviations - 1) % TEAM_DEVIATIONS] + 1;
  if (team->symbol_expected == SYMBOL_NONE || body == 0 ||
      team->head - deviated < LOOP_ROUNDS * body)
    return false;
  /* It may have been believed only lately: two or three equal buckets are a loop for a while. */
  for (uint64_t round = 1; round < LOOP_ROUNDS; round++)
    if (learner_symbol(team->learner, round * body) != team->symbol_last)
      return false;
  return true;
}

/* Whether what all claim, although it is not expected, is one element and looks like a unit of the
 * loop: a barrier and a loss. Where epochs are of one length for a while it would come to be
 * expected, as the end of another round. */
static bool looks_like_the_loop(const struct team *team) {
  symbol_t symbol = unit_table_find(team->table, team->claim);
  return team->symbol_expected != SYMBOL_NONE && symbol != SYMBOL_NONE &&
         is_one_element(team->claim) && !team_goes_on_so(team, team->symbol_last, symbol) &&
         learner_body_holds(team->learner, symbol);
}

/* Whether a rank has answered for sends and receives that it has not in its own program: a loop of
 * them ends here. All ranks are asked, and none of them mirrors anything at this index any more. */
static bool somebody_mirrored(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (atomic_load(&team->plane->logs[rank]->mirrored) == team->head + 1)
      return true;
  return false;
}

/* Whether any of the ranks has buffers that are to be the last joiner's. */
static bool somebody_resyncs(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (team->claims[rank].flags & CLAIM_RESYNC)
      return true;
  return false;
}

/* ENTRY_REUNION if `unit`, of that hash, which is passed next, is where all ranks are together
 * again, with one of the last joiners among those who claim it. If they all leave instead, it will
 * be where the others do so too. */
static uint32_t reunion_flags(struct team *team, struct unit unit, uint64_t hash) {
  enum mark mark = unit_mark(unit);
  if (mark == MARK_STATE_DONE || unit_is_state(unit) ||
      (mark != MARK_LOOP_END && !team_is_uneven(team)))
    return 0;
  for (uint32_t rank = team->plane->nranks; rank > 0; rank--) {
    if (team->claims[rank - 1].hash != hash || !team_was_active_last(team, rank - 1))
      continue;
    team->last_joiner = rank - 1;
    return ENTRY_REUNION | (somebody_resyncs(team) ? ENTRY_RESYNC : 0);
  }
  return 0;
}

static enum team_verdict settle_unanimous(struct team *team) {
  uint32_t flags = 0;
  struct unit expected;
  bool deviates = !unit_table_get(team->table, team->symbol_expected, &expected) ||
                  unit_hash(expected) != team->claim_hash;
  if (team->claim_hash == 0)
    flags = ENTRY_LEAVE;
  else if (deviates && (somebody_waited(team) || loop_has_ended(team) || looks_like_the_loop(team)))
    flags = ENTRY_MEETING;
  if (team->claim_hash != 0 && somebody_mirrored(team))
    flags |= ENTRY_MEETING;
  if (deviates && team->claim_hash != 0 && team->symbol_expected != SYMBOL_NONE)
    flags |= ENTRY_DEVIATION;
  flags |= reunion_flags(team, team->claim, team->claim_hash);
  return team_pass(team, team->claim, team->claim_hash, flags, team->plane->rank);
}

/* Of the ranks that settle an index one tells that it was a guess: the winner itself may find it
 * settled. */
static bool is_told(struct team *team) {
  uint64_t told = atomic_load(&team->shared->told);
  while (told <= team->head)
    if (atomic_compare_exchange_weak(&team->shared->told, &told, team->head + 1))
      return false;
  return true;
}

static void note_guess(struct team *team, uint32_t winner) {
  uint32_t loser;
  uint64_t hash;
  struct unit unit;
  if (!settle_is_guess(team->claims, team->plane->nranks, winner, &loser) || is_told(team) ||
      team_read_text(team, team->plane->logs[loser], team->claims[loser].text, &hash, &unit) !=
          READ_UNIT)
    return;
  team->guessed = true;
  team->guessed_for = winner;
  team->guessed_over = loser;
  team->guessed_member = unit.members[0];
}

/* Nobody yields but to a unit: where that has been given up, nothing settles. */
static bool somebody_yields(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (team->claims[rank].flags & CLAIM_YIELD)
      return true;
  return false;
}

/* Whether ranks claim a unit that only looks like the winner's. */
static bool is_taken_for(const struct team *team, const struct claim *winner) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (team->claims[rank].hash == claim_identity(winner->hash, CLAIM_ELSEWHERE))
      return !(winner->flags & CLAIM_ELSEWHERE);
  return false;
}

enum team_verdict team_settle(struct team *team, struct unit *unit) {
  bool unanimous = settle_is_unanimous(team->claims, team->plane->nranks);
  if (unanimous && !somebody_yields(team))
    return settle_unanimous(team);
  if (unanimous)
    return team_claims_stop(team, false) ? team_settle_stop(team, 0) : TEAM_PARKED;
  if (!weigh_claims(team))
    return TEAM_FAILED;
  uint32_t winner = settle_winner(team->claims, team->plane->nranks);
  if (team_claims_stop(team, team->claims[winner].mark == 0))
    return team_settle_stop(team, team->claims[winner].hash);
  note_guess(team, winner); /* before the winner's unit is read, to the same place */
  const struct claim *claim = &team->claims[winner];
  uint64_t hash = claim_identity(claim->hash, claim->flags); /* the unit's own */
  enum read_result read = READ_UNIT;
  if (hash == team->claim_hash)
    *unit = team->claim;
  else
    read = team_read_text(team, team->plane->logs[winner], claim->text, &hash, unit);
  if (read != READ_UNIT) {
    team_fail(team, read == READ_TOO_BIG ? FAILURE_TOO_BIG : FAILURE_CORRUPT, winner, team->head);
    return TEAM_FAILED;
  }
  if (unit_mark(*unit) == MARK_LOOP_END) /* the others begin a loop, or leave */
    return team_pass(team, *unit, hash, reunion_flags(team, *unit, hash), winner);
  bool refused = is_refused(team, claim, *unit);
  if (refused)
    team->guessed = false; /* nobody's unit goes first */
  return team_pass(team, *unit, hash,
                   (refused ? ENTRY_REFUSED : 0) | (is_taken_for(team, claim) ? ENTRY_OF_LOOP : 0),
                   winner);
}
