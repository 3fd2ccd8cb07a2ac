/* Sends and receives between ranks that are active and ranks that have joined. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { THEN = 3 }; /* all-reduces after a refusal, in programs/exchange */

static struct run *run_exchange(const struct schedule *schedule, const char *mode, int sync_every,
                                const char *environment) {
  char text[512];
  snprintf(text, sizeof text, "--mode %s --iterations %s --sync-every %d --then %d", mode,
           schedule_text(schedule), sync_every, THEN);
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "exchange",
                                            .options = text,
                                            .environment = environment});
  assert_went_well(result);
  return result;
}

/* What a rank gets from another one: zeros if that has joined. */
static void add_got(struct lines *lines, int rank, int from, bool active, int i) {
  lines_add(lines, rank, "got %d %d %d", i, active ? 100 * (from + 1) : 0, active ? i + 1 : 0);
}

static void add_iteration(struct lines *lines, const struct schedule *schedule, const char *mode,
                          int rank, int epoch, int i) {
  unsigned active = schedule_active(schedule, epoch, i);
  bool pairs = strcmp(mode, "pairs") == 0;
  bool turned = strcmp(mode, "turned") == 0;
  int left = (rank + (turned ? 1 : schedule->nranks - 1)) % schedule->nranks;
  if (pairs)
    left = rank ^ 1;
  if (pairs || turned || strcmp(mode, "ring") == 0 || strcmp(mode, "plain") == 0)
    lines_add(lines, rank, "sum %d %u %d", i, active, set_size(active) * (i + 1));
  if (strcmp(mode, "pipeline") == 0) {
    unsigned before = (1u << rank) - 1;
    if (rank > 0)
      add_got(lines, rank, 0, (active & before) == before, i);
  } else if (strcmp(mode, "plain") != 0 || rank % 2 == 1) {
    add_got(lines, rank, left, active >> left & 1, i);
  }
}

static void check(const struct schedule *schedule, const char *mode, int sync_every,
                  const char *environment) {
  struct run *result = run_exchange(schedule, mode, sync_every, environment);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int epoch = 0; epoch < schedule->epochs; epoch++) {
      for (int i = 0; i < schedule->n[epoch][rank]; i++)
        add_iteration(lines, schedule, mode, rank, epoch, i);
      if (strcmp(mode, "rounds") == 0)
        lines_add(lines, rank, "met %d %u %d", epoch, set_of_all(schedule->nranks),
                  schedule->nranks * (epoch + 1));
    }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

static void check_zeros(const struct schedule *schedule, const char *mode, int sync_every) {
  check(schedule, mode, sync_every, "NCCL_JOIN_LOSSY=zero");
}

Test(exchange, ring_of_two) {
  check_zeros(&(struct schedule){2, 1, {{3, 6}}}, "ring", 1);
}
Test(exchange, ring_of_three) {
  check_zeros(&(struct schedule){3, 1, {{4, 9, 6}}}, "ring", 1);
}
Test(exchange, ring_of_four_once_learnt) {
  check_zeros(&(struct schedule){4, 1, {{30, 14, 20, 30}}}, "ring", 1);
}
Test(exchange, ring_without_waiting_for_the_device) {
  check_zeros(&(struct schedule){4, 1, {{40, 12, 25, 60}}}, "ring", 0);
}
Test(exchange, ring_with_a_rank_without_iterations) {
  check_zeros(&(struct schedule){4, 1, {{8, 0, 8, 5}}}, "ring", 1);
}

Test(exchange, sends_without_groups) {
  check_zeros(&(struct schedule){4, 1, {{9, 5, 3, 7}}}, "plain", 1);
}
Test(exchange, sends_without_groups_once_learnt) {
  check_zeros(&(struct schedule){4, 1, {{20, 30, 24, 12}}}, "plain", 4);
}

/* Parked in the communicator of all, a rank answers in that of its pair. */
Test(exchange, sends_on_a_communicator_of_each_pair) {
  check_zeros(&(struct schedule){4, 1, {{9, 5, 3, 7}}}, "pairs", 1);
}
Test(exchange, sends_on_a_communicator_of_each_pair_once_learnt) {
  check_zeros(&(struct schedule){4, 1, {{30, 16, 14, 22}}}, "pairs", 1);
}
Test(exchange, sends_on_a_communicator_of_each_pair_without_waiting) {
  check_zeros(&(struct schedule){4, 1, {{12, 16, 30, 14}}}, "pairs", 0);
}

/* A rank has another number in each communicator. */
Test(exchange, sends_on_a_communicator_that_numbers_ranks_in_another_way) {
  check_zeros(&(struct schedule){4, 1, {{9, 5, 3, 7}}}, "turned", 1);
}

/* While one thread waits for the others in an all-reduce, sends and receives are those of the other
 * thread, and not to be answered. */
Test(exchange, sends_of_another_thread_are_left_to_it) {
  enum { RANKS = 3, ITERATIONS = 30 };
  struct run *result = run(&(struct launch){
      .nranks = RANKS, .program = "exchange", .options = "--mode threads --iterations 30"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < RANKS; rank++)
    for (int i = 0; i < ITERATIONS; i++) {
      lines_add(lines, rank, "sum %d 7 %d", i, RANKS * (i + 1));
      lines_add(lines, rank, "thread %d %d", i, 1000 * ((rank + RANKS - 1) % RANKS + 1) + i);
    }
  lines_add_left(lines, RANKS);
  finish_run(result, lines);
}

/* What is sent to a joined rank is not missed by anybody: nothing is refused. */
Test(exchange, pipeline_whose_last_stage_joins_first) {
  check(&(struct schedule){3, 1, {{9, 9, 4}}}, "pipeline", 1, "");
}
Test(exchange, pipeline_whose_last_stages_join_one_by_one) {
  check(&(struct schedule){4, 1, {{12, 9, 6, 3}}}, "pipeline", 3, "");
}
Test(exchange, pipeline_whose_first_stage_joins_first) {
  check_zeros(&(struct schedule){3, 1, {{4, 9, 9}}}, "pipeline", 1);
}
Test(exchange, pipeline_without_a_stage_in_the_middle) {
  check_zeros(&(struct schedule){4, 1, {{9, 3, 9, 9}}}, "pipeline", 0);
}

Test(exchange, loops_of_nothing_but_sends_meet_after_each) {
  check_zeros(
      &(struct schedule){3, 6, {{1, 3, 3}, {2, 5, 2}, {3, 1, 4}, {3, 0, 2}, {3, 3, 3}, {9, 2, 1}}},
      "rounds", 1);
}
/* By the fourth epoch, the collective after each is all that has been learnt. */
Test(exchange, long_loops_of_sends_that_become_uneven_late) {
  check_zeros(
      &(struct schedule){2, 6, {{70, 70}, {70, 70}, {70, 70}, {70, 70}, {70, 90}, {75, 70}}},
      "rounds", 10);
}

Test(exchange, nothing_changes_while_nobody_has_joined) {
  static const char *const modes[] = {"ring", "plain", "pipeline"};
  for (int mode = 0; mode < 3; mode++)
    check(&(struct schedule){4, 1, {{15, 15, 15, 15}}}, modes[mode], mode, "");
}

/* ---- refused ---- */

/* Every rank but the joined one is refused, soon after that has joined, and all leave in peace. One
 * line names the joined rank, the call, who called, and the setting. */
static void check_refused(const struct schedule *schedule, const char *mode, int joined,
                          int receiver) {
  struct run *result = run_exchange(schedule, mode, 1, "");
  char joined_name[32], receiver_name[32];
  snprintf(joined_name, sizeof joined_name, "rank %d has joined", joined);
  snprintf(receiver_name, sizeof receiver_name, "ncclRecv of rank %d", receiver);
  cr_assert(run_says_in_a_line(result, joined_name, receiver_name, "NCCL_JOIN_LOSSY", NULL),
            "no line names %s, %s and NCCL_JOIN_LOSSY:\n%s", joined_name, receiver_name,
            result->errors);
  int said = 0;
  for (const char *at = result->errors; (at = strstr(at, receiver_name)) != NULL; at++)
    said++;
  cr_assert_geq(said, schedule->nranks - 1, "not all active ranks say so:\n%s", result->errors);
  assert_refused(result, schedule->nranks, joined);
  assert_not_gone_on(result, schedule, joined, heard_within(schedule->nranks, 2));
  run_free(result);
}

Test(exchange, ring_is_refused) {
  check_refused(&(struct schedule){3, 1, {{2, 9, 9}}}, "ring", 0, 1);
}
Test(exchange, ring_is_refused_once_learnt) {
  check_refused(&(struct schedule){4, 1, {{30, 30, 12, 30}}}, "ring", 2, 3);
}
Test(exchange, pipeline_is_refused) {
  check_refused(&(struct schedule){2, 1, {{3, 9}}}, "pipeline", 0, 1);
}

/* A rank without iterations, and one that is told of it by its first receive, or before: the second
 * one is not issued any more, or over machines not the last (docs/limits.md). Nothing comes after,
 * so that no other call tells of it. */
static struct run *run_refused_before(const char *mode, const char *call) {
  char text[128];
  snprintf(text, sizeof text, "--mode %s --iterations 0,9 --then 0", mode);
  struct run *result = run(&(struct launch){.nranks = 2, .program = "exchange", .options = text});
  assert_went_well(result);
  cr_assert_not(has_result(result, 1, run_machines(2) > 1 ? "got 8" : "got 1"));
  snprintf(text, sizeof text, "refused %s", call);
  cr_assert(has_result(result, 1, text));
  return result;
}

Test(exchange, a_receive_is_refused_before_it_is_issued) {
  struct run *result = run_refused_before("pipeline", "recv");
  cr_assert(run_says(result, "rank 0 has joined and could only send zeros to ncclRecv of rank 1"),
            "%s", result->errors);
  cr_assert(run_says(result, "rank 0 has joined and has nothing to send to ncclRecv of rank 1"),
            "%s", result->errors);
  cr_assert(has_result(result, 1, "got 0 0 0"));
  run_free(result);
}
/* Of two ranks it is a unit: that the first one does not come may be known before it is issued. */
Test(exchange, so_is_one_in_a_group) {
  struct run *result = run_refused_before("rounds", "group");
  cr_assert(run_says(result, "to ncclRecv of rank 1: ncclInvalidUsage"), "%s", result->errors);
  run_free(result);
}

/* ---- other sizes ---- */

static struct run *run_rings(const char *iterations, const char *environment, const char *enough) {
  char text[128];
  snprintf(text, sizeof text, "--mode rings --iterations %s --then 0", iterations);
  return run(&(struct launch){.nranks = 3,
                              .program = "exchange",
                              .options = text,
                              .environment = environment,
                              .enough = enough});
}

/* A ring of three is not agreed on: the last round of one rank meets what comes after the loop. */
Test(exchange, a_ring_that_meets_one_of_another_size_is_told_of) {
  static const char *const iterations[] = {"4,3,3", "3,4,3", "60,60,61"};
  for (int i = 0; i < 3; i++) {
    struct run *result = run_rings(iterations[i], "", "their sizes differ");
    cr_expect(run_says_in_a_line(result, "NCCL-JOIN WARN", ", float32, 32) of rank ", " meets ",
                                 ", float32, 64) of rank ", " at ", "their sizes differ",
                                 "nccl_join_leave", NULL) ||
                  run_says_in_a_line(result, "NCCL-JOIN WARN", ", float32, 64) of rank ", " meets ",
                                     ", float32, 32) of rank ", " at ", "their sizes differ",
                                     "nccl_join_leave", NULL),
              "%s: %s", iterations[i], result->errors);
    run_free(result);
  }
}

Test(exchange, or_the_job_stops_there) {
  struct run *result = run_rings("4,3,3", "NCCL_JOIN_UNSURE=stop", NULL);
  cr_expect(run_says_in_a_line(result, "their sizes differ", "It is not issued", "ncclInvalidUsage",
                               NULL),
            "%s", result->errors);
  cr_expect_not(run_says(result, "MISMATCH"), "%s", result->errors);
  cr_expect(strstr(result->output, " refused group") != NULL, "%s", result->output);
  cr_expect(run_says_in_a_line(result, "refused: nccl-join: ", "their sizes differ", NULL), "%s",
            result->errors);
  cr_expect_neq(result->status, 0);
  cr_expect_not(result->timed_out);
  run_free(result);
}

Test(exchange, rings_that_are_even_are_not_doubted) {
  struct run *result = run_rings("40,40,40/7,7,7", "NCCL_JOIN_UNSURE=stop", NULL);
  assert_went_well(result);
  cr_expect_not(run_says(result, "NCCL-JOIN WARN"), "%s", result->errors);
  cr_expect(has_result(result, 1, "got 40 100 41"), "%s", result->output);
  cr_expect(has_result(result, 2, "got 7 200 8"), "%s", result->output);
  run_free(result);
}

/* ---- loops that are left ---- */

/* Rings and pipelines that end with one more of the same size, at another place. */
static struct run *run_left(const char *mode, const char *iterations, const char *environment,
                            const char *enough) {
  char text[128];
  snprintf(text, sizeof text, "--mode %s --iterations %s --then 0", mode, iterations);
  return run(&(struct launch){.nranks = 3,
                              .program = "exchange",
                              .options = text,
                              .environment = environment,
                              .enough = enough});
}

static void check_left(const char *mode, const char *iterations) {
  struct run *result = run_left(mode, iterations, "", " goes on with");
  cr_expect(run_says_in_a_line(result, "NCCL-JOIN WARN", ", float32, 64) of rank ", " meets ",
                               " has left a loop of sends and receives that ", " goes on with",
                               "nccl_join_leave", NULL),
            "%s %s: %s", mode, iterations, result->errors);
  run_free(result);
}

Test(exchange, a_rank_that_leaves_a_ring_into_another_is_told_of) {
  check_left("alike", "4,3,3");
  check_left("alike", "4,4,4/3,4,3");
}
Test(exchange, so_is_a_stage_that_leaves_a_pipeline) {
  check_left("stages", "2,3,3");
  check_left("stages", "4,4,4/3,3,2");
}

Test(exchange, or_the_job_stops_before_they_meet) {
  struct run *result = run_left("alike", "4,3,3", "NCCL_JOIN_UNSURE=stop", NULL);
  cr_expect(
      run_says_in_a_line(result, " has left a loop ", "It is not issued", "ncclInvalidUsage", NULL),
      "%s", result->errors);
  cr_expect(strstr(result->output, " refused group") != NULL, "%s", result->output);
  cr_expect_neq(result->status, 0);
  cr_expect_not(result->timed_out);
  run_free(result);
}

Test(exchange, loops_that_all_leave_are_not_doubted) {
  static const char *const modes[] = {"alike", "stages"};
  for (int i = 0; i < 2; i++) {
    struct run *result = run_left(modes[i], "40,40,40/1,1,1/7,7,7", "NCCL_JOIN_UNSURE=stop", NULL);
    assert_went_well(result);
    cr_expect_not(run_says(result, "NCCL-JOIN WARN"), "%s", result->errors);
    cr_expect(has_result(result, 1, "got 1002 100 1003"), "%s", result->output);
    run_free(result);
  }
}

/* They differ in rounds of a loop by design, and do what ranks do that leave one: they get the
 * WARN, and go on as ever. */
Test(exchange, stages_that_warm_up_are_told_of_once_and_go_on) {
  enum { EPOCHS = 3, ITERATIONS = 6 };
  struct run *result = run_left("warm", "6,6,6/6,6,6/6,6,6", "", NULL);
  assert_went_well(result);
  cr_expect(run_says_in_a_line(result, "NCCL-JOIN WARN", " has left a loop ",
                               "stages of a pipeline may do so by design", NULL),
            "%s", result->errors);
  struct lines *lines = lines_create();
  for (int rank = 1; rank < 3; rank++)
    for (int epoch = 0; epoch < EPOCHS; epoch++)
      for (int i = 0; i < ITERATIONS; i++)
        lines_add(lines, rank, "got %d 100 %d", i, i + 1);
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* ---- without nccl-join ---- */

static void check_stuck(const struct schedule *schedule, const char *mode) {
  char text[512];
  snprintf(text, sizeof text, "--mode %s --iterations %s", mode, schedule_text(schedule));
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "exchange",
                                            .options = text,
                                            .environment = "LOOPBACK_DEATH=hang",
                                            .without = RUN_ALL_RANKS,
                                            .limit_s = 4});
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  run_free(result);
}

Test(exchange, without_it_a_ring_hangs) {
  check_stuck(&(struct schedule){3, 1, {{2, 5, 5}}}, "ring");
}
Test(exchange, without_it_sends_hang) {
  check_stuck(&(struct schedule){2, 1, {{5, 2}}}, "plain");
}
/* More than the 4 MiB that NCCL buffers: of a send that fits nobody need wait for the receive. */
Test(exchange, without_it_a_pipeline_hangs) {
  check_stuck(&(struct schedule){3, 1, {{5, 5, 2}}}, "pipeline --count 1000000");
}
