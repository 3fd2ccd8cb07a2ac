/* make sim: random programs through the agreed sequences, on all processors, as many as wanted.
 *
 *   sim [--programs N] [--first N] [--jobs N] [--only TEXT] [--table FILE] [--machines N]
 *       runs the N-th program and those after it; ends with tables. only: rows whose names have
 *       this text in them. FILE gets all that was counted, tab separated, a line a row
 *   sim --seed N [--trace] [--throws] [--shrink MEASURE] [--machines N]
 *       runs one, and prints it. trace: what every rank does, too; throws: with early termination;
 *       shrink: makes it smaller first, as long as it shows what is counted under this name in FILE
 *
 * Exit status 0 if everything was as it must be, 1 if not or if it was interrupted (the tables are
 * of what has been run by then), 2 if it could not be run.
 */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/simulation/report.h"
#include "tests/simulation/shrink.h"

#define FAILURES_SHOWN 20u /* of each process */
#define JOBS_MAX 256u

static struct {
  uint64_t programs, first, jobs, machines;
  bool one, throws, trace;
  const char *only, *table, *shrink;
} options = {.programs = 1000000, .machines = 1, .only = ""};

static int usage(void) {
  fputs("usage: sim [--programs N] [--first N] [--jobs N] [--only TEXT] [--table FILE]\n"
        "       sim --seed N [--trace] [--throws] [--shrink MEASURE]\n"
        "       --machines N: the ranks are spread over so many\n",
        stderr);
  return 2;
}

static bool read_number(const char *name, const char *text) {
  char *end;
  uint64_t value = strtoull(text, &end, 10);
  if (*end != '\0' || end == text)
    return false;
  if (strcmp(name, "--programs") == 0)
    options.programs = value;
  else if (strcmp(name, "--first") == 0)
    options.first = value;
  else if (strcmp(name, "--jobs") == 0)
    options.jobs = value;
  else if (strcmp(name, "--machines") == 0)
    options.machines = value;
  else if (strcmp(name, "--seed") == 0)
    options.one = true, options.first = value;
  else
    return false;
  return true;
}

static bool read_value(const char *name, const char *text) {
  if (strcmp(name, "--only") == 0)
    options.only = text;
  else if (strcmp(name, "--table") == 0)
    options.table = text;
  else if (strcmp(name, "--shrink") == 0)
    options.shrink = text;
  else
    return read_number(name, text);
  return true;
}

static bool read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--trace") == 0)
      options.trace = true;
    else if (strcmp(argv[i], "--throws") == 0)
      options.throws = true;
    else if (i + 1 == argc || !read_value(argv[i], argv[i + 1]))
      return false;
    else
      i++;
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

static bool shrink(struct program *program, uint64_t seed) {
  for (uint32_t i = 0; i < MEASURES; i++)
    if (strcmp(options.shrink, measures[i]) == 0) {
      program_shrink(program, seed, (enum measure)i);
      return true;
    }
  fprintf(stderr, "nothing is counted as %s\n", options.shrink);
  return false;
}

static int run_one(uint64_t seed) {
  static struct program program;
  static struct tally_row row;
  program_random(&program, seed);
  program.throws = options.throws;
  if (options.shrink != NULL && !shrink(&program, seed))
    return 2;
  printf("seed %llu: ", (unsigned long long)seed);
  program_print(&program);
  if (options.trace || options.throws) {
    struct layout layout = layout_random(&program, (uint32_t)options.machines, seed);
    struct simulation result = simulate_on(&program, &layout, seed, options.trace);
    if (options.throws) {
      printf("%s\n", result.stopped ? "stopped" : "not stopped");
      return result.mismatch || result.deadlock;
    }
  }
  const char *wrong = run_this(&program, seed, &row);
  printf("%s\n", wrong ? wrong : "nothing broke");
  for (uint32_t i = 0; i < MEASURES; i++)
    printf("%s%s %llu", i ? ", " : "", measures[i], (unsigned long long)row.count[i]);
  printf("\n");
  return wrong != NULL;
}

/* ---- many ---- */

/* The rows asked for. */
static uint32_t nselected, selected[ROWS];

static void select_rows(void) {
  char name[ROW_NAME_SIZE];
  for (uint32_t i = 0; i < ROWS; i++)
    if (strstr(row_name(row_of(i), name), options.only) != NULL)
      selected[nselected++] = i;
}

/* In memory that the parent and its workers share. */
struct report {
  _Atomic uint64_t programs;
  struct tally tally;
};

static void work(uint64_t job, struct report *report) {
  mallopt(M_TRIM_THRESHOLD, 1 << 30); /* each program takes what the one before has given back */
  uint64_t shown = 0, end = options.first + options.programs;
  for (uint64_t i = options.first + job; i < end; i += options.jobs) {
    uint64_t seed = i / nselected * ROWS + selected[i % nselected];
    const char *wrong = run_program(seed, &report->tally);
    if (wrong != NULL && shown++ < FAILURES_SHOWN)
      fprintf(stderr, "\nseed %llu: %s\n", (unsigned long long)seed, wrong);
    report->programs++;
  }
  _exit(0);
}

static uint64_t programs_of(const struct report *reports) {
  uint64_t programs = 0;
  for (uint64_t job = 0; job < options.jobs; job++)
    programs += reports[job].programs;
  return programs;
}

/* Until all workers have ended, or we are interrupted. Whether all have ended well. */
static bool wait_for_workers(const struct report *reports, uint64_t njobs, double began) {
  bool well = true;
  while (njobs > 0 && !interrupted) {
    int status;
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    while (njobs > 0 && waitpid(-1, &status, WNOHANG) > 0) {
      well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
      njobs--;
    }
    if (isatty(STDERR_FILENO) || njobs == 0)
      fprintf(stderr, "\r%llu of %llu programs, %.0f s ", (unsigned long long)programs_of(reports),
              (unsigned long long)options.programs, now() - began);
  }
  fputc('\n', stderr);
  return well;
}

/* Starts the workers and waits for them; false if one could not be started or broke down. */
static bool run_all(struct report *reports, double began) {
  pid_t children[JOBS_MAX];
  uint64_t njobs = 0;
  while (njobs < options.jobs && (children[njobs] = fork()) > 0)
    njobs++;
  if (njobs < options.jobs && children[njobs] == 0)
    work(njobs, &reports[njobs]);
  sigaction(SIGINT, &(struct sigaction){.sa_handler = interrupt}, NULL);
  sigaction(SIGTERM, &(struct sigaction){.sa_handler = interrupt}, NULL);
  bool well = wait_for_workers(reports, njobs, began) && njobs == options.jobs;
  for (uint64_t job = 0; interrupted && job < njobs; job++)
    kill(children[job], SIGKILL);
  while (interrupted && wait(NULL) > 0)
    ;
  return well;
}

static bool write_table(const struct tally *tally) {
  FILE *file = fopen(options.table, "w");
  if (file == NULL) {
    perror(options.table);
    return false;
  }
  report_rows(file, tally);
  return fclose(file) == 0;
}

int main(int argc, char **argv) {
  static struct tally tally;
  if (!read_options(argc, argv))
    return usage();
  run_on_machines((uint32_t)options.machines);
  if (options.one)
    return run_one(options.first);
  select_rows();
  size_t size = options.jobs * sizeof(struct report);
  struct report *reports =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (nselected == 0 || reports == MAP_FAILED) {
    fputs("no such rows, or no memory\n", stderr);
    return 2;
  }
  double began = now();
  if (!run_all(reports, began)) {
    fputs("a process broke down, or could not be started\n", stderr);
    return 2;
  }
  for (uint64_t job = 0; job < options.jobs; job++)
    tally_add(&tally, &reports[job].tally);
  if (options.table != NULL && !write_table(&tally))
    return 2;
  report_classes(stdout, &tally);
  bool met = report_requirements(stdout, &tally);
  printf("%llu programs in %.0f s\n", (unsigned long long)programs_of(reports), now() - began);
  return met && !interrupted ? 0 : 1;
}
