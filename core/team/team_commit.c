/* What a team expects next, and may be committed (team.h), and how an index is passed: the entry,
 * then the head, then what is learnt of it. */
#include <assert.h>

#include "core/team/team_private.h"

bool team_has_room(struct team *team) {
  if (team->head < team->limit)
    return true;
  team->limit = plane_slowest(team->plane) + PLANE_RUN_AHEAD;
  return team->head < team->limit;
}

/* What the team learns and shows of a unit too big to be written out: one member that stands for
 * its hash. */
static struct unit stand_in(struct unit unit, struct member *member) {
  if (unit.nmembers <= UNIT_MEMBERS_MAX)
    return unit;
  *member = (struct member){.count = unit_hash(unit), .root = ROOT_NONE, .kind = 0xff};
  return (struct unit){member, 1};
}
/* Says what may be committed now: nothing, or one unit. */
static void foresee_one(struct team *team, struct known_unit *known) {
  team->ahead.foreseen[0] = known;
  team->ahead.foreseen[1] = &team_nothing;
  team->expected = team->ahead.foreseen;
  team->ahead.rounds = 0;
}

/* Ranks wait for each other there, however regularly it comes. */
static bool is_only_claimed(const struct known_unit *known) {
  for (uint32_t i = 0; i < known->nmembers; i++)
    if (known->members[i].kind == MEMBER_MARK || known->members[i].kind == MEMBER_STATE ||
        known->members[i].kind == MEMBER_SPLIT)
      return true;
  return false;
}

/* What comes before a unit that is expected. */
struct coming {
  symbol_t before;
  uint32_t place; /* of the last one whose place is known */
  uint32_t count; /* how many are expected before it */
  bool is_in_run; /* those go on with the innermost loop around the last unit passed */
  enum place_turn
      turn; /* whether this rank has gone round to that loop; TURN_ROUND: not looked at */
};

/* Whether a unit may be committed, if it is what is expected there. Where its place and the one
 * before are known, they tell. */
static bool may_follow(const struct team *team, const struct coming *coming, bool firm,
                       const struct known_unit *known) {
  const struct known_place *to = team_known_place(team, unit_place(known_unit(known)));
  if (is_only_claimed(known) ||
      (known->marked && team_is_meeting(team, coming->before, known->symbol)))
    return false;
  if (to == NULL || to->place.nnodes == 0 || coming->place == 0)
    return firm && !team_may_be_stood_at(team);
  if (coming->is_in_run && team_run_may_be_over(team, coming->count, coming->turn) &&
      team_run_goes_on(team, coming->place, to->place.id))
    return false;
  return !team_leaves_loop(team, coming->place, known) && !team_must_be_shared(team, to) &&
         !team_passes_by(team, coming->place, to);
}

/* The id of a unit's place, if that is known, or else of the one before it. */
static uint32_t place_after(const struct team *team, uint32_t place,
                            const struct known_unit *known) {
  const struct known_place *at = team_known_place(team, unit_place(known_unit(known)));
  return at != NULL && at->place.nnodes != 0 ? at->place.id : place;
}

/* Goes on to what comes after a unit. */
static void come_after(const struct team *team, struct coming *coming,
                       const struct known_unit *known) {
  uint32_t place = place_after(team, coming->place, known);
  coming->is_in_run &= team_run_goes_on(team, coming->place, place);
  coming->before = known->symbol;
  coming->place = place;
  coming->count++;
}

/* What may be committed after the unit that has just been learnt. turn: of struct coming. */
static void team_expect_after(struct team *team, enum place_turn turn) {
  symbol_t symbol = learner_expected(team->learner);
  /* Counts as a use on every rank alike: one will commit the unit without interning it, another
   * follow it and intern it. */
  struct known_unit *known = unit_table_use(team->table, symbol);
  struct coming coming = {team->symbol_last, team->places.last, 0, true, turn};
  bool firm = learner_is_firm(team->learner);
  bool may_commit = known != NULL && may_follow(team, &coming, firm, known);
  coming.turn = TURN_SAME;
  team->places.may_be_over = known != NULL && !may_commit && may_follow(team, &coming, firm, known);
  team->symbol_expected = symbol;
  foresee_one(team, may_commit ? known : &team_nothing);
}

static void team_expect(struct team *team) {
  team_expect_after(team, TURN_ROUND);
}

bool team_rehearse_expecting(const struct team *team) {
  symbol_t symbols[2];
  if (learner_foresee(team->learner, symbols, 2) < 2)
    return false;
  const struct known_unit *known = unit_table_known(team->table, symbols[0]);
  const struct known_unit *next = unit_table_known(team->table, symbols[1]);
  struct coming coming = {symbols[0], team->places.last, 0, true, TURN_ROUND};
  if (known == NULL || next == NULL)
    return false;
  come_after(team, &coming, known);
  return may_follow(team, &coming, true, next);
}

void team_expect_nothing(struct team *team) {
  team_catch_up(team);
  team->places.may_be_over = false;
  foresee_one(team, &team_nothing);
  team->ahead.depth = 0;
}

/* What may be committed after the first unit expected, if all goes on as it does: further with each
 * time that it did. In whole rounds of the loop body where there is room for one: team_catch_up. */
static void look_ahead(struct team *team) {
  symbol_t symbols[TEAM_FORESEEN];
  uint32_t count = 1, length = learner_body_length(team->learner);
  if (team->ahead.foreseen[0] == &team_nothing || team->ahead.rounds != 0)
    return;
  struct coming coming = {team->symbol_last, team->places.last, 0, true, TURN_ROUND};
  come_after(team, &coming, team->ahead.foreseen[0]);
  team->ahead.depth = team->ahead.depth == 0 ? 8 : 2 * team->ahead.depth;
  if (team->ahead.depth > TEAM_FORESEEN)
    team->ahead.depth = TEAM_FORESEEN;
  uint32_t room = team->ahead.depth;
  if (room > TEAM_LONE_ROOM && team_passes_lone_places(team))
    room = TEAM_LONE_ROOM;
  if (length <= room)
    room -= room % length;
  for (uint32_t n = learner_foresee(team->learner, symbols, room); count < n; count++) {
    struct known_unit *known = unit_table_known(team->table, symbols[count]);
    if (known == NULL || !may_follow(team, &coming, true, known))
      break;
    team->ahead.foreseen[count] = known;
    come_after(team, &coming, known);
  }
  team->ahead.foreseen[count] = &team_nothing;
  /* The first unit comes after the last again: it must be one to be committed there too. */
  bool closed = may_follow(team, &coming, true, team->ahead.foreseen[0]);
  team->ahead.rounds =
      count % length == 0 && count == team->ahead.depth - team->ahead.depth % length && closed
          ? count
          : 0;
  team->ahead.rounds_used = false;
  come_after(team, &coming, team->ahead.foreseen[0]);
  team->ahead.rounds_in_loop = coming.is_in_run;
}

/* As expect does for one. */
static void use_foreseen(struct team *team, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    struct known_unit *known = team->ahead.foreseen[i];
    known->used = true;
    struct unit unit = known_unit(known);
    team_note_use(team, unit, known->hash);
  }
}

/* What has been committed of them so many times. */
static void count_epochs(struct team *team, uint32_t count, uint32_t times) {
  for (uint32_t i = 0; i < count; i++)
    team_count_epoch(team, unit_place(known_unit(team->ahead.foreseen[i])), times);
}

static void pass_places(struct team *team, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t place = place_after(team, 0, team->ahead.foreseen[i]);
    if (place == 0)
      continue;
    team_run_pass(team, team->places.last, place);
    team->places.last = place;
  }
}

void team_catch_up(struct team *team) {
  uint32_t count = (uint32_t)(team->expected - team->ahead.foreseen);
  if (team->ahead.rounds_again != 0) {
    count_epochs(team, team->ahead.rounds, team->ahead.rounds_again);
    team->ahead.rounds_again = 0;
  }
  if (count == 0)
    return;
  count_epochs(team, count, 1);
  use_foreseen(team, count);
  pass_places(team, count);
  team->symbol_last = team->ahead.foreseen[count - 1]->symbol;
  learner_steps_expected(team->learner, count);
  team_expect(team);
}

/* The same where whole rounds have been committed: the next ones are the same units. Nothing has
 * been interned in between, so they are still known, and what was used then still counts as used.
 */
static bool begin_rounds_again(struct team *team) {
  uint32_t count = (uint32_t)(team->expected - team->ahead.foreseen);
  if (count == 0 || count != team->ahead.rounds || team->ahead.depth < TEAM_FORESEEN ||
      learner_calm(team->learner) < 2 * (uint64_t)count ||
      (team->ahead.rounds_in_loop && team_run_may_end_within(team, 2 * count)))
    return false;
  if (!team->ahead.rounds_used)
    use_foreseen(team, count);
  if (team->ahead.rounds_used || team->ahead.rounds_in_loop)
    team_run_pass_many(team, count, team->ahead.rounds_in_loop);
  else
    pass_places(team, count);
  team->ahead.rounds_used = true;
  team->ahead.rounds_again++;
  learner_steps_expected(team->learner, count);
  team->symbol_last = team->ahead.foreseen[count - 1]->symbol;
  team->expected = team->ahead.foreseen;
  return true;
}

void team_look_further(struct team *team) {
  if (!begin_rounds_again(team)) {
    team_catch_up(team);
    look_ahead(team);
  }
}

/* There is room. */
static void commit_at_last(struct team *team) {
  if (!team->run_real) {
    team->run_real = true;
    team->run_start = (uint32_t)team->head;
    team->shadows = 0;
  }
  (void)team_round_begun(team);
  bool committed = team_commit_expected(team);
  assert(committed);
  (void)committed;
  if (team_is_awaited(team))
    team_published(team);
}

bool team_commit_slowly(struct team *team, struct unit unit) {
  if (*team->expected == &team_nothing)
    team_look_further(team);
  const struct known_unit *expected = *team->expected;
  bool same = unit.nmembers == expected->nmembers &&
              memcmp(unit.members, expected->members, sizeof(*unit.members) * unit.nmembers) == 0;
  team->crowded = 0;
  if (!same && !team_is_taken_for(team, unit, expected))
    return false;
  if (!team_has_room(team)) {
    team->crowded = team->head + 1;
    return false;
  }
  commit_at_last(team);
  return true;
}

bool team_look_here(struct team *team, const struct place *place) {
  enum place_turn turn = place_rounds_turn(place, team->places.rounds, place->rounds);
  team->places.rounds = place->rounds;
  team_catch_up(team);
  if (turn == TURN_ROUND && team_run_goes_on(team, team->places.last, place->id))
    team_run_restart(team);
  if (!team->places.may_be_over || turn == TURN_ROUND)
    return false;
  team_expect_after(team, turn);
  return *team->expected != &team_nothing;
}

bool team_commit_claimed(struct team *team) {
  const struct known_unit *expected = *team->expected;
  team->claim.for_room = false;
  log_say_awaits(team->own, false);
  if (expected == &team_nothing || expected->hash != team->claim.hash ||
      (team->owner.may_commit != NULL && !team->owner.may_commit(team->owner.may_commit_context)))
    return false;
  team->claim.open = false;
  team->source = team->plane->rank;
  commit_at_last(team);
  return true;
}
/* How a unit that has just been passed looks: this rank has issued it as it claimed it, or has read
 * how another will. Otherwise as before. */
static void learn_looks(struct team *team, symbol_t symbol, uint64_t hash, uint32_t flags) {
  const look_t *looks = NULL;
  bool known = (flags & ENTRY_REAL) != 0;
  if (known)
    looks = team->claim.looks_known ? team->claim.looks : NULL;
  else if (team->followed.looks_of == hash)
    looks = team->followed.looks;
  known = known || looks != NULL;
  if (known && !unit_table_set_looks(team->table, symbol, looks))
    team_fail(team, FAILURE_MEMORY, team->plane->rank, team->head);
  team->followed.handed_out = unit_table_looks(team->table, symbol);
}

static void learn_run(struct team *team, uint32_t from, struct unit unit) {
  const struct known_place *to = team_known_place(team, unit_place(unit));
  if (to != NULL && to->place.nnodes != 0)
    team_run_pass(team, from, to->place.id);
}

static void team_learn(struct team *team, struct unit unit, uint64_t hash, uint32_t flags) {
  struct member member;
  uint32_t before = team->places.last;
  symbol_t symbol = unit_table_intern(team->table, stand_in(unit, &member));
  team_learn_meeting(team, symbol, flags);
  team_learn_place(team, unit, flags);
  learn_run(team, before, unit);
  if (symbol != SYMBOL_NONE)
    learn_looks(team, symbol, hash, flags);
  if (symbol != SYMBOL_NONE)
    learner_step(team->learner, symbol, unit_table_coarse(team->table, symbol));
  else /* out of memory: from here on this rank would expect something else than the others */
    team_fail(team, FAILURE_MEMORY, team->plane->rank, team->head);
  team->symbol_last = symbol;
  team_expect(team);
  /* Where all have met, the next phase may begin, and not with the same unit for all. */
  if (flags & ENTRY_DEVIATION)
    team_expect_nothing(team);
}

void team_publish(struct team *team, struct unit unit, uint64_t hash, uint32_t flags, uint32_t text,
                  uint32_t source) {
  bool real = (flags & ENTRY_REAL) != 0;
  if (flags & ENTRY_REJOIN) {
    team->was_last = team_was_active_last(team, team->plane->rank);
    team->together = team->head + 1;
  }
  if (real != team->run_real || team->head == 0) {
    team->run_real = real;
    team->run_start = (uint32_t)team->head;
  }
  team->shadows = real ? 0 : team->shadows + 1;
  team->shadows_total += !real;
  team->reals += real;
  if (flags & ENTRY_NO_UNIT)
    team->left_at[team->leaves++ % TEAM_LEAVES] = team->head;
  else
    team->own_units += unit_mark(unit) != MARK_NONE || unit_is_state(unit);
  log_pass(team->own, team->head++,
           &(struct log_entry){.hash = hash,
                               .reals = team->reals,
                               .run_start = team->run_start,
                               .flags = flags,
                               .text = text,
                               .source = source,
                               .last_joiner = team->last_joiner,
                               .epoch = flags & ENTRY_BEHIND ? team->epoch_behind : 0,
                               .apart = flags & ENTRY_APART ? team->apart : 0});
  if (!(flags & ENTRY_NO_UNIT) && real && unit_may_have_place(unit))
    team_count_epoch(team, unit_place(unit), 1);
  if (!(flags & ENTRY_NO_UNIT))
    team_learn(team, unit, hash, flags);
  if (flags & ENTRY_EXPECTED)
    team_published(team);
  else
    team_tell(team);
  assert(team_is_valid(team));
}

bool team_is_between_iterations(struct team *team) {
  team_catch_up(team);
  const struct known_unit *expected = unit_table_known(team->table, team->symbol_expected);
  return learner_is_between_iterations(team->learner) ||
         (expected != NULL && team_leaves_loop(team, team->places.last, expected)) ||
         team_is_meeting(team, team->symbol_last, team->symbol_expected);
}
