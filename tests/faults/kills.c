/* Ranks killed at random moments: at a random time, and in every state that a rank can be in.
 *
 * After each: nobody is left waiting in nccl-join. Ranks that the death concerns end with
 * ncclRemoteError; those inside NCCL itself meet what NCCL does about a dead peer, for which the
 * loopback has two ways (LOOPBACK_DEATH). Nothing stays behind, once another job has run.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/place.h"
#include "tests/faults/watch.h"

enum { RANKS = 4 };
#define AIM_AT_A_TIME STATE_GONE         /* instead of a state */
static const double found_within_s = 5;  /* the state that is aimed at */
static const double left_after_s = 3;    /* who waits in NCCL's hands, or for the victim to start */
static const double freed_within_s = 60; /* after the death; a second, on a machine with time */

struct plan {
  const char *program, *ending;
  char options[256], environment[1024];
  bool death_hangs; /* NCCL notices no death, as over NVLink */
  enum state aim;   /* or AIM_AT_A_TIME */
  int victim;
};

struct outcome {
  enum state hit;  /* of the victim, when it was killed */
  double killed_s; /* CLOCK_MONOTONIC */
  bool all_ended;
  enum state after[RANKS]; /* where the others stayed, unless all_ended */
};

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_us(uint64_t microseconds) {
  nanosleep(&(struct timespec){.tv_nsec = (long)microseconds * 1000}, NULL);
}

/* Iterations of the ranks: the victim has the fewest where it is to wait for others. */
static const char *uneven(const struct plan *plan, char *text) {
  bool waits = plan->aim == STATE_PARKED || plan->aim == STATE_JOINED || plan->aim == STATE_LEAVING;
  int n[RANKS];
  for (int rank = 0; rank < RANKS; rank++)
    n[rank] = 10 + (int)place_random(20);
  n[plan->victim] = waits ? (int)place_random(10) : n[plan->victim];
  sprintf(text, "%d,%d,%d,%d", n[0], n[1], n[2], n[3]);
  return text;
}

static struct plan make_plan(int i, const struct watch *watch) {
  static const char *const endings[] = {"finalize", "destroy", "return", "exit", "abort"};
  struct plan plan = {.program = "endings",
                      .ending = endings[place_random(5)],
                      .aim = (enum state)((unsigned)i % (AIM_AT_A_TIME + 1)),
                      .victim = (int)place_random(RANKS),
                      .death_hangs = place_random(4) == 0};
  char first[64], second[64];
  uneven(&plan, first);
  /* A rank that has left its loop for good waits in LEAVE, one that has not in a barrier. */
  bool barrier = plan.aim == STATE_JOINED || plan.aim == STATE_PARKED || place_random(2) == 0;
  snprintf(plan.options, sizeof plan.options, "--iterations %s --wait 2 --barrier %d --end %s",
           first, barrier && plan.aim != STATE_LEAVING, plan.ending);
  if (plan.aim != STATE_LEAVING && place_random(3) == 0) {
    plan.program = "ddp";
    snprintf(plan.options, sizeof plan.options,
             "--iterations %s/%s --after barrier --buffers %d --end %s", first,
             uneven(&plan, second), (int)place_random(2), plan.ending);
  }
  snprintf(plan.environment, sizeof plan.environment, "%s LOOPBACK_DEATH=%s LOOPBACK_HANG_S=0",
           watch_environment(watch), plan.death_hangs ? "hang" : "error");
  return plan;
}

/* Lets the victim come into the state, and a little further. False if the program has ended. */
static bool take_aim(struct running *running, struct watch *watch, const struct plan *plan) {
  if (plan->aim == AIM_AT_A_TIME || plan->aim == STATE_STARTING)
    return run_goes_on(running,
                       0.001 * (double)place_random(plan->aim == STATE_STARTING ? 40 : 300));
  double until = now_s() + found_within_s;
  while (watch_state(watch, plan->victim) != plan->aim && now_s() < until) {
    if (watch_state(watch, plan->victim) == STATE_GONE)
      return false;
    sleep_us(50);
    static int turns;
    if (++turns % 64 == 0)
      run_goes_on(running, 0);
  }
  if (place_random(2) == 0)
    sleep_us(place_random(300));
  return true;
}

/* Where a rank may still be when its time has passed: in NCCL's hands. */
static bool is_with_nccl(const struct plan *plan, const struct outcome *outcome, enum state state) {
  bool together = outcome->hit == STATE_STARTING || outcome->hit == STATE_CREATING;
  switch (state) {
  case STATE_STARTING: /* waits for the victim's connection: the programs' own 100 s */
  case STATE_CREATING:
    return together;
  case STATE_RUNNING:
  case STATE_IN_CALL:
  case STATE_IN_FLIGHT:
  case STATE_ENDING:
    return plan->death_hangs;
  case STATE_PARKED:
  case STATE_JOINED:
  case STATE_LEAVING:
    return false;
  case STATE_GONE:
  case STATES:
    break;
  }
  return true;
}

static bool all_others_ended(struct watch *watch, int victim) {
  for (int rank = 0; rank < RANKS; rank++)
    if (rank != victim && watch_state(watch, rank) != STATE_GONE)
      return false;
  return true;
}

static bool all_others_are_with_nccl(struct watch *watch, const struct plan *plan,
                                     const struct outcome *outcome) {
  for (int rank = 0; rank < RANKS; rank++)
    if (rank != plan->victim && !is_with_nccl(plan, outcome, watch_state(watch, rank)))
      return false;
  return true;
}

/* Kills the victim and gives the others the time in which they have to come free. */
static struct outcome strike(struct running *running, struct watch *watch,
                             const struct plan *plan) {
  struct outcome outcome = {.killed_s = now_s()};
  pid_t victim = run_process(running, plan->victim);
  kill(victim, SIGSTOP); /* so that what it is doing is what it does when it dies */
  sleep_us(1000);
  outcome.hit = watch_state(watch, plan->victim);
  kill(victim, SIGKILL);
  while (!(outcome.all_ended = all_others_ended(watch, plan->victim)) &&
         now_s() <
             outcome.killed_s +
                 (all_others_are_with_nccl(watch, plan, &outcome) ? left_after_s : freed_within_s))
    run_goes_on(running, 0.01);
  for (int rank = 0; rank < RANKS; rank++)
    outcome.after[rank] = watch_state(watch, rank);
  for (int rank = 0; !outcome.all_ended && rank < RANKS; rank++)
    kill(run_process(running, rank), SIGKILL);
  return outcome;
}

/* Whether a rank may come to a good end although the victim has not. */
static bool may_succeed(const struct plan *plan, const struct outcome *outcome) {
  bool tells_nobody = strcmp(plan->ending, "finalize") != 0 && strcmp(plan->ending, "destroy") != 0;
  return tells_nobody || outcome->hit >= STATE_LEAVING;
}

/* Why a rank's end is not right, or NULL. */
static const char *judge(const struct plan *plan, const struct outcome *outcome,
                         const struct run *result, int rank, double *freed_s) {
  char error[64];
  int status = result->rank_status[rank];
  if (outcome->after[rank] != STATE_GONE)
    return is_with_nccl(plan, outcome, outcome->after[rank]) ? NULL : "is left waiting";
  if (status == 0)
    return may_succeed(plan, outcome) ? NULL : "succeeds although a rank it needs has died";
  if (status != 1)
    return status > 128 ? "crashes" : "ends with a strange status";
  snprintf(error, sizeof error, "RESULT %d error ", rank);
  const char *line = strstr(result->output, error);
  if (line == NULL)
    return outcome->hit <= STATE_CREATING ? NULL : "fails without an error of NCCL's";
  if (strtol(line + strlen(error), NULL, 10) != 6)
    return "gets another error than ncclRemoteError";
  double freed = run_time(result, rank, "error") - outcome->killed_s;
  *freed_s = freed > *freed_s ? freed : *freed_s;
  return NULL;
}

static void check(const struct plan *plan, const struct outcome *outcome, const struct run *result,
                  double *freed_s) {
  char states[256] = "";
  for (int rank = 0; rank < RANKS; rank++)
    snprintf(states + strlen(states), sizeof states - strlen(states), " %d: %s, status %d;", rank,
             state_name(outcome->after[rank]), result->rank_status[rank]);
  const char *what = NULL;
  int who = plan->victim;
  for (int rank = 0; rank < RANKS && what == NULL; rank++)
    if (rank != plan->victim && (what = judge(plan, outcome, result, rank, freed_s)) != NULL)
      who = rank;
  if (result->left_behind > 0)
    what = "leaves a process behind";
  if (result->timed_out)
    what = "does not even end when all have been killed";
  cr_assert(what == NULL, "rank %d %s: rank %d was killed when %s (%s %s, %s);%s\n%s%s", who, what,
            plan->victim, state_name(outcome->hit), plan->program, plan->options,
            plan->death_hangs ? "death hangs" : "death is an error", states, result->output,
            result->errors);
}

/* A job that does nothing special: the first thing that comes after. */
static void run_another_job(void) {
  struct run *result =
      run(&(struct launch){.nranks = 2, .program = "sum", .options = "--iterations 2"});
  assert_went_well(result);
  run_free(result);
}

static void kill_once(int i, int *hits, double *freed_s) {
  struct watch *watch = watch_create(RANKS, 2000);
  struct plan plan = make_plan(i, watch);
  struct running *running = run_start(&(struct launch){.nranks = RANKS,
                                                       .program = plan.program,
                                                       .options = plan.options,
                                                       .environment = plan.environment,
                                                       .each = true});
  watch_begin(watch, running);
  take_aim(running, watch, &plan);
  struct outcome outcome = strike(running, watch, &plan);
  struct run *result = run_finish(running);
  hits[outcome.hit]++;
  check(&plan, &outcome, result, freed_s);
  run_free(result);
  watch_free(watch);
}

/* In parts, which run beside each other: much of it is waiting for who may stay with NCCL. */
enum { PARTS = 4 };
static void kill_often(int part) {
  place_try();
  int hits[STATES] = {0}, times = place_times(20, 200) / PARTS;
  double freed_s = 0;
  for (int i = 0; i < times; i++)
    kill_once(part * times + i, hits, &freed_s);
  fprintf(stderr, "killed %d times:", times);
  for (enum state state = 0; state < STATES; state++)
    fprintf(stderr, " %d %s%s", hits[state], state_name(state), state + 1 < STATES ? "," : "");
  fprintf(stderr, "; the last error came %.3f s after the death\n", freed_s);
  run_another_job();
  cr_assert(place_segments() == 0, "%d segments are left in /dev/shm", place_segments());
}

Test(kills, at_random_moments_0, .timeout = 1800) {
  kill_often(0);
}
Test(kills, at_random_moments_1, .timeout = 1800) {
  kill_often(1);
}
Test(kills, at_random_moments_2, .timeout = 1800) {
  kill_often(2);
}
Test(kills, at_random_moments_3, .timeout = 1800) {
  kill_often(3);
}
