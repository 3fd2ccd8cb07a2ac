/* The course of one rank (course.h): a learner and the units it speaks of. */
#include "core/predict/course.h"

#include <stdlib.h>

#include "core/predict/learner.h"

/* Two rounds of anything, however short. */
#define WARY_UNITS 2
#define WARY_ROUNDS 2

/* Units whose successors are remembered; those that share a place take turns. */
#define COURSE_UNITS 1024u
#define COURSE_SCORE_MAX 8u /* so that another phase of the program is believed soon */

/* A unit and what came after it: a majority vote (Boyer and Moore). */
struct successor {
  uint64_t unit, next;
  uint32_t score;
};

struct course {
  struct course_next next; /* first */
  uint64_t last;           /* the last unit's hash */
  struct successor after[COURSE_UNITS];
  symbol_t symbol; /* the learner's, whatever comes of it */
  uint64_t symbol_hash;
  struct learner *learner;
  struct unit_table *table;
};

struct course *course_create(void) {
  struct course *course = calloc(1, sizeof(*course));
  if (course == NULL)
    return NULL;
  course->learner = learner_create();
  course->table = unit_table_create();
  if (course->learner == NULL || course->table == NULL) {
    course_destroy(course);
    return NULL;
  }
  learner_set_run(course->learner, WARY_UNITS, WARY_ROUNDS);
  return course;
}

void course_destroy(struct course *course) {
  if (course == NULL)
    return;
  learner_destroy(course->learner);
  unit_table_destroy(course->table);
  free(course);
}

static void course_vote(struct course *course, uint64_t hash) {
  struct successor *after = &course->after[course->last % COURSE_UNITS];
  if (after->unit != course->last)
    *after = (struct successor){.unit = course->last};
  if (after->next == hash)
    after->score += after->score < COURSE_SCORE_MAX;
  else if (after->score > 0)
    after->score--;
  else
    *after = (struct successor){course->last, hash, 1};
  course->last = hash;
  after = &course->after[hash % COURSE_UNITS];
  course->next.usual_hash = after->unit == hash && after->score > 0 ? after->next : 0;
}

/* Stands for a unit of that hash. */
static struct member stand_in(uint64_t hash) {
  return (struct member){.comm = (uint32_t)(hash >> 32), .number = (uint32_t)hash};
}

void course_step(struct course *course, uint64_t hash) {
  course_vote(course, hash);
  if (course->symbol != SYMBOL_NONE && hash == course->symbol_hash) {
    learner_step_expected(course->learner);
  } else {
    const struct member member = stand_in(hash);
    symbol_t symbol = unit_table_intern(course->table, (struct unit){&member, 1});
    /* Without memory nothing is expected: every unit is agreed on with the others. */
    if (symbol == SYMBOL_NONE) {
      course->next.expected_hash = 0;
      course->symbol = SYMBOL_NONE;
      return;
    }
    learner_step(course->learner, symbol, unit_table_coarse(course->table, symbol));
  }
  course->symbol = learner_expected(course->learner);
  const struct known_unit *next = unit_table_use(course->table, course->symbol);
  if (next == NULL)
    course->symbol = SYMBOL_NONE;
  course->symbol_hash = next == NULL ? 0 : (uint64_t)next->single.comm << 32 | next->single.number;
  course->next.expected_hash = learner_is_firm(course->learner) ? course->symbol_hash : 0;
}
