/* In front of the real NCCL, on a machine that needs no GPU: what it answers is what the program
 * gets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/workshop.h"

/* Calls that need no GPU: an id, groups, a group that was not begun, and each function without a
 * communicator. The last one ends the process in NCCL 2.23 and 2.24. */
#define CALLS                                                                                      \
  "GetVersion GetUniqueId GroupStart GroupEnd GroupEnd GroupStart GroupStart GroupEnd GroupEnd "   \
  "AllReduce Broadcast Bcast Reduce AllGather ReduceScatter Send Recv CommFinalize "               \
  "CommDestroy CommAbort CommGetAsyncError RedOpCreatePreMulSum RedOpDestroy "                     \
  "$(nm -D $N | grep -q 'ncclCommRegister$' && echo CommRegister) CommCount GroupStart AllReduce " \
  "GroupEnd GroupEnd CommInitRank CommInitRankConfig CommSplit"

/* Runs the client as described, with each preload in front, and compares. */
static void expect_the_same(const char *client) {
  if (!workshop_has_nccl())
    cr_skip("NCCL_LIBRARY names no real NCCL");
  char command[2048];
  snprintf(command, sizeof command, "env TELL=1 LD_LIBRARY_PATH=$L %s " CALLS, client);
  struct outcome bare = workshop_run(command);
  cr_assert_not_null(strstr(bare.output, "ncclGroupEnd: 5 "), "no real NCCL here?\n%s",
                     bare.output);
  cr_assert_not_null(strstr(bare.output, "ncclBcast: 4 "), "%s", bare.output);

  snprintf(command, sizeof command, "env $J QUIET=1 TELL=1 LD_LIBRARY_PATH=$L %s " CALLS, client);
  workshop_expect(command, bare.status, bare.output);

  if (!workshop_has_product())
    cr_skip("no libnccl-join.so in the build folder: only the test's double was tried");
  snprintf(command, sizeof command, "env $P TELL=1 LD_LIBRARY_PATH=$L %s " CALLS, client);
  workshop_expect(command, bare.status, bare.output);
}

Test(nccl, answers_a_linked_program_the_same) {
  expect_the_same("$W/linked");
}

Test(nccl, answers_a_plugin_the_same) {
  expect_the_same("$W/host --open $W/plugin.so");
}

Test(nccl, answers_the_same_when_switched_off) {
  expect_the_same("env NCCL_JOIN=0 $W/linked");
}

Test(nccl, calls_itself_and_is_passed_through) {
  if (!workshop_has_nccl())
    cr_skip("NCCL_LIBRARY names no real NCCL");
  workshop_expect("env $J LD_LIBRARY_PATH=$L $W/linked Bcast | grep join", 0, "join ncclBcast\n");
}
