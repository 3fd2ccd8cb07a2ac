/* The stubs for aarch64, in qemu: what test_lookups.c shows of those for x86-64, in short. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/interpose/workshop.h"

#define SEEK(how, file) "$A/run $A/seeker --" how " $A/" file " "
#define NCCL "fake/libnccl.so.2"

static const char both[] = "join ncclAllReduce\nreal ncclAllReduce\n";

static void expect(const char *command, const char *output) {
  char text[1024];
  snprintf(text, sizeof text, "A=$W/aarch64; %s", command);
  workshop_expect(text, 0, output);
}

Test(aarch64, look_ups_and_openings, .timeout = 300) {
  if (!workshop_has_aarch64())
    cr_skip("no aarch64-linux-gnu-gcc and qemu-aarch64 that work");
  workshop_expect("tests/interpose/parts/aarch64.sh $W/aarch64", 0, "");
  const char *hows[] = {"local", "global", "deepbind", "default", "program"};
  for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
    char command[256];
    snprintf(command, sizeof command, SEEK("%s", NCCL) "AllReduce has:ncclCommShrink", hows[i]);
    expect(command, "join ncclAllReduce\nreal ncclAllReduce\nncclCommShrink: there\n");
  }
  expect(
      SEEK("local", "old/libnccl.so.2") "AllReduce has:ncclCommShrink has:ncclNonsense",
      "join ncclAllReduce\nreal ncclAllReduce\nncclCommShrink: missing\nncclNonsense: missing\n");
  expect("$A/run $A/host --deep $A/plugin.so AllReduce", both);
  for (int level = 0; level <= 2; level += 2) {
    char command[256];
    snprintf(command, sizeof command,
             "for how in next open deepbind; do $A/run $A/inner_O%d $how; done", level);
    expect(command, "next behind\nversioned next behind\nowner program\nowner library\n");
  }
  /* As in test_trampolines.c: all arguments and results. */
  struct outcome outcome = workshop_run(
      "A=$W/aarch64; export QUIET=1 WATCH=step_integers,step_doubles,step_float,step_long_double,"
      "step_complex,step_large,step_variadic,step_variadic_integers,step_errno,step_versioned,"
      "MPI_Step; $A/run $A/stepper steps look MPI_Step make steps open $A/stepping.so call end "
      "steps | grep -v -e nccl >$A/steps; grep -c called $A/steps; grep -v called $A/steps | "
      "head -n 14 >$A/first; for from in 15 29 44; do grep -v called $A/steps | tail -n +$from | "
      "head -n 14 | cmp - $A/first; done; cat $A/first");
  cr_assert_str_eq(outcome.output,
                   "23\n285\n770\n4.75\n0.125\n-3 4\n3 5 2 8\n385\n204\nkept "
                   "given\n2\n6\n40\n7\n9\n",
                   "%s", outcome.output);
}
