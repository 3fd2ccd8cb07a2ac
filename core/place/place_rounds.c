/* Comparing rounds (place_rounds.h): a level has 32 bits, the outermost the lowest. Of these the
 * number has the lower ones. */
#include "core/place/place_rounds.h"

#include <string.h>

enum { BITS = 32, NUMBER_BITS = 18, NUMBER = (1 << NUMBER_BITS) - 1, TOTALS = (1 << 14) - 1 };
_Static_assert(BITS *PLACE_LEVELS <= 64, "all levels in a word");
_Static_assert(PLACE_ROUND_MAX < NUMBER, "all ones: refused");

static uint32_t place_round_pack(struct place_round round) {
  if (round.number == 0 || round.number > PLACE_ROUND_MAX)
    return 0;
  return (round.total == 0 ? 0 : 1 + round.total % TOTALS) << NUMBER_BITS | round.number;
}

place_rounds_t place_rounds_of(const struct place_node *nodes, uint32_t nnodes,
                               const struct place_round *rounds) {
  place_rounds_t all = 0;
  uint32_t level = 0;
  for (uint32_t i = 0; i < nnodes && level < PLACE_LEVELS; i++)
    if (nodes[i].flags & PLACE_LOOP)
      all |= (place_rounds_t)place_round_pack(rounds[i]) << BITS * level++;
  return all;
}

static uint32_t round_at(place_rounds_t rounds, uint32_t level) {
  return level >= PLACE_LEVELS ? 0 : (uint32_t)(rounds >> BITS * level);
}

static uint32_t number_at(place_rounds_t rounds, uint32_t level) {
  return round_at(rounds, level) & NUMBER;
}

static uint32_t total_at(place_rounds_t rounds, uint32_t level) {
  return round_at(rounds, level) >> NUMBER_BITS;
}

uint32_t place_rounds_refused(place_rounds_t rounds) {
  uint32_t level = 0;
  while (level < PLACE_LEVELS && number_at(rounds, level) != NUMBER)
    level++;
  return level;
}

/* Where they differ; PASS_SAME: nowhere. */
static enum place_pass compare_level(place_rounds_t a, place_rounds_t b, uint32_t level) {
  uint32_t of_a = number_at(a, level), of_b = number_at(b, level);
  if (of_a == 0 || of_b == 0 || of_a == NUMBER || of_b == NUMBER)
    return PASS_UNKNOWN;
  if (of_a == of_b)
    return PASS_SAME;
  if (total_at(a, level) == 0 || total_at(a, level) != total_at(b, level))
    return PASS_UNKNOWN;
  return of_a < of_b ? PASS_BEFORE : PASS_AFTER;
}

/* Whether each round of the loop that is the node at `loop` comes to the place, or goes to the next
 * loop around it: all nodes on the way have one of these flags. */
static bool rounds_come(const struct place *place, uint32_t loop, uint32_t either) {
  for (uint32_t i = loop + 1; i < place->nnodes; i++) {
    uint32_t flags = place->nodes[i].flags;
    if ((flags & PLACE_OPAQUE) || ((flags & PLACE_ORDERED) && !(flags & either)))
      return false;
    if (flags & PLACE_LOOP)
      return (flags & either) != 0;
  }
  return true;
}

static bool each_round_comes(const struct place *place, uint32_t loop) {
  return rounds_come(place, loop, PLACE_ALWAYS);
}

bool place_is_begin(const struct place *place) {
  return place->nnodes != 0 && place->nodes[place->nnodes - 1].until == UINT16_MAX;
}

enum place_pass place_compare_rounds(const struct place *a, place_rounds_t rounds_a,
                                     const struct place *b, place_rounds_t rounds_b, bool alike) {
  uint32_t level = 0;
  for (uint32_t i = 0; i < a->nnodes && i < b->nnodes && a->nodes[i].id == b->nodes[i].id; i++) {
    bool is_loop = (a->nodes[i].flags & PLACE_LOOP) != 0;
    if ((a->nodes[i].flags & PLACE_OPAQUE) || (is_loop && !(a->nodes[i].flags & PLACE_ORDERED)))
      return PASS_UNKNOWN; /* there may be loops that are not seen */
    if (!is_loop)
      continue;
    bool begins = place_is_begin(a) || place_is_begin(b);
    bool counts = level == 0 && alike;
    bool comes_a = counts || each_round_comes(a, i), comes_b = counts || each_round_comes(b, i);
    enum place_pass pass = compare_level(rounds_a, rounds_b, level++);
    if (pass == PASS_SAME || begins ? !comes_a && !comes_b : !comes_a || !comes_b)
      return PASS_UNKNOWN;
    if (pass != PASS_SAME)
      return pass;
  }
  return level == 0 ? PASS_UNKNOWN : PASS_SAME;
}

enum place_turn place_rounds_turn(const struct place *place, place_rounds_t before,
                                  place_rounds_t now) {
  enum place_turn turn = TURN_SAME;
  uint32_t loops = 0;
  for (uint32_t i = 0; i < place->nnodes; i++) {
    if (place->nodes[i].flags & PLACE_OPAQUE)
      turn = TURN_UNKNOWN;
    loops += (place->nodes[i].flags & PLACE_LOOP) != 0;
  }
  for (uint32_t level = 0; level + 1 < loops; level++) {
    uint32_t was = round_at(before, level), is = round_at(now, level);
    if (was != 0 && is != 0 && was != is)
      return TURN_ROUND;
    if (was == 0 || is == 0)
      turn = TURN_UNKNOWN;
  }
  return loops < 2 ? TURN_UNKNOWN : turn;
}

struct place_round place_epoch(place_rounds_t rounds, uint32_t level) {
  uint32_t number = number_at(rounds, level), total = total_at(rounds, level);
  if (number == 0 || number == NUMBER || total <= 1 || total - 1 > PLACE_EPOCHS_MAX)
    return (struct place_round){0, 0};
  return (struct place_round){number, total - 1};
}

enum { NUMBERS = 1 << 12 };
_Static_assert(NUMBERS > PLACE_EPOCHS_MAX + 1 && NUMBERS * NUMBERS == PLACE_NUMBERS_MAX,
               "a place for each number");

uint32_t place_rounds_number(place_rounds_t rounds, uint32_t level) {
  uint32_t number = 0;
  for (uint32_t i = 0; i <= level; i++)
    number = place_number_of((struct place_numbers){place_epoch(rounds, i).number, number});
  return number;
}

uint32_t place_number_of(struct place_numbers parts) {
  return parts.around * NUMBERS + parts.number % NUMBERS;
}

struct place_numbers place_numbers_of(uint32_t number) {
  return (struct place_numbers){number % NUMBERS, number / NUMBERS};
}

/* The loop at a level, among the nodes; nnodes: there is none, or there may be others around it. */
static uint32_t loop_at_level(const struct place *place, uint32_t level) {
  for (uint32_t i = 0; i < place->nnodes; i++) {
    uint32_t flags = place->nodes[i].flags;
    if ((flags & PLACE_OPAQUE) || ((flags & PLACE_LOOP) && !(flags & PLACE_ORDERED)))
      break;
    if ((flags & PLACE_LOOP) && level-- == 0)
      return i;
  }
  return place->nnodes;
}

static bool has_loop_behind(const struct place *place, uint32_t loop) {
  for (uint32_t i = loop + 1; i < place->nnodes; i++)
    if (place->nodes[i].flags & PLACE_LOOP)
      return true;
  return false;
}

uint32_t place_rounds_begin(const struct place *place) {
  uint32_t level = 0;
  for (; level < PLACE_LEVELS; level++) {
    uint32_t loop = loop_at_level(place, level);
    struct place_round epoch = place_epoch(place->rounds, level);
    bool may_be_batches = level > 0 || epoch.total == PLACE_EPOCHS_MAX; /* place_round_left */
    if (epoch.number == 0 || loop + 1 >= place->nnodes || loop + 1 >= PLACE_NODES_MAX ||
        (may_be_batches && !has_loop_behind(place, loop)))
      break;
  }
  return level;
}

bool place_round_begins(const struct place *place, uint32_t level, struct place_begin *begin) {
  uint32_t loop = loop_at_level(place, level), id = 1;
  begin->comes = true;
  if (place_rounds_begin(place) <= level)
    return false;
  for (uint32_t i = 0; i <= level; i++)
    begin->comes &= rounds_come(place, loop_at_level(place, i), PLACE_ALWAYS | PLACE_FIXED);
  begin->number = place_rounds_number(place->rounds, level);
  begin->place =
      (struct place){.nnodes = loop + 2, .rounds = place_rounds_only(place->rounds, level + 1)};
  for (uint32_t i = 0; i <= loop; i++) {
    begin->place.nodes[i] = place->nodes[i];
    id = (id ^ place->nodes[i].id) * UINT32_C(0x9e3779b1);
    id ^= id >> 15;
  }
  uint16_t order = place->nodes[loop].order;
  begin->place.nodes[loop + 1] = (struct place_node){.id = id | 1,
                                                     .order = order,
                                                     .since = order,
                                                     .until = UINT16_MAX,
                                                     .reach_from = order,
                                                     .reach_to = UINT16_MAX,
                                                     .flags = PLACE_ORDERED | PLACE_ALWAYS};
  begin->place.id = id | 1;
  memcpy(begin->place.text, place->text, sizeof(begin->place.text));
  return true;
}

uint32_t place_rounds_differ(place_rounds_t a, place_rounds_t b) {
  uint32_t level = 0;
  while (level < PLACE_LEVELS && number_at(a, level) == number_at(b, level))
    level++;
  return level;
}

uint32_t place_rounds_alike(place_rounds_t a, place_rounds_t b) {
  uint32_t level = 0;
  while (level < PLACE_LEVELS && round_at(a, level) == round_at(b, level) &&
         number_at(a, level) != 0 && number_at(a, level) != NUMBER && total_at(a, level) != 0)
    level++;
  return level;
}

uint32_t place_loops_around(const struct place *a, const struct place *b) {
  uint32_t loops = 0;
  for (uint32_t i = 0; i < a->nnodes && i < b->nnodes && a->nodes[i].id == b->nodes[i].id; i++)
    loops += (a->nodes[i].flags & PLACE_LOOP) != 0;
  return loops;
}

place_rounds_t place_rounds_only(place_rounds_t rounds, uint32_t levels) {
  return levels >= PLACE_LEVELS ? rounds : rounds & ((UINT64_C(1) << BITS * levels) - 1);
}

place_rounds_t place_rounds_refuse(place_rounds_t rounds, uint32_t levels) {
  rounds = place_rounds_only(rounds, levels);
  return levels < PLACE_LEVELS ? rounds | (place_rounds_t)NUMBER << BITS * levels : rounds;
}
