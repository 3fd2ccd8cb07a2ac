/* Bodies: the loop body that is believed now, and the ones remembered from earlier phases.
 *
 * For the learner alone. A body is a cyclic word of events with a cursor at the one expected
 * next.
 */
#ifndef NCCL_JOIN_CORE_LEARNER_BODY_H
#define NCCL_JOIN_CORE_LEARNER_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/predict/learner.h"
#include "core/predict/learner_lags.h"

enum body_place_flag {
  PLACE_VARIES = 1,   /* units here have had different counts: the last one seen is expected */
  PLACE_RUN_ENDS = 2, /* a long run of repeats of something shorter ends here: not firm */
  PLACE_INSERTS = 4,  /* units have come in between before this place */
};

struct body {
  uint32_t length; /* 0: no body is believed */
  uint32_t cursor;
  uint32_t run_units, run_rounds; /* runs of at least these count as long */
  struct event event[LEARNER_BODY_MAX];
  uint8_t flags[LEARNER_BODY_MAX]; /* enum body_place_flag */
};

static inline uint32_t body_next(const struct body *body, uint32_t place) {
  return place + 1 == body->length ? 0 : place + 1;
}

/* Takes the last `length` events as the body. Its place 0 is where the event at position `anchor`
 * would stand; the cursor is at the event that comes next. O(length log length), at most a constant
 * times length. */
void body_take(struct body *body, const struct lags *lags, uint32_t length, uint64_t anchor);

/* Bodies of up to this length are remembered, this many of them. */
#ifndef SHELF_BODY_MAX /* tests/simulation/many.h */
#define SHELF_BODY_MAX 2048
#endif
#define SHELF_BODIES 4

/* A remembered body may be entered again at two places: where it was left, and at its beginning. */
enum shelf_entry { ENTRY_LEFT, ENTRY_BEGINNING, SHELF_ENTRIES };

struct shelf_body {
  uint32_t length;                 /* 0: unused */
  uint32_t left;                   /* the cursor when the program left it */
  uint64_t age;                    /* when that was, in bodies put on the shelf */
  bool open[SHELF_ENTRIES];        /* the entry's first two units are foreign to the present body */
  uint64_t entered[SHELF_ENTRIES]; /* 1 + position of the last time the entry's first unit came */
  struct event event[SHELF_BODY_MAX];
};

struct shelf {
  uint64_t age;
  struct shelf_body body[SHELF_BODIES];
};

/* Remembers a body that is being left, in any place but `keep` (may be NULL); too long ones are
 * forgotten. */
void shelf_put(struct shelf *shelf, const struct body *body, const struct shelf_body *keep);

/* To be called when another body, or none, has become the present one. */
void shelf_open(struct shelf *shelf, const struct body *present);

/* Looks at the newest event of the stream, which the present body did not expect or which follows
 * one that it did not. If two such events in a row are how a remembered body begins, that body is
 * named. */
const struct shelf_body *shelf_look(struct shelf *shelf, const struct lags *lags,
                                    enum shelf_entry *entry);

/* Makes a remembered body the present one again, two units after the entry. */
void body_resume(struct body *body, const struct shelf_body *from, enum shelf_entry entry);

bool body_is_valid(const struct body *body);

#endif
