/* What a program must print, worked out from the scenario alone.
 *
 * Lines are compared as sets: ranks print at the same time. Only RESULT lines count.
 */
#ifndef TESTS_JOIN_EXPECTED_H
#define TESTS_JOIN_EXPECTED_H

#include "tests/join/run.h"

#include <stdbool.h>

/* Iterations by epoch and rank. */
#define EPOCHS_MAX 12
struct schedule {
  int nranks, epochs;
  int n[EPOCHS_MAX][RUN_RANKS_MAX];
};

/* As a value of --iterations; valid until the next call. */
const char *schedule_text(const struct schedule *schedule);

/* The ranks that do iteration i of an epoch, as bits, of at most 32 ranks; and how many, and the
 * lowest of a set. */
unsigned schedule_active(const struct schedule *schedule, int epoch, int i);
int set_size(unsigned ranks);
int set_lowest(unsigned ranks);
unsigned set_of_all(int nranks);

struct lines;
struct lines *lines_create(void);
void lines_free(struct lines *lines);

/* Expects "RESULT <rank> <text>". */
void lines_add(struct lines *lines, int rank, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The ranks print that they have left. */
void lines_add_left(struct lines *lines, int nranks);

/* What programs/sum prints with --value bit and --reduction sum. */
void lines_add_sum(struct lines *lines, const struct schedule *schedule, int collectives);

/* What a sum of value 1000 times the epoch plus the iteration plus 1 on each active rank gives, as
 * programs/meet and programs/late print it. */
void lines_add_epoch_sums(struct lines *lines, const struct schedule *schedule);
/* Of one epoch, under a number of its own. */
void lines_add_sums(struct lines *lines, const struct schedule *schedule, int epoch, int named);

/* Options of programs/ddp, and what it prints with them. The text is valid until the next call. */
struct ddp {
  int sync_every, metric_every; /* 0 for the former counts as 1 */
  bool scalar_metric;           /* of one element, the mask: as the barrier */
  bool buffers, barrier;
  int batches;            /* of an evaluation after each epoch; 0: none */
  int forwards;           /* 0 counts as 1 */
  int forward_only_every; /* 0: never */
  bool layer, loss, unused;
  const char *hook; /* NULL: none */
};
const char *ddp_text(const struct schedule *schedule, const struct ddp *ddp);
void lines_add_ddp(struct lines *lines, const struct schedule *schedule, const struct ddp *ddp);

/* Whether a rank printed a RESULT line that begins with this text. */
bool has_result(const struct run *run, int rank, const char *text);

/* Criterion assertions: every rank but the joined one was refused, and all have left. No rank came
 * further than so many iterations past the joined one's last. */
void assert_refused(const struct run *run, int nranks, int joined);
void assert_not_gone_on(const struct run *run, const struct schedule *schedule, int joined,
                        int iterations);

/* In how many iterations a rank hears that another has left, if it is so many on one machine: over
 * machines it hears by a message, which it does not wait for in a loop that is learnt or between
 * two ranks (docs/limits.md). */
int heard_within(int nranks, int iterations);

/* Criterion assertions: the run printed these RESULT lines, each as often, and no others;
 * finish_run frees both then. Two runs printed the same. */
void assert_results(const struct run *run, struct lines *lines);
void finish_run(struct run *run, struct lines *lines);
void assert_same_results(const struct run *one, const struct run *other);

#endif
