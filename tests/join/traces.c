/* What a run leaves in NCCL_JOIN_TRACE, however it ends, and what nccl-join-timeline makes of it.
 */
#include "tests/join/expected.h"
#include "tests/join/folder.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/nccl-join-traces-XXXXXX";

static void begin(void) {
  folder_make(folder);
}

static void end(void) {
  folder_remove(folder);
}

TestSuite(traces, .init = begin, .fini = end);

static struct run *run_traced(const char *program, const char *options, const char *where) {
  char environment[128];
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s/%s", folder, where);
  return run(&(struct launch){.nranks = 3,
                              .program = program,
                              .options = options,
                              .environment = environment,
                              .each = true});
}

/* The records of a rank's only file, with zeros in the place of newlines. */
static char *records_of(const char *where, int rank, size_t *size) {
  char pattern[128];
  glob_t found;
  snprintf(pattern, sizeof pattern, "%s/%s/rank-%d.*.jsonl", folder, where, rank);
  cr_assert(glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1, "%s", pattern);
  static char text[1 << 20];
  FILE *file = fopen(found.gl_pathv[0], "r");
  *size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  globfree(&found);
  text[*size] = '\0';
  return text;
}

static unsigned long long last_index(const char *where, int rank) {
  size_t size;
  unsigned long long last = 0;
  char *text = records_of(where, rank, &size);
  for (char *at = text; (at = strstr(at, "\"index\":")) != NULL; at++) {
    unsigned long long index = strtoull(at + strlen("\"index\":"), NULL, 10);
    last = index > last ? index : last;
  }
  return last;
}

static void check_death(const char *how) {
  char options[128];
  snprintf(options, sizeof options, "--iterations 20 --break 1:12:%s", how);
  struct run *result = run_traced("endings", options, how);
  const char *said = strstr(result->errors, "rank 1 failed after ");
  cr_assert_not_null(said, "%s", result->errors);
  unsigned long long passed = strtoull(said + strlen("rank 1 failed after "), NULL, 10);
  cr_assert_gt(passed, 12, "%s", result->errors);
  cr_expect_geq(last_index(how, 1) + 1, passed, "rank 1's trace ends at %llu", last_index(how, 1));
  run_free(result);
}
Test(traces, a_killed_rank_leaves_all_that_it_has_done) {
  check_death("kill");
}
Test(traces, a_rank_that_vanishes_leaves_all_that_it_has_done) {
  check_death("vanish");
}
Test(traces, a_rank_that_fails_leaves_all_that_it_has_done) {
  check_death("fail");
}

static void put(const char *name, const char *text) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  cr_assert(file != NULL && fputs(text, file) >= 0);
  fclose(file);
}

#define HEADER(team)                                                                               \
  "{\"format\":\"nccl-join-trace\",\"version\":1,\"rank\":0,\"team\":\"" team "\"}\n"
#define RECORD(t, event, index) "{\"t_ns\":" #t ",\"event\":\"" event "\",\"index\":" #index "}\n"

/* Of a full file, whose oldest record is in its middle, and in which a process was killed. */
Test(traces, the_timeline_of_a_long_run_has_its_end) {
  put("rank-0.a.1.jsonl",
      HEADER("aa") RECORD(900, "shadow", 1000004)
          RECORD(901, "commit", 1000005) "\n\n\"t_ns\":902,\"eve\n" RECORD(700, "commit", 1000000)
              RECORD(701, "shadow", 1000002) RECORD(702, "shadow", 1000003) "\n");
  struct run *result = run_tool("tools/nccl-join-timeline", folder);
  cr_expect_eq(result->status, 0);
  cr_expect_str_empty(result->errors);
  cr_expect(strstr(result->output, "rank 0   # ...#") != NULL, "%s", result->output);
  cr_expect(strstr(result->output, "1000002 (3)") != NULL, "%s", result->output);
  run_free(result);
}

/* Two runs into one folder: each has files of its own, and is drawn by itself. */
Test(traces, two_runs_into_one_folder_stay_apart) {
  for (int i = 0; i < 2; i++) {
    struct run *result =
        run_traced("sum", i == 0 ? "--iterations 2,5,5" : "--iterations 3,8,8", "deep/er");
    assert_went_well(result);
    run_free(result);
  }
  char arguments[128];
  snprintf(arguments, sizeof arguments, "%s/deep/er", folder);
  struct run *result = run_tool("tools/nccl-join-timeline", arguments);
  const char *first = strstr(result->output, "  index "), *second = strstr(first + 1, "  index ");
  cr_assert(second != NULL && strstr(second + 1, "  index ") == NULL, "%s", result->output);
  run_free(result);
}
