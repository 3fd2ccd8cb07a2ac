/* Random faults of random machines: MACHINES_FAULTS jobs (6), of which number n is made of seed
 * MACHINES_FAULTS_FIRST (1) + n; `make machine-faults` runs 200. Each job has one fault, or two, at
 * some moment. Either it ends with the right numbers, or every rank that has not been killed ends
 * with an error, and somebody says which rank has failed and on which machine; every number that is
 * printed is right, and nothing is left. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 5, FAULTS_MAX = 2, LIMIT_S = 90, SILENCE_S = 2, SEEN_S = 2 };

struct job {
  uint64_t state; /* of the random numbers */
  const char *machines;
  int nmachines, first[RANKS_MAX + 1]; /* first: rank of each machine */
  struct schedule schedule;
  int children; /* of each agent at most: one after the other, or all around the root's */
  unsigned killed, agents; /* ranks that are killed, and machines whose agent is: as bits */
  unsigned late;           /* agents that are killed while the job ends anyway */
  bool fatal, silent;      /* silent: nobody but a clock can see it */
  char story[512];
  double fault_s; /* when the first fatal one was */
  double bound_s; /* how long after that all ranks have ended */
};

/* splitmix64 */
static unsigned below(struct job *job, unsigned limit) {
  uint64_t z = job->state += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return (unsigned)((z ^ z >> 31) % limit);
}

__attribute__((format(printf, 2, 3))) static void tell(struct job *job, const char *format, ...) {
  size_t used = strlen(job->story);
  va_list values;
  va_start(values, format);
  vsnprintf(job->story + used, sizeof job->story - used, format, values);
  va_end(values);
}

/* Some ranks leave early, and one does not. */
static void make_job(struct job *job, uint64_t seed) {
  static const char *const kinds[] = {"2,2", "1,3", "3,1", "1,1,1", "1,2,2", "1,1", "1,1,1,1"};
  *job = (struct job){.state = seed};
  job->machines = kinds[below(job, sizeof kinds / sizeof *kinds)];
  for (const char *at = job->machines; *at != '\0'; at += at[1] == ',' ? 2 : 1) {
    job->first[job->nmachines + 1] = job->first[job->nmachines] + (*at - '0');
    job->nmachines++;
  }
  int nranks = job->first[job->nmachines];
  job->schedule = (struct schedule){.nranks = nranks, .epochs = 1};
  for (int rank = 0; rank < nranks; rank++)
    job->schedule.n[0][rank] = (int)(below(job, 2) == 0 ? below(job, 6) : 100 + below(job, 200));
  job->schedule.n[0][below(job, (unsigned)nranks)] = 300;
  job->children = below(job, 2) ? 1 : 16;
  tell(job, "machines %s, children %d, iterations %s:", job->machines, job->children,
       schedule_text(&job->schedule));
}

/* ---- faults ---- */

__attribute__((format(printf, 3, 4))) static void order(struct machines *machines, struct job *job,
                                                        const char *format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  machines_order(machines, text);
  tell(job, " %.60s;", text);
}

/* within_s: what the docs promise. A second one begins later. */
static void be_fatal(struct job *job, bool silent, double within_s) {
  job->fault_s = job->fatal ? job->fault_s : machines_now();
  job->bound_s = machines_now() - job->fault_s + within_s;
  job->silent |= silent;
  job->fatal = true;
}

static void kill_rank(struct machines *machines, struct job *job, int rank) {
  static const int signals[] = {9, 15, 6};
  job->killed |= 1U << rank;
  be_fatal(job, false, SEEN_S);
  order(machines, job, "rank %d %d", signals[below(job, 3)], rank);
}

static void kill_agent(struct machines *machines, struct job *job, int machine) {
  job->agents |= 1U << machine;
  job->late |= job->fatal ? 1U << machine : 0;
  be_fatal(job, false, SEEN_S);
  order(machines, job, "kill %d nccl-join-agent %d", below(job, 2) ? 9 : 15, machine);
}

static void kill_machine(struct machines *machines, struct job *job, int machine) {
  be_fatal(job, true, SILENCE_S + SEEN_S);
  job->agents |= 1U << machine;
  order(machines, job, "cut %d", machine);
  for (int rank = job->first[machine]; rank < job->first[machine + 1]; rank++) {
    job->killed |= 1U << rank;
    order(machines, job, "rank 9 %d", rank);
  }
  order(machines, job, "kill 9 nccl-join-agent %d", machine);
}

static double for_a_while(struct job *job) {
  return 0.05 + below(job, 100) / 100.0;
}

static void relay(struct machines *machines, struct job *job, int deaf) {
  static const int delays[] = {200, 2000, 20000};
  char cables[128] = "";
  for (int machine = 0; machine < job->nmachines; machine++)
    snprintf(cables + strlen(cables), sizeof cables - strlen(cables), " cable%d", machine);
  order(machines, job, "run -1 RELAY_READY=/dev/null %s/machines/relay %d 0 %d%s",
        run_build_folder(), delays[below(job, 3)], deaf, cables);
}

static void be_hostile(struct machines *machines, struct job *job, int machine) {
  static const char *const kinds[] = {"malformed", "replay", "stolen", "flood", "half-open 2000 1"};
  order(machines, job, "run %d timeout 2 %s/machines/hostile %s", machine, run_build_folder(),
        kinds[below(job, 5)]);
}

static void stop(struct machines *machines, struct job *job, const char *whom, int which,
                 double s) {
  order(machines, job, "%s 19 %s%d", which < 0 ? "kill" : "rank", whom,
        which < 0 ? -1 - which : which);
  machines_let(machines, s);
  order(machines, job, "%s 18 %s%d", which < 0 ? "kill" : "rank", whom,
        which < 0 ? -1 - which : which);
}

static void fault(struct machines *machines, struct job *job) {
  int machine = (int)below(job, (unsigned)job->nmachines),
      rank = (int)below(job, (unsigned)job->schedule.nranks);
  switch (below(job, 11)) {
  case 0:
    kill_rank(machines, job, rank);
    break;
  case 1:
    kill_agent(machines, job, machine);
    break;
  case 2:
    kill_machine(machines, job, machine);
    break;
  case 3:
    be_fatal(job, true, SILENCE_S + SEEN_S);
    order(machines, job, "cut %d", machine);
    break;
  case 4:
    order(machines, job, "cut %d", machine);
    machines_let(machines, for_a_while(job));
    order(machines, job, "mend %d", machine);
    break;
  case 5:
    stop(machines, job, "", rank, for_a_while(job));
    break;
  case 6:
    stop(machines, job, "nccl-join-agent ", -1 - machine, for_a_while(job));
    break;
  case 7:
    be_fatal(job, true, 2 * SILENCE_S + 1 + SEEN_S); /* its own ranks hear of it when it goes on */
    stop(machines, job, "nccl-join-agent ", -1 - machine, 2 * SILENCE_S + 1);
    break;
  case 8:
    relay(machines, job, -1);
    break;
  case 9:
    be_fatal(job, true, SILENCE_S + SEEN_S);
    relay(machines, job, machine);
    break;
  default:
    be_hostile(machines, job, machine);
  }
}

/* ---- what has become of it ---- */

static bool has_ended(const struct machines *machines, int rank) {
  char error[32], left[32];
  snprintf(error, sizeof error, "RESULT %d error ", rank);
  snprintf(left, sizeof left, "RESULT %d left", rank);
  return machines_say(machines, error) || machines_say(machines, left);
}

/* How long it took until all ranks had ended that could; -1: they have not. */
static double await_ends(struct machines *machines, const struct job *job) {
  bool all = false;
  for (double begin = machines_now(); !all && machines_now() < begin + LIMIT_S;) {
    all = true;
    for (int rank = 0; rank < job->schedule.nranks; rank++)
      all &= (job->killed >> rank & 1) || has_ended(machines, rank);
    if (!all)
      machines_let(machines, 0.05);
  }
  return all ? machines_now() - job->fault_s : -1;
}

/* "RESULT rank sum 0 iteration 0 mask sum" */
static void check_numbers(const struct job *job, const struct run *result) {
  int rank, i;
  double mask, sum;
  for (const char *at = result->output; (at = strstr(at, "RESULT ")) != NULL; at++) {
    if (sscanf(at, "RESULT %d sum 0 %d 0 %lf %lf", &rank, &i, &mask, &sum) != 4)
      continue;
    unsigned active = schedule_active(&job->schedule, 0, i);
    cr_assert(mask == active && sum == set_size(active) * (i + 1.0),
              "%s\nof rank %d, iteration %d\n%s", job->story, rank, i, result->errors);
  }
}

/* Whether nobody is left of a machine, and none of them could do anything about it: of one whose
 * agent is killed while the job ends the ranks may have ended before. */
static bool is_dead(const struct job *job, int machine) {
  unsigned ranks = (1U << job->first[machine + 1]) - (1U << job->first[machine]);
  return (job->late >> machine & 1) ||
         ((job->agents >> machine & 1) && (job->killed & ranks) == ranks);
}

/* Such a machine keeps the board: the next job there removes it. */
static bool is_clean(const struct job *job, const struct run *result) {
  int machine;
  const char *left = result->errors;
  for (; (left = strstr(left, "machines: left")) != NULL; left++) {
    int length = 0;
    sscanf(left, "machines: left on machine %d: file nccl-join-machines-%*[0-9a-f-]%n", &machine,
           &length);
    if (length == 0 || left[length] != '\n' || !is_dead(job, machine))
      return false;
  }
  return true;
}

static bool any_is_dead(const struct job *job) {
  bool any = false;
  for (int machine = 0; machine < job->nmachines; machine++)
    any |= is_dead(job, machine);
  return any;
}

static void check_end(const struct job *job, const struct run *result) {
  cr_assert(!result->timed_out, "%s\nafter %.0f s\n%s", job->story, result->seconds,
            result->errors);
  cr_assert(is_clean(job, result), "%s\n%s", job->story, result->errors);
  check_numbers(job, result);
  if (result->status == 0)
    return;
  cr_assert(job->fatal || run_says(result, "failed"), "%s\n%s", job->story, result->errors);
  unsigned all = set_of_all(job->schedule.nranks);
  /* Where a whole machine dies its processes do, and the loopback's NCCL, which sees them, may be
   * the first to say so. */
  cr_assert(job->killed == all || any_is_dead(job) ||
                run_says_in_a_line(result, "failed", "on machine", NULL) ||
                run_says_in_a_line(result, "failed", "rank", NULL),
            "%s\n%s", job->story, result->errors);
}

static void run_one(uint64_t seed) {
  struct job job;
  char options[256], said[64], environment[128];
  make_job(&job, seed);
  snprintf(environment, sizeof environment,
           "NCCL_JOIN_MACHINES_SILENCE=2 NCCL_JOIN_MACHINES_CHILDREN=%d LOOPBACK_HANG_S=0",
           job.children);
  snprintf(options, sizeof options, "--iterations %s --count 16", schedule_text(&job.schedule));
  struct machines *machines = machines_begin(&(struct machines_job){.machines = job.machines,
                                                                    .program = "sum",
                                                                    .options = options,
                                                                    .environment = environment,
                                                                    .limit_s = LIMIT_S});
  snprintf(said, sizeof said, " sum 0 %u 0 ", below(&job, 60));
  machines_await(machines, said);
  for (int n = below(&job, 3) == 0 ? 2 : 1; n > 0; n--) {
    fault(machines, &job);
    machines_let(machines, for_a_while(&job) / 4);
  }
  double took = await_ends(machines, &job);
  struct run *result = machines_finish(machines);
  fprintf(stderr, "%llu: %s %s", (unsigned long long)seed, job.story,
          result->status == 0 ? "right" : "told");
  if (job.fatal && result->status != 0)
    fprintf(stderr, ", %.1f s after the %sdeath", took, job.silent ? "silent " : "");
  fprintf(stderr, "\n");
  check_end(&job, result);
  cr_assert(result->status == 0 || !job.fatal || took <= job.bound_s * run_slowness(),
            "%s\n%.1f s, and not %.1f\n%s", job.story, took, job.bound_s, result->errors);
  cr_assert(took >= 0 || job.fault_s == 0, "%s\nnot all ranks have said how they ended\n%s%s",
            job.story, result->output, result->errors);
  run_free(result);
}

static uint64_t number_of(const char *name, uint64_t standard) {
  const char *text = getenv(name);
  return text != NULL ? strtoull(text, NULL, 10) : standard;
}

Test(machines_random, faults, .timeout = 7200) {
  NEED_MACHINES();
  uint64_t first = number_of("MACHINES_FAULTS_FIRST", 1), count = number_of("MACHINES_FAULTS", 6);
  for (uint64_t seed = first; seed < first + count; seed++)
    run_one(seed);
}
