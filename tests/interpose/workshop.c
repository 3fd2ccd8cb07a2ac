/* Building and running the programs of the tests (workshop.h). */
#include "tests/interpose/workshop.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What commands may use; see workshop_run. */
static const char variables[] = "B=$(readlink -f \"${JOIN_TEST_BUILD:-build}\")\n"
                                "W=$WORKSHOP\n"
                                "J=LD_PRELOAD=$W/double.so\n"
                                "P=LD_PRELOAD=$B/lib/libnccl-join.so\n"
                                "N=$NCCL_LIBRARY\n"
                                "L=$(dirname \"$N\")\n"
                                "export B W J P N L\n";

static char *with_variables(const char *command) {
  char *script;
  if (asprintf(&script, "%s%s", variables, command) < 0)
    abort();
  return script;
}

/* Nothing else says which tests skip themselves. */
static void tell_what_is_skipped(void) {
  if (!workshop_has_nccl())
    fputs("tests/interpose: no tests with the real NCCL: NCCL_LIBRARY names none\n", stderr);
  if (!workshop_has_product())
    fputs("tests/interpose: only the tests' double: no libnccl-join.so in the build folder\n",
          stderr);
  if (!workshop_has_aarch64())
    fputs("tests/interpose: no tests on aarch64: no aarch64-linux-gnu-gcc and qemu-aarch64 that "
          "work\n",
          stderr);
}

/* Several runs may go on at once in one build folder. The tests, in processes of their own, inherit
 * $WORKSHOP. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
  (void)tests;
  const char *build = getenv("JOIN_TEST_BUILD");
  char folder[PATH_MAX];
  char here[PATH_MAX];
  const bool found = realpath(build == NULL ? "build" : build, here) != NULL;
  snprintf(folder, sizeof folder, "%.*s/interpose-tests-XXXXXX", PATH_MAX - 32, here);
  if (found && mkdtemp(folder) != NULL && setenv("WORKSHOP", folder, 1) == 0) {
    char *script = with_variables("exec tests/interpose/parts/build.sh \"$W\"");
    int status = system(script); // NOLINT(cert-env33-c): the point of it
    free(script);
    if (status == 0) {
      tell_what_is_skipped();
      return;
    }
  }
  fputs("tests/interpose: the tests' programs could not be built, see above\n", stderr);
  exit(1);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats) {
  (void)stats;
  if (system("rm -rf \"$WORKSHOP\"") != 0) // NOLINT(cert-env33-c)
    fputs("tests/interpose: the tests' programs could not be removed\n", stderr);
}

bool workshop_has_nccl(void) {
  const char *nccl = getenv("NCCL_LIBRARY");
  return nccl != NULL && access(nccl, R_OK) == 0;
}

bool workshop_has_aarch64(void) {
  return workshop_run(
             "echo 'int main(void) { return 7; }' | aarch64-linux-gnu-gcc -x c -o $W/seven - && "
             "qemu-aarch64 -L /usr/aarch64-linux-gnu $W/seven")
             .status == 7;
}

bool workshop_has_product(void) {
  return workshop_run("test -e $B/lib/libnccl-join.so").status == 0;
}

struct outcome workshop_run(const char *command) {
  struct outcome outcome = {0};
  char *script = with_variables(command);
  setenv("SCRIPT", script, 1);
  free(script);
  FILE *pipe =
      popen("exec timeout -s KILL 280 sh -c \"$SCRIPT\" 2>&1", "r"); // NOLINT(cert-env33-c)
  cr_assert_not_null(pipe);
  size_t length = fread(outcome.output, 1, sizeof outcome.output - 1, pipe);
  outcome.output[length] = '\0';
  int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

void workshop_append(char *text, size_t size, const char *more) {
  size_t length = strlen(text);
  int added = snprintf(text + length, size - length, "%s", more);
  cr_assert_lt(length + (size_t)added, size);
}

void workshop_expect(const char *command, int status, const char *output) {
  struct outcome outcome = workshop_run(command);
  cr_assert_str_eq(outcome.output, output, "%s\nsaid:\n%sinstead of:\n%s", command, outcome.output,
                   output);
  cr_assert_eq(outcome.status, status, "%s\nended with %d instead of %d", command, outcome.status,
               status);
}
