/* What is asked of a learner (learner.h); nothing here changes it. */
#include <assert.h>

#include "core/predict/learner_private.h"

_Static_assert(LEARNER_HISTORY == HISTORY_SIZE, "one is the other's public name");

symbol_t learner_symbol(const struct learner *learner, uint64_t back) {
  uint64_t position = learner->lags.position;
  return back < position && back < HISTORY_SIZE
             ? lags_event(&learner->lags, position - 1 - back)->symbol
             : SYMBOL_NONE;
}

uint32_t learner_body_length(const struct learner *learner) {
  return learner->body.length;
}

uint32_t learner_body_position(const struct learner *learner) {
  return learner->body.length == 0 ? 0 : learner->body.cursor;
}

symbol_t learner_body_symbol(const struct learner *learner, uint32_t position) {
  assert(position < learner->body.length);
  return learner->body.event[position].symbol;
}

bool learner_is_between_iterations(const struct learner *learner) {
  const struct body *body = &learner->body;
  /* A body may hold several iterations, with a log line's unit in one of them: each begins with the
   * unit that the first begins with. */
  return body->length == 0 || body->event[body->cursor].symbol == body->event[0].symbol ||
         (body->flags[body->cursor] & PLACE_INSERTS);
}

/* Whether the unit expected next stands elsewhere in the body, too. The next round of a loop is
 * near. */
static bool is_repeated(const struct body *body) {
  symbol_t symbol = body->event[body->cursor].symbol;
  uint32_t before = body->cursor, after = before;
  for (uint32_t steps = body->length / 2; steps > 0; steps--) {
    before = (before == 0 ? body->length : before) - 1;
    after = body_next(body, after);
    if (body->event[before].symbol == symbol || body->event[after].symbol == symbol)
      return true;
  }
  return false;
}

bool learner_may_begin_iteration(const struct learner *learner) {
  const struct body *body = &learner->body;
  return learner_is_between_iterations(learner) ||
         body->event[body->cursor].symbol == body->event[body_next(body, 0)].symbol ||
         is_repeated(body);
}

bool learner_is_valid(const struct learner *learner) {
  const struct body *body = &learner->body;
  uint64_t position = learner->lags.position;
  if (!body_is_valid(body) || !lags_is_valid(&learner->lags))
    return false;
  if (learner->wrong_at > position || learner->inserted_at > position)
    return false;
  if (learner->doubt.open && (body->length < 2 || learner->doubt.cursor >= body->length))
    return false;
  if (body->length == 0)
    return learner->next.expected == SYMBOL_NONE && !learner->next.firm;
  bool firm = !(body->flags[body->cursor] & PLACE_RUN_ENDS);
  return learner->next.expected == body->event[body->cursor].symbol && learner->next.firm == firm;
}
