/* The stream's history and the lags at which it may repeat itself.
 *
 * The raw material of the learner, for its own files alone. `struct lags` keeps the last
 * HISTORY_SIZE events and a few hypotheses "from here on every event equals the one `lag` events
 * before".
 * Hypotheses are proposed by hashes of recent context and then checked event by event: a hash
 * collision costs time, never truth.
 *
 * Positions count the events of the stream from 0 and never wrap.
 */
#ifndef NCCL_JOIN_CORE_LEARNER_LAGS_H
#define NCCL_JOIN_CORE_LEARNER_LAGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/unit/unit.h"

/* Checking an event of the recent half against one at the longest lag needs twice that lag. */
#ifndef HISTORY_SIZE /* tests/simulation/many.h */
#define HISTORY_SIZE 65536u
#define LAGS_TABLE_BITS 13
#endif
#define LAG_MAX (HISTORY_SIZE / 2)

/* Checks may be put off, but for no more than this many events: much less than history holds, so
 * that catching up takes microseconds. */
#define LAGS_CALM 1024

#define LAGS_HYPOTHESES 12

/* Contexts: the last 1, 4, 16 and 64 events. Short ones propose inner loops, long ones outer loops.
 */
#define LAGS_CONTEXTS 4
#define LAGS_CONTEXT_MAX 64

struct event {
  symbol_t symbol;
  uint32_t coarse;
};

/* One hypothesis. An event "varies" if only its coarse symbol equals that of `lag` events before.
 */
struct lag {
  uint32_t lag;        /* 0: unused */
  uint32_t trouble;    /* rises by 3 with an event that varies, falls by 1 with one that does not */
  uint64_t trouble_at; /* the position at which `trouble` was that high */
  uint64_t since;      /* every event from here on repeats or varies */
  uint64_t exact_since; /* every event from here on repeats */
};

/* Work that is not bounded by a constant for each event is paid for with steps that every event of
 * the stream earns, so that it is bounded over any number of events. */
struct credit {
  uint64_t at, steps;
};
#define CREDIT_PER_EVENT 16
#define CREDIT_MAX (4 * (uint64_t)HISTORY_SIZE)

/* The steps that may be spent at a position. */
static inline uint64_t credit_earn(struct credit *credit, uint64_t position) {
  uint64_t steps = credit->steps + (position - credit->at) * CREDIT_PER_EVENT;
  credit->at = position;
  return credit->steps = steps < CREDIT_MAX ? steps : CREDIT_MAX;
}

struct lags {
  uint64_t position; /* of the next event */
  uint64_t checked;  /* hypotheses have been checked up to here */
  uint64_t hashed;   /* `hash` covers the events before this position */
  struct credit credit;
  uint64_t hash[LAGS_CONTEXTS];
  struct lag lag[LAGS_HYPOTHESES];
  uint32_t table[LAGS_CONTEXTS][1u << LAGS_TABLE_BITS]; /* 1 + position of a context's last event */
  struct event history[HISTORY_SIZE];
};

static inline const struct event *lags_event(const struct lags *lags, uint64_t position) {
  return &lags->history[position % HISTORY_SIZE];
}

/* Appends an event and nothing else: checking may wait until the answer is needed. */
static inline void lags_append(struct lags *lags, struct event event) {
  lags->history[lags->position++ % HISTORY_SIZE] = event;
}

/* Whether there is any hypothesis. */
bool lags_are_any(const struct lags *lags);

/* Brings all hypotheses up to the present. */
void lags_check(struct lags *lags);

/* Looks whether the context that ends in the newest event has been seen before, and takes the
 * distance as a hypothesis. Returns whether the hypotheses have changed (they have been checked
 * then). */
bool lags_look(struct lags *lags);

/* The trouble left at a position. */
static inline uint64_t lag_trouble(const struct lag *lag, uint64_t position) {
  uint64_t past = position - lag->trouble_at;
  return lag->trouble > past ? lag->trouble - past : 0;
}

bool lags_is_valid(const struct lags *lags);

#endif
