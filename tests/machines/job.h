/* Running a program of tests/programs on several machines of namespaces (start.c), each rank behind
 * a launcher of its own. */
#ifndef TESTS_MACHINES_JOB_H
#define TESTS_MACHINES_JOB_H

#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <stdbool.h>

/* Whether machines can be made here, and there is an agent: tests skip themselves if not, and
 * start.c, or this, says what is missing. */
bool machines_can_be_made(void);
#define NEED_MACHINES()                                                                            \
  if (!machines_can_be_made())                                                                     \
  cr_skip_test("no machines here")

/* machines: how many ranks each has, "2,2". */
struct machines_job {
  const char *machines, *program, *options, *environment;
  const char *launcher; /* words that stand in front of each rank's own; NULL: none */
  const char *prepare;  /* MACHINES_PREPARE of start.c */
  bool without;         /* the preload */
  bool off;             /* NCCL_JOIN_MACHINES */
  double limit_s;
};

struct run *machines_run(const struct machines_job *job);

/* In two steps, with orders in between (start.c): "rank 9 3" kills rank 3. */
struct machines;
struct machines *machines_begin(const struct machines_job *job);
/* Waits until the ranks have said something, for a minute at most. */
void machines_await(struct machines *machines, const char *said);
/* Whether they have said so yet. */
bool machines_say(const struct machines *machines, const char *text);
/* Lets it go on for some seconds, or to its end. */
void machines_let(struct machines *machines, double seconds);
void machines_order(struct machines *machines, const char *order);
/* On the clock of run_time. */
double machines_now(void);
struct run *machines_finish(struct machines *machines);

/* The options of the program `sum` for a schedule (valid until the next call); and that it had the
 * right sums, and all ranks have left. Takes the result. */
const char *job_options(const struct schedule *schedule);
void job_finish_right(struct run *result, const struct schedule *schedule);

#endif
