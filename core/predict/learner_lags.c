/* Hypotheses about the stream's period: proposing, checking and forgetting them. See
 * learner_lags.h.
 *
 * A hypothesis is a set of positions, not of counters, so that events which agree with it cost
 * nothing but the comparison, and checking many events at once gives the same as checking them one
 * by one.
 */
#include "core/predict/learner_lags.h"

#include <assert.h>

static const uint32_t context_length[LAGS_CONTEXTS] = {1, 4, 16, LAGS_CONTEXT_MAX};

/* Odd, and far from a power of two: the multiplier of the rolling hash, and of its mixing. */
#define HASH_BASE 0x9e3779b97f4a7c15u

/* Trouble saturates at a multiple of the lag: a loop that was foreign to the lag is forgotten
 * within a few rounds of one that is not. */
#define TROUBLE_PER_LAG 6
#define TROUBLE_PER_VARIATION 3

static inline bool event_equal(const struct event *a, const struct event *b) {
  return a->symbol == b->symbol && a->coarse == b->coarse;
}

/* The position of the first event in [from, to) that does not repeat, or `to`. */
static uint64_t lag_first_difference(const struct lags *lags, uint32_t lag, uint64_t from,
                                     uint64_t to) {
  while (from < to && event_equal(lags_event(lags, from), lags_event(lags, from - lag)))
    from++;
  return from;
}

static void lag_check(const struct lags *lags, struct lag *lag, uint64_t from, uint64_t to) {
  while ((from = lag_first_difference(lags, lag->lag, from, to)) < to) {
    if (lags_event(lags, from)->coarse == lags_event(lags, from - lag->lag)->coarse) {
      uint64_t trouble = lag_trouble(lag, from) + TROUBLE_PER_VARIATION;
      uint64_t most = (uint64_t)TROUBLE_PER_LAG * lag->lag;
      lag->trouble = (uint32_t)(trouble < most ? trouble : most);
    } else {
      lag->trouble = 0;
      lag->since = from + 1;
    }
    lag->trouble_at = lag->exact_since = ++from;
  }
}

bool lags_are_any(const struct lags *lags) {
  for (int i = 0; i < LAGS_HYPOTHESES; i++)
    if (lags->lag[i].lag)
      return true;
  return false;
}

void lags_check(struct lags *lags) {
  if (lags->checked == lags->position)
    return;
  for (int i = 0; i < LAGS_HYPOTHESES; i++)
    if (lags->lag[i].lag)
      lag_check(lags, &lags->lag[i], lags->checked, lags->position);
  lags->checked = lags->position;
}

/* A hypothesis that varies is followed into the past for this many rounds: enough to be believed.
 */
#define VARYING_ROUNDS 3

/* How much a hypothesis explains. What has been exact since long ago explains most; one that varies
 * in few places counts for two rounds at most, because in a stream of units that differ in counts
 * alone every lag has "varied" since the beginning. */
static uint64_t lag_strength(const struct lag *lag, uint64_t position) {
  uint64_t strength = position - lag->exact_since, run = position - lag->since;
  if (lag_trouble(lag, position) <= lag->lag / 2)
    strength += run < 2 * (uint64_t)lag->lag ? run : 2 * (uint64_t)lag->lag;
  return strength;
}

/* A hypothesis as it would stand had it been there from the beginning: walks back while the events
 * repeat, and through places that vary as long as they are clearly fewer. */
static struct lag lag_from_past(struct lags *lags, uint32_t distance) {
  uint64_t position = lags->position;
  struct lag lag = {distance, 0, position, position, position};
  uint64_t steps = credit_earn(&lags->credit, position);
  uint64_t lowest = position > LAG_MAX ? position - LAG_MAX : 0;
  if (lowest < distance)
    lowest = distance;
  if (position > steps && lowest < position - steps)
    lowest = position - steps;
  uint64_t at = position, repeats = 0, varied = 0;
  uint64_t enough = (uint64_t)VARYING_ROUNDS * distance + LAGS_CONTEXT_MAX;
  while (at > lowest && varied <= 8 + repeats / 2 && (!varied || position - at < enough)) {
    const struct event *now = lags_event(lags, at - 1), *then = lags_event(lags, at - 1 - distance);
    if (event_equal(now, then)) {
      at--;
      repeats++;
      lag.since = at;
      if (!varied)
        lag.exact_since = at;
    } else if (now->coarse == then->coarse) {
      at--;
      varied++;
    } else {
      break;
    }
  }
  lags->credit.steps -= position - at;
  if (TROUBLE_PER_VARIATION * varied > repeats)
    lag.trouble = (uint32_t)(TROUBLE_PER_VARIATION * varied - repeats);
  if (lag.trouble > TROUBLE_PER_LAG * distance)
    lag.trouble = TROUBLE_PER_LAG * distance;
  return lag;
}

/* Takes a new lag as a hypothesis unless all present ones explain more. */
static bool lags_propose(struct lags *lags, uint32_t distance) {
  for (int i = 0; i < LAGS_HYPOTHESES; i++)
    if (lags->lag[i].lag == distance)
      return false;
  struct lag lag = lag_from_past(lags, distance);
  if (lag.exact_since == lags->position)
    return false; /* the hashes were equal, the events are not */
  lags_check(lags);
  struct lag *weakest = NULL;
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < LAGS_HYPOTHESES; i++) {
    struct lag *other = &lags->lag[i];
    uint64_t strength = other->lag ? lag_strength(other, lags->position) : 0;
    if (strength < least) {
      least = strength;
      weakest = other;
    }
  }
  if (lag_strength(&lag, lags->position) < least)
    return false;
  *weakest = lag;
  return true;
}

/* Powers of HASH_BASE at the context lengths, to take the event that leaves a context out of its
 * hash. */
static inline uint64_t context_power(int context) {
  uint64_t power = HASH_BASE;
  for (uint32_t length = 1; length < context_length[context]; length *= 2)
    power *= power;
  return power;
}

static void lags_hash_last(struct lags *lags) {
  symbol_t symbol = lags_event(lags, lags->position - 1)->symbol;
  for (int i = 0; i < LAGS_CONTEXTS; i++) {
    uint32_t length = context_length[i];
    uint64_t gone = 0;
    if (lags->position > length)
      gone = lags_event(lags, lags->position - 1 - length)->symbol;
    lags->hash[i] = lags->hash[i] * HASH_BASE + symbol - gone * context_power(i);
  }
}

/* After events that nobody looked at: the hashes anew, from history. */
static void lags_hash_all(struct lags *lags) {
  for (int i = 0; i < LAGS_CONTEXTS; i++) {
    uint64_t first = lags->position > context_length[i] ? lags->position - context_length[i] : 0;
    lags->hash[i] = 0;
    for (uint64_t at = first; at < lags->position; at++)
      lags->hash[i] = lags->hash[i] * HASH_BASE + lags_event(lags, at)->symbol;
  }
}

bool lags_look(struct lags *lags) {
  assert(lags->position > 0);
  if (lags->hashed + 1 == lags->position)
    lags_hash_last(lags);
  else
    lags_hash_all(lags);
  lags->hashed = lags->position;
  bool changed = false;
  for (int i = LAGS_CONTEXTS - 1; i >= 0; i--) {
    if (lags->position < context_length[i])
      continue;
    uint64_t mixed = (lags->hash[i] ^ lags->hash[i] >> 31) * HASH_BASE;
    uint32_t *seen = &lags->table[i][mixed >> (64 - LAGS_TABLE_BITS)];
    uint32_t distance = (uint32_t)lags->position - *seen;
    bool known = *seen != 0;
    *seen = (uint32_t)lags->position;
    if (known && distance && distance <= LAG_MAX && distance < lags->position)
      changed |= lags_propose(lags, distance);
  }
  return changed;
}

static bool lag_is_valid(const struct lags *lags, const struct lag *lag) {
  if (lag->lag > LAG_MAX || lag->lag >= lags->checked)
    return false;
  if (lag->since > lag->exact_since || lag->exact_since > lags->checked)
    return false;
  if (lag->trouble > TROUBLE_PER_LAG * lag->lag || lag->trouble_at > lags->checked)
    return false;
  /* What the hypothesis says of the past holds, as far as history still reaches. */
  uint64_t oldest = lags->position > HISTORY_SIZE ? lags->position - HISTORY_SIZE : 0;
  for (uint64_t at = oldest + lag->lag; at < lags->checked; at++) {
    const struct event *now = lags_event(lags, at), *then = lags_event(lags, at - lag->lag);
    if (at >= lag->exact_since && !event_equal(now, then))
      return false;
    if (at >= lag->since && now->coarse != then->coarse)
      return false;
  }
  return true;
}

bool lags_is_valid(const struct lags *lags) {
  if (lags->checked > lags->position || lags->hashed > lags->position)
    return false;
  if (lags_are_any(lags) && lags->position - lags->checked > LAGS_CALM)
    return false;
  if (lags->credit.steps > CREDIT_MAX)
    return false;
  for (int i = 0; i < LAGS_HYPOTHESES; i++) {
    if (lags->lag[i].lag && !lag_is_valid(lags, &lags->lag[i]))
      return false;
    for (int j = 0; j < i; j++)
      if (lags->lag[i].lag && lags->lag[i].lag == lags->lag[j].lag)
        return false;
  }
  return true;
}
