/* What following by rhythm (core/predict/rhythm.h) costs and how soon it is, by the length of an
 * iteration. Rank 1 has learnt the loop and leaves by ncclCommDestroy at once; rank 0 goes on. It
 * computes for the most of an iteration, whose length varies evenly by one percent to both sides,
 * and does not wait for rank 1.
 *
 *   at once   the eight all-reduces of an iteration come at its end, one after the other
 *   spread    they come all over it, equally far apart
 *
 * Ranks are pinned, and rank 1 is told that there are more processors, as in following.c.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define COST_SECTION "Following by rhythm: an active rank's host cost"
#define DELAY_SECTION "Following by rhythm: from an active rank's call to the shadow in NCCL"
#define SHARE_SECTION "Following by rhythm: the joined rank's processor time"
#define ROUNDS 5   /* jobs of each kind */
#define UNLEARNT 6 /* iterations after rank 1 has left, before what is measured */
#define MEASURED ((uint64_t)(LOOP_LEARNT + UNLEARNT))
#define ITERATIONS_MAX 1024
#define UNITS_MAX (ITERATIONS_MAX * LOOP_UNITS)
#define JITTER_PERCENT 1

static const struct scenario {
  const char *name, *text;
  unsigned microseconds, iterations;
  bool spread;
} scenarios[] = {
    {"1", "1 ms, at once", 1000, 1000, false},
    {"10", "10 ms, at once", 10000, 200, false},
    {"30", "30 ms, at once", 30000, 80, false},
    {"100", "100 ms, at once", 100000, 30, false},
    {"10-spread", "10 ms, spread", 10000, 200, true},
    {"30-spread", "30 ms, spread", 30000, 80, true},
    {"100-spread", "100 ms, spread", 100000, 30, true},
};
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

/* ---- rank 0 ---- */

struct active {
  struct area *area;
  const struct scenario *scenario;
  ncclComm_t comm;
  uint64_t random;
};

static uint64_t called[UNITS_MAX];

static uint64_t processor_time(const struct area *area) {
  clockid_t clock;
  struct timespec used = {0};
  if (clock_getcpuclockid((pid_t)atomic_load(&area->ranks[1].progress), &clock) == 0)
    clock_gettime(clock, &used);
  return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static uint64_t system_calls(void) {
  const uint64_t *counted = dlsym(RTLD_DEFAULT, "system_calls_counted");
  return counted == NULL ? 0 : *counted;
}

/* Sleeps for the most of it, so that the machine is free for others; the rest is exact. */
static void compute_until(uint64_t end) {
  uint64_t now = area_now();
  if (end > now + 600000)
    area_sleep_us((unsigned)((end - now - 500000) / 1000));
  while (area_now() < end) {
  }
}

static uint64_t iteration_length(struct active *active) {
  uint64_t length = active->scenario->microseconds * UINT64_C(1000);
  uint64_t width = 2 * length * JITTER_PERCENT / 100;
  active->random = active->random * UINT64_C(6364136223846793005) + 1442695040888963407;
  return length - width / 2 + (active->random >> 33) % width;
}

/* What is measured stands where the loop was learnt, as in following.c: all units of a rank are
 * issued by one line. Numbers count from the first of the program on. */
static void run_iteration(struct active *active, uint64_t number) {
  bool paced = number >= LOOP_LEARNT, timed = number >= MEASURED, spread = active->scenario->spread;
  uint64_t begun = area_now(), length = paced ? iteration_length(active) : 0;
  for (unsigned position = 0; position < LOOP_UNITS; position++) {
    if (paced && spread)
      compute_until(begun + length * (position + 1) / LOOP_UNITS);
    else if (paced && position == 0)
      compute_until(begun + length);
    uint64_t start = area_now();
    loop_unit(active->comm, position);
    if (timed) {
      called[(number - MEASURED) * LOOP_UNITS + position] = start;
      area_add_sample(active->area, 0, (double)(area_now() - start));
    }
  }
}

/* Delays: of the units that the follower waits for. */
static void add_delays(const struct active *active, uint64_t units) {
  const struct area_rank *follower = &active->area->ranks[1];
  area_wait_entered(active->area, 1, MEASURED * LOOP_UNITS + units);
  for (uint64_t unit = 0; unit < units; unit++) {
    uint64_t number = MEASURED * LOOP_UNITS + unit;
    double entered = (double)atomic_load(&follower->stamps[number % AREA_STAMPS]);
    if (active->scenario->spread || unit % LOOP_UNITS == 0)
      area_add_sample(active->area, 1, (entered - (double)called[unit]) / 1000);
  }
}

struct used {
  uint64_t at, calls, processor;
};

static struct used used_now(const struct area *area) {
  return (struct used){area_now(), system_calls(), processor_time(area)};
}

static void show_used(struct area *area, struct used from) {
  struct used now = used_now(area);
  area->ranks[0].stamps[0] = now.calls - from.calls;
  area->ranks[0].stamps[1] = (now.processor - from.processor) * 100000 / (now.at - from.at);
}

static int run_rank(struct area *area, int rank, const struct scenario *scenario) {
  struct active active = {.area = area, .scenario = scenario, .random = (uint64_t)getpid()};
  struct used used = {0};
  unsigned measured = row_is_quick() ? 4 : scenario->iterations;
  uint64_t end = rank == 0 ? MEASURED + measured : LOOP_LEARNT;
  active.comm = loop_communicator(area->nranks, rank);
  if (rank == 1)
    atomic_store(&area->ranks[1].progress, (uint64_t)getpid());
  for (uint64_t number = 0; number < end; number++) {
    if (number == LOOP_LEARNT)
      area_sleep_us(20000); /* rank 1 has left */
    if (number == MEASURED)
      used = used_now(area);
    run_iteration(&active, number);
  }
  if (rank == 0) {
    uint64_t units = (uint64_t)measured * LOOP_UNITS;
    show_used(area, used);
    atomic_store(&area->ranks[0].progress, units);
    if (getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), JOB_JOIN) != NULL)
      add_delays(&active, units);
  }
  ncclCommDestroy(active.comm);
  return 0;
}

/* ---- the driver ---- */

enum { SHIM, JOIN, VARIANTS };

static struct job make_job(const struct scenario *scenario, int variant) {
  const char *preload = variant == JOIN ? JOB_JOIN : JOB_SHIM;
  struct job job = {.scenario = scenario->name, .nranks = 2, .pinned = true};
  job.setup[0] = (struct rank_setup){
      .preload = preload, .preload_too = JOB_COUNT_SYSTEM_CALLS, .nccl = JOB_EMPTY};
  job.setup[1] = (struct rank_setup){
      .preload = preload, .preload_too = JOB_MANY_PROCESSORS, .nccl = JOB_STAMPING};
  return job;
}

static void print(const char *section, const struct scenario *scenario, const char *what,
                  const char *unit, const char *goal, double *samples, size_t nsamples) {
  char name[128];
  snprintf(name, sizeof name, "%s%s%s", scenario->text, *what == '\0' ? "" : ", ", what);
  row_print(&(struct row){section, name, unit, goal}, samples, nsamples);
}

struct delays {
  double samples[AREA_SAMPLES];
  size_t nsamples;
};

static void add_all(struct delays *delays, const struct area_rank *follower) {
  for (size_t i = 0; i < follower->nsamples && delays->nsamples < AREA_SAMPLES; i++)
    delays->samples[delays->nsamples++] = follower->samples[i];
}

static void measure(const struct scenario *scenario, struct area *area) {
  static struct delays delays;
  size_t rounds = row_is_quick() ? 1 : ROUNDS;
  double costs[VARIANTS][ROUNDS], calls[ROUNDS], share[ROUNDS];
  bool is_long = scenario->microseconds >= 10000;
  delays.nsamples = 0;
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++) {
      struct job job = make_job(scenario, variant);
      job_run(&job, area);
      const struct area_rank *active = &area->ranks[0];
      costs[variant][round] = row_middle_mean(area->ranks[0].samples, active->nsamples);
      calls[round] = (double)active->stamps[0] / (double)atomic_load(&active->progress);
      share[round] = (double)active->stamps[1] / 1000;
      add_all(&delays, &area->ranks[1]);
    }
  print(COST_SECTION, scenario, "bare shim", "ns", NULL, costs[SHIM], rounds);
  print(COST_SECTION, scenario, "nccl-join", "ns", NULL, costs[JOIN], rounds);
  print(COST_SECTION, scenario, "calls of syscall()", "calls", is_long ? "0" : NULL, calls, rounds);
  print(SHARE_SECTION, scenario, "", "%", is_long ? "at most 5" : NULL, share, rounds);
  double late = row_quantile(delays.samples, delays.nsamples, 0.99);
  print(DELAY_SECTION, scenario, "", "us", is_long ? "at most 15" : NULL, delays.samples,
        delays.nsamples);
  print(DELAY_SECTION, scenario, "99 of 100 within", "us", NULL, &late, 1);
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  for (size_t i = 0; i < SCENARIOS; i++)
    if (argc == 2 && area != NULL && strcmp(argv[1], scenarios[i].name) == 0)
      return run_rank(area, rank, &scenarios[i]);
  area = job_area();
  if (job_processors() < 2) {
    fputs("rhythm: one processor, on which nobody can look while another works\n", stderr);
    return 0;
  }
  for (size_t i = 0; i < SCENARIOS; i++)
    measure(&scenarios[i], area);
  return 0;
}
