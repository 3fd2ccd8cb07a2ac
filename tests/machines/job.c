/* Running a program on several machines of namespaces (job.h). */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NO_MACHINES = 69 }; /* start.c */

struct machines {
  struct running *running;
  char orders[64]; /* a FIFO, in a folder of its own */
};

static void write_starter(char *text, size_t size, const char *orders, const char *machines) {
  snprintf(text, size, "%s/machines/start %s%s %s", run_build_folder(),
           orders != NULL ? "--orders " : "", orders != NULL ? orders : "", machines);
}

bool machines_can_be_made(void) {
  char starter[256], command[300], agent[256];
  write_starter(starter, sizeof starter, NULL, "1,1");
  snprintf(command, sizeof command, "%s true", starter);
  snprintf(agent, sizeof agent, "%s/lib/nccl-join-agent", run_build_folder());
  if (access(agent, X_OK) != 0) {
    fprintf(stderr,
            "tests/machines: not run, there is no %s: libzmq3-dev or libsodium-dev is "
            "missing\n",
            agent);
    return false;
  }
  int status = system(command); /* NOLINT(cert-env33-c) */
  return !WIFEXITED(status) || WEXITSTATUS(status) != NO_MACHINES;
}

static struct running *begin(const struct machines_job *job, const char *orders) {
  char starter[256], environment[512];
  write_starter(starter, sizeof starter, orders, job->machines);
  if (job->launcher != NULL)
    snprintf(starter + strlen(starter), sizeof starter - strlen(starter), " %s", job->launcher);
  snprintf(environment, sizeof environment, "%sNCCL_JOIN_MACHINES_WAIT=60 %s",
           job->off ? "NCCL_JOIN_MACHINES=0 " : "",
           job->environment != NULL ? job->environment : "");
  if (job->prepare != NULL)
    setenv("MACHINES_PREPARE", job->prepare, 1); /* of this test's process */
  return run_start(&(struct launch){.program = job->program,
                                    .options = job->options,
                                    .environment = environment,
                                    .starter = starter,
                                    .without = job->without ? RUN_ALL_RANKS : 0,
                                    .limit_s = job->limit_s});
}

struct run *machines_run(const struct machines_job *job) {
  return run_finish(begin(job, NULL));
}

struct machines *machines_begin(const struct machines_job *job) {
  struct machines *machines = calloc(1, sizeof *machines);
  snprintf(machines->orders, sizeof machines->orders, "/tmp/nccl-join-orders-XXXXXX");
  cr_assert_not_null(mkdtemp(machines->orders));
  strcat(machines->orders, "/fifo");
  cr_assert_eq(mkfifo(machines->orders, 0600), 0);
  machines->running = begin(job, machines->orders);
  return machines;
}

void machines_await(struct machines *machines, const char *said) {
  enum { LOOKS = 6000 };
  bool there = false;
  for (int look = 0; look < LOOKS && !there; look++) {
    if (!run_goes_on(machines->running, 0.01))
      break;
    there = run_has_said(machines->running, said);
  }
  if (there)
    return;
  struct run *result = machines_finish(machines);
  cr_assert(false, "nobody says %s:\n%s%s", said, result->output, result->errors);
}

bool machines_say(const struct machines *machines, const char *text) {
  return run_has_said(machines->running, text);
}

void machines_let(struct machines *machines, double seconds) {
  const double look_s = 0.05;
  for (; seconds > 0 && run_goes_on(machines->running, look_s); seconds -= look_s)
    ;
}

/* Nobody reads orders before the run has begun, or any more when it has ended. */
void machines_order(struct machines *machines, const char *order) {
  int file;
  do
    file = open(machines->orders, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  while (file < 0 && errno == ENXIO && run_goes_on(machines->running, 0.01));
  if (file < 0)
    return;
  dprintf(file, "%s\n", order);
  close(file);
}

double machines_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct run *machines_finish(struct machines *machines) {
  struct run *result = run_finish(machines->running);
  (void)unlink(machines->orders);
  *strrchr(machines->orders, '/') = '\0';
  (void)rmdir(machines->orders);
  free(machines);
  return result;
}

const char *job_options(const struct schedule *schedule) {
  static char options[1024];
  snprintf(options, sizeof options, "--iterations %s --count 16", schedule_text(schedule));
  return options;
}

void job_finish_right(struct run *result, const struct schedule *schedule) {
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, schedule, 1);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}
