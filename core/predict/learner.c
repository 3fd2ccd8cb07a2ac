/* The learner: believing, following and leaving loop bodies. See learner.h.
 *
 * Three parts: history and hypotheses about its period (learner_lags.h), the body believed now and
 * those remembered (learner_body.h), and here the decisions. Questions are in learner_questions.c.
 * While the stream does what is expected, a step only moves the cursor: hypotheses need no
 * attention before `alert`, the first position at which one of them could be ripe. That is a
 * position of the stream, so putting work off decides nothing.
 */
#include "core/predict/learner.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/predict/learner_private.h"

/* A loop in which units vary from the beginning has to be seen for longer than three units. */
#define LOOSE_RUN_MIN 16

/* What comes in between for this many units is another loop and not a few inserts. A body that
 * would have to be learnt again from the beginning is held on to for as long as it is long. */
#define PATIENCE 16

#define NEVER UINT64_MAX

_Static_assert(sizeof(struct learner) <= 1 << 20, "the learner's header promises at most 1 MiB");
_Static_assert(LEARNER_BODY_MAX == LAG_MAX, "the longest body is the longest lag");

enum verdict {
  UNIT_UNKNOWN,  /* no body is believed */
  UNIT_EXPECTED, /* the next unit of the body */
  UNIT_VARIED,   /* it was too, but not with the symbol that was expected */
  UNIT_INSERTED, /* not part of the body */
};

/* Events are written before they are read: a learner that has seen little has touched little
 * memory. */
struct learner *learner_create(void) {
  struct learner *learner = malloc(sizeof *learner);
  if (learner == NULL)
    return NULL;
  memset(learner, 0, offsetof(struct learner, lags) + offsetof(struct lags, history));
  memset(&learner->body, 0, offsetof(struct body, event) + sizeof(struct event));
  learner->body.flags[0] = 0;
  learner->shelf.age = 0;
  for (int i = 0; i < SHELF_BODIES; i++)
    memset(&learner->shelf.body[i], 0, offsetof(struct shelf_body, event));
  learner->ripe = NEVER;
  learner_set_run(learner, LEARNER_RUN_MIN, LEARNER_RUN_ROUNDS);
  return learner;
}

void learner_set_run(struct learner *learner, uint32_t units, uint32_t rounds) {
  assert(rounds >= 2);
  learner->body.run_units = units;
  learner->body.run_rounds = rounds;
}

void learner_destroy(struct learner *learner) {
  free(learner);
}

static inline void learner_show_next(struct learner *learner) {
  const struct body *body = &learner->body;
  learner->next.expected = body->event[body->cursor].symbol;
  learner->next.firm = !(body->flags[body->cursor] & PLACE_RUN_ENDS);
}

/* ---- following the body ---- */

static void learner_begin_doubt(struct learner *learner, struct event event) {
  const struct body *body = &learner->body;
  uint32_t place = body->cursor, after = body_next(body, place);
  struct doubt doubt = {true, false, place, event.symbol, 0, body->length};
  if (body->length > 2 && body->event[after].symbol == event.symbol)
    doubt.cursor = body_next(body, after);
  else if (body->length > 1 && body->event[place].coarse == event.coarse)
    doubt = (struct doubt){true, true, place, event.symbol, after, body->length};
  else
    return;
  learner->doubt = doubt;
}

/* The other explanation was right: the body goes on from there. */
static void learner_resolve_doubt(struct learner *learner) {
  struct body *body = &learner->body;
  const struct doubt *doubt = &learner->doubt;
  if (doubt->varies) {
    body->event[doubt->place].symbol = doubt->symbol;
    body->flags[doubt->place] |= PLACE_VARIES;
  }
  body->cursor = body_next(body, doubt->cursor);
  learner->doubt.open = false;
}

/* A unit at a place that varies: the place's own unit with a new count, or, since NCCL drops a
 * collective of count 0, already the one behind it. */
static bool learner_follow_varying(struct learner *learner, struct event event) {
  struct body *body = &learner->body;
  uint32_t place = body->cursor, after = body_next(body, place);
  if (!(body->flags[place] & PLACE_VARIES))
    return false;
  bool skips = body->length > 1 && body->event[after].symbol == event.symbol;
  if (body->event[place].coarse == event.coarse) {
    if (skips && body->length > 2)
      learner->doubt =
          (struct doubt){true, false, place, event.symbol, body_next(body, after), body->length};
    body->event[place].symbol = event.symbol;
    body->cursor = after;
  } else if (skips) {
    body->cursor = body_next(body, after);
  } else {
    return false;
  }
  return true;
}

static enum verdict learner_follow(struct learner *learner, struct event event) {
  struct body *body = &learner->body;
  struct doubt *doubt = &learner->doubt;
  uint32_t place = body->cursor;
  bool other = doubt->open && body->event[doubt->cursor].symbol == event.symbol;
  if (event.symbol == body->event[place].symbol) {
    doubt->open = other && --doubt->patient > 0;
    doubt->cursor = body_next(body, doubt->cursor);
    body->cursor = body_next(body, place);
    learner->inserts = 0;
    return UNIT_EXPECTED;
  }
  learner->wrong_at = learner->lags.position + 1;
  if (other) {
    learner_resolve_doubt(learner);
    learner->inserts = 0;
    return UNIT_VARIED;
  }
  doubt->open = false;
  if (learner_follow_varying(learner, event)) {
    learner->inserts = 0;
    return UNIT_VARIED;
  }
  body->flags[place] |= PLACE_INSERTS;
  learner->inserted_at = learner->wrong_at;
  learner->watchful = learner->lags.position + LAGS_CONTEXT_MAX;
  learner->inserts++;
  learner_begin_doubt(learner, event);
  return UNIT_INSERTED;
}

/* ---- believing another body ---- */

/* The first position at which a hypothesis, if nothing contradicts it until then, has been exact
 * for as long as it takes to be believed; and the same if units may vary. */
static uint64_t lag_exact_at(const struct lag *lag) {
  return lag->exact_since + (uint64_t)(LEARNER_REPEATS - 1) * lag->lag;
}

static uint64_t lag_loose_at(const struct lag *lag) {
  uint64_t run = (uint64_t)(LEARNER_REPEATS - 1) * lag->lag;
  uint64_t at = lag->since + (run > LOOSE_RUN_MIN ? run : LOOSE_RUN_MIN);
  uint64_t tolerated = 3 * (uint64_t)lag->lag;
  uint64_t calm = lag->trouble > tolerated ? lag->trouble_at + (lag->trouble - tolerated) : 0;
  return at > calm ? at : calm;
}

/* Whether the last insert came at this lag twice before. */
static bool lag_explains_insert(const struct learner *learner, const struct lag *lag) {
  const struct lags *lags = &learner->lags;
  if (learner->inserted_at == 0 || lag->exact_since >= learner->inserted_at)
    return false;
  uint64_t at = learner->inserted_at - 1, back = (uint64_t)(LEARNER_REPEATS - 1) * lag->lag;
  if (at < back || lags->position - at + back > HISTORY_SIZE)
    return false;
  symbol_t symbol = lags_event(lags, at)->symbol;
  for (int round = 1; round < LEARNER_REPEATS; round++)
    if (lags_event(lags, at - (uint64_t)round * lag->lag)->symbol != symbol)
      return false;
  return true;
}

static uint64_t learner_patience(const struct learner *learner) {
  uint32_t length = learner->body.length;
  return length > PATIENCE && length <= SHELF_BODY_MAX ? PATIENCE : length;
}

/* The first position at which a hypothesis may be taken if it holds and the present body is
 * followed until then. Against a body it must have foreseen what the body did not: either it has
 * been exact since before the body's last error, or it varies but knew the last insert. */
static uint64_t learner_ripe_at(const struct learner *learner, const struct lag *lag) {
  if (lag->lag == 0)
    return NEVER;
  uint64_t exact = lag_exact_at(lag), loose = lag_loose_at(lag);
  if (learner->body.length) {
    uint64_t patience = learner_patience(learner);
    bool in_step = lag->lag == learner->body.length && learner->inserts == 0;
    if (in_step || lag->exact_since + patience >= learner->wrong_at)
      exact = NEVER;
    if (in_step || lag->since + patience >= learner->inserted_at ||
        !lag_explains_insert(learner, lag))
      loose = NEVER;
  }
  return exact < loose ? exact : loose;
}

/* The beginning of what a ripe hypothesis explains. */
static uint64_t lag_begin(const struct lag *lag, uint64_t position) {
  return lag_exact_at(lag) <= position ? lag->exact_since : lag->since;
}

/* The ripe hypothesis that has stood longest, the smallest of those that have stood equally long;
 * or NULL. */
static const struct lag *learner_ripe_lag(const struct learner *learner) {
  uint64_t position = learner->lags.position;
  const struct lag *best = NULL;
  uint64_t best_begin = NEVER;
  for (int i = 0; i < LAGS_HYPOTHESES; i++) {
    const struct lag *lag = &learner->lags.lag[i];
    if (learner_ripe_at(learner, lag) > position)
      continue;
    uint64_t begin = lag_begin(lag, position);
    if (!best || begin < best_begin || (begin == best_begin && lag->lag < best->lag)) {
      best = lag;
      best_begin = begin;
    }
  }
  return best;
}

static bool learner_spend(struct learner *learner, uint64_t steps) {
  if (credit_earn(&learner->credit, learner->lags.position) < steps)
    return false;
  learner->credit.steps -= steps;
  return true;
}

/* To be called after every change of body. */
static void learner_begin_body(struct learner *learner, uint64_t wrong_at, uint64_t inserted_at) {
  learner->wrong_at = wrong_at;
  learner->inserted_at = inserted_at;
  learner->inserts = 0;
  learner->doubt.open = false;
  shelf_open(&learner->shelf, &learner->body);
  assert(body_is_valid(&learner->body));
}

static void learner_take(struct learner *learner, const struct lag *lag) {
  uint64_t begin = lag_begin(lag, learner->lags.position);
  shelf_put(&learner->shelf, &learner->body, NULL);
  if (learner->body.length == 0)
    learner->watchful = learner->lags.position;
  body_take(&learner->body, &learner->lags, lag->lag, begin - lag->lag);
  learner_begin_body(learner, lag->exact_since, begin);
}

static void learner_forget(struct learner *learner) {
  shelf_put(&learner->shelf, &learner->body, NULL);
  learner->body.length = learner->body.cursor = 0;
  learner_begin_body(learner, learner->lags.position, learner->lags.position);
}

/* Goes back to a body of an earlier phase if the stream has just entered it. */
static bool learner_resume(struct learner *learner) {
  enum shelf_entry entry = ENTRY_LEFT;
  const struct shelf_body *from = shelf_look(&learner->shelf, &learner->lags, &entry);
  if (!from || !learner_spend(learner, 4 * ((uint64_t)from->length + learner->body.length)))
    return false;
  shelf_put(&learner->shelf, &learner->body, from);
  body_resume(&learner->body, from, entry);
  learner_begin_body(learner, learner->lags.position, learner->lags.position);
  return true;
}

/* Takes a body, or leaves the one believed if it has had its chance; then finds the next position
 * to decide. */
static void learner_decide(struct learner *learner) {
  lags_check(&learner->lags);
  const struct lag *lag = learner_ripe_lag(learner);
  if (lag && learner_spend(learner, 4 * (uint64_t)lag->lag))
    learner_take(learner, lag);
  else if (learner->inserts > 4 * (uint64_t)learner->body.length + LAGS_CONTEXT_MAX)
    learner_forget(learner);
  learner->ripe = NEVER;
  for (int i = 0; i < LAGS_HYPOTHESES; i++) {
    uint64_t ripe = learner_ripe_at(learner, &learner->lags.lag[i]);
    if (ripe < learner->ripe)
      learner->ripe = ripe;
  }
}

/* After a calm stretch: drops the hypotheses that cannot be taken as long as the body holds. Should
 * one matter after the next surprise, the context will propose it again. Then a stream that does
 * what is expected has nothing left to check. */
static void learner_tidy(struct learner *learner) {
  for (int i = 0; i < LAGS_HYPOTHESES; i++)
    if (learner_ripe_at(learner, &learner->lags.lag[i]) == NEVER)
      learner->lags.lag[i].lag = 0;
}

/* ---- steps ---- */

/* The first position whose unit needs more than a step of the cursor. Depends on the stream alone,
 * not on when work that was put off was done. */
static uint64_t learner_next_alert(const struct learner *learner) {
  uint64_t position = learner->lags.position;
  if (learner->doubt.open || position < learner->watchful)
    return position;
  return (learner->ripe < learner->check_at ? learner->ripe : learner->check_at) - 1;
}

/* Where there is no hypothesis there is nothing to check, ever, until one is proposed. */
static void learner_check_in_time(struct learner *learner) {
  struct lags *lags = &learner->lags;
  if (lags->position >= learner->check_at) {
    lags_check(lags);
    if (learner->body.length && lags->position - learner->wrong_at >= LAGS_CALM)
      learner_tidy(learner);
    learner->check_at = NEVER;
  }
  if (learner->check_at == NEVER && lags_are_any(lags))
    learner->check_at = lags->position + LAGS_CALM;
}

static void learner_step_attentively(struct learner *learner, struct event event) {
  struct lags *lags = &learner->lags;
  enum verdict verdict = learner->body.length ? learner_follow(learner, event) : UNIT_UNKNOWN;
  lags_append(lags, event);
  bool new_lag = false;
  if (verdict == UNIT_UNKNOWN || lags->position <= learner->watchful)
    new_lag = lags_look(lags);
  bool unforeseen = verdict == UNIT_INSERTED || verdict == UNIT_VARIED;
  bool resumed = (verdict == UNIT_UNKNOWN || lags->position <= learner->inserted_at + 1) &&
                 learner_resume(learner);
  if (resumed || new_lag || unforeseen || lags->position >= learner->ripe)
    learner_decide(learner);
  learner_check_in_time(learner);
  learner_show_next(learner);
  if (learner->body.length == 0)
    learner->next = (struct learner_next){SYMBOL_NONE, false};
  learner->alert = learner_next_alert(learner);
}

void learner_step_expected(struct learner *learner) {
  struct body *body = &learner->body;
  assert(learner->next.expected != SYMBOL_NONE);
  struct event event = body->event[body->cursor];
  if (learner->lags.position < learner->alert) {
    lags_append(&learner->lags, event);
    body->cursor = body_next(body, body->cursor);
    learner_show_next(learner);
  } else {
    learner_step_attentively(learner, event);
  }
}

/* Shorter copies are made faster one by one. */
#define COPY_MIN 8

static void copy_events(struct event *to, const struct event *from, uint32_t count) {
  if (count >= COPY_MIN)
    memcpy(to, from, count * sizeof(*to));
  else
    for (uint32_t i = 0; i < count; i++)
      to[i] = from[i];
}

/* Appends events of the body, from the cursor on, to history. */
static void learner_copy_expected(struct learner *learner, uint32_t count) {
  struct body *body = &learner->body;
  while (count > 0) {
    uint32_t at = (uint32_t)(learner->lags.position % HISTORY_SIZE), run = count;
    if (run > body->length - body->cursor)
      run = body->length - body->cursor;
    if (run > HISTORY_SIZE - at)
      run = HISTORY_SIZE - at;
    copy_events(&learner->lags.history[at], &body->event[body->cursor], run);
    learner->lags.position += run;
    body->cursor = body->cursor + run == body->length ? 0 : body->cursor + run;
    count -= run;
  }
  learner_show_next(learner);
}

uint64_t learner_calm(const struct learner *learner) {
  uint64_t position = learner->lags.position;
  return position < learner->alert ? learner->alert - position : 0;
}

bool learner_steps_expected(struct learner *learner, uint32_t count) {
  bool copied = learner_calm(learner) >= count;
  while (count > 0) {
    uint64_t calm = learner_calm(learner);
    uint32_t run = calm < count ? (uint32_t)calm : count;
    if (run > 0)
      learner_copy_expected(learner, run);
    else
      learner_step_expected(learner), run = 1;
    count -= run;
  }
  return copied;
}

uint32_t learner_foresee(const struct learner *learner, symbol_t *symbols, uint32_t room) {
  const struct body *body = &learner->body;
  if (learner->next.expected == SYMBOL_NONE)
    return 0;
  /* As long as nothing else is to do, a unit that is expected does no more than move the cursor. */
  uint64_t n = learner_calm(learner) + 1;
  uint32_t place = body->cursor, count = 0;
  for (; count < n && count < room && !(body->flags[place] & PLACE_RUN_ENDS); count++) {
    symbols[count] = body->event[place].symbol;
    place = body_next(body, place);
  }
  return count;
}

void learner_step(struct learner *learner, symbol_t symbol, uint32_t coarse) {
  assert(symbol != SYMBOL_NONE);
  if (symbol == learner->next.expected)
    learner_step_expected(learner);
  else
    learner_step_attentively(learner, (struct event){symbol, coarse});
}

void learner_catch_up(struct learner *learner) {
  lags_check(&learner->lags);
}
