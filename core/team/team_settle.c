/* Passing an index that all ranks claim (team.h): the claims are read and summed up, and the same
 * one wins on every rank (settle.h). */
#include "core/team/settle.h"
#include "core/team/team_private.h"

static rank_set_t *set_of(const struct team *team, const struct claimed *unit) {
  return team->settling.sets + unit->set * rank_set_words(team->plane->nranks);
}

static void add_claim(struct team *team, uint32_t rank, const struct log_claim *claim) {
  struct claimed claimed = {
      .hash = claim->hash,
      .signature = claim->signature,
      .mark = claim->mark,
      .kinds = claim->flags & CLAIM_KINDS,
      .any = claim->flags,
      .all = claim->flags,
      .claimants = 1,
      .rank = rank,
      .text = claim->text,
      .bytes = claim->bytes,
      .epoch = claim->epoch,
      .last_real = claim->last_real,
      .rounds = claim->rounds,
      .place_id = claim->place,
  };
  struct claimed *unit = settle_add(team->settling.sum, &claimed);
  if (unit == NULL)
    return;
  rank_set_t *set = set_of(team, unit);
  if (unit->claimants == 1)
    memset(set, 0, rank_set_words(team->plane->nranks) * sizeof(*set));
  rank_set_add(set, rank);
}

/* The only loop over ranks that reads what they claim: who holds the logs of some of them would sum
 * those up, and sums add up (settle.h). */
bool team_gather_claims(struct team *team) {
  struct settle *sum = team->settling.sum;
  if (!plane_all_claim(team->plane, team->head))
    return false;
  sum->nunits = sum->nranks = sum->any = 0;
  sum->refused = 0;
  sum->all = ~0u;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    struct log_claim claim;
    if (!log_read_claim(log_of(team->plane, rank), team->head, &claim))
      return false;
    add_claim(team, rank, &claim);
  }
  return true;
}

/* Reads the place of a unit claimed. False if its text is not there: its rank may have stopped here
 * meanwhile, and written others (team_stop.h). */
static bool read_place(struct team *team, uint32_t i) {
  struct claimed *unit = &team->settling.sum->units[i];
  const struct plane_log *log = log_of(team->plane, unit->rank);
  struct text text;
  enum read_result read = team_read_text(team, log, unit->text, &text);
  if (read == READ_TOO_BIG)
    return true;
  if (read != READ_UNIT || text.hash != unit->hash) {
    if (log_claims(log, team->head))
      team_fail(team, FAILURE_CORRUPT, unit->rank, team->head);
    return false;
  }
  if (text.place == NULL)
    return true;
  team->settling.places[i] = *text.place;
  unit->place = &team->settling.places[i];
  return true;
}

/* Which of the units are apart from the expected one: a rank that has not come to both yet cannot
 * say so, and another can that claims the same. */
static void add_apart(struct team *team) {
  struct settle *settle = team->settling.sum;
  team->apart = APART_NONE;
  for (uint32_t i = 0; i < settle->nunits; i++) {
    const struct claimed *unit = &settle->units[i];
    if (!(unit->any & CLAIM_APART))
      continue;
    uint32_t mark = team_apart_mark(unit->hash);
    team->apart = team->apart == APART_NONE || team->apart == mark ? mark : APART_ALL;
  }
  for (uint32_t i = 0; i < settle->nunits; i++)
    settle->units[i].apart = team_is_said_apart(team, settle->units[i].hash);
}

/* Whether the claimants of a unit in another branch than `from` come from there to `to`. */
static bool is_on_the_way(const struct settle *settle, const struct place *from,
                          const struct place *to) {
  for (uint32_t i = 0; i < settle->nunits; i++) {
    const struct place *place = settle->units[i].place;
    if (place != NULL && place_are_branches(from, place) && place_goes_first(place, to) &&
        place_is_reached(place, to))
      return true;
  }
  return false;
}

static bool has_branch(const struct settle *settle, const struct claimed *unit) {
  for (uint32_t i = 0; i < settle->nunits; i++) {
    const struct place *other = settle->units[i].place;
    if (other != NULL && place_are_branches(unit->place, other))
      return true;
  }
  return false;
}

/* What looks like the unit, and stands in another branch than that, where others come to yet. */
static const struct place *find_in_branch(struct team *team, const struct claimed *unit) {
  const struct settle *settle = team->settling.sum;
  for (symbol_t symbol = 0; symbol < UNIT_TABLE_PLACES; symbol++) {
    const struct known_unit *known = unit_table_at(team->table, symbol);
    if (known == NULL || known->hash == unit->hash)
      continue;
    struct unit other = known_unit(known);
    const struct known_place *place = team_known_place(team, unit_place(other));
    if (place != NULL && unit_signature(other) == unit->signature &&
        place_are_branches(unit->place, &place->place) &&
        is_on_the_way(settle, unit->place, &place->place))
      return &place->place;
  }
  return NULL;
}

/* How far the way to a new unit's place is known. */
static uint32_t find_along(struct team *team, const struct place *place) {
  const struct known_place *known;
  uint32_t along = 0;
  for (uint32_t at = 0; (known = place_table_next(team->places.table, &at)) != NULL;) {
    uint32_t nodes = place_nodes_in_common(place, &known->place);
    along = nodes > along ? nodes : along;
  }
  return along;
}

/* Only where two places may be compared: all places that are known are looked at. */
static void add_clocks(struct team *team) {
  struct settle *settle = team->settling.sum;
  uint32_t nplaces = 0;
  for (uint32_t i = 0; i < settle->nunits; i++)
    nplaces += settle->units[i].place != NULL;
  for (uint32_t i = 0; i < settle->nunits && nplaces > 1; i++) {
    struct claimed *unit = &settle->units[i];
    if (unit->place == NULL)
      continue;
    unit->alike = team_counts_rounds(team, unit->place, 1);
    unit->clocks = team_clocks(team, unit->place, unit->even);
    if (has_branch(settle, unit))
      unit->in_branch = find_in_branch(team, unit);
    if (!unit->seen)
      unit->along = find_along(team, unit->place);
  }
}

/* What all ranks know of the units in the summary. A place that the sequence has not had yet is
 * taken as the lowest of its claimants describes it. */
static bool add_knowledge(struct team *team) {
  struct settle *settle = team->settling.sum;
  struct unit expected;
  /* A split is never issued because it is expected: ranks meet there at the latest. */
  bool expects = unit_table_get(team->table, team->symbol_expected, &expected) &&
                 expected.members->kind != MEMBER_SPLIT;
  const struct known_place *last = team_known_place(team, team->places.last);
  settle->last = last == NULL ? NULL : &last->place;
  for (uint32_t i = 0; i < settle->nunits; i++) {
    struct claimed *unit = &settle->units[i];
    const struct known_place *known = team_known_place(team, unit->place_id);
    unit->expected = expects && unit->hash == unit_hash(expected);
    unit->seen = unit_table_find_hash(team->table, unit->hash) != SYMBOL_NONE;
    unit->common = known != NULL && known->common;
    unit->again = known != NULL && known->again;
    unit->shared = known != NULL && known->shared && (unit->all & CLAIM_OWN_PLACE);
    unit->by_ways = team_comes_by_ways(known);
    unit->by_root = unit->claimants == 1 && (unit->any & CLAIM_ROOT);
    unit->even = (settle->all & CLAIM_EVEN) != 0;
    if (known != NULL)
      unit->place = known->place.nnodes == 0 ? NULL : &known->place;
    else if (unit->place_id != 0 && !read_place(team, i))
      return false;
  }
  add_apart(team);
  add_clocks(team);
  return true;
}

/* Who issues the winner's unit for real. Of a rank whose claim is left out nobody knows. */
static const rank_set_t *team_issuers(struct team *team, const struct claimed *winner) {
  size_t words = rank_set_words(team->plane->nranks);
  rank_set_t *issuers = team->settling.issuers;
  memset(issuers, 0, words * sizeof(*issuers));
  for (uint32_t i = 0; i < team->settling.sum->nunits; i++) {
    const struct claimed *unit = &team->settling.sum->units[i];
    for (size_t k = 0; settle_is_same(winner, unit) && k < words; k++)
      issuers[k] |= set_of(team, unit)[k];
  }
  return issuers;
}

/* Whether a rank was waiting at the index before: it issued that as a shadow. */
static bool somebody_waited(const struct team *team) {
  return team->head > 0 && !plane_all_real(team->plane, team->head - 1);
}

/* Whether one of the ranks that would have to shadow the winner's unit would spoil it. */
static bool is_refused(struct team *team, const struct claimed *winner, struct unit unit) {
  if (!(winner->any & CLAIM_STRICT) || team->owner.is_lossy == NULL)
    return false;
  const rank_set_t *issuers = team_issuers(team, winner);
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    if (rank_set_has(issuers, rank) ||
        !team->owner.is_lossy(team->owner.is_lossy_context, unit, rank))
      continue;
    log_set_refused_for(team->own, rank);
    return true;
  }
  return false;
}

uint32_t team_refused_for(const struct team *team) {
  return log_refused_for(team->own);
}

/* Whether a rank has answered for sends and receives that it has not in its own program: a loop of
 * them ends here. All ranks are asked, and none of them mirrors anything at this index any more. */
static bool somebody_mirrored(const struct team *team) {
  return plane_has_mirrored(team->plane, team->head);
}

/* ENTRY_REJOIN if `unit`, of that hash, which is passed next, is where all ranks are together
 * again, with one of the last joiners among those who claim it. If they all leave instead, it will
 * be where the others do so too. */
static uint32_t rejoin_flags(struct team *team, struct unit unit, const struct claimed *winner) {
  enum mark mark = unit_mark(unit);
  if (mark == MARK_STATE_DONE || unit_is_state(unit) ||
      (mark != MARK_LOOP_END && !team_is_uneven(team)))
    return 0;
  uint32_t last;
  if (!team_find_last_joiner(team, team_issuers(team, winner), &last))
    return 0;
  team->last_joiner = last;
  return ENTRY_REJOIN | (team->settling.sum->any & CLAIM_RESYNC ? ENTRY_RESYNC : 0);
}

/* Whether all claim the unit from its place: whatever they say of it besides. */
static bool all_stand_at(const struct settle *sum, const struct claimed *winner) {
  for (uint32_t i = 0; i < sum->nunits; i++)
    if (sum->units[i].hash != winner->hash || !(sum->units[i].all & CLAIM_OWN_PLACE))
      return false;
  return true;
}

/* On how many levels all who claim it say the same round, of as many. */
static uint32_t levels_counted(const struct claimed *claimed) {
  uint32_t said = place_rounds_alike(claimed->rounds, claimed->rounds);
  uint32_t alike = PLACE_LEVELS - claimed->apart_levels;
  return said < alike ? said : alike;
}

static uint32_t flags_counted(uint32_t levels) {
  return (levels > 0 ? ENTRY_COUNTED : 0) | (levels > 1 ? ENTRY_COUNTED_WITHIN : 0);
}

/* On how many levels two say which round they are in, of as many, each for itself; and their loops
 * are around both. */
static uint32_t levels_in_common(const struct claimed *a, const struct claimed *b) {
  if (a->place == NULL || b->place == NULL)
    return 0;
  uint32_t levels = place_loops_around(a->place, b->place), level = 0;
  while (level < levels && level < levels_counted(a) && level < levels_counted(b) &&
         place_epoch(a->rounds, level).total != 0 &&
         place_epoch(a->rounds, level).total == place_epoch(b->rounds, level).total)
    level++;
  return level;
}

/* On how many levels all say which round they are in, of as many, if one of them begins one. */
static uint32_t levels_begun(const struct settle *sum, const struct claimed *winner) {
  uint32_t levels = PLACE_LEVELS;
  bool begins = false;
  for (uint32_t i = 0; i < sum->nunits; i++) {
    uint32_t common = levels_in_common(winner, &sum->units[i]);
    levels = common < levels ? common : levels;
    begins |= sum->units[i].mark == MARK_ROUND;
  }
  return begins ? levels : 0;
}

/* Of a unit that all claim. */
static uint32_t flags_of_all(struct team *team, struct unit unit, const struct claimed *winner) {
  uint32_t flags = ENTRY_ALL;
  if (winner->hash == 0)
    return flags | ENTRY_LEAVE;
  bool deviates = !winner->expected;
  if ((deviates || unit_place(unit) != 0) && somebody_waited(team))
    flags |= ENTRY_MEETING;
  if (deviates && unit_place(unit) == 0 && team_loop_has_ended(team))
    flags |= ENTRY_MEETING;
  if (somebody_mirrored(team))
    flags |= ENTRY_MEETING;
  if (deviates && team->symbol_expected != SYMBOL_NONE)
    flags |= ENTRY_DEVIATION;
  if (winner->place_id != 0 && !winner->elsewhere && all_stand_at(team->settling.sum, winner))
    flags |= ENTRY_COMMON | flags_counted(levels_counted(winner));
  return flags;
}

/* A loop is made of such choices: each is told of once. */
static bool is_news(struct team *team, const struct claimed *won, const struct claimed *lost) {
  uint32_t room = sizeof(team->telling.pairs) / sizeof(*team->telling.pairs);
  uint64_t pair = won->hash * UINT64_C(0x9e3779b97f4a7c15) ^ lost->hash;
  for (uint32_t i = 0; i < room; i++)
    if (team->telling.pairs[i] == pair)
      return false;
  team->telling.pairs[team->telling.npairs++ % room] = pair;
  return true;
}

/* The unit is read where the rank that is ahead has written it: this one may claim nothing itself.
 */
static void tell_of_epochs(struct team *team, const struct claimed *won,
                           const struct claimed *ahead) {
  struct text text;
  if (team_read_text(team, log_of(team->plane, ahead->rank), ahead->text, &text) != READ_UNIT ||
      team_is_told(team))
    return;
  team->telling.guessed = true;
  team->telling.guess = (struct team_guess){.kind = GUESS_EPOCH,
                                            .rank = won->rank,
                                            .other = ahead->rank,
                                            .epochs = ahead->epoch - won->epoch,
                                            .member = text.unit.members[0]};
  team_copy_text(team->telling.guess.place, won->place);
}

/* Of a unit that ranks claim in several epochs: tells, and returns the epoch in which it is issued;
 * 0: of one. */
static uint32_t note_epochs(struct team *team, uint32_t winner) {
  const struct claimed *won = &team->settling.sum->units[winner];
  for (uint32_t i = 0; i < team->settling.sum->nunits; i++)
    if (settle_is_out_of_step(won, &team->settling.sum->units[i])) {
      tell_of_epochs(team, won, &team->settling.sum->units[i]);
      return won->epoch;
    }
  return 0;
}

/* Whether the winner is a guess; told once. */
static bool note_guess(struct team *team, uint32_t winner) {
  uint32_t at;
  struct text text;
  if (!settle_is_guess(team->settling.sum, winner, &at))
    return false;
  const struct claimed *won = &team->settling.sum->units[winner],
                       *loser = &team->settling.sum->units[at];
  if (team_read_text(team, log_of(team->plane, loser->rank), loser->text, &text) != READ_UNIT)
    return true;
  if (team_is_split(text.unit) && settle_is_same(won, loser))
    return false;
  if (!is_news(team, won, loser) || team_is_told(team))
    return true;
  team->telling.guessed = true;
  team->telling.guess = (struct team_guess){.kind = settle_is_same(won, loser)      ? GUESS_SAME
                                                    : settle_may_be_one(won, loser) ? GUESS_APART
                                                                                    : GUESS_ORDER,
                                            .rank = won->rank,
                                            .other = loser->rank,
                                            .member = text.unit.members[0]};
  team_copy_text(team->telling.guess.place, won->place);
  team_copy_text(team->telling.guess.other_place, loser->place);
  return true;
}

/* The winner's unit, as its rank has written it; or as this rank has, if it is the same. */
static enum read_result find_winner(struct team *team, const struct claimed *winner,
                                    struct text *text) {
  *text = (struct text){.hash = winner->hash, .unit = team->claim.unit, .place = winner->place};
  if (winner->hash == 0)
    text->unit = (struct unit){NULL, 0};
  if (winner->hash == 0 || winner->hash == team->claim.hash)
    return READ_UNIT;
  enum read_result read =
      team_read_text(team, log_of(team->plane, winner->rank), winner->text, text);
  return read == READ_UNIT && text->hash != winner->hash ? READ_CORRUPT : read;
}

enum team_verdict team_settle(struct team *team, struct unit *unit) {
  if (!add_knowledge(team))
    return team->failed.how == FAILURE_NONE ? TEAM_PARKED : TEAM_FAILED;
  team->places.levels = settle_levels(team->settling.sum);
  uint32_t at = settle_winner(team->settling.sum);
  const struct claimed *winner = &team->settling.sum->units[at];
  bool all = settle_is_unanimous(team->settling.sum, at),
       yields = (winner->kinds & CLAIM_YIELD) != 0;
  /* Nobody yields but to a unit: where that has been given up, nothing settles. */
  if (yields || (winner->hash == 0 && (team->settling.sum->any & CLAIM_YIELD)))
    return team_claims_stop(team, false) ? team_settle_stop(team, 0) : TEAM_PARKED;
  if (!all && team_claims_stop(team, winner->mark == 0))
    return team_settle_stop(team, winner->hash);
  uint32_t epoch = note_epochs(team, at);
  bool guess = note_guess(team, at); /* before the winner's unit is read, to the same place */
  if (all && team_look_back(team) && (team->claim.flags & CLAIM_SURE) && winner->hash != 0) {
    team_fail(team, FAILURE_UNSURE, winner->rank, team->head);
    return TEAM_FAILED;
  }
  if (guess && (team->settling.sum->any & CLAIM_SURE))
    return team_settle_stop(team, winner->hash);
  struct text text;
  enum read_result read = find_winner(team, winner, &text);
  if (read != READ_UNIT) {
    team_fail(team, read == READ_TOO_BIG ? FAILURE_TOO_BIG : FAILURE_CORRUPT, winner->rank,
              team->head);
    return TEAM_FAILED;
  }
  *unit = text.unit;
  uint32_t flags = all ? flags_of_all(team, *unit, winner) : 0;
  if (team->settling.sum->all & CLAIM_EVEN)
    flags |= ENTRY_EVEN;
  /* At the end of a loop the others begin one, or leave. */
  if (all || unit_mark(*unit) == MARK_LOOP_END)
    flags |= rejoin_flags(team, *unit, winner);
  else if (is_refused(team, winner, *unit))
    flags |= ENTRY_REFUSED;
  if (team->apart != APART_NONE && !(flags & ENTRY_REJOIN))
    flags |= ENTRY_APART;
  flags |= flags_counted(levels_begun(team->settling.sum, winner));
  if (epoch != 0) {
    flags |= ENTRY_BEHIND;
    team->epoch_behind = epoch & UINT8_MAX;
  }
  if (flags & ENTRY_REFUSED)
    team->telling.guessed = false; /* nobody's unit goes first */
  return team_pass(team, *unit, text.hash, flags, winner->rank, winner->place);
}
