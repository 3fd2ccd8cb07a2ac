/* Clients and commands (client.h). */
#include "tests/clients/client.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/place.h"

static const char limit_s[] = "400";
static const char page[] = "docs/clients.md";

/* ---- what there is ---- */

/* Why a client is missing, in one line; false if it is not. */
static bool is_missing(const char *name, char *reason, size_t size) {
  char path[PATH_MAX];
  if (strcmp(name, "mpirun") == 0) {
    snprintf(reason, size, "Open MPI (Debian: openmpi-bin) is not installed");
    return system("command -v mpirun >/dev/null") != 0; // NOLINT(cert-env33-c)
  }
  snprintf(path, sizeof path, "%s/%s.installed", getenv("CLIENTS"), name);
  if (access(path, R_OK) == 0)
    return false;
  snprintf(path, sizeof path, "%s/%s.missing", getenv("CLIENTS"), name);
  FILE *file = fopen(path, "r");
  if (file == NULL || fgets(reason, (int)size, file) == NULL)
    snprintf(reason, size, "tests/clients/install has not been run");
  if (file != NULL)
    fclose(file);
  reason[strcspn(reason, "\n")] = '\0';
  return true;
}

/* Nothing else says which tests skip themselves. */
ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
  static const char *const all[] = {"torch", "cupy", "nccl4py", "vllm-needs", "vllm", "mpirun"};
  char reason[1024];
  int missing = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (is_missing(all[i], reason, sizeof reason)) {
      fprintf(stderr, "could not be had: %s: %s\n", all[i], reason);
      missing++;
    }
  if (missing > 0)
    fprintf(stderr, "tests/clients: %zu skipped\n", stats->tests_skipped);
}

static void set_in_folder(const char *name, const char *folder, const char *rest) {
  char text[PATH_MAX + 64];
  snprintf(text, sizeof text, "%s%s", folder, rest);
  setenv(name, text, 1);
}

static void set_variables(void) {
  char build[PATH_MAX];
  cr_assert(realpath(run_build_folder(), build) != NULL, "%s", strerror(errno));
  const char *clients = getenv("CLIENTS");
  setenv("B", build, 1);
  set_in_folder("P", build, "/lib/libnccl-join.so");
  set_in_folder("R", build, "/tools/nccl-join run");
  set_in_folder("PY", clients, "/python/bin/python");
  set_in_folder("BIN", clients, "/python/bin");
  set_in_folder("PYTHONPYCACHEPREFIX", clients, "/compiled");
  setenv("C", "tests/clients", 1);
  setenv("MPIRUN", "mpirun --oversubscribe --bind-to none --mca orte_tmpdir_base /dev/shm", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  setenv("OMP_NUM_THREADS", "1", 1); /* or torchrun says that it sets it */
  setenv("LC_ALL", "C.UTF-8", 1);
}

void client_begin(const char *names) {
  cr_assert(getenv("CLIENTS") != NULL, "CLIENTS is not set: run make check-clients");
  char *list = strdup(names), *rest = list, reason[1024];
  for (char *name; (name = strsep(&rest, " ")) != NULL;)
    if (*name != '\0' && is_missing(name, reason, sizeof reason))
      place_skip("%s: %s", name, reason);
  free(list);
  set_variables();
  place_try();
}

void client_end(void) {
  cr_assert(place_segments() == 0, "it has left segments in /dev/shm");
}

/* ---- commands ---- */

static _Noreturn void become(const char *command, int output, int errors) {
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  execlp("timeout", "timeout", "-k", "5", limit_s, "sh", "-c", command, (char *)NULL);
  _exit(127);
}

/* To the end: of the file, or of all who write to the pipe. */
static char *read_all(int file) {
  size_t length = 0, room = 1;
  char *text = malloc(room);
  for (ssize_t n = 1; n > 0; length += (size_t)n) {
    room = length + 65536;
    text = realloc(text, room);
    n = read(file, text + length, room - length - 1);
    cr_assert(n >= 0, "%s", strerror(errno));
  }
  text[length] = '\0';
  close(file);
  return text;
}

struct run *client_run(const char *command) {
  int output[2], errors = memfd_create("errors", MFD_CLOEXEC);
  cr_assert(errors >= 0 && pipe2(output, O_CLOEXEC) == 0, "%s", strerror(errno));
  pid_t pid = fork();
  cr_assert(pid >= 0, "%s", strerror(errno));
  if (pid == 0)
    become(command, output[1], errors);
  close(output[1]);
  struct run *run = calloc(1, sizeof *run);
  run->output = read_all(output[0]);
  int status;
  waitpid(pid, &status, 0);
  run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  run->timed_out = run->status == 124 || run->status == 137;
  lseek(errors, 0, SEEK_SET);
  run->errors = read_all(errors);
  return run;
}

/* ---- the page ---- */

void client_assert_on_page(const struct run *run) {
  int file = open(page, O_RDONLY | O_CLOEXEC);
  cr_assert(file >= 0, "%s: %s", page, strerror(errno));
  char *text = read_all(file);
  char *line = strndup(run->output, strcspn(run->output, "\n"));
  cr_assert(strstr(text, line) != NULL, "%s does not have: %s", page, line);
  free(line);
  free(text);
}
