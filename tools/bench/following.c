/* What a joined rank costs the active one, and how soon it follows. Rank 1 has learnt the loop and
 * leaves by ncclCommDestroy at once; rank 0 goes on.
 *
 *   back-to-back   units as fast as they can be issued: the follower falls behind, and is awake
 *   awake          a unit 5 us after the follower has caught up, while it looks for the next one
 *   asleep         a unit 300 us after that, when it sleeps, and wakes itself if it can foresee it
 *
 * A rank only looks before it sleeps if the machine has more processors than the team has ranks;
 * so that this can be measured with two, it is told that there are more (many_processors.c), and
 * both are pinned: on one processor the looking would hold up the active rank.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define COST_SECTION "An active rank's host cost while another is joined"
#define DELAY_SECTION "From an active rank's call to the joined rank's shadow in NCCL"
#define ROUNDS_MAX 64
#define BATCH_ITERATIONS 32
#define UNLEARNT 48 /* units of the active rank before what is measured */
#define SAMPLES_MAX 4096

enum pace { BACK_TO_BACK, AWAKE, ASLEEP };

static const struct scenario {
  const char *name, *text;
  enum pace pace;
  bool groups; /* units are groups of eight */
  const char *goal, *calls_goal;
} scenarios[] = {
    {"back-to-back", "one all-reduce, back to back", BACK_TO_BACK, false, NULL, NULL},
    {"awake", "one all-reduce, the follower awake", AWAKE, false, "at most 40", "0"},
    {"asleep", "one all-reduce, the follower asleep", ASLEEP, false, NULL, NULL},
    {"awake-groups", "a group of 8, the follower awake", AWAKE, true, "at most 40", "0"},
    {"asleep-groups", "a group of 8, the follower asleep", ASLEEP, true, NULL, NULL},
};
enum { DELAYS_AWAKE = 1, DELAYS_ASLEEP = 2 }; /* of these the delays are shown */
#define SCENARIOS (sizeof scenarios / sizeof *scenarios)

/* ---- rank 0 ---- */

struct active {
  struct area *area;
  const struct scenario *scenario;
  ncclComm_t comm;
  uint64_t units, collectives; /* issued, from the first of the program on */
  bool followed;               /* by rank 1 */
};

static void issue_unit(struct active *active) {
  if (active->scenario->groups)
    loop_group(active->comm, active->units % 2);
  else
    loop_unit(active->comm, active->units % LOOP_UNITS);
  active->units++;
  active->collectives += active->scenario->groups ? LOOP_GROUP : 1;
}

static void wait_for_follower(const struct active *active) {
  if (active->followed)
    area_wait_entered(active->area, 1, active->collectives);
}

static void pass_time(const struct active *active) {
  if (active->scenario->pace == ASLEEP) {
    wait_for_follower(active);
    area_sleep_us(300);
    return;
  }
  const struct area_rank *follower = &active->area->ranks[1];
  while (active->followed && atomic_load(&follower->entered) < active->collectives) {
  }
  for (uint64_t end = area_now() + 5000; area_now() < end;) {
  }
}

/* What is measured stands where the loop was learnt: where in the program a call stands is part of
 * what is learnt (interpose/places/places.h), and from another line each would be a claim, which
 * waits. So all units of a rank are issued by one line. */
struct stretch {
  unsigned units;
  enum { UNMEASURED, TIMED, COUNTED } measured;
};

static struct stretch stretch_back_to_back(struct active *active, unsigned number) {
  if (number % 2 == 0)
    return (struct stretch){BATCH_ITERATIONS * LOOP_UNITS, TIMED};
  wait_for_follower(active);
  return (struct stretch){LOOP_UNITS, UNMEASURED}; /* wakes it */
}

/* One by one; what it takes to read the clock is in the figures of all variants alike. */
static struct stretch stretch_paced(struct active *active) {
  pass_time(active);
  return (struct stretch){1, TIMED};
}

/* Regions of no unit and of one, in turns. */
static struct stretch stretch_counted(struct active *active, unsigned number) {
  pass_time(active);
  return (struct stretch){(number + 1) % 2, COUNTED};
}

static unsigned stretches(const struct active *active) {
  if (active->area->counted)
    return row_is_quick() ? 4 : STEPS_REGIONS;
  if (active->scenario->pace == BACK_TO_BACK)
    return 2 * (row_is_quick() ? 4 : 40);
  return row_is_quick() ? 16 : active->scenario->pace == ASLEEP ? 200 : 2000;
}

/* Stretch 0 is what both ranks learn. Until UNLEARNT more the follower learns when units come. */
static struct stretch stretch_of(struct active *active, unsigned number) {
  if (number == 0)
    return (struct stretch){LOOP_LEARNT_UNITS, UNMEASURED};
  if (number <= UNLEARNT) {
    pass_time(active);
    return (struct stretch){1, UNMEASURED};
  }
  if (active->area->counted)
    return stretch_counted(active, number - UNLEARNT);
  return active->scenario->pace == BACK_TO_BACK ? stretch_back_to_back(active, number - UNLEARNT)
                                                : stretch_paced(active);
}

static uint64_t called[SAMPLES_MAX], number_of[SAMPLES_MAX]; /* of each sample */

static void run_stretch(struct active *active, struct stretch stretch) {
  uint64_t first = active->collectives;
  if (stretch.measured == COUNTED)
    steps_begin();
  uint64_t start = area_now();
  for (unsigned unit = 0; unit < stretch.units; unit++)
    issue_unit(active);
  uint64_t end = area_now();
  if (stretch.measured == COUNTED)
    steps_end();
  if (stretch.measured != TIMED)
    return;
  uint64_t sample = active->area->ranks[0].nsamples;
  called[sample] = start;
  number_of[sample] = first;
  area_add_sample(active->area, 0, (double)(end - start) / stretch.units);
}

/* Of the first unit of each sample. */
static void measure_delays(const struct active *active) {
  const struct area_rank *follower = &active->area->ranks[1];
  wait_for_follower(active);
  for (uint64_t i = 0; i < active->area->ranks[0].nsamples && active->followed; i++) {
    double entered = (double)atomic_load(&follower->stamps[number_of[i] % AREA_STAMPS]);
    area_add_sample(active->area, 1, (entered - (double)called[i]) / 1000);
  }
}

static uint64_t system_calls(void) {
  const uint64_t *counted = dlsym(RTLD_DEFAULT, "system_calls_counted");
  return counted == NULL ? 0 : *counted;
}

static int run_rank(struct area *area, int rank, const struct scenario *scenario) {
  struct active active = {.area = area, .scenario = scenario};
  active.comm = loop_communicator(area->nranks, rank);
  /* Only with nccl-join does anybody follow. */
  const char *preloaded = getenv("LD_PRELOAD");
  active.followed = preloaded != NULL && strstr(preloaded, JOB_JOIN) != NULL;
  if (area->counted && rank == 0)
    steps_watch(&area->watched);
  unsigned last = rank == 0 ? UNLEARNT + stretches(&active) : 0;
  uint64_t from = 0, calls = 0;
  for (unsigned number = 0; number <= last; number++) {
    if (number == 1)
      area_sleep_us(20000); /* rank 1 has left */
    if (number == UNLEARNT + 1) {
      from = active.units;
      calls = system_calls();
    }
    run_stretch(&active, stretch_of(&active, number));
  }
  if (rank == 0) {
    /* Per unit, in thousandths. */
    uint64_t made = 1000 * (system_calls() - calls);
    atomic_store(&area->ranks[0].progress, made / (active.units - from));
    measure_delays(&active);
  }
  ncclCommDestroy(active.comm);
  return 0;
}

/* What the machine itself needs: a cache line to the other processor and back. */
#define LINE "line"

static int run_line(struct area *area, int rank) {
  _Atomic uint64_t *line = &area->ranks[0].entered;
  uint64_t trips = row_is_quick() ? 1000 : 100000, reported = 0, start = 0;
  for (uint64_t turn = 0; turn < 2 * trips; turn++) {
    if (turn % 2 == (uint64_t)rank)
      atomic_store(line, turn + 1);
    while (atomic_load(line) <= turn) {
    }
    if (rank == 0 && turn - reported == 200) {
      area_add_sample(area, 0, (double)(area_now() - start) / 100);
      reported = turn;
    }
    if (turn == reported)
      start = area_now();
  }
  return 0;
}

/* ---- the driver ---- */

enum { SHIM, JOIN, VARIANTS };

static struct job make_job(const struct scenario *scenario, int variant, const char *preload_too) {
  const char *preload = variant == JOIN ? JOB_JOIN : JOB_SHIM;
  struct job job = {.scenario = scenario->name, .nranks = 2, .pinned = true};
  job.setup[0] =
      (struct rank_setup){.preload = preload, .preload_too = preload_too, .nccl = JOB_EMPTY};
  job.setup[1] = (struct rank_setup){.preload = preload, .nccl = JOB_STAMPING};
  if (scenario->pace != ASLEEP)
    job.setup[1].preload_too = JOB_MANY_PROCESSORS;
  return job;
}

static void print_cost(const struct scenario *scenario, const char *what, const char *unit,
                       const char *goal, double *samples, size_t nsamples) {
  char name[128];
  snprintf(name, sizeof name, "%s, %s", scenario->text, what);
  row_print(&(struct row){COST_SECTION, name, unit, goal}, samples, nsamples);
}

struct delays {
  double samples[AREA_SAMPLES];
  size_t nsamples;
};

static void add_delays(struct delays *delays, const struct area *area) {
  const struct area_rank *follower = &area->ranks[1];
  for (size_t i = 0; i < follower->nsamples && delays->nsamples < AREA_SAMPLES; i++)
    delays->samples[delays->nsamples++] = follower->samples[i];
}

/* A sample is the middle mean of a job. */
static void measure_cost(const struct scenario *scenario, struct delays *delays,
                         struct area *area) {
  size_t rounds = row_is_quick() ? 2 : 20;
  double samples[VARIANTS][ROUNDS_MAX], over[ROUNDS_MAX];
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++) {
      struct job job = make_job(scenario, variant, NULL);
      job_run(&job, area);
      samples[variant][round] = row_middle_mean(area->ranks[0].samples, area->ranks[0].nsamples);
      add_delays(delays, area);
    }
  for (size_t round = 0; round < rounds; round++)
    over[round] =
        (samples[JOIN][round] - samples[SHIM][round]) / (scenario->groups ? LOOP_GROUP : 1);
  print_cost(scenario, "bare shim", "ns", NULL, samples[SHIM], rounds);
  print_cost(scenario, "nccl-join", "ns", NULL, samples[JOIN], rounds);
  print_cost(scenario, "each collective over the bare shim", "ns", scenario->goal, over, rounds);
}

static void measure_system_calls(const struct scenario *scenario, struct area *area) {
  double samples[ROUNDS_MAX];
  size_t rounds = row_is_quick() ? 2 : 5;
  for (size_t round = 0; round < rounds; round++) {
    struct job job = make_job(scenario, JOIN, JOB_COUNT_SYSTEM_CALLS);
    job_run(&job, area);
    samples[round] = (double)atomic_load(&area->ranks[0].progress) / 1000;
  }
  print_cost(scenario, "calls of syscall()", "calls", scenario->calls_goal, samples, rounds);
}

static void measure_steps(const struct scenario *scenario, struct area *area) {
  static struct steps_taken taken;
  struct job job = make_job(scenario, JOIN, NULL);
  job.steps = &taken;
  job_run(&job, area);
  double instructions = 0, calls = 0, units = taken.nregions / 2.0;
  for (unsigned region = 0; region < taken.nregions; region++) {
    double weight = region % 2 == 1 ? 1 / units : -1 / units;
    instructions += weight * (double)taken.regions[region].instructions;
    calls += weight * (double)taken.regions[region].system_calls;
  }
  print_cost(scenario, "instructions", "instructions", NULL, &instructions, 1);
  print_cost(scenario, "system calls by single steps", "calls", scenario->calls_goal, &calls, 1);
}

static void measure_delays_loaded(const struct scenario *scenario, struct delays *delays,
                                  struct area *area) {
  size_t rounds = row_is_quick() ? 1 : 5;
  for (size_t round = 0; round < rounds; round++) {
    struct job job = make_job(scenario, JOIN, NULL);
    job_load_begin();
    job_run(&job, area);
    job_load_end();
    add_delays(delays, area);
  }
}

static void measure_line(struct area *area) {
  struct job job = {.scenario = LINE, .nranks = 2, .pinned = true};
  job.setup[0] = job.setup[1] = (struct rank_setup){.nccl = JOB_EMPTY};
  job_run(&job, area);
  row_print(&(struct row){COST_SECTION, "the machine: a cache line to the other processor and back",
                          "ns", NULL},
            area->ranks[0].samples, area->ranks[0].nsamples);
}

static void print_delays(const char *name, struct delays *delays) {
  row_print(&(struct row){DELAY_SECTION, name, "us", NULL}, delays->samples, delays->nsamples);
}

int main(int argc, char **argv) {
  static struct delays delays[SCENARIOS], loaded;
  int rank;
  struct area *area = area_open(&rank);
  for (size_t i = 0; i < SCENARIOS; i++)
    if (argc == 2 && area != NULL && strcmp(argv[1], scenarios[i].name) == 0)
      return run_rank(area, rank, &scenarios[i]);
  if (argc == 2 && area != NULL && strcmp(argv[1], LINE) == 0)
    return run_line(area, rank);
  area = job_area();
  bool together = job_processors() > 1;
  if (together)
    measure_line(area);
  else
    fputs("following: one processor, on which nobody can look while another works\n", stderr);
  for (size_t i = 0; i < SCENARIOS; i++) {
    if (scenarios[i].pace == AWAKE && !together)
      continue;
    measure_cost(&scenarios[i], &delays[i], area);
    measure_system_calls(&scenarios[i], area);
    /* A follower that only looks for a while is asleep before the next step. */
    if (scenarios[i].pace == ASLEEP)
      measure_steps(&scenarios[i], area);
  }
  measure_delays_loaded(&scenarios[DELAYS_ASLEEP], &loaded, area);
  if (together)
    print_delays("follower awake", &delays[DELAYS_AWAKE]);
  print_delays("follower asleep", &delays[DELAYS_ASLEEP]);
  print_delays("follower asleep, and a busy process on every processor", &loaded);
  return 0;
}
