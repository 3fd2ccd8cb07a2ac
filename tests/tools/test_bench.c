/* Benchmarks: that all of them can be run, and that what they print becomes tables and JSON.
 * Nothing here depends on how long anything takes.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/sandbox.h"
#include "tools/bench/rows.h"

static char top[4096]; /* of the repository */

static void begin(void) {
  cr_assert(getcwd(top, sizeof top));
  sandbox_make();
}

static const char *build(void) {
  const char *folder = getenv("JOIN_TEST_BUILD");
  return folder != NULL ? folder : "build";
}

TestSuite(bench, .init = begin, .fini = sandbox_remove, .timeout = 600);

#define expect_in(text, part) cr_expect(strstr(text, part), "no '%s' in: %s", part, text)

/* The report program with these lines. */
static struct result report(const char *rows) {
  return run("printf '%%s' '%s' | %s/%s/bench/report bench.json", rows, top, build());
}

static const char *file(const char *name) {
  static struct result result;
  result = run("cat %s", name);
  return result.out;
}

#define ROW_LINE                                                                                   \
  "{\"section\": \"One\", \"name\": \"a\", \"unit\": \"ns\", \"median\": 12.25, \"low\": 11, "     \
  "\"high\": 13.5, \"samples\": 21, \"goal\": \"at most \\\"20\\\"\"}"
#define ROW ROW_LINE "\n"
#define OTHER_ROW                                                                                  \
  "{\"section\": \"Two\", \"name\": \"a\", \"unit\": \"KiB\", \"median\": 1024, \"low\": 1024, "   \
  "\"high\": 1024, \"samples\": 1}\n"

/* ---- the report ---- */

Test(bench, rows_become_a_table_for_each_section) {
  struct result result = report(ROW OTHER_ROW);
  cr_expect_eq(result.status, 0, "%s", result.err);
  expect_in(result.out, "\nOne ");
  expect_in(result.out, "12.2  11 .. 13.5 ");
  expect_in(result.out, " 21  at most \"20\"\n");
  expect_in(result.out, "\nTwo ");
  expect_in(result.out, " 1024 ");
  expect_in(result.out, "date 2");
}

Test(bench, rows_become_json_that_is_read_back_as_markdown) {
  report(ROW OTHER_ROW);
  const char *json = file("bench.json");
  cr_expect(is_json(json), "%s", json);
  expect_in(json, "\"format\": 1");
  expect_in(json, "\"processors\": ");
  expect_in(json, "\"goal\": \"at most \\\"20\\\"\"");
  struct result result = run("%s/%s/bench/report --markdown bench.json", top, build());
  cr_expect_eq(result.status, 0, "%s", result.err);
  expect_in(result.out, "### One\n");
  expect_in(result.out, "| a | 12.2 | 11 .. 13.5 | ns | 21 | at most \"20\" |\n");
  cr_expect_null(strstr(result.out, "Two"), "it has no goal");
}

Test(bench, what_is_no_row_is_an_error_that_quotes_it) {
  static const char *const wrong[] = {
      "time: 12 ns\n", ROW ROW,                                      /* twice */
      "{\"section\": \"One\", \"name\": \"a\", \"unit\": \"ns\"}\n", /* without numbers */
      "{\"section\": \"One\", \"name\": \"a\", \"unit\": \"ns\", \"median\": 3, \"low\": 4, "
      "\"high\": 5, \"samples\": 1}\n", /* below the first quartile */
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    struct result result = report(wrong[i]);
    cr_expect_eq(result.status, 1, "%s", wrong[i]);
    cr_expect_str_empty(result.out);
    expect_in(result.err, i == 0 ? "time: 12 ns" : "\"name\": \"a\"");
  }
  cr_expect_eq(report("").status, 1);
}

/* ---- rows ---- */

Test(bench, quantiles_and_middle_means_do_not_depend_on_the_order_of_samples) {
  double samples[] = {4, 1, 3, 100, 2};
  cr_expect_eq(row_quantile(samples, 5, 0.5), 3);
  cr_expect_eq(row_quantile(samples, 5, 0.25), 2);
  cr_expect_eq(row_quantile(samples, 5, 1), 100);
  double even[] = {30, 10, 1000, 20};
  cr_expect_eq(row_quantile(even, 4, 0.5), 25);
  cr_expect_eq(row_middle_mean(even, 4), 25);
  double one[] = {7};
  cr_expect_eq(row_quantile(one, 1, 0.25), 7);
}

/* ---- the benchmarks ---- */

Test(bench, a_benchmark_that_cannot_measure_fails_the_run_and_is_named_behind_the_tables) {
  struct result result = run("mkdir -p build/bench; cp %s/%s/bench/report build/bench/;"
                             "echo '%s' >rows; printf '#!/bin/sh\\ncat rows\\n' >good;"
                             "printf '#!/bin/sh\\nexit 3\\n' >broken;"
                             "printf '#!/bin/sh\\nexec sleep 1000\\n' >endless;"
                             "chmod +x good broken endless;"
                             "%s/tools/bench/run build ./good && echo well;"
                             "BENCH_LIMIT=1 %s/tools/bench/run build ./endless ./broken ./good",
                             top, build(), ROW_LINE, top, top);
  cr_expect_eq(result.status, 1, "%s", result.err);
  const char *well = strstr(result.out, "well\n");
  cr_assert(well, "%s", result.out);
  cr_expect_null(strstr(result.err, "./good could not measure"), "%s", result.err);
  expect_in(result.err, "./broken could not measure (status 3)");
  const char *table = strstr(well, "\nOne "), *missing = strstr(well, "NOT MEASURED");
  cr_assert(table && missing, "%s", result.out);
  cr_expect_gt(missing, table);
  expect_in(missing, " ./endless (not done within 1 s) ./broken (status 3)\n");
}

/* Those that take long: each of these parts, and all others, is a test of its own, as one runs
 * beside the other. */
static const char of_calls[] = " host_cost python following ", of_ddp[] = " ddp ";

static bool is_of(const char *part, const char *program, size_t length) {
  char name[64];
  const char *slash = memrchr(program, '/', length);
  const char *base = slash == NULL ? program : slash + 1;
  snprintf(name, sizeof name, " %.*s ", (int)(program + length - base), base);
  return strstr(part, name) != NULL;
}

/* Those of JOIN_TEST_BENCHMARKS that are of a part; NULL: of none. Skips the test if there are
 * none. */
static const char *benchmarks_of(const char *part) {
  static char chosen[2048];
  const char *at = getenv("JOIN_TEST_BENCHMARKS");
  chosen[0] = '\0';
  for (size_t length; at != NULL && *at != '\0'; at += length + (at[length] == ' ')) {
    length = strcspn(at, " ");
    bool is_chosen = part != NULL ? is_of(part, at, length)
                                  : !is_of(of_calls, at, length) && !is_of(of_ddp, at, length);
    if (is_chosen)
      snprintf(chosen + strlen(chosen), sizeof chosen - strlen(chosen), " %.*s", (int)length, at);
  }
  if (chosen[0] == '\0')
    cr_skip_test("benchmarks are not built with sanitizers");
  return chosen;
}

static void check_measured(const char *part, const char *const *rows) {
  const char *benchmarks = benchmarks_of(part);
  struct result result = run("json=$PWD/bench.json; cd %s && BENCH_JSON=$json BENCH_QUICK=1 "
                             "tools/bench/run %s%s",
                             top, build(), benchmarks);
  cr_expect_eq(result.status, 0, "%s", result.err);
  const char *json = file("bench.json");
  cr_expect(is_json(json), "%s", json);
  expect_in(json, "\"quick\": \"yes\"");
  for (; *rows != NULL; rows++)
    expect_in(json, *rows);
}

Test(bench, benchmarks_of_calls_measure_what_they_are_for) {
  check_measured(of_calls,
                 (const char *const[]){
                     "nobody joined\", \"name\": \"one all-reduce, direct\", \"unit\": \"ns\"",
                     "nobody joined\", \"name\": \"a group of 8, nccl-join, system calls\"",
                     "from Python, nobody joined\", \"name\": \"each call over the bare shim\", "
                     "\"unit\": \"ns\"",
                     "\"name\": \"a group of 8, the follower asleep, calls of syscall()\"",
                     "\"name\": \"follower asleep, and a busy process on every processor\"", NULL});
  if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
    expect_in(
        file("bench.json"),
        "\"name\": \"one all-reduce, the follower awake, each collective over the bare shim\"");
}

Test(bench, benchmarks_of_ddp_measure_what_they_are_for) {
  check_measured(
      of_ddp,
      (const char *const[]){
          "DDP, speed: 2 ranks, 3 ms\", \"name\": \"even, nccl-join / even, no join at all\"",
          "DDP, processor time: 4 ranks, 3 ms, no buffers\", \"name\": \"uneven, nccl-join\"",
          "DDP, an iteration of an active rank\", \"name\": \"with buffers: even, Join protocol, ",
          NULL});
}

Test(bench, every_other_benchmark_measures_what_it_is_for) {
  check_measured(
      NULL, (const char *const[]){
                "shadows 100,000 units\", \"name\": \"a unit, processor time of the joined rank\"",
                "\"name\": \"8 ranks\", \"unit\": \"us\"",
                "\"name\": \"leaving the loop: from the call to the first shadow\"",
                "\"name\": \"shared memory per rank, 8 ranks\"",
                "\"name\": \"device memory before the first shadow\"",
                "\"name\": \"nccl-join, system calls\", \"unit\": \"calls\"",
                "\"name\": \"DDP 10 buckets, first iteration differs, instructions per unit\"",
                "Growth: a claim that all ranks make\", \"name\": \"messages, 16 ranks\"", NULL});
}
