/* nccl-join report: what it makes of traces. */
#include "tests/join/expected.h"
#include "tests/join/written.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(report, .init = written_begin, .fini = written_end, .timeout = 300);

/* The page; the caller's. */
static char *page(const char *name) {
  char path[128], *text = calloc(1, 1 << 20);
  snprintf(path, sizeof path, "%s/%s", traces_folder, name);
  FILE *file = fopen(path, "r");
  cr_assert(file != NULL, "no %s", path);
  cr_assert_gt(fread(text, 1, (1 << 20) - 1, file), 0);
  fclose(file);
  return text;
}

/* Two ranks, two epochs: rank 0 has two collectives less in the first, and waits for rank 1 in the
 * second. All are together at 4. */
static void write_run(void) {
  write_rank(
      0,
      ",\"nccl_join\":\"0.1.0\",\"settings\":\"NCCL_JOIN_DEBUG=INFO\\u000aNCCL_JOIN_LOSSY=zero\"",
      AT(1000, "commit", 0) AT(1500, "commit", 1) AT(2000, "park", 2) AT(2500, "shadow", 2)
          AT(3000, "shadow", 3) AT(4000, "settle", 4)
              AT(4500, "commit",
                 5) "{\"t_ns\":4600000000,\"event\":\"warn\",\"text\":\"this is \\\"so\\\" "
                    "</script><b>\"}\n" AT(5000, "leave", 6) AT(6000, "done", 6));
  write_rank(1, ",\"nccl_join\":\"0.1.0\",\"settings\":\"\"",
             AT(1000, "commit", 0) AT(1500, "commit", 1) AT(2500, "commit", 2) AT(3000, "commit", 3)
                 AT(4000, "settle", 4) AT(4500, "commit", 5) AT(5000, "leave", 6)
                     AT(6000, "done", 6));
}

Test(report, says_what_each_rank_did_and_what_to_do) {
  write_run();
  struct run *result = report("--text");
  cr_expect_eq(result->status, 0);
  cr_expect_str_empty(result->errors);
  const char *text = result->output;
  expect_in(text, "\nCommunicator 000000ab: 2 ranks, 6 collectives in 5.00 s, nccl-join 0.1.0\n");
  expect_in(text, "\n     0        4        2   33 %      2.00 s  here (100)\n");
  expect_in(text, "\n     1        6        0    0 %         0 s  here (101)\n");
  expect_in(text, "\n  rank 0   ##..##\n");
  expect_in(text, "\n  0 to 3                  rank 1        4  rank 0        2     50 %\n");
  expect_in(text,
            "\n  4 to 5                  all ranks     2  (after the last one that was uneven)\n");
  expect_in(text, "Rebalance: rank 1 has the most data (6 collectives of its own) and rank 0 the "
                  "least (4). With 5 on each rank (17 % of rank 1's moved away)");
  expect_in(text, "would have taken 5 collectives and not 6: about 4.17 s and not 5.00 s.");
  expect_in(text, "answered for 2.00 s, 20 % of the time of all ranks (2 x 5.00 s)");
  expect_in(text, "would have lost 6 of 10 collectives with data, 60 %; dropping the rest of each "
                  "epoch, 2 (20 %).");
  expect_in(text, "\n  rank 0, at 3.60 s: this is \"so\" </script><b>\n");
  expect_in(text, "\n  NCCL_JOIN_DEBUG=INFO\n  NCCL_JOIN_LOSSY=zero\n");
  run_free(result);
}

static void expect_width(const char *columns, size_t width) {
  setenv("COLUMNS", columns, 1);
  struct run *result = report("--text");
  size_t longest = 0;
  for (const char *line = result->output; *line != '\0'; line = strchr(line, '\n') + 1)
    longest = strcspn(line, "\n") > longest ? strcspn(line, "\n") : longest;
  cr_expect(longest <= width && longest > width / 2, "%zu of %s columns:\n%s", longest, columns,
            result->output);
  run_free(result);
}

Test(report, fits_the_terminal) {
  write_run();
  expect_width("80", 80);
  expect_width("200", 200);
  char long_one[64 * 400] = "";
  for (int i = 0; i < 300; i++)
    sprintf(long_one + strlen(long_one), "{\"t_ns\":%d000000,\"event\":\"commit\",\"index\":%d}\n",
            1000 + i, i);
  write_rank(1, "", long_one); /* without an end */
  expect_width("80", 80);
  expect_width("200", 200);
}

#define MARK(ns, event, index, unit)                                                               \
  "{\"t_ns\":" #ns "000000,\"event\":\"" event "\",\"index\":" #index ",\"unit\":\"" unit "\"}\n"

/* Rank 1 has two sums more; then both say that the loop ends, and rank 1's weights are all ranks'.
 */
Test(report, what_nccl_join_itself_passes_is_no_collective) {
  write_rank(0, "",
             AT(1000, "commit", 0) AT(1200, "shadow", 1) AT(1300, "shadow", 2)
                 MARK(1400, "settle", 3, "end of a loop")
                     MARK(1500, "settle", 5, "end of a resynchronisation") AT(2000, "done", 6));
  write_rank(1, "",
             AT(1000, "commit", 0) AT(1200, "commit", 1) AT(1300, "commit", 2)
                 MARK(1400, "settle", 3, "end of a loop")
                     MARK(1450, "settle", 4, "state(root 1, float32, 4) on comm ab")
                         MARK(1500, "settle", 5, "end of a resynchronisation") AT(2000, "done", 6));
  struct run *result = report("--text");
  expect_in(result->output, ": 2 ranks, 3 collectives in ");
  expect_in(result->output, "\n     0        1        2   67 % ");
  expect_in(result->output, "\n     1        3        0    0 % ");
  expect_in(result->output, "With 2 on each rank");
  run_free(result);
}

Test(report, the_page_needs_nothing_else_and_texts_stay_texts) {
  write_run();
  struct run *result = report("");
  cr_expect_eq(result->status, 0);
  expect_in(result->output, "\nThe same as a page: /tmp/nccl-join-report-");
  run_free(result);
  char *text = page("report.html");
  cr_expect_eq(strncmp(text, "<!DOCTYPE html>", 15), 0);
  static const char *const loads[] = {"src=", "href=", "@import", "url(", "fetch(", "@REPORT@"};
  for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
    cr_expect_null(strstr(text, loads[i]), "%s", loads[i]);
  expect_in(text, "\\\"so\\\" \\u003c/script>\\u003cb>");
  expect_in(text, "\"epochs\":[{\"from\":0,\"end\":4,");
  expect_in(text, "\"spans\":[[0,0.0,1.0],[2,1.0,3.0],[0,3.0,4.0],[1,4.0,5.0]]");
  expect_in(text, "\"parts\":[[1,0,2],[2,2,4],[1,4,6]]");
  expect_in(text, "\"settings\":\"NCCL_JOIN_DEBUG=INFO\\nNCCL_JOIN_LOSSY=zero\"");
  free(text);
  char option[96];
  snprintf(option, sizeof option, "--output %s/other.html", traces_folder);
  run_free(report(option));
  free(page("other.html"));
}

Test(report, programs_get_json) {
  write_run();
  struct run *result = report("--json");
  cr_expect_eq(strncmp(result->output, "{\"format\":\"nccl-join-run\",\"version\":1,", 37), 0, "%s",
               result->output);
  expect_in(result->output, "\"own\":4,\"shadows\":2,\"answers\":0,\"joined_s\":2.0,");
  run_free(result);
}

/* Nor is anything left of what could not be written: /dev/full takes nothing. */
Test(report, a_page_that_cannot_be_written_leaves_the_old_one) {
  write_run();
  run_free(report(""));
  char *before = page("report.html"), option[160], found[256];
  snprintf(option, sizeof option, "--output %s/none/report.html", traces_folder);
  struct run *result = report(option);
  cr_expect_eq(result->status, 1);
  expect_in(result->errors, "nccl-join: cannot write ");
  run_free(result);
  struct rlimit room = {1024, 1024};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &room);
  result = report("");
  cr_expect_eq(result->status, 1);
  expect_in(result->errors, "nccl-join: cannot write ");
  char *after = page("report.html");
  cr_expect_str_eq(after, before);
  snprintf(found, sizeof found, "ls %s | grep -q 'report.html.'", traces_folder);
  cr_expect_neq(system(found), 0, "a part of it is left");
  free(before);
  free(after);
  run_free(result);
}

Test(report, of_ranks_that_were_stopped_or_have_failed_or_still_run_that_is_said) {
  static const char *const ends[][2] = {
      {"{\"t_ns\":2100000000,\"event\":\"stop\",\"index\":2,\"peer\":1}\n",
       "All ranks stopped at collective 2, because of rank 1; the warnings say why."},
      {"{\"t_ns\":2100000000,\"event\":\"fail\",\"index\":2,\"peer\":1}\n",
       "The run failed: rank 1 had, and the others were released with an error."},
      {AT(2100, "fail", 2), "The run failed: rank 0 gave up."},
      {"", "The traces of ranks 0, 1 have no end: they were killed, have crashed, or still run."}};
  static const char *const rows[] = {" stopped\n", " failed\n", " failed\n",
                                     " (the trace ends here)\n"};
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    char records[512];
    snprintf(records, sizeof records, "%s%s", TWO, ends[i][0]);
    write_rank(0, "", records);
    write_rank(1, "", records);
    struct run *result = report("--text");
    expect_in(result->output, ends[i][1]);
    expect_in(result->output, rows[i]);
    expect_not_in(result->output, "The run goes on");
    expect_in(result->output, "Until then no rank had joined.");
    expect_not_in(result->output, "nothing to gain");
    run_free(result);
  }
}

Test(report, of_ranks_that_failed_the_one_that_names_another_tells_why) {
  write_rank(0, "", TWO AT(2100, "fail", 2));
  write_rank(1, "", TWO "{\"t_ns\":2100000000,\"event\":\"fail\",\"index\":2,\"peer\":0}\n");
  struct run *result = report("--text");
  expect_in(result->output, "The run failed: rank 0 had, and the others were released");
  run_free(result);
}

/* A program that catches the error may go on with all ranks. */
Test(report, who_was_stopped_and_went_on_has_ended_well) {
  write_rank(0, "", TWO AT(2100, "stop", 2) AT(2200, "commit", 2) AT(2300, "done", 3));
  struct run *result = report("--text");
  expect_not_in(result->output, "stopped");
  run_free(result);
}

#define SEND(ms, index)                                                                            \
  "{\"t_ns\":" #ms "000000,\"event\":\"shadow\",\"index\":" #index                                 \
  ",\"unit\":\"group{send(peer 1, float32, 64); recv(peer 1, float32, 64)}\"}\n"

/* Each has an index that a collective has, too, or that no collective has. */
Test(report, answers_to_sends_are_no_collectives) {
  write_rank(0, "",
             AT(1000, "commit", 0) SEND(2000, 1) SEND(2500, 1) AT(3000, "shadow", 1) SEND(3500, 2)
                 AT(4000, "done", 2));
  write_rank(1, "", AT(1000, "commit", 0) AT(3000, "commit", 1) AT(4000, "done", 2));
  struct run *result = report("--text");
  expect_in(result->output, ": 2 ranks, 2 collectives in 3.00 s");
  expect_in(result->output, "\n     0        1        1   50 %      2.00 s  here (100)\n");
  expect_in(result->output,
            "answered sends and receives of the others, which are no collectives: rank 0 3.");
  run_free(result);
  write_rank(0, "", AT(1000, "leave", 0) SEND(1000, 0) SEND(1500, 0) AT(2000, "done", 0));
  write_rank(1, "", AT(1000, "leave", 0) SEND(1200, 0) AT(2000, "done", 0));
  result = report("--text");
  expect_in(result->output, ": 2 ranks, 0 collectives in 1.00 s");
  expect_in(result->output, "no collectives: rank 0 2, rank 1 1. To rebalance,");
  expect_not_in(result->output, "nothing to gain");
  run_free(result);
}

/* Two of four ranks, by the communicator of all, or by what their launcher has given them. */
static void check_numbers(const char *given_2, const char *given_3, bool all) {
  for (int rank = 0; all && rank < 4; rank++)
    write_member("00000000000000aa", 4, rank, 100 + rank, "", TWO AT(3000, "done", 2));
  write_member("0000000000000001", 2, 0, 102, given_2,
               AT(1000, "commit", 0) AT(2000, "shadow", 1) AT(2500, "shadow", 2)
                   AT(3000, "fail", 3));
  write_member("0000000000000001", 2, 1, 103, given_3,
               TWO AT(2500, "commit", 2) AT(3000, "done", 3));
  struct run *result = report("--text");
  const char *part = strstr(result->output, "\nCommunicator 00000001: 2 ranks");
  cr_assert_not_null(part, "%s", result->output);
  cr_expect_eq(all, strstr(result->output, "\nCommunicator 000000aa: 4 ranks") == result->output);
  expect_in(part,
            "\n  Ranks are numbered as in the job. In this communicator, and its warnings, 2 is "
            "0, 3 is 1\n");
  expect_in(part, "\n     2        1        2   67 %");
  expect_in(part, "\n  rank 3   ###\n");
  expect_in(part, "rank 3 has the most data (3 collectives of its own) and rank 2 the least (1)");
  expect_in(part, "The run failed: rank 2 gave up.");
  run_free(result);
  result = report("--json");
  expect_in(result->output, "{\"rank\":2,\"team_rank\":0,");
  run_free(result);
}
Test(report, ranks_have_the_numbers_that_they_have_in_the_communicator_of_all) {
  check_numbers("", "", true);
}
Test(report, ranks_have_the_numbers_that_their_launcher_has_given_them) {
  check_numbers(",\"job_rank\":2", ",\"job_rank\":3", false);
}

Test(report, numbers_that_two_ranks_have_been_given_are_not_used) {
  write_rank(0, ",\"job_rank\":7", TWO AT(2100, "done", 2));
  write_rank(1, ",\"job_rank\":7", TWO AT(2100, "done", 2));
  struct run *result = report("--text");
  expect_in(result->output, "\n  rank 0 ");
  expect_not_in(result->output, "numbered as in the job");
  run_free(result);
}

Test(report, who_failed_is_named_in_the_words_of_the_launcher) {
  write_rank(0, ",\"group\":100", TWO);
  write_rank(1, ",\"group\":101", TWO);
  write_text("launch.here.99",
             "nccl-join-launch 1\nwhy rank 1 was ended by signal 9 (Killed) after "
             "b\nended 100\nfailed 101\n");
  write_text("launch.there.98", "nccl-join-launch 1\nwhy of another\nfailed 100\n");
  struct run *result = report("--text");
  expect_in(result->output,
            "The run did not come to its end: rank 1 was ended by signal 9 (Killed) after b, and "
            "nccl-join run ended rank 0.");
  expect_in(result->output, "\n  rank 0   ## was ended\n  rank 1   ## failed\n");
  expect_not_in(result->output, "have no end");
  run_free(result);
}

Test(report, why_a_run_was_ended_is_said_although_the_first_rank_is_of_another_launcher) {
  write_rank(0, ",\"group\":100", TWO AT(2100, "done", 2));
  write_rank(1, ",\"group\":101", TWO);
  write_text("launch.here.99",
             "nccl-join-launch 1\nwhy rank 1 was ended by signal 9 (Killed) after "
             "b\nfailed 101\n");
  struct run *result = report("--text");
  expect_in(result->output, "The run did not come to its end: rank 1 was ended by signal 9 "
                            "(Killed) after b. What follows");
  run_free(result);
}

/* Its process may end after that of a rank which failed because of it. */
Test(report, who_failed_before_the_one_that_the_launcher_has_seen_end_is_named) {
  write_rank(0, ",\"group\":100", TWO);
  write_rank(1, ",\"group\":101",
             TWO "{\"t_ns\":2100000000,\"event\":\"fail\",\"index\":2,\"peer\":1}\n");
  write_text("launch.here.99", "nccl-join-launch 1\nwhy rank 0 ended with status 1\nfailed 100\n");
  struct run *result = report("--text");
  expect_in(result->output,
            "The run did not come to its end: rank 1 ended with an error, then rank "
            "0 ended with status 1. What follows");
  run_free(result);
}

/* The ranks that are ended have no say in it. */
Test(report, of_a_run_in_which_a_rank_failed_that_rank_is_named) {
  static const char *const how[][2] = {
      {"fail", "The run did not come to its end: rank 1 ended with "},
      {"kill", "The run did not come to its end: rank 1 was ended by signal 9 (Killed)"}};
  char environment[160], options[64];
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s", traces_folder);
  for (size_t i = 0; i < 2; i++) {
    snprintf(options, sizeof options, "--iterations 20 --break 1:12:%s", how[i][0]);
    run_free(run(&(struct launch){.nranks = 3,
                                  .program = "endings",
                                  .options = options,
                                  .environment = environment,
                                  .here = true}));
    struct run *result = report("--text");
    expect_in(result->output, how[i][1]);
    expect_in(result->output, ") failed\n");
    run_free(result);
  }
}

Test(report, a_run_that_goes_on_is_said_to) {
  char environment[160], go[160], option[200];
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s/traces", traces_folder);
  snprintf(go, sizeof go, "%s/go", traces_folder);
  snprintf(option, sizeof option, "--iterations 20 --hold 1:12:%s", go);
  struct running *running = run_start(&(struct launch){.nranks = 2,
                                                       .program = "endings",
                                                       .options = option,
                                                       .environment = environment,
                                                       .here = true});
  bool said = false;
  while (!said) {
    char traces[64];
    snprintf(traces, sizeof traces, "--text %s/traces", traces_folder);
    struct run *result = run_tool("tools/nccl-join-report", traces);
    said = strstr(result->output, "The run goes on in ranks 0, 1: nccl-join status") != NULL;
    run_free(result);
    cr_assert(said || run_goes_on(running, 0.1));
  }
  fclose(fopen(go, "w"));
  struct run *result = run_finish(running);
  assert_went_well(result);
  run_free(result);
}

#define WARNED(text) "{\"t_ns\":1500000000,\"event\":\"warn\",\"text\":\"" text "\"}\n"

Test(report, warnings_are_shown_without_a_collective_and_once_for_all_who_said_them) {
  write_rank(0, "", WARNED("of rank 0") WARNED("of all") WARNED("of all"));
  write_rank(1, "", WARNED("of all"));
  struct run *result = report("--text");
  cr_expect_eq(result->status, 0, "%s", result->errors);
  expect_in(result->output, ": 2 ranks, 0 collectives in 0 s");
  expect_in(result->output,
            "\nWarnings\n  rank 0, at 500 ms: of rank 0\n  ranks 0, 1, at 500 ms: of all\n");
  run_free(result);
}

Test(report, what_is_wrong_is_said) {
  struct run *result = report("--text");
  cr_expect_eq(result->status, 1);
  expect_in(result->errors, "nccl-join: no traces in /tmp/nccl-join-report-");
  expect_in(result->errors, ": a run with NCCL_JOIN_TRACE=/tmp/nccl-join-report-");
  run_free(result);
  result = report("--json --text");
  cr_expect_eq(result->status, 2);
  expect_in(result->errors, "--perfetto one at a time\nusage: nccl-join report ");
  run_free(result);
  result = report("more");
  expect_in(result->errors, "one FOLDER at a time\nusage: nccl-join report ");
  run_free(result);
  write_text("report-0badcafe.4711.json", "{}\n");
  result = report("");
  cr_expect_eq(result->status, 1);
  expect_in(result->errors,
            "has been written by NCCL_JOIN_REPORT, as JSON. Run with NCCL_JOIN_TRACE");
  run_free(result);
  write_rank(0, "", "");
  result = report("");
  cr_expect_eq(result->status, 1);
  expect_in(result->errors, " have no record\n");
  run_free(result);
  write_text("rank-1.host.5.jsonl", "");
  write_text("rank-2.host.6.jsonl", "{}\n");
  write_rank(0, "", "{}\n");
  result = report("");
  expect_in(result->errors, "rank-1.host.5.jsonl is empty: ");
  expect_in(result->errors, "rank-2.host.6.jsonl is not a trace of version ");
  expect_in(result->errors, ": 1 damaged line is left out\n");
  run_free(result);
}

/* A job's own traces: with its settings, its version and its WARNs. */
Test(report, of_a_run) {
  char environment[160];
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s NCCL_JOIN_SKEW_WARN=2",
           traces_folder);
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "sum", .options = "--iterations 3,8,5", .environment = environment});
  assert_went_well(result);
  run_free(result);
  result = report("--text");
  cr_expect_str_empty(result->errors);
  expect_in(result->output, ": 3 ranks, 8 collectives in ");
  expect_in(result->output, ", nccl-join 0.");
  expect_in(result->output, "\n     0        3        5   63 % ");
  expect_in(result->output, ": rank 0 has been joined for more than 2 iterations, parked in ");
  expect_in(result->output, "\n  NCCL_JOIN_SKEW_WARN=2\n");
  run_free(result);
}
