/* Running a program of tests/programs on the loopback, as a user would: with the launcher, with or
 * without the preload.
 *
 * Every run has a deadline; whatever has not ended by then is killed with all its processes. The
 * build folder is JOIN_TEST_BUILD, or "build"; JOIN_TEST_LAUNCHER: the folder of the launcher, if
 * it is another. JOIN_TEST_UNDER: words that each rank's program runs
 * under (valgrind and its options); JOIN_TEST_SLOWNESS: the deadlines are that many times as long;
 * JOIN_TEST_MACHINES: so many machines of namespaces have the ranks of a job, where a test says
 * nothing else.
 */
#ifndef TESTS_JOIN_RUN_H
#define TESTS_JOIN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RUN_RANKS_MAX 64
#define RUN_ALL_RANKS UINT64_MAX
#define RUN_LOOPBACK_STOPPED 86 /* status of a run that the loopback's oracle has stopped */

const char *run_build_folder(void);

/* How many times as long as usual runs may take: JOIN_TEST_SLOWNESS. */
double run_slowness(void);

/* Whether the NCCL of these tests adds in an order of its own, so that sums may differ in their
 * last digits: JOIN_TEST_ANY_ORDER. */
bool run_adds_in_any_order(void);

/* On how many machines so many ranks are (JOIN_TEST_MACHINES), and the number of one on its
 * machine: its device. */
int run_machines(int nranks);
int run_local_rank(int nranks, int rank);

/* What to run. Zero is a sensible value of everything but the first two. */
struct launch {
  int nranks;
  const char *program;     /* a name in the build folder's programs/ */
  const char *options;     /* separated by blanks */
  const char *environment; /* NAME=VALUE, separated by blanks */
  const char *starter; /* words that start all ranks, each behind a launcher of its own; NULL: the
                          launcher starts them */
  uint64_t without;    /* bit set: ranks that run without the preload */
  bool here;           /* on one machine, with one launcher, also where JOIN_TEST_MACHINES is set */
  bool each; /* one launcher for each rank, so that a rank that fails does not end the others */
  int odd;   /* each: a rank that has more variables than the others */
  const char *odd_environment;
  double limit_s;     /* 240 if 0 */
  const char *enough; /* it is ended after a line of stderr with this: what comes after may wait for
                         ever on one NCCL and not on another */
};

struct run {
  int status; /* of the launcher; 128 + signal if one ended it. each: the largest */
  int rank_status[RUN_RANKS_MAX]; /* each only */
  bool timed_out;
  int left_behind;       /* processes that were still there after the launchers had ended; killed */
  char *output, *errors; /* stdout, stderr of all ranks */
  double seconds;
};

/* Runs it to its end, or to the deadline. Never fails: what went wrong is in the result, which is
 * the caller's. */
struct run *run(const struct launch *launch);

/* The same in two steps, for tests that do something to the processes in between. */
struct running;
struct running *run_start(const struct launch *launch);

/* The process of a rank (each), or of the launcher (0). */
pid_t run_process(const struct running *running, int rank);

/* Lets it go on for a time, or to its end, and takes in what it says: to be called often enough
 * that nobody waits for a pipe. False if it has come to its end. */
bool run_goes_on(struct running *running, double seconds);

/* Whether it has said so yet, on stdout or stderr. */
bool run_has_said(const struct running *running, const char *text);

/* Waits for its end, or for the deadline. Frees it. Several may go on at once: the last one to be
 * finished sees what they have left behind. */
struct run *run_finish(struct running *running);

/* The same for who has seen enough of it: what is still there is ended. */
struct run *run_end(struct running *running);

/* Runs one program of the build folder, in the C locale. */
struct run *run_tool(const char *tool, const char *arguments);

void run_free(struct run *run);

/* Whether a line of stderr contains the text; and all of these texts, which end with NULL. */
bool run_says(const struct run *run, const char *text);
bool run_says_in_a_line(const struct run *run, ...) __attribute__((sentinel));

/* Whether the program did not come through: hanging until the deadline, or stopped by the loopback
 * because the ranks were out of step, which on NCCL is a hang or worse. */
bool run_is_stuck(const struct run *run);

/* Criterion: skips the test of a program in Python where none can be run. */
#define run_needs_python()                                                                         \
  do {                                                                                             \
    if (system("command -v python3 >/dev/null") != 0) /* NOLINT(cert-env33-c) */                   \
      cr_skip("no python3");                                                                       \
    if (strcmp(run_build_folder(), "build") != 0)                                                  \
      cr_skip("a sanitizer must be the first thing that a process loads, and Python has none");    \
  } while (0)

/* A time that a rank printed, in seconds of one clock for all; -1 if it did not. */
double run_time(const struct run *run, int rank, const char *name);

/* Criterion assertions: it ended by itself, with status 0, and the loopback had nothing to say. */
void assert_went_well(const struct run *run);

/* The same program without the preload is stuck: what the tests that run it with the preload are
 * worth. */
void assert_stuck_without(int nranks, const char *program, const char *options);

#endif
