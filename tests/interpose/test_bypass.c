/* What is said of calls that go past us (bypass.h). */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/interpose/workshop.h"

#define UNSEEN "NCCL-JOIN WARN libnccl.so is loaded, but no call of it came by nccl-join"

static void expect_said(const char *command, int times, const char *what) {
  struct outcome outcome = workshop_run(command);
  int said = 0;
  for (const char *at = outcome.output; (at = strstr(at, what)) != NULL; at++)
    said++;
  cr_assert_eq(said, times, "%s\nsaid %d times, not %d: %s\n%s", command, said, times, what,
               outcome.output);
}

Test(bypass, an_nccl_that_is_loaded_and_never_called_is_said_at_the_end) {
  expect_said("env $J $W/linked", 1, UNSEEN);
  expect_said("env $J $W/host --load $W/fake/libnccl.so.2", 1, UNSEEN);
  expect_said("env $J $W/doors exit 3 none", 1, UNSEEN);
  expect_said("env $J $W/doors quick_exit 3 none", 1, UNSEEN);
  expect_said("env $J $W/doors two_threads 0 none", 1, UNSEEN);
}

Test(bypass, one_call_is_enough) {
  expect_said("env $J $W/linked GroupStart", 0, "NCCL-JOIN");
}

Test(bypass, without_nccl_nothing_is_said) {
  expect_said("env $J $W/host --open $W/libbehind.so", 0, "NCCL-JOIN");
}

Test(bypass, nothing_is_said_where_that_is_not_wanted) {
  expect_said("env NCCL_JOIN=0 $J $W/linked", 0, "NCCL-JOIN");
  expect_said("env NCCL_JOIN_DEBUG=ERROR $J $W/linked", 0, "NCCL-JOIN");
  expect_said("env NCCL_JOIN_DEBUG=nonsense $J $W/linked", 0, "NCCL-JOIN");
}

Test(bypass, the_log_file_gets_the_line) {
  expect_said("rm -f $W/log; env NCCL_JOIN_DEBUG_FILE=$W/log $J $W/linked; cat $W/log", 1, UNSEEN);
}
