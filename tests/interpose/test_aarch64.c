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
}
