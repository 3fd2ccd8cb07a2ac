/* Whether ranks are in step: in the same round of the outermost loop of their program (team.h).
 *
 * Some loops say it themselves (place_rounds.h): a rank says where it began its round.
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
 * as often as it should. It has no mark at the beginning of some rounds. What is in no loop within
 * comes at most once in a round. */
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

bool team_begins_round(const struct team *team) {
  return team->places.begins != 0;
}

/* Where a round has begun, as a word: at which place, and of how many; its number
 * (place_rounds_number); and the low bits of the index. */
enum { INDEX_BITS = 22, ROUND_BITS = 24, WHICH_SHIFT = INDEX_BITS + ROUND_BITS };
_Static_assert(PLACE_NUMBERS_MAX <= 1u << ROUND_BITS, "all numbers of rounds");
#define BEGUN_UNKNOWN UINT64_MAX /* it does not say where it begins rounds */

uint64_t team_says(uint32_t place, const uint32_t totals[PLACE_LEVELS], uint32_t level,
                   uint32_t number) {
  uint32_t which = place;
  for (uint32_t i = 0; i <= level; i++) {
    which = (which ^ totals[i]) * UINT32_C(0x9e3779b1);
    which ^= which >> 15;
  }
  return (uint64_t)which << WHICH_SHIFT | (uint64_t)number << INDEX_BITS;
}

static uint64_t begun_here(const struct team *team, uint64_t says) {
  return says | (team->head & ((UINT64_C(1) << INDEX_BITS) - 1));
}

static uint32_t begun_round(uint64_t begun) {
  return (uint32_t)(begun >> INDEX_BITS) & ((1u << ROUND_BITS) - 1);
}

/* The index next to the head of which these are the low bits. */
static uint64_t begun_index(const struct team *team, uint64_t begun) {
  uint32_t behind = (uint32_t)(team->head - begun) << (32 - INDEX_BITS);
  return team->head - (uint64_t)((int32_t)behind >> (32 - INDEX_BITS));
}

/* Of rounds of as many, the outermost level up to this one at which the other's is an earlier one;
 * PLACE_LEVELS: none, or the other is in a later one. */
static uint32_t level_of_earlier(place_rounds_t own, place_rounds_t other, uint32_t level) {
  for (uint32_t i = 0; i <= level; i++) {
    struct place_round here = place_epoch(own, i), there = place_epoch(other, i);
    if (here.total != there.total)
      break;
    if (here.number != there.number)
      return there.number < here.number ? i : PLACE_LEVELS;
  }
  return PLACE_LEVELS;
}

void team_say_no_rounds(struct team *team) {
  log_say_begun(team->own, false, BEGUN_UNKNOWN);
  log_say_begun(team->own, true, BEGUN_UNKNOWN);
}

/* The index, plus one, of what this rank has issued last for real, but for marks where rounds
 * begin. */
static uint64_t team_last_real(const struct team *team) {
  uint64_t last = team->run_real ? team->head : team->head - team->shadows;
  return last != 0 && last == team->places.mark_end ? team->places.mark_before : last;
}

/* Whether the other rank has begun this round at another index, or a later round by now, while this
 * rank has issued something since, or is there first. Does not count what it began before this rank
 * began its last round: that may be an earlier call of the function. before: what this rank said
 * last. */
static bool has_begun_elsewhere(const struct team *team, uint64_t own, uint64_t before,
                                uint64_t begun) {
  uint64_t at = begun_index(team, begun);
  if (begun >> WHICH_SHIFT != own >> WHICH_SHIFT || begun_round(begun) < begun_round(own))
    return false;
  if (at >= team->head)
    return (at == team->head) != (begun_round(begun) == begun_round(own));
  bool is_old = before >> WHICH_SHIFT == own >> WHICH_SHIFT && at <= begun_index(team, before);
  return team_last_real(team) > at && !is_old;
}

/* Whether the other rank has issued this index for real in an earlier round: it has not said yet
 * where the next one begins. */
static bool has_gone_past(const struct team *team, const struct plane_log *log, uint64_t own,
                          uint64_t begun) {
  return log_is_real(log, team->head) && begun >> WHICH_SHIFT == own >> WHICH_SHIFT &&
         begun_round(begun) < begun_round(own);
}

/* Whether the round that begins here is not the other rank's, as far as that has said it. Fills in
 * the guess. */
static bool has_said_another(const struct team *team, uint32_t rank, uint32_t level,
                             struct team_guess *guess) {
  const struct plane_log *log = log_of(team->plane, rank);
  bool is_past = log_passed(log) > team->head; /* looked at before what it has begun */
  uint64_t own = team->places.says[level], begun = log_begun(log, level > 0);
  struct place_numbers there = place_numbers_of(begun_round(begun));
  bool is_here = there.around == place_numbers_of(begun_round(own)).around;
  guess->other = rank;
  guess->level = is_here ? level : level - 1;
  guess->other_round = is_here ? there.number : there.around;
  guess->other_begun = 0;
  if (own == 0)
    return false;
  if (has_begun_elsewhere(team, own, team->places.said[level], begun)) {
    guess->other_begun = is_here ? begun_index(team, begun) + 1 : 0;
    return true;
  }
  return is_past && has_gone_past(team, log, own, begun);
}

/* The same, or it claims the same here in an earlier one. */
static bool is_in_another(const struct team *team, uint32_t rank, uint32_t level,
                          struct team_guess *guess) {
  struct log_claim claim;
  if (has_said_another(team, rank, level, guess))
    return true;
  if (!log_read_claim(log_of(team->plane, rank), team->head, &claim) ||
      claim.hash != team->claim.hash)
    return false;
  guess->level = level_of_earlier(team->claim.own_place.rounds, claim.rounds, level);
  if (guess->level == PLACE_LEVELS)
    return false;
  guess->other_round = place_epoch(claim.rounds, guess->level).number;
  return true;
}

/* Whether one of the other ranks is in another round at one of these levels. */
static bool is_mixed(const struct team *team, struct team_levels levels, struct team_guess *guess) {
  for (uint32_t level = levels.first; level < levels.end; level++)
    for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
      if (rank != team->plane->rank && is_in_another(team, rank, level, guess))
        return true;
  return false;
}

/* The same of the two next to this one, which others look at in turn. */
static bool is_beside_another(const struct team *team, struct team_levels levels) {
  struct team_guess guess;
  uint32_t nranks = team->plane->nranks, rank = team->plane->rank;
  for (uint32_t level = levels.first; level < levels.end; level++)
    if (has_said_another(team, (rank + 1) % nranks, level, &guess) ||
        has_said_another(team, (rank + nranks - 1) % nranks, level, &guess))
      return true;
  return false;
}

void team_say_round(struct team *team, const uint64_t says[PLACE_LEVELS]) {
  memcpy(team->places.says, says, sizeof(team->places.says));
  for (uint32_t level = 0; level < PLACE_LEVELS; level++)
    team->places.said[level] = log_begun(team->own, level > 0);
}

/* ---- between machines ---- */

/* There a rank hears of what another says only where somebody waits (core/agent). */
static bool spans_machines(const struct team *team) {
  const struct plane *plane = team->plane;
  bool spans = false;
  for (uint32_t rank = 0; plane->machine != NULL && !spans && rank < plane->nranks; rank++)
    spans = plane->machine(plane, rank) != NULL;
  return spans;
}

/* To claim a collective there takes some hundred microseconds. A round of so many is worth that, by
 * level: of an outermost loop of single ones it would be most; the loop in that one may be that of
 * batches, which has another one in it. */
static const uint32_t long_rounds[PLACE_LEVELS] = {2, 256};

/* Whether the last round has been a long one, as far as it is known. */
static bool was_long(const struct team *team, uint32_t level) {
  uint64_t said = team->places.said[level];
  return said == 0 || said == BEGUN_UNKNOWN ||
         team->head - begun_index(team, said) >= long_rounds[level];
}

/* Something that is no mark, from one index up to another. */
static bool has_issued(const struct team *team, const struct plane_log *log, uint64_t from,
                       uint64_t end) {
  struct unit unit;
  bool issued = false;
  for (uint64_t at = from; at < end && !issued; at++)
    issued =
        log_is_real(log, at) &&
        unit_table_get(team->table, unit_table_find_hash(team->table, log_hash(log, at)), &unit) &&
        unit_mark(unit) == MARK_NONE;
  return issued;
}

/* Whether of two ranks that are in the same round one was still in an earlier one where the other
 * began it. */
static bool has_mixed_with(const struct team *team, uint32_t rank, uint32_t level,
                           struct team_guess *guess) {
  const struct plane_log *log = log_of(team->plane, rank);
  uint64_t own = log_begun(team->own, level > 0), begun = log_begun(log, level > 0);
  if (own == 0 || own == BEGUN_UNKNOWN || own >> INDEX_BITS != begun >> INDEX_BITS)
    return false;
  struct place_numbers numbers = place_numbers_of(begun_round(own));
  guess->level = level;
  guess->other = rank;
  guess->round = guess->other_round = numbers.number;
  /* Who counts what is left says numbers from there on: then none is printed. */
  guess->are_left = numbers.number > PLACE_EPOCHS_MAX / 2;
  guess->begun = begun_index(team, own);
  uint64_t at = begun_index(team, begun), first = at < guess->begun ? at : guess->begun;
  guess->other_begun = at + 1;
  return team->head - first <= PLANE_RUN_AHEAD &&
         has_issued(team, at < guess->begun ? team->own : log, first, at + guess->begun - first);
}

bool team_look_back(struct team *team) {
  struct team_guess guess = {.kind = GUESS_MIXED, .rank = team->plane->rank};
  bool mixed = false;
  if (team->telling.guessed || team->owner.may_mix || plane_is_mixed(team->shared) ||
      log_begun(team->own, false) == 0 || !spans_machines(team))
    return false;
  for (uint32_t level = 0; level < PLACE_LEVELS && !mixed; level++)
    for (uint32_t rank = 0; rank < team->plane->nranks && !mixed; rank++)
      mixed = rank != team->plane->rank && has_mixed_with(team, rank, level, &guess);
  struct unit unit;
  uint64_t hash = mixed ? log_hash(team->own, guess.begun) : 0;
  if (!mixed || !unit_table_get(team->table, unit_table_find_hash(team->table, hash), &unit) ||
      plane_say_mixed(team->shared))
    return false;
  guess.member = unit.members[0];
  team->telling.guessed = true;
  team->telling.guess = guess;
  return true;
}

void team_begin_round(struct team *team, struct team_levels levels,
                      const uint64_t says[PLACE_LEVELS], bool quietly) {
  team_say_round(team, says);
  bool told = plane_is_mixed(team->shared) || team->owner.may_mix;
  if (quietly && was_long(team, levels.first) && spans_machines(team))
    quietly = false;
  team->places.begins =
      told || (quietly && !is_beside_another(team, levels)) ? 0 : levels.first + 1;
  team->places.begins_end = levels.end;
}

bool team_is_saying(const struct team *team) {
  return (team->places.says[0] | team->places.says[1]) != 0;
}

bool team_round_begun(struct team *team) {
  struct team_levels levels = {team->places.begins - 1, team->places.begins_end};
  struct team_guess guess = {.kind = GUESS_MIXED, .rank = team->plane->rank, .begun = team->head};
  if (team->claim.open && unit_is_round(team->claim.unit)) {
    team->places.mark_before = team_last_real(team);
    team->places.mark_end = team->head + 1;
  }
  for (uint32_t i = 0; i < PLACE_LEVELS; i++)
    if (team->places.says[i] != 0)
      log_say_begun(team->own, i > 0, begun_here(team, team->places.says[i]));
  bool mixed = team->places.begins != 0 && is_mixed(team, levels, &guess);
  team->places.begins = 0;
  memset(team->places.says, 0, sizeof(team->places.says));
  if (!mixed)
    return false;
  bool told = plane_say_mixed(team->shared);
  team->telling.guessed |= !told;
  guess.round = place_epoch(team->claim.own_place.rounds, guess.level).number;
  guess.are_left = place_epoch(team->claim.own_place.rounds, guess.level).total == PLACE_EPOCHS_MAX;
  guess.member = team->claim.unit.members[0];
  team_copy_text(guess.place, &team->claim.own_place);
  team->telling.guess = guess;
  return true;
}

bool team_counts_rounds(const struct team *team, const struct place *place, uint32_t levels) {
  uint32_t at = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (other->counted >= levels && place_loops_around(place, &other->place) >= levels)
      return true;
  return false;
}
