/* What is said of calls that go past us (bypass.h). */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/interpose/workshop.h"

#define UNSEEN                                                                                     \
  "NCCL-JOIN WARN libnccl.so is loaded and CUDA in use, but no call of NCCL came by nccl-join"

/* With a driver that says of itself what CUDA names (parts/fake_cuda.c). */
#define DRIVER(state) "env LD_PRELOAD=\"$W/double.so $W/driver/libcuda.so.1\" CUDA=" state " "

static void expect_said(const char *command, int times, const char *what) {
  struct outcome outcome = workshop_run(command);
  int said = 0;
  for (const char *at = outcome.output; (at = strstr(at, what)) != NULL; at++)
    said++;
  cr_assert_eq(said, times, "%s\nsaid %d times, not %d: %s\n%s", command, said, times, what,
               outcome.output);
}

Test(bypass, an_nccl_that_is_never_called_is_said_at_the_end_of_a_process_that_uses_cuda) {
  expect_said(DRIVER("primary") "$W/linked", 1, UNSEEN);
  expect_said(DRIVER("current") "$W/linked", 1, UNSEEN);
  expect_said(DRIVER("primary") "$W/host --load $W/fake/libnccl.so.2", 1, UNSEEN);
  expect_said(DRIVER("primary") "$W/endings exit 3 none", 1, UNSEEN);
  expect_said(DRIVER("primary") "$W/endings quick_exit 3 none", 1, UNSEEN);
  expect_said(DRIVER("primary") "$W/endings two_threads 0 none", 1, UNSEEN);
}

Test(bypass, without_a_cuda_context_nothing_is_said) {
  expect_said("env $J $W/linked", 0, "NCCL-JOIN");
  expect_said("env $J $W/host --load $W/fake/libnccl.so.2", 0, "NCCL-JOIN");
  expect_said(DRIVER("uninitialised") "$W/linked", 0, "NCCL-JOIN");
  expect_said(DRIVER("initialised") "$W/linked", 0, "NCCL-JOIN");
  expect_said(DRIVER("uninitialised") "$W/linked", 0, "driver: initialised");
}

Test(bypass, the_driver_is_not_loaded_for_it) {
  expect_said("env $J LD_LIBRARY_PATH=$W/driver CUDA=primary $W/linked", 0, "driver: asked");
  expect_said(DRIVER("primary") "$W/linked", 1, "driver: asked");
}

Test(bypass, an_nccl_that_would_have_told_its_profiler_plugin_is_trusted) {
#define PLUGIN "NCCL_PROFILER_PLUGIN=$W/double.so "
  expect_said(DRIVER("primary") PLUGIN "$W/linked", 0, "NCCL-JOIN");
  expect_said(DRIVER("primary") "NCCL_PROFILER_PLUGIN=/another.so $W/linked", 1, UNSEEN);
  expect_said(DRIVER("primary") PLUGIN "$W/host --load $W/old/libnccl.so.2", 1, UNSEEN);
  expect_said(DRIVER("primary") PLUGIN
              "$W/host --load $W/old/libnccl.so.2 --load $W/fake/libnccl.so.2",
              1, UNSEEN);
}

Test(bypass, one_call_is_enough) {
  expect_said(DRIVER("primary") "$W/linked GroupStart", 0, "NCCL-JOIN");
}

Test(bypass, without_nccl_nothing_is_said) {
  expect_said(DRIVER("primary") "$W/host --open $W/libbehind.so", 0, "NCCL-JOIN");
}

Test(bypass, nothing_is_said_where_that_is_not_wanted) {
  expect_said(DRIVER("primary") "NCCL_JOIN=0 $W/linked", 0, "NCCL-JOIN");
  expect_said(DRIVER("primary") "NCCL_JOIN_DEBUG=ERROR $W/linked", 0, "NCCL-JOIN");
  expect_said(DRIVER("primary") "NCCL_JOIN_DEBUG=nonsense $W/linked", 0, "NCCL-JOIN");
}

Test(bypass, the_log_file_gets_the_line) {
  expect_said(
      "rm -f $W/log; " DRIVER("primary") "NCCL_JOIN_DEBUG_FILE=$W/log $W/linked; cat $W/log", 1,
      UNSEEN);
}

/* One rank of a program in build/programs, with this library as profiler plug-in alone. */
#define RANK_0 "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "
#define PLUGIN_ALONE                                                                               \
  RANK_0 "LD_LIBRARY_PATH=$B/loopback NCCL_PROFILER_PLUGIN=$B/lib/libnccl-join.so "
#define BYPASS                                                                                     \
  "NCCL-JOIN WARN join is off: this process makes NCCL communicators that bypass nccl-join"

Test(bypass, communicators_of_a_program_without_the_preload_are_said_once) {
  if (!workshop_has_product() || workshop_run("test -e $B/programs/sum").status != 0)
    cr_skip("no libnccl-join.so or no programs in the build folder");
  expect_said("env " PLUGIN_ALONE "$B/programs/sum --iterations 1 --communicators 3", 1, BYPASS);
  expect_said("env " PLUGIN_ALONE "$B/programs/sum --iterations 1", 1, "RESULT 0 sum 0 0 0 1 1");
  expect_said("env NCCL_JOIN=0 " PLUGIN_ALONE "$B/programs/sum --iterations 1", 0, "NCCL-JOIN");
  expect_said("env $P " PLUGIN_ALONE "$B/programs/sum --iterations 1 --communicators 3", 0,
              "NCCL-JOIN");
}

/* With the preload alone, as a user sets it. */
Test(bypass, a_program_with_an_nccl_inside_is_told_at_its_end_if_another_is_loaded) {
  if (!workshop_has_product() || workshop_run("test -e $B/loopback/libnccl.so.2").status != 0)
    cr_skip("no libnccl-join.so or no loopback in the build folder");
  struct outcome built = workshop_run("tests/interpose/parts/reach.sh $W/reach -O1");
  cr_assert_eq(built.status, 0, "%s", built.output);
#define BOTH                                                                                       \
  "LD_LIBRARY_PATH=$B/loopback LD_PRELOAD=\"$B/lib/libnccl-join.so $B/loopback/libnccl.so.2\" "
  expect_said("env " BOTH "$W/reach/host plugin $W/reach/hidden.so", 1, UNSEEN);
  expect_said("env " BOTH "$W/reach/host plugin $W/reach/exported.so", 0, "NCCL-JOIN");
  expect_said("env NCCL_PROFILER_PLUGIN=$B/lib/libnccl-join.so " BOTH
              "$W/reach/host plugin $W/reach/hidden.so",
              1, "NCCL-JOIN");
  expect_said("env " BOTH "$W/host", 0, "NCCL-JOIN");
}
