/* Units whose places are not known, since all calls come through one function, or from a thread
 * that says nothing of the program (team.h). Where loops end is then told from the sequence: after
 * the fact, and not always. Nothing here counts between two units whose places are known.
 */
#include "core/team/team_private.h"

static bool is_set(const uint64_t *bits, uint64_t bit) {
  return (bits[bit / 64] >> bit % 64 & 1) != 0;
}

static uint64_t bit_of(symbol_t before, symbol_t unit) {
  uint64_t mixed = (((uint64_t)before << 32) | unit) * UINT64_C(0x9e3779b97f4a7c15);
  return mixed >> 52; /* 4096 bits */
}

/* A unit that all claimed although some rank had been waiting for it is where ranks meet at the end
 * of a loop. It must not be committed later just because epochs were of equal length for a while.
 */
bool team_is_meeting(const struct team *team, symbol_t before, symbol_t unit) {
  return is_set(team->hidden.meetings, bit_of(before, unit));
}

void team_learn_meeting(struct team *team, symbol_t symbol, uint32_t flags) {
  if (flags & ENTRY_DEVIATION)
    team->hidden.deviated = team->head;
  if (!(flags & ENTRY_MEETING))
    return;
  uint64_t bit = bit_of(team->symbol_last, symbol);
  team->hidden.meetings[bit / 64] |= UINT64_C(1) << bit % 64;
  unit_table_mark(team->table, symbol);
}

/* A loop has ended if it had gone round LOOP_ROUNDS times with nothing else in between. That its
 * body is believed is not enough: two or three equal buckets look like a loop for a while. */
#define LOOP_ROUNDS 8
bool team_loop_has_ended(const struct team *team) {
  uint64_t body = learner_body_length(team->learner);
  if (team->symbol_expected == SYMBOL_NONE || body == 0 ||
      team->head - team->hidden.deviated < LOOP_ROUNDS * body)
    return false;
  for (uint64_t round = 1; round < LOOP_ROUNDS; round++)
    if (learner_symbol(team->learner, round * body) != team->symbol_last)
      return false;
  return true;
}
