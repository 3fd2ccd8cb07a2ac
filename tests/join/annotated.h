/* programs/annotations: its training is done here once more, and its results compared. */
#ifndef TESTS_JOIN_ANNOTATED_H
#define TESTS_JOIN_ANNOTATED_H

#include "tests/join/expected.h"
#include "tests/join/run.h"

enum { WEIGHTS = 4, WEIGHTS_PART = 1, MOMENTS = 2, ALL_PARTS = WEIGHTS_PART | MOMENTS };

struct annotated_model {
  double weights[WEIGHTS], mean[WEIGHTS], square[WEIGHTS], steps;
};

struct annotated {
  struct schedule schedule;
  bool say_leave, say_enter, ask;
  bool no_meeting;  /* no collective after an epoch */
  bool late;        /* weights grow by 1 after an epoch */
  int parts;        /* what is resynchronised */
  int not_received; /* ranks that do not get the weights, as bits */
  const char *options, *environment;
};

/* Runs the program and compares every number. The run is the caller's; models: at the end. */
struct run *annotated_run(const struct annotated *words, struct annotated_model *models);
void annotated_check(const struct annotated *words);

bool annotated_are_equal(const struct annotated_model *models, int nranks);

/* Whether a WARN has the text. */
bool annotated_is_said(const struct run *run, const char *text);

#endif
