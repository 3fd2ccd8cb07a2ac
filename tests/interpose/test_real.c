/* Where the real functions are found (real.h), in the ways that programs come to NCCL. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/interpose/workshop.h"

static const char both[] = "join ncclAllReduce\nreal ncclAllReduce\n";

Test(real, in_a_linked_program) {
  workshop_expect("env $J $W/linked AllReduce", 0, both);
}

Test(real, in_a_program_bound_at_start) {
  workshop_expect("env $J $W/now AllReduce", 0, both);
  workshop_expect("env $J LD_BIND_NOW=1 $W/linked AllReduce", 0, both);
}

Test(real, in_a_plugin_opened_locally) {
  workshop_expect("env $J $W/host --open $W/plugin.so AllReduce", 0, both);
  workshop_expect("env $J $W/host --now $W/plugin.so AllReduce", 0, both);
}

Test(real, under_another_name_than_libnccl) {
  workshop_expect("env $J $W/host --open $W/other_plugin.so AllReduce", 0,
                  "join ncclAllReduce\nother ncclAllReduce\n");
}

Test(real, never_takes_itself_for_nccl) {
  workshop_expect("env $J $W/host --open $W/entangled.so AllReduce", 0,
                  "join ncclAllReduce\nother ncclAllReduce\n");
}

Test(real, of_two_copies_the_one_in_the_search_order) {
  workshop_expect("env $J $W/linked --load $W/other/libother.so AllReduce", 0, both);
}

Test(real, of_two_copies_opened_locally_the_one_by_its_own_name) {
  workshop_expect("env $J $W/host --load $W/fake/libnccl.so.2 --open $W/other_plugin.so AllReduce",
                  0, both);
}

Test(real, never_mixes_two_copies) {
  workshop_expect(
      "env $J LD_LIBRARY_PATH=$W/old $W/linked --load $W/other/libother.so CommShrink 2>/dev/null",
      0, "join ncclCommShrink\nncclCommShrink: 5 \n");
}

Test(real, keeps_a_profiler_behind_us_in_the_chain) {
  workshop_expect("env $J:$W/profiler.so $W/linked AllReduce Broadcast", 0,
                  "join ncclAllReduce\nprofiler ncclAllReduce\nreal ncclAllReduce\n"
                  "join ncclBroadcast\nreal ncclBroadcast\n");
}

Test(real, takes_what_a_profiler_lacks_from_a_local_library) {
  workshop_expect("env $J:$W/profiler.so $W/host --open $W/plugin.so AllReduce Broadcast", 0,
                  "join ncclAllReduce\nprofiler ncclAllReduce\n"
                  "join ncclBroadcast\nreal ncclBroadcast\n");
}

Test(real, functions_that_the_nccl_lacks_are_invalid_usage) {
  struct outcome outcome = workshop_run(
      "env $J LD_LIBRARY_PATH=$W/old $W/linked AllReduce CommShrink AlltoAll CommShrink");
  cr_assert_eq(outcome.status, 0);
  cr_assert_not_null(strstr(outcome.output, "ncclCommShrink: 5 \n"), "%s", outcome.output);
  cr_assert_not_null(strstr(outcome.output, "ncclAlltoAll: 5 \n"), "%s", outcome.output);
  const char *line =
      strstr(outcome.output,
             "ncclCommShrink was called, which came with NCCL 2.27, but this is NCCL 2.18.5 in /");
  cr_assert_not_null(line, "%s", outcome.output);
  cr_assert_null(strstr(line, "was called, which came with NCCL 2.28"), "said twice");
}

Test(real, no_nccl_at_all_is_a_system_error_and_one_line) {
  struct outcome outcome = workshop_run("env $J $W/host --open $W/orphan.so AllReduce AllReduce");
  cr_assert_eq(outcome.status, 0);
  char *line = strstr(outcome.output, "no NCCL is loaded in this process");
  cr_assert_not_null(line, "%s", outcome.output);
  cr_assert_null(strstr(line + 1, "no NCCL is loaded"), "said twice:\n%s", outcome.output);
  cr_assert_not_null(strstr(line, "ncclAllReduce: 2 \n"), "%s", outcome.output);
}

Test(real, no_handler_is_entered_without_nccl) {
  cr_assert_null(
      strstr(workshop_run("env $J $W/host --open $W/orphan.so AllReduce").output, "join"));
}

Test(real, found_once_it_is_loaded) {
  struct outcome outcome = workshop_run(
      "env $J $W/host --open $W/orphan.so AllReduce --load $W/fake/libnccl.so.2 AllReduce");
  cr_assert_eq(outcome.status, 0);
  char *failed = strstr(outcome.output, "ncclAllReduce: 2 \n");
  cr_assert_not_null(failed, "%s", outcome.output);
  cr_assert_not_null(strstr(failed, both), "%s", outcome.output);
}

Test(real, by_python_looking_the_name_up_in_the_program) {
  if (workshop_run("python3 -c 'import ctypes'").status != 0)
    cr_skip("no python3");
  workshop_expect("env $J python3 -c \"import ctypes, os; ctypes.CDLL('$W/fake/libnccl.so.2');"
                  "ctypes.CDLL(None).ncclGroupStart()\"",
                  0, "join ncclGroupStart\nreal ncclGroupStart\n");
}

Test(real, found_by_many_threads_at_once) {
  struct outcome outcome = workshop_run("for i in 1 2 3 4 5 6 7 8 9 10; do env $J $W/crowd; done | "
                                        "sort | uniq -c | sed 's/^ *//'");
  cr_assert_str_eq(outcome.output, "160 join ncclAllReduce\n160 real ncclAllReduce\n", "%s",
                   outcome.output);
}

Test(real, found_by_many_threads_without_a_race) {
  struct outcome outcome = workshop_run(
      "s=$(gcc -print-file-name=libtsan.so); test -e \"$s\" || exit 77;"
      "i=$(sed -n 's/^\\(NCCL\\|CUDA13\\)_INCLUDE = /-isystem /p' .deps/paths.mk);"
      "t='gcc -w -O0 -g1 -D_GNU_SOURCE -fsanitize=thread -I.';"
      "$t $i -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec -o $W/racing.so "
      "-Wl,--version-script=$W/exports.map $(cat tests/interpose/parts/double.sources) &&"
      "$t $i -o $W/racing tests/interpose/parts/crowd.c -L$W/fake -l:libnccl.so.2 "
      "-Wl,-rpath,$W/fake || exit 77;"
      "for i in 1 2 3 4 5 6 7 8 9 10; do"
      " env NCCL_JOIN=$((i % 2)) QUIET=1 LD_PRELOAD=\"$s $W/racing.so\" $W/racing; done | grep -v "
      "'^real '");
  if (outcome.status == 77)
    cr_skip("no libtsan");
  cr_assert_str_eq(outcome.output, "", "%s", outcome.output);
}

Test(real, describes_what_it_found) {
  struct outcome outcome = workshop_run("env $J DESCRIBE=1 $W/linked GetUniqueId");
  cr_assert_not_null(strstr(outcome.output, "NCCL 2.28.9 in "), "%s", outcome.output);
  cr_assert_not_null(strstr(outcome.output, "/fake/libnccl.so.2 (found by search order)\n"), "%s",
                     outcome.output);
  cr_assert_not_null(strstr(outcome.output, "\nNCCL 2.28\nCommShrink 1, CommGrow 1\n"), "%s",
                     outcome.output);
}

Test(real, describes_an_older_one_opened_locally) {
  struct outcome outcome = workshop_run(
      "env $J DESCRIBE=1 LD_LIBRARY_PATH=$W/old $W/host --open $W/plugin.so GetUniqueId");
  cr_assert_not_null(strstr(outcome.output, "NCCL 2.18.5 in "), "%s", outcome.output);
  cr_assert_not_null(strstr(outcome.output, "/old/libnccl.so.2 (found by name libnccl.so.2)\n"),
                     "%s", outcome.output);
  cr_assert_not_null(strstr(outcome.output, "\nCommShrink 0, CommGrow 0\n"), "%s", outcome.output);
}
