/* nccl-join report --perfetto: the trace, as protoc decodes it. */
#include "tests/join/written.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(perfetto, .init = written_begin, .fini = written_end, .timeout = 300);

/* What the report writes, as text; of fields that the schema does not have, protoc writes the
 * numbers. */
static const char *decoded(void) {
  static char text[1 << 22];
  char command[256];
  snprintf(command, sizeof command, "--perfetto %s/run.pftrace", traces_folder);
  struct run *result = report(command);
  cr_assert_eq(result->status, 0, "%s", result->errors);
  cr_expect_str_empty(result->output);
  run_free(result);
  snprintf(command, sizeof command,
           "protoc --decode=Trace --proto_path=tools/report perfetto.proto <%s/run.pftrace",
           traces_folder);
  FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c) */
  cr_assert_not_null(pipe);
  text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
  cr_assert_eq(pclose(pipe), 0);
  return text;
}

/* The packet with that text from one on; its end is cut off. */
static char *packet_with(const char *text, const char *part) {
  static char packets[4][4096];
  static int next;
  const char *at = strstr(text, part);
  cr_assert_not_null(at, "no '%s' in:\n%s", part, text);
  while (strncmp(at, "packet {", 8) != 0)
    at--;
  char *packet = packets[next++ % 4];
  snprintf(packet, sizeof packets[0], "%.*s", (int)(strstr(at, "\n}\n") - at), at);
  return packet;
}

static unsigned long long number(const char *packet, const char *name) {
  const char *at = strstr(packet, name);
  cr_assert_not_null(at, "no '%s' in:\n%s", name, packet);
  return strtoull(at + strlen(name), NULL, 10);
}

#define OF(ms, event, index, more)                                                                 \
  "{\"t_ns\":" #ms "000000,\"event\":\"" event "\",\"index\":" #index                              \
  ",\"unit\":\"allreduce(sum, float32, " #index ")\"" more "}\n"
#define UNIX ",\"start_unix_ns\":5000000000000000000"

/* Rank 1 has joined; its first record of what it follows is older than that of the call itself. */
static void write_run(const char *header) {
  write_rank(0, header,
             OF(1000, "commit", 0, "") OF(2000, "commit", 1, "") OF(3000, "commit", 2, "")
                 AT(4000, "done", 3));
  write_rank(1, header,
             OF(1100, "commit", 0, "") OF(1500, "park", 1, "") OF(1999, "shadow", 1, ",\"peer\":0")
                 OF(3500, "shadow", 2,
                    ",\"peer\":0") "{\"t_ns\":3600000000,\"event\":\"warn\","
                                   "\"text\":\"it is \\\"so\\\"\"}\n" AT(4000, "done", 3));
}

Test(perfetto, ranks_are_processes_with_tracks) {
  write_run(UNIX);
  const char *text = decoded();
  for (int rank = 0; rank < 2; rank++) {
    char name[64];
    snprintf(name, sizeof name, "process_name: \"rank %d (here, %d)\"", rank, 100 + rank);
    const char *process = packet_with(text, name);
    cr_expect_eq(number(process, "pid: "), 100 + rank);
    snprintf(name, sizeof name, "name: \"rank %d of communicator 000000ab\"", rank);
    const char *track = packet_with(text, name);
    cr_expect_eq(number(track, "parent_uuid: "), number(process, "uuid: "));
    char event[64];
    snprintf(event, sizeof event, "track_uuid: %llu", number(track, "uuid: "));
    expect_in(text, event);
  }
  expect_in(packet_with(text, "name: \"joined\""), "type: TYPE_SLICE_BEGIN");
  expect_in(packet_with(text, "name: \"its own\""), "type: TYPE_SLICE_BEGIN");
  const char *warning = packet_with(text, "name: \"WARN\"");
  expect_in(warning, "string_value: \"it is \\\"so\\\"\"");
}

Test(perfetto, an_arrow_leads_from_a_call_to_its_shadow) {
  write_run(UNIX);
  const char *text = decoded();
  for (int index = 1; index < 3; index++) {
    char name[64];
    snprintf(name, sizeof name, "name: \"allreduce(sum, float32, %d)\"", index);
    const char *call = packet_with(text, name), *next = strstr(text, name) + 1;
    const char *shadow = packet_with(next, name);
    expect_in(call, "categories: \"own\"");
    expect_in(shadow, "categories: \"shadow\"");
    expect_in(shadow, "name: \"of rank\"");
    cr_expect_eq(number(call, "flow_ids: "), number(shadow, "flow_ids: "));
    cr_expect_lt(number(call, "timestamp: "), number(shadow, "timestamp: "));
    cr_expect_eq(number(shadow, "uint_value: "), index);
  }
  cr_expect_null(strstr(packet_with(text, "name: \"allreduce(sum, float32, 0)\""), "flow_ids"));
}

Test(perfetto, times_are_of_the_clock_that_other_profiles_have) {
  write_run(UNIX);
  const char *text = decoded();
  expect_in(text, "primary_trace_clock: 1\n");
  const char *last = packet_with(text, "name: \"allreduce(sum, float32, 2)\"");
  cr_expect_eq(number(last, "timestamp: "), 5000000002000000000u); /* 2 s after its start */
  cr_expect_eq(number(last, "timestamp_clock_id: "), 1);
  write_run("");
  text = decoded();
  expect_in(text, "primary_trace_clock: 3\n");
  last = packet_with(text, "name: \"allreduce(sum, float32, 2)\"");
  cr_expect_eq(number(last, "timestamp: "), 3000000000u);
}

static int count_of(const char *text, const char *part) {
  int count = 0;
  while ((text = strstr(text, part)) != NULL)
    count++, text++;
  return count;
}

/* Three ranks with 3, 8 and 5 iterations: 5 + 3 shadows, each with an arrow to it. On one machine:
 * on several, processes may have the same number, which is none of theirs for other profiles then.
 */
Test(perfetto, of_a_run) {
  char environment[160];
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s", traces_folder);
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "sum",
                                            .options = "--iterations 3,8,5",
                                            .environment = environment,
                                            .here = true});
  cr_assert_eq(result->status, 0, "%s", result->errors);
  run_free(result);
  const char *text = decoded();
  cr_expect_eq(count_of(text, "categories: \"own\""), 16);
  cr_expect_eq(count_of(text, "categories: \"shadow\""), 8);
  cr_expect_eq(count_of(text, "flow_ids: "), 16);
  cr_expect_eq(count_of(text, "type: TYPE_SLICE_BEGIN"), count_of(text, "type: TYPE_SLICE_END"));
  cr_expect_eq(count_of(text, "process_name: "), 3);
}

Test(perfetto, what_cannot_be_written_is_said) {
  write_run(UNIX);
  struct run *result = report("--perfetto /nowhere/run.pftrace");
  cr_expect_eq(result->status, 1);
  expect_in(result->errors, "nccl-join: cannot write /nowhere/run.pftrace: No such file");
  run_free(result);
  result = report("--perfetto /dev/full");
  cr_expect_eq(result->status, 1);
  run_free(result);
  result = report("--json --perfetto x");
  cr_expect_eq(result->status, 2);
  run_free(result);
}
