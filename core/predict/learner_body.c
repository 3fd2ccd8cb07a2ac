/* Making bodies out of history, knowing where in them a long run ends, and remembering them. See
 * learner_body.h.
 *
 * Everything here happens when a body is taken or left, never while the stream does what is
 * expected.
 */
#include "core/predict/learner_body.h"

#include <assert.h>
#include <string.h>

/* ---- where a long run of repeats ends ---- */

/* A stretch of the body that repeats itself with a period: places start to start + length - 1,
 * cyclic. */
struct run {
  uint32_t period, start, length;
};

/* Runs known so far. More than these are still found, only more slowly. */
#define RUNS_KNOWN 32

/* Steps spent per place of the body. Random text needs about five; more than the limit takes a body
 * built to be nasty, and then some places stay firm that are not. */
#define RUN_STEPS_PER_PLACE 64

struct run_search {
  struct body *body;
  uint64_t steps;
  uint32_t nruns;
  struct run run[RUNS_KNOWN];
};

static inline uint32_t place_after(const struct body *body, uint32_t place, uint32_t distance) {
  place += distance;
  return place >= body->length ? place - body->length : place;
}

static inline uint32_t place_before(const struct body *body, uint32_t place, uint32_t distance) {
  return place >= distance ? place - distance : place + body->length - distance;
}

/* Whether the events at a place and one period later are the same, counts aside where they vary. */
static bool place_repeats(struct run_search *search, uint32_t place, uint32_t period) {
  const struct body *body = search->body;
  uint32_t later = place_after(body, place, period);
  search->steps--;
  if (body->event[place].symbol == body->event[later].symbol)
    return true;
  return ((body->flags[place] | body->flags[later]) & PLACE_VARIES) &&
         body->event[place].coarse == body->event[later].coarse;
}

/* Whether the run through this place is one that was found with a divisor of the period. */
static bool run_is_known(const struct run_search *search, uint32_t place, uint32_t period) {
  for (uint32_t i = 0; i < search->nruns; i++) {
    const struct run *run = &search->run[i];
    uint32_t into = place_before(search->body, place, run->start);
    if (period % run->period == 0 && into + period + run->period <= run->length)
      return true;
  }
  return false;
}

/* Follows the run of the given period through a place both ways; marks where it ends if it is long.
 */
static void run_follow(struct run_search *search, uint32_t place, uint32_t period, uint32_t need) {
  struct body *body = search->body;
  uint32_t ahead = 0, behind = 0;
  uint32_t at = place;
  while (search->steps > 0 && ahead < body->length && place_repeats(search, at, period)) {
    at = place_after(body, at, 1);
    ahead++;
  }
  uint32_t end = place_after(body, at, period);
  at = place_before(body, place, 1);
  while (search->steps > 0 && ahead + behind < body->length && place_repeats(search, at, period)) {
    at = place_before(body, at, 1);
    behind++;
  }
  if (search->steps == 0 || ahead + behind < need || ahead + behind >= body->length)
    return;
  body->flags[end] |= PLACE_RUN_ENDS;
  if (search->nruns < RUNS_KNOWN)
    search->run[search->nruns++] =
        (struct run){period, place_before(body, place, behind), ahead + behind + period};
}

/* Marks the places that break a run of at least run_units events and run_rounds periods. Such a run
 * has `need` places in a row that repeat one period later, so it is enough to try every `need`-th
 * place: over all periods that is about 2.5 tries per place, for the learner's own runs. */
static void body_mark_run_ends(struct body *body) {
  struct run_search search = {.body = body, .steps = (uint64_t)RUN_STEPS_PER_PLACE * body->length};
  for (uint32_t period = 1; (body->run_rounds - 1) * period < body->length; period++) {
    uint32_t need = (body->run_rounds - 1) * period;
    if (need + period < body->run_units)
      need = body->run_units - period;
    if (need >= body->length)
      continue; /* long periods need less beyond the period itself */
    for (uint32_t place = 0; place < body->length; place += need) {
      if (search.steps == 0)
        return;
      if (place_repeats(&search, place, period) && !run_is_known(&search, place, period))
        run_follow(&search, place, period, need);
    }
  }
}

/* ---- taking a body ---- */

/* Whether the count at a position of the last round differed from the rounds before, if history
 * still has them. */
static bool event_varied(const struct lags *lags, uint64_t position, uint32_t length) {
  uint64_t oldest = lags->position > HISTORY_SIZE ? lags->position - HISTORY_SIZE : 0;
  for (int round = 1; round < LEARNER_REPEATS; round++) {
    if (position < oldest + (uint64_t)round * length)
      return false;
    if (lags_event(lags, position)->symbol !=
        lags_event(lags, position - (uint64_t)round * length)->symbol)
      return true;
  }
  return false;
}

void body_take(struct body *body, const struct lags *lags, uint32_t length, uint64_t anchor) {
  assert(length > 0 && length <= LEARNER_BODY_MAX && length <= lags->position);
  assert(anchor <= lags->position);
  body->length = length;
  body->cursor = (uint32_t)((lags->position - anchor) % length);
  uint32_t place = body->cursor;
  for (uint64_t at = lags->position - length; at < lags->position; at++) {
    body->event[place] = *lags_event(lags, at);
    body->flags[place] = event_varied(lags, at, length) ? PLACE_VARIES : 0;
    place = body_next(body, place);
  }
  body_mark_run_ends(body);
}

static bool body_has_symbol(const struct body *body, symbol_t symbol) {
  for (uint32_t i = 0; i < body->length; i++)
    if (body->event[i].symbol == symbol)
      return true;
  return false;
}

bool body_is_valid(const struct body *body) {
  if (body->length > LEARNER_BODY_MAX || (body->length && body->cursor >= body->length))
    return false;
  for (uint32_t i = 0; i < body->length; i++)
    if (body->event[i].symbol == SYMBOL_NONE ||
        (body->flags[i] & ~(PLACE_VARIES | PLACE_RUN_ENDS | PLACE_INSERTS)))
      return false;
  return true;
}

/* ---- remembered bodies ---- */

static uint32_t shelf_place(const struct shelf_body *body, enum shelf_entry entry) {
  return entry == ENTRY_LEFT ? body->left : 0;
}

/* The place for a body: where an earlier copy of it stands, else a free one, else the oldest. */
static struct shelf_body *shelf_choose(struct shelf *shelf, const struct body *body,
                                       const struct shelf_body *keep) {
  struct shelf_body *choice = NULL;
  for (int i = 0; i < SHELF_BODIES; i++) {
    struct shelf_body *other = &shelf->body[i];
    if (other == keep)
      continue;
    if (other->length == body->length && other->event[0].symbol == body->event[0].symbol)
      return other;
    if (!choice || other->age < choice->age)
      choice = other;
  }
  return choice;
}

void shelf_put(struct shelf *shelf, const struct body *body, const struct shelf_body *keep) {
  if (body->length == 0 || body->length > SHELF_BODY_MAX)
    return;
  struct shelf_body *place = shelf_choose(shelf, body, keep);
  memcpy(place->event, body->event, body->length * sizeof *body->event);
  place->length = body->length;
  place->left = body->cursor;
  place->age = ++shelf->age;
}

static uint32_t shelf_second_place(const struct shelf_body *body, enum shelf_entry entry) {
  uint32_t first = shelf_place(body, entry);
  return first + 1 == body->length ? 0 : first + 1;
}

/* Both units of an entry have to be foreign: one that is not shows a variation of the present loop
 * (the same with a log line, say), and such a body is not gone back to each time the log line
 * comes. */
void shelf_open(struct shelf *shelf, const struct body *present) {
  for (int i = 0; i < SHELF_BODIES; i++) {
    struct shelf_body *body = &shelf->body[i];
    for (enum shelf_entry entry = 0; entry < SHELF_ENTRIES; entry++) {
      symbol_t first = body->event[shelf_place(body, entry)].symbol;
      symbol_t second = body->event[shelf_second_place(body, entry)].symbol;
      body->open[entry] =
          body->length > 0 && !body_has_symbol(present, first) && !body_has_symbol(present, second);
      body->entered[entry] = 0;
    }
  }
}

/* Whether the newest event is the second at this entry; notes it if it is the first. */
static bool shelf_enters(struct shelf_body *body, enum shelf_entry entry, const struct lags *lags) {
  if (!body->open[entry])
    return false;
  symbol_t symbol = lags_event(lags, lags->position - 1)->symbol;
  symbol_t first = body->event[shelf_place(body, entry)].symbol;
  symbol_t second = body->event[shelf_second_place(body, entry)].symbol;
  bool enters = body->entered[entry] == lags->position - 1 && second == symbol;
  if (first == symbol)
    body->entered[entry] = lags->position;
  return enters && lags->position > 1;
}

const struct shelf_body *shelf_look(struct shelf *shelf, const struct lags *lags,
                                    enum shelf_entry *entry) {
  const struct shelf_body *found = NULL;
  for (int i = 0; i < SHELF_BODIES; i++) {
    for (enum shelf_entry e = 0; e < SHELF_ENTRIES; e++) {
      struct shelf_body *body = &shelf->body[i];
      if (shelf_enters(body, e, lags) && (!found || body->age > found->age)) {
        found = body;
        *entry = e;
      }
    }
  }
  return found;
}

void body_resume(struct body *body, const struct shelf_body *from, enum shelf_entry entry) {
  body->length = from->length;
  memcpy(body->event, from->event, from->length * sizeof *body->event);
  memset(body->flags, 0, from->length);
  body->cursor = body_next(body, shelf_second_place(from, entry));
  body_mark_run_ends(body);
}
