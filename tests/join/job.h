/* One run of programs/operations, and what it must print. */
#ifndef TESTS_JOIN_JOB_H
#define TESTS_JOIN_JOB_H

#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <stdbool.h>

struct job {
  const struct schedule *schedule;
  const char *operation, *form;
  const char *lossy; /* NCCL_JOIN_LOSSY, or NULL */
  int root;
  bool last; /* joined ranks send what they have changed after their last iteration (--step 1) */
};

/* Runs it, with these options more; asserts that it went well. */
struct run *job_run(const struct job *job, const char *options);

/* The same, and asserts that every rank has received what it must, to the last number. barriers:
 * all ranks meet after each epoch (--barrier 1): none comes out before all have gone in. */
void job_check(const struct job *job, const char *options, bool barriers);

#endif
