/* Places of the program that units of one signature may have: in a loop, and after it (team.h). A
 * scalar that is summed in each iteration and a barrier after the loop look alike; which of the two
 * a rank means is told by what came before. */
#include "core/team_private.h"

/* How far back places are looked for, in units. */
#define PLACES_LOOKED_AT 1024u

static uint64_t bit_of(symbol_t before, symbol_t unit) {
  uint64_t mixed = (((uint64_t)before << 32) | unit) * UINT64_C(0x9e3779b97f4a7c15);
  return mixed >> 52; /* 4096 bits */
}

static bool is_set(const uint64_t *bits, uint64_t bit) {
  return (bits[bit / 64] >> bit % 64 & 1) != 0;
}

static void set(uint64_t *bits, uint64_t bit) {
  bits[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* A unit that all claimed although some rank had been waiting for it is where ranks meet at the end
 * of a loop. It must not be committed later just because epochs were of equal length for a while.
 */
bool team_is_meeting(const struct team *team, symbol_t before, symbol_t unit) {
  return is_set(team->meetings, bit_of(before, unit));
}

static bool begins_iteration(const struct team *team, symbol_t unit) {
  return is_set(team->begins, bit_of(SYMBOL_NONE, unit));
}

void team_learn_places(struct team *team, symbol_t symbol, uint32_t flags) {
  if (flags & ENTRY_MEETING) {
    set(team->meetings, bit_of(team->symbol_last, symbol));
    unit_table_mark(team->table, symbol);
  }
  if ((flags & ENTRY_DEVIATION) && team->symbol_expected != SYMBOL_NONE)
    set(team->begins, bit_of(SYMBOL_NONE, team->symbol_expected));
}

bool team_is_between_iterations(struct team *team) {
  team_catch_up(team);
  return learner_is_between_iterations(team->learner) ||
         begins_iteration(team, team->symbol_expected) ||
         team_is_meeting(team, team->symbol_last, team->symbol_expected);
}

bool team_goes_on_so(const struct team *team, symbol_t before, symbol_t symbol) {
  if (team_is_meeting(team, before, symbol))
    return false;
  for (uint64_t back = 1; back < PLACES_LOOKED_AT; back++)
    if (learner_symbol(team->learner, back) == before &&
        learner_symbol(team->learner, back - 1) == symbol)
      return true;
  return false;
}

/* How many units, going back from one, are each the same as the one a round earlier. */
static uint64_t repeats(const struct team *team, uint64_t back, uint64_t round) {
  uint64_t count = 0;
  while (count < PLACES_LOOKED_AT && learner_symbol(team->learner, back + count) != SYMBOL_NONE &&
         learner_symbol(team->learner, back + count) ==
             learner_symbol(team->learner, back + count + round))
    count++;
  return count;
}

/* Whether the unit claimed comes here after a loop within the loop body: rounds of something end
 * just before it, and not as many as the last time. Then it is where ranks with less data go on;
 * always as many may be equal buckets before a loss. */
static bool comes_after_a_loop(const struct team *team) {
  uint64_t since = 0; /* the unit itself came last */
  while (since < PLACES_LOOKED_AT && learner_symbol(team->learner, since) != team->claim_symbol)
    since++;
  for (uint64_t round = 1; round <= since / 2; round++) {
    uint64_t here = repeats(team, 0, round);
    if (here >= round && here != repeats(team, since + 1, round))
      return true;
  }
  return false;
}

static bool has_place(const struct team *team, symbol_t before) {
  for (uint32_t i = 0; i < team->nclaim_places; i++)
    if (team->claim_places[i] == before)
      return true;
  return false;
}

/* Notes after which units the one claimed has come, where ranks do not wait for each other, and
 * whether an iteration has begun after the unit before the claim. */
static void look_back_from_claim(struct team *team) {
  symbol_t symbol = learner_symbol(team->learner, 0);
  team->claim_looked = true;
  team->claim_symbol = unit_table_find(team->table, team->claim);
  team->nclaim_places = 0;
  for (uint64_t back = 1; back < PLACES_LOOKED_AT; back++) {
    symbol_t before = learner_symbol(team->learner, back);
    if (before == SYMBOL_NONE)
      break;
    if (symbol == team->claim_symbol && team->nclaim_places < TEAM_PLACES &&
        !has_place(team, before) && !team_is_meeting(team, before, symbol))
      team->claim_places[team->nclaim_places++] = before;
    team->claim_between |= before == team->claim_after && begins_iteration(team, symbol);
    symbol = before;
  }
}

/* Whether this rank has left the loop of the others, for at the end of an iteration it claimed
 * something else than was expected, and they have come to another place since. */
static bool has_left_loop(struct team *team) {
  if (!team->claimed || team->shadows == 0 || team->claim_after == SYMBOL_NONE ||
      team->claim_after == team->symbol_last || team->claim.nmembers == 0 ||
      team->claim.nmembers > UNIT_MEMBERS_MAX)
    return false;
  if (!team->claim_looked)
    look_back_from_claim(team);
  return team->claim_between;
}

bool team_is_of_the_loop(struct team *team) {
  return has_left_loop(team) && !comes_after_a_loop(team);
}

bool team_claims_elsewhere(struct team *team) {
  return unit_mark(team->claim) == MARK_NONE && has_left_loop(team) &&
         has_place(team, team->symbol_last) && !comes_after_a_loop(team);
}
