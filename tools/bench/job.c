/* Starting ranks (job.h). */
#include "tools/bench/job.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_SECONDS 120
#define PROCESSORS_MAX 256

static int area_fd;

static _Noreturn void fail(const char *what, long number) {
  fprintf(stderr, "benchmark: %s (%ld)\n", what, number);
  exit(1);
}

struct area *job_area(void) {
  struct area *area = area_create(&area_fd);
  if (area == NULL)
    fail("no shared memory", area_fd);
  return area;
}

struct job job_alike(const char *scenario, uint32_t nranks, struct rank_setup setup) {
  struct job job = {.scenario = scenario, .nranks = nranks};
  for (uint32_t rank = 0; rank < nranks; rank++)
    job.setup[rank] = setup;
  return job;
}

/* ---- a rank ---- */

static void set_number(const char *name, long number) {
  char text[32];
  snprintf(text, sizeof text, "%ld", number);
  setenv(name, text, 1);
}

static void set_environment(const struct rank_setup *setup, uint32_t rank) {
  const char *build = getenv("BENCH_BUILD");
  char path[3 * PATH_MAX];
  set_number(AREA_VARIABLE, area_fd);
  set_number(AREA_RANK_VARIABLE, rank);
  snprintf(path, sizeof path, "%s/%s:%s/loopback", build, setup->nccl, build);
  setenv("LD_LIBRARY_PATH", path, 1);
  if (setup->preload != NULL) {
    bool two = setup->preload_too != NULL;
    snprintf(path, sizeof path, "%s/%s%s%s%s%s", build, setup->preload, two ? ":" : "",
             two ? build : "", two ? "/" : "", two ? setup->preload_too : "");
    setenv("LD_PRELOAD", path, 1);
  }
  setenv("NCCL_JOIN_SKEW_WARN", "0", 1); /* they are uneven on purpose */
  setenv("NCCL_JOIN_REPORT", "off", 1);
  if (setup->off)
    setenv("NCCL_JOIN", "0", 1);
  if (setup->setting[0] != NULL)
    setenv(setup->setting[0], setup->setting[1], 1);
}

uint32_t job_processors(void) {
  cpu_set_t usable;
  return sched_getaffinity(0, sizeof usable, &usable) == 0 ? (uint32_t)CPU_COUNT(&usable) : 1;
}

/* On the n-th processor that this process may use, beginning again where there are fewer. */
static void pin(uint32_t n) {
  cpu_set_t usable, one;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0)
    return;
  n %= job_processors();
  int processor = -1;
  for (uint32_t passed = 0; passed <= n; passed += CPU_ISSET(processor, &usable) != 0)
    processor++;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  sched_setaffinity(0, sizeof one, &one);
}

static _Noreturn void become_rank(const struct job *job, uint32_t rank) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(LIMIT_SECONDS);
  set_environment(&job->setup[rank], rank);
  if (job->pinned)
    pin(rank);
  if (job->steps != NULL && rank == 0)
    steps_allow();
  execl("/proc/self/exe", "rank", job->scenario, (char *)NULL);
  _exit(127);
}

/* ---- ranks on machines of their own ---- */

static const char machine_word[] = "machine";

static _Noreturn void start_machines(const struct job *job) {
  char starter[PATH_MAX], counts[2 * AREA_RANKS + 1] = "", self[PATH_MAX] = "";
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  set_number(AREA_VARIABLE, area_fd);
  snprintf(starter, sizeof starter, "%s/machines/start", getenv("BENCH_BUILD"));
  for (size_t rank = 0; rank < job->nranks; rank++) {
    counts[2 * rank] = '1';
    counts[2 * rank + 1] = rank + 1 < job->nranks ? ',' : '\0';
  }
  if (readlink("/proc/self/exe", self, sizeof self - 1) > 0)
    execl(starter, "start", counts, self, machine_word, job->scenario, (char *)NULL);
  perror(starter);
  _exit(127);
}

void job_enter_machine(int argc, char **argv, const struct rank_setup *setup) {
  const char *fd = getenv(AREA_VARIABLE), *rank = getenv("RANK");
  if (argc != 3 || strcmp(argv[1], machine_word) != 0 || fd == NULL || rank == NULL)
    return;
  area_fd = (int)strtol(fd, NULL, 10);
  struct job job = job_alike(argv[2], AREA_RANKS, *setup);
  become_rank(&job, (uint32_t)strtoul(rank, NULL, 10) % AREA_RANKS);
}

/* ---- the job ---- */

static void check(const struct job *job, int status, uint32_t rank) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    fprintf(stderr, "benchmark: %s: rank %u did not end within %d s\n", job->scenario, rank,
            LIMIT_SECONDS);
  else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fprintf(stderr, "benchmark: %s: rank %u ended with %s %d\n", job->scenario, rank,
            WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

void job_run(const struct job *job, struct area *area) {
  if (getenv("BENCH_BUILD") == NULL) { /* nothing would be preloaded, and that be measured */
    fputs("benchmark: BENCH_BUILD is not set: run me with make bench\n", stderr);
    exit(1);
  }
  area_clear(area);
  area->nranks = job->nranks;
  area->counted = job->steps != NULL;
  pid_t ranks[AREA_RANKS];
  uint32_t processes = job->on_machines ? 1 : job->nranks;
  for (uint32_t rank = 0; rank < processes; rank++) {
    fflush(stdout);
    ranks[rank] = fork();
    if (ranks[rank] == 0 && job->on_machines)
      start_machines(job);
    if (ranks[rank] == 0)
      become_rank(job, rank);
    if (ranks[rank] < 0)
      fail("cannot fork for rank", rank);
  }
  bool failed = false;
  for (uint32_t rank = 0; rank < processes; rank++) {
    int status = -1;
    if (rank == 0 && job->steps != NULL)
      status = steps_take(ranks[rank], &area->watched, job->steps);
    else
      waitpid(ranks[rank], &status, 0);
    check(job, status, rank);
    failed |= status != 0;
  }
  if (failed)
    fail("what follows has not been measured; ranks of the job that failed", job->nranks);
}

/* ---- load ---- */

static pid_t loads[PROCESSORS_MAX];
static int nloads;

void job_load_begin(void) {
  nloads = get_nprocs() < PROCESSORS_MAX ? get_nprocs() : PROCESSORS_MAX;
  for (int i = 0; i < nloads; i++)
    if ((loads[i] = fork()) == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      alarm(LIMIT_SECONDS);
      for (volatile unsigned n = 0;; n++) {
      }
    }
}

void job_load_end(void) {
  for (int i = 0; i < nloads; i++) {
    if (loads[i] <= 0)
      continue;
    kill(loads[i], SIGKILL);
    waitpid(loads[i], NULL, 0);
  }
  nloads = 0;
}
