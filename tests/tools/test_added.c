/* A collective more in core/unit/collectives.h is all that nccl-join needs to know of it: a build
 * with such a row (tests/added) wraps the function, writes it in texts, shadows it. Run from the
 * top of the repository, as `make check` does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(added, .timeout = 300);

static char said[1 << 16];

/* What a shell command says, with $B for the build folder; its status. */
static int say(const char *command) {
  const char *build = getenv("JOIN_TEST_BUILD");
  char line[1024];
  snprintf(line, sizeof line, "B='%s'; %s", build != NULL ? build : "build", command);
  FILE *output = popen(line, "r");
  cr_assert_not_null(output);
  said[fread(said, 1, sizeof said - 1, output)] = '\0';
  return pclose(output);
}

#define expect_said(text) cr_expect(strstr(said, text) != NULL, "no '%s' in:\n%s", text, said)

/* In one of the two only. */
Test(added, it_is_exported_and_nothing_else_is) {
  say("for l in $B $B/added; do nm -D --defined-only $l/lib/libnccl-join.so; done | "
      "awk '{print $3}' | sort | uniq -u");
  cr_expect_str_eq(said, "ncclTotal\n");
}

/* Rank 1 leaves after three of nine. */
Test(added, a_joined_rank_shadows_it) {
  int status = say("t=$(mktemp -d); trap 'rm -r $t' EXIT; NCCL_JOIN_TRACE=$t timeout 60 "
                   "$B/added/tools/nccl-join run --loopback -n 2 $B/added/programs/total 2>&1 && "
                   "cat $t/*");
  cr_assert_eq(status, 0, "%s", said);
  expect_said("RESULT 0 total 0 3 3\n");
  expect_said("RESULT 0 total 2 43 43\n");
  expect_said("RESULT 0 total 3 31 31\n");
  expect_said("RESULT 0 total 8 81 81\n");
  expect_said("\"event\":\"shadow\",\"index\":6,\"unit\":\"total(sum, root 0, float32, 4)");
}

/* The stand-in ends a run whose ranks are out of step. */
Test(added, without_the_row_it_goes_past_nccl_join) {
  (void)say("timeout 60 $B/tools/nccl-join run --loopback -n 2 "
            "env LD_LIBRARY_PATH=$B/added/loopback $B/added/programs/total 2>&1");
  cr_expect(strstr(said, "loopback NCCL: MISMATCH on communicator") != NULL, "%s", said);
  cr_expect_null(strstr(said, "RESULT 0 total 8"), "%s", said);
}
