/* What a joined rank costs the active one, and how soon it follows. Rank 1 has learnt the loop and
 * leaves by ncclCommDestroy at once; rank 0 goes on.
 *
 *   back-to-back   units as fast as they can be issued: the follower falls behind, and is awake
 *   awake          a unit 5 us after the follower has caught up, while it looks for the next one
 *   asleep         a unit 300 us after that, when it waits in the kernel
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

#define COST_SECTION "An active rank while another is joined: the host cost of one all-reduce"
#define DELAY_SECTION "From an active rank's call to the joined rank's shadow in NCCL"
#define ROUNDS_MAX 64
#define BATCH_ITERATIONS 32
#define UNITS_MAX 4096

enum pace { BACK_TO_BACK, AWAKE, ASLEEP, PACES };
static const char *const scenarios[PACES] = {"back-to-back", "awake", "asleep"};

/* ---- rank 0 ---- */

struct active {
  struct area *area;
  ncclComm_t comm;
  uint64_t issued; /* units, from the first of the program on */
  bool followed;   /* by rank 1 */
};

static void wait_for_follower(const struct active *active) {
  if (active->followed)
    area_wait_entered(active->area, 1, active->issued);
}

static void run_back_to_back(struct active *active) {
  for (int batch = 0; batch < (row_is_quick() ? 4 : 40); batch++) {
    wait_for_follower(active);
    loop_iteration(active->comm); /* wakes it */
    uint64_t start = area_now();
    for (int i = 0; i < BATCH_ITERATIONS; i++)
      loop_iteration(active->comm);
    area_add_sample(active->area, 0,
                    (double)(area_now() - start) / (BATCH_ITERATIONS * LOOP_UNITS));
    active->issued += (uint64_t)(1 + BATCH_ITERATIONS) * LOOP_UNITS;
  }
}

/* Both only once the follower has caught up. */
static void pass_time(const struct active *active, enum pace pace) {
  if (pace == ASLEEP) {
    wait_for_follower(active);
    area_sleep_us(300);
    return;
  }
  const struct area_rank *follower = &active->area->ranks[1];
  while (active->followed && atomic_load(&follower->entered) < active->issued) {
  }
  for (uint64_t end = area_now() + 5000; area_now() < end;) {
  }
}

/* One by one; what it takes to read the clock is in the figures of all variants alike. */
static void run_paced(struct active *active, enum pace pace) {
  static uint64_t called[UNITS_MAX];
  uint64_t from = active->issued;
  unsigned units = row_is_quick() ? 16 : pace == ASLEEP ? 200 : 2000;
  for (unsigned unit = 0; unit < units; unit++) {
    pass_time(active, pace);
    called[unit] = area_now();
    loop_unit(active->comm, active->issued % LOOP_UNITS);
    area_add_sample(active->area, 0, (double)(area_now() - called[unit]));
    active->issued++;
  }
  wait_for_follower(active);
  const struct area_rank *follower = &active->area->ranks[1];
  for (unsigned unit = 0; unit < units && active->followed; unit++)
    area_add_sample(active->area, 1,
                    ((double)atomic_load(&follower->stamps[(from + unit) % AREA_STAMPS]) -
                     (double)called[unit]) /
                        1000);
}

/* Regions of no unit and of one, in turns. */
static void run_counted(struct active *active) {
  steps_watch(&active->area->watched);
  for (int region = 0; region < (row_is_quick() ? 4 : STEPS_REGIONS); region++) {
    pass_time(active, ASLEEP);
    steps_begin();
    if (region % 2 == 1)
      loop_unit(active->comm, active->issued++ % LOOP_UNITS);
    steps_end();
  }
}

static uint64_t system_calls(void) {
  const uint64_t *counted = dlsym(RTLD_DEFAULT, "system_calls_counted");
  return counted == NULL ? 0 : *counted;
}

static void run_active(struct active *active, enum pace pace) {
  area_sleep_us(20000); /* rank 1 has left */
  uint64_t from = active->issued, calls = system_calls();
  if (active->area->counted)
    run_counted(active);
  else if (pace == BACK_TO_BACK)
    run_back_to_back(active);
  else
    run_paced(active, pace);
  /* Per unit, in thousandths. */
  uint64_t made = 1000 * (system_calls() - calls);
  atomic_store(&active->area->ranks[0].progress, made / (active->issued - from));
}

static int run_rank(struct area *area, int rank, enum pace pace) {
  struct active active = {.area = area, .comm = loop_communicator(area->nranks, rank)};
  for (; active.issued < LOOP_LEARNT_UNITS; active.issued += LOOP_UNITS)
    loop_iteration(active.comm);
  /* Only with nccl-join does anybody follow. */
  active.followed = getenv("LD_PRELOAD") != NULL && strstr(getenv("LD_PRELOAD"), JOB_JOIN) != NULL;
  if (rank == 0)
    run_active(&active, pace);
  ncclCommDestroy(active.comm);
  return 0;
}

/* ---- the driver ---- */

enum { SHIM, JOIN, VARIANTS };

static struct job make_job(enum pace pace, int variant, const char *preload_too) {
  const char *preload = variant == JOIN ? JOB_JOIN : JOB_SHIM;
  struct job job = {.scenario = scenarios[pace], .nranks = 2, .pinned = true};
  job.setup[0] = (struct rank_setup){preload, preload_too, JOB_EMPTY, false};
  job.setup[1] = (struct rank_setup){preload, NULL, JOB_STAMPING, false};
  if (pace != ASLEEP)
    job.setup[1].preload_too = JOB_MANY_PROCESSORS;
  return job;
}

static void print(const char *section, const char *name, const char *unit, const char *goal,
                  double *samples, size_t nsamples) {
  row_print(&(struct row){section, name, unit, goal}, samples, nsamples);
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

static const struct texts {
  const char *pace, *goal, *calls_goal;
} texts[PACES] = {
    [BACK_TO_BACK] = {"back to back, the follower behind", NULL, NULL},
    [AWAKE] = {"the follower awake", "at most 40", "0"},
    [ASLEEP] = {"the follower asleep", NULL, "1"},
};

/* A sample is the middle mean of a job. */
static void measure_cost(enum pace pace, struct delays *delays, struct area *area) {
  size_t rounds = row_is_quick() ? 2 : 20;
  double samples[VARIANTS][ROUNDS_MAX], over[ROUNDS_MAX];
  char name[128];
  for (size_t round = 0; round < rounds; round++)
    for (int variant = 0; variant < VARIANTS; variant++) {
      struct job job = make_job(pace, variant, NULL);
      job_run(&job, area);
      samples[variant][round] = row_quantile(area->ranks[0].samples, area->ranks[0].nsamples, 0.5);
      add_delays(delays, area);
    }
  for (size_t round = 0; round < rounds; round++)
    over[round] = samples[JOIN][round] - samples[SHIM][round];
  snprintf(name, sizeof name, "%s, bare shim", texts[pace].pace);
  print(COST_SECTION, name, "ns", NULL, samples[SHIM], rounds);
  snprintf(name, sizeof name, "%s, nccl-join", texts[pace].pace);
  print(COST_SECTION, name, "ns", NULL, samples[JOIN], rounds);
  snprintf(name, sizeof name, "%s, over the bare shim", texts[pace].pace);
  print(COST_SECTION, name, "ns", texts[pace].goal, over, rounds);
}

static void measure_system_calls(enum pace pace, struct area *area) {
  double samples[ROUNDS_MAX];
  size_t rounds = row_is_quick() ? 2 : 5;
  for (size_t round = 0; round < rounds; round++) {
    struct job job = make_job(pace, JOIN, JOB_COUNT_SYSTEM_CALLS);
    job_run(&job, area);
    samples[round] = (double)atomic_load(&area->ranks[0].progress) / 1000;
  }
  char name[128];
  snprintf(name, sizeof name, "%s, calls of syscall()", texts[pace].pace);
  print(COST_SECTION, name, "calls", texts[pace].calls_goal, samples, rounds);
}

static void measure_steps(struct area *area) {
  static struct steps_taken taken;
  struct job job = make_job(ASLEEP, JOIN, NULL);
  job.steps = &taken;
  job_run(&job, area);
  double instructions = 0, calls = 0, units = taken.nregions / 2.0;
  for (unsigned region = 0; region < taken.nregions; region++) {
    double weight = region % 2 == 1 ? 1 / units : -1 / units;
    instructions += weight * (double)taken.regions[region].instructions;
    calls += weight * (double)taken.regions[region].system_calls;
  }
  print(COST_SECTION, "the follower asleep, instructions", "instructions", NULL, &instructions, 1);
  print(COST_SECTION, "the follower asleep, system calls by single steps", "calls", "1", &calls, 1);
}

static void measure_delays_loaded(struct delays *delays, struct area *area) {
  size_t rounds = row_is_quick() ? 1 : 5;
  delays->nsamples = 0;
  for (size_t round = 0; round < rounds; round++) {
    struct job job = make_job(ASLEEP, JOIN, NULL);
    job_load_begin();
    job_run(&job, area);
    job_load_end();
    add_delays(delays, area);
  }
}

int main(int argc, char **argv) {
  static struct delays awake, asleep, loaded;
  int rank;
  struct area *area = area_open(&rank);
  for (enum pace pace = 0; pace < PACES; pace++)
    if (argc == 2 && area != NULL && strcmp(argv[1], scenarios[pace]) == 0)
      return run_rank(area, rank, pace);
  area = job_area();
  struct delays *delays[PACES] = {&loaded, &awake, &asleep}; /* back to back there are none */
  for (enum pace pace = 0; pace < PACES; pace++) {
    measure_cost(pace, delays[pace], area);
    measure_system_calls(pace, area);
  }
  measure_steps(area);
  measure_delays_loaded(&loaded, area);
  print(DELAY_SECTION, "follower awake", "us", NULL, awake.samples, awake.nsamples);
  print(DELAY_SECTION, "follower asleep", "us", NULL, asleep.samples, asleep.nsamples);
  print(DELAY_SECTION, "follower asleep, and a busy process on every processor", "us", NULL,
        loaded.samples, loaded.nsamples);
  return 0;
}
