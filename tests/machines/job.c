/* Running a program on several machines of namespaces (job.h). */
#include "tests/machines/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

enum { NO_MACHINES = 69 }; /* start.c */

static void write_starter(char *text, size_t size, const char *machines) {
  snprintf(text, size, "%s/machines/start %s", run_build_folder(), machines);
}

bool machines_can_be_made(void) {
  char starter[256], command[300];
  write_starter(starter, sizeof starter, "1,1");
  snprintf(command, sizeof command, "%s true", starter);
  int status = system(command); /* NOLINT(cert-env33-c) */
  return !WIFEXITED(status) || WEXITSTATUS(status) != NO_MACHINES;
}

struct run *machines_run(const struct machines_job *job) {
  char starter[256];
  write_starter(starter, sizeof starter, job->machines);
  return run(&(struct launch){.program = job->program,
                              .options = job->options,
                              .environment = job->environment,
                              .starter = starter,
                              .without = job->without ? RUN_ALL_RANKS : 0,
                              .limit_s = job->limit_s});
}
