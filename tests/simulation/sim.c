/* make sim: random programs through the agreed sequences, on all processors, as many as wanted.
 *
 *   sim [--programs N] [--first SEED] [--jobs N]   runs them; ends with a table
 *   sim [--throws 1] --seed SEED                   runs one, and prints what every rank does;
 *                                                  throws: with early termination
 *
 * Exit status 0 if everything was as it must be, 1 if not or if it was interrupted (the table is of
 * what has been run by then), 2 if it could not be run.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/run.h"

#define PROGRAMS_PER_REPORT 500u
#define FAILURES_SHOWN 20u /* of each process */
#define JOBS_MAX 256u

static struct {
  uint64_t programs, first, jobs;
  bool one, throws;
} options = {.programs = 1000000, .jobs = 0};

static int usage(void) {
  fputs("usage: sim [--programs N] [--first SEED] [--jobs N] | [--throws 1] --seed SEED\n", stderr);
  return 2;
}

static bool read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    char *end = NULL;
    uint64_t value = i + 1 < argc ? strtoull(argv[i + 1], &end, 10) : 0;
    if (end == NULL || *end != '\0' || end == argv[i + 1])
      return false;
    if (strcmp(argv[i], "--programs") == 0)
      options.programs = value;
    else if (strcmp(argv[i], "--first") == 0)
      options.first = value;
    else if (strcmp(argv[i], "--jobs") == 0)
      options.jobs = value;
    else if (strcmp(argv[i], "--throws") == 0)
      options.throws = value != 0;
    else if (strcmp(argv[i], "--seed") == 0)
      options.one = true, options.first = value;
    else
      return false;
  }
  if (options.jobs == 0)
    options.jobs = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
  if (options.jobs > JOBS_MAX)
    options.jobs = JOBS_MAX;
  return true;
}

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
  (void)number;
  interrupted = 1;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ---- one program ---- */

static int run_one(uint64_t seed) {
  static struct program program;
  static struct tally tally;
  program_random(&program, seed);
  printf("seed %llu: %s, %u ranks, %u teams\n", (unsigned long long)seed,
         program_row_name(program_row(&program)), program.nranks, program.nteams);
  program.throws = options.throws;
  struct simulation result = simulate(&program, seed, true);
  if (options.throws) {
    printf("%s\n", result.stopped ? "stopped" : "not stopped");
    return result.mismatch || result.deadlock;
  }
  const char *wrong = run_program(seed, &tally);
  const struct tally_row *row = &tally.rows[program_row(&program)];
  printf("%s; %llu of %llu indices met\n", wrong ? wrong : "as it must be",
         (unsigned long long)row->met, (unsigned long long)row->indices);
  return wrong != NULL;
}

/* ---- many ---- */

/* Every jobs-th seed, reported to the parent now and then. */
static void work(uint64_t job, int pipe) {
  struct tally tally = {0};
  uint64_t shown = 0, since = 0, end = options.first + options.programs;
  for (uint64_t seed = options.first + job; seed < end; seed += options.jobs) {
    const char *wrong = run_program(seed, &tally);
    if (wrong != NULL && shown++ < FAILURES_SHOWN)
      fprintf(stderr, "\nseed %llu: %s\n", (unsigned long long)seed, wrong);
    if (++since < PROGRAMS_PER_REPORT && seed + options.jobs < end)
      continue;
    /* Less than PIPE_BUF, so reports of several processes do not mix. */
    _Static_assert(sizeof(tally) <= 4096, "one write");
    if (write(pipe, &tally, sizeof(tally)) != (ssize_t)sizeof(tally))
      _exit(2);
    tally = (struct tally){0};
    since = 0;
  }
  _exit(0);
}

static uint64_t programs_of(const struct tally *tally) {
  uint64_t programs = 0;
  for (uint32_t row = 0; row < PROGRAM_ROWS; row++)
    programs += tally->rows[row].programs;
  return programs;
}

/* Starts the workers and adds up what they report; false if one could not be started or broke down.
 */
static bool run_all(struct tally *tally, double began) {
  int ends[2];
  pid_t children[JOBS_MAX];
  struct tally report;
  bool went_well = pipe(ends) == 0;
  for (uint64_t job = 0; went_well && job < options.jobs; job++) {
    pid_t child = fork();
    children[job] = child;
    if (child == 0) {
      close(ends[0]);
      work(job, ends[1]);
    }
    went_well = child > 0;
  }
  close(ends[1]);
  /* Without SA_RESTART, so that it ends the read. */
  sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
  sigaction(SIGTERM, &(struct sigaction){.sa_handler = interrupt}, NULL);
  while (!interrupted && read(ends[0], &report, sizeof(report)) == (ssize_t)sizeof(report)) {
    tally_add(tally, &report);
    fprintf(stderr, "\r%llu of %llu programs, %.0f s, %llu wrong ",
            (unsigned long long)programs_of(tally), (unsigned long long)options.programs,
            now() - began, (unsigned long long)tally->failures);
  }
  fputc('\n', stderr);
  for (uint64_t job = 0; interrupted && went_well && job < options.jobs; job++)
    kill(children[job], SIGKILL);
  for (int status; wait(&status) > 0;)
    went_well &= interrupted || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return went_well;
}

static void print_row(const char *name, const struct tally_row *row) {
  printf("%-42s %9llu %11llu %8.3f%% %7llu %7.2f%% %7.2f%% %7.3f%% %7.4f%%\n", name,
         (unsigned long long)row->programs, (unsigned long long)row->indices, 100 * row_share(row),
         (unsigned long long)row->stuck,
         100 * (double)row->claims / (double)(row->reals ? row->reals : 1),
         100 * (double)row->waits / (double)(row->reals ? row->reals : 1),
         100 * (double)row->yields / (double)(row->reals + row->shadows),
         100 * (double)row->late_yields / (double)(row->reals + row->shadows));
}

static bool print_table(const struct tally *tally, double seconds) {
  bool met = tally->failures == 0;
  printf("%-42s %9s %11s %9s %7s %8s %8s %8s %8s\n", "programs of this kind", "programs", "indices",
         "met", "stuck", "claims", "waits", "yields", "in time");
  for (uint32_t row = 0; row < PROGRAM_ROWS; row++)
    if (tally->rows[row].programs != 0)
      print_row(program_row_name(row), &tally->rows[row]);
  fputs("\nmet: indices where all real units were of the same place of the program\n"
        "stuck: programs in which ranks wait for their devices for ever\n"
        "claims: of real units, those that ranks had to agree on\n"
        "waits: of real units, those that waited for ranks behind in another team\n"
        "yields: of all units; in time: those that only time decided\n\n",
        stdout);
  for (uint32_t i = 0; i < REQUIREMENTS; i++) {
    struct tally_row sum = group_sum(tally, requirements[i].group);
    bool enough = row_share(&sum) >= requirements[i].share;
    printf("%-42s %8.3f%% met, at least %g%%: %s\n", requirements[i].name, 100 * row_share(&sum),
           100 * requirements[i].share, enough ? "yes" : "NO");
    met &= enough;
  }
  printf("%llu programs in %.0f s; wrong: %llu\n", (unsigned long long)programs_of(tally), seconds,
         (unsigned long long)tally->failures);
  return met && programs_of(tally) == options.programs;
}

int main(int argc, char **argv) {
  static struct tally tally;
  if (!read_options(argc, argv))
    return usage();
  if (options.one)
    return run_one(options.first);
  double began = now();
  if (!run_all(&tally, began)) {
    fputs("a process broke down, or could not be started\n", stderr);
    return 2;
  }
  return print_table(&tally, now() - began) ? 0 : 1;
}
