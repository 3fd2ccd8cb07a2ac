/* Building and running the programs of the tests (workshop.h). */
#include "tests/interpose/workshop.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *workshop_build(void) {
  const char *build = getenv("NCCL_JOIN_BUILD");
  return build == NULL ? "build" : build;
}

const char *workshop_nccl(void) {
  const char *nccl = getenv("NCCL_LIBRARY");
  return nccl == NULL || access(nccl, R_OK) != 0 ? NULL : nccl;
}

bool workshop_has_product(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s/lib/libnccl-join.so", workshop_build());
  return access(path, R_OK) == 0;
}

static const char variables[] =
    "B=$(readlink -f \"${NCCL_JOIN_BUILD:-build}\"); W=$B/tests/interpose/workshop;"
    "J=\"LD_PRELOAD=$W/double.so\"; P=\"LD_PRELOAD=$B/lib/libnccl-join.so\";"
    "N=$NCCL_LIBRARY; L=$(dirname \"$N\");";

static const char recipe[] =
    "set -e; rm -rf $W; mkdir -p $W/fake $W/old $W/other;"
    "include() { sed -n \"s/^$1 = //p\" .deps/paths.mk; };"
    "parts=tests/interpose/parts;"
    "cc=\"${CC:-gcc} -std=c17 -D_GNU_SOURCE -Wall -Wextra -Wno-unused-parameter -O2 -g -fPIC -pthread -I.\";"
    "cc=\"$cc -isystem $(include NCCL_INCLUDE) -isystem $(include CUDA13_INCLUDE)\";"
    "shared=\"$cc -shared -fvisibility=hidden -ftls-model=initial-exec\";"
    /* The object under test. */
    "$cc -E -P -x c -o $W/exports.map interpose/exports.map.in;"
    "$shared -Wl,--version-script=$W/exports.map -Wl,-z,now,-z,nodelete -o $W/double.so $parts/double.c"
    " interpose/wrappers.c interpose/guard.c interpose/real.c interpose/process.c core/settings.c core/log.c &"
    /* NCCLs. */
    "fake=\"$shared $parts/fake_nccl.c -Wl,-soname,libnccl.so.2\";"
    "$fake -o $W/fake/libnccl.so.2;"
    "(echo '{ global: nccl*; pnccl*; local: *;'; for f in AlltoAll Gather Scatter GroupSimulateEnd"
    " CommInitRankScalable CommShrink CommGrow CommRevoke CommRegister CommWindowRegister CommSuspend CommResume"
    " DevCommCreate PutSignal Signal WaitSignal; do echo \"nccl$f; pnccl$f;\"; done; echo '};') > $W/old.map;"
    "$fake -DVERSION=21805 -Wl,--version-script=$W/old.map -o $W/old/libnccl.so.2 &"
    "$shared $parts/fake_nccl.c -DPART='\"other\"' -DVERSION=22304 -Wl,-soname,libother.so -o $W/other/libother.so;"
    "$shared -o $W/profiler.so $parts/profiler.c &"
    /* Programs. */
    "by_name=\"-L$W/fake -l:libnccl.so.2 -Wl,--enable-new-dtags,-rpath,$W/fake\";"
    "$cc -o $W/linked $parts/host.c $parts/client.c $by_name -Wl,-z,lazy &"
    "$cc -o $W/now $parts/host.c $parts/client.c $by_name -Wl,-z,now &"
    "$cc -o $W/host $parts/host.c -Wl,-z,lazy &"
    "$shared -o $W/plugin.so $parts/client.c $by_name -Wl,-z,lazy &"
    "$shared -o $W/other_plugin.so $parts/client.c -L$W/other -l:libother.so -Wl,-rpath,$W/other &"
    "$cc -o $W/doors $parts/doors.c $by_name -Wl,-z,lazy &"
    "$cc -o $W/arguments $parts/arguments.c -rdynamic &"
    "$cc -o $W/arguments_fixed $parts/arguments.c -rdynamic -no-pie -fno-pie &"
    "wait; for f in double.so old/libnccl.so.2 profiler.so linked now host plugin.so other_plugin.so doors"
    " arguments arguments_fixed; do test -e $W/$f; done";

static char *script(const char *limit, const char *command) {
  char *text;
  if (asprintf(&text, "%s export B W J P N L; exec 2>&1; %s", variables, command) < 0)
    abort();
  (void)limit;
  return text;
}

ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
  (void)tests;
  char *text = script("", recipe);
  int status = system(text);
  free(text);
  if (status != 0) {
    fputs("tests/interpose: the programs of the tests could not be built, see above\n", stderr);
    exit(1);
  }
}

struct outcome workshop_run(const char *command) {
  struct outcome outcome = {0};
  char *text = script("", command);
  FILE *pipe = popen(text, "r");
  free(text);
  cr_assert_not_null(pipe);
  size_t length = fread(outcome.output, 1, sizeof outcome.output - 1, pipe);
  outcome.output[length] = '\0';
  int status = pclose(pipe);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

void workshop_expect(const char *command, int status, const char *output) {
  struct outcome outcome = workshop_run(command);
  cr_assert_str_eq(outcome.output, output, "%s\nsaid:\n%sinstead of:\n%s", command, outcome.output, output);
  cr_assert_eq(outcome.status, status, "%s ended with %d instead of %d", command, outcome.status, status);
}
