/* Sends and receives right behind a loop of collectives (programs/behind): a rank that has left the
 * loop issues them when its peers have left it, too, and answers those that go on in it. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct run *run_behind(const struct schedule *schedule, const char *mode, const char *more,
                              const char *environment) {
  char text[512];
  snprintf(text, sizeof text, "--mode %s --iterations %s %s", mode, schedule_text(schedule), more);
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "behind",
                                            .options = text,
                                            .environment = environment});
  assert_went_well(result);
  return result;
}

static void add_got(struct lines *lines, int rank, int epoch, int from) {
  lines_add(lines, rank, "got %d %d %d %d", epoch, from, 100 * (from + 1), epoch + 1);
}

static void add_epoch(struct lines *lines, const struct schedule *schedule, const char *mode,
                      int epoch) {
  bool gathers = strcmp(mode, "gather") == 0 || strcmp(mode, "turns") == 0 ||
                 strcmp(mode, "later") == 0 || strcmp(mode, "wait") == 0;
  for (int rank = 1; rank < schedule->nranks; rank++) {
    if (gathers)
      add_got(lines, 0, epoch, rank);
    else
      add_got(lines, rank, epoch, strcmp(mode, "chain") == 0 ? rank - 1 : 0);
  }
}

static struct lines *expected(const struct schedule *schedule, const char *mode) {
  struct lines *lines = lines_create();
  lines_add_epoch_sums(lines, schedule);
  bool warm = strcmp(mode, "later") == 0 || strcmp(mode, "wait") == 0;
  for (int epoch = warm ? -1 : 0; epoch < schedule->epochs; epoch++)
    add_epoch(lines, schedule, mode, epoch);
  lines_add_left(lines, schedule->nranks);
  return lines;
}

static void check(const struct schedule *schedule, const char *mode, const char *more) {
  finish_run(run_behind(schedule, mode, more, ""), expected(schedule, mode));
}

static const struct schedule uneven = {3, 4, {{4, 3, 4}, {2, 5, 3}, {3, 3, 3}, {1, 1, 2}}};

Test(behind, gather) {
  check(&uneven, "gather", "");
}
Test(behind, gather_without_waiting_for_the_device) {
  check(&uneven, "gather", "--sync-every 0");
}
Test(behind, gather_of_more_than_nccl_buffers) {
  check(&uneven, "gather", "--count 300000 --sync-every 0");
}
Test(behind, gather_on_another_communicator) {
  check(&uneven, "gather", "--second 1");
}
Test(behind, gather_once_learnt) {
  check(&(struct schedule){2, 3, {{40, 39}, {38, 40}, {39, 39}}}, "gather", "--sync-every 8");
}
Test(behind, scatter) {
  check(&uneven, "scatter", "");
}
Test(behind, scatter_without_waiting_for_the_device) {
  check(&uneven, "scatter", "--count 300000 --sync-every 0");
}

/* One after the other, and none in a group: who is received from last waits for the first. */
Test(behind, receives_in_turn) {
  check(&(struct schedule){4,
                           5,
                           {{3, 2, 4, 1}, {4, 5, 3, 2}, {3, 1, 1, 2}, {2, 5, 4, 5}, {3, 3, 3, 3}}},
        "turns", "--sync-every 0");
}

/* A rank that has shadowed what its peers do has more to announce than they see where they stand.
 */
Test(behind, chain) {
  check(&(struct schedule){4, 3, {{4, 5, 5, 6}, {5, 3, 4, 3}, {4, 3, 2, 2}}}, "chain",
        "--sync-every 0");
}
Test(behind, chain_on_another_communicator) {
  check(&uneven, "chain", "--second 1 --count 300000");
}

/* A rank that has no data between two of them goes past others' loop without a collective. */
static const struct schedule without_data = {
    3, 5, {{2, 2, 2}, {0, 3, 1}, {2, 0, 0}, {0, 0, 1}, {2, 1, 0}}};

Test(behind, gather_without_data) {
  check(&without_data, "gather", "");
}
Test(behind, scatter_without_data) {
  check(&without_data, "scatter", "--sync-every 0");
}
Test(behind, receives_in_turn_without_data) {
  check(&without_data, "turns", "--second 1 --count 300000");
}
Test(behind, chain_without_data) {
  check(&without_data, "chain", "");
}

/* All meet behind the gather: a rank without data comes to it behind a collective of another kind.
 */
Test(behind, gather_without_data_before_a_collective_of_all) {
  struct run *result = run_behind(&without_data, "gather", "--meet 1", "");
  struct lines *lines = expected(&without_data, "gather");
  const struct schedule once = {3, 1, {{1, 1, 1}}};
  for (int epoch = 0; epoch < without_data.epochs; epoch++)
    lines_add_sums(lines, &once, 0, 200 + epoch);
  finish_run(result, lines);
}

static void check_with_evaluation(const char *mode) {
  const struct schedule train = {4, 3, {{2, 2, 2, 2}, {3, 1, 2, 2}, {2, 2, 0, 1}}};
  const struct schedule evaluation = {4, 3, {{0, 1, 1, 0}, {1, 2, 0, 1}, {2, 0, 1, 1}}};
  char more[64];
  snprintf(more, sizeof more, "--evaluations %s", schedule_text(&evaluation));
  struct run *result = run_behind(&train, mode, more, "");
  struct lines *lines = expected(&train, mode);
  for (int epoch = 0; epoch < evaluation.epochs; epoch++) {
    lines_add_sums(lines, &evaluation, epoch, 100 + epoch);
    add_epoch(lines, &evaluation, mode, 100 + epoch);
  }
  finish_run(result, lines);
}

Test(behind, gather_without_data_to_evaluate) {
  check_with_evaluation("gather");
}
Test(behind, scatter_without_data_to_evaluate) {
  check_with_evaluation("scatter");
}
Test(behind, chain_without_data_to_evaluate) {
  check_with_evaluation("chain");
}
Test(behind, receives_in_turn_without_data_to_evaluate) {
  check_with_evaluation("turns");
}

static bool has_warned(const struct run *result) {
  return strstr(result->errors, "NCCL-JOIN WARN") != NULL;
}

/* What comes round in each batch: 0 from a rank that has left. */
static void add_ring(struct lines *lines, const struct schedule *schedule) {
  for (int epoch = 0; epoch < schedule->epochs; epoch++)
    for (int rank = 0; rank < schedule->nranks; rank++)
      for (int i = 0; i < schedule->n[epoch][rank]; i++) {
        int from = (rank + schedule->nranks - 1) % schedule->nranks;
        bool comes = i < schedule->n[epoch][from];
        lines_add(lines, rank, "in %d %d %d %d", epoch, i, comes ? 100 * (from + 1) : 0,
                  comes ? i + 1 : 0);
      }
}

static void check_with_ring(const char *mode, const char *more) {
  const struct schedule schedule = {3, 4, {{3, 4, 3}, {2, 2, 2}, {2, 4, 3}, {3, 2, 2}}};
  struct run *result = run_behind(&schedule, mode, more, "NCCL_JOIN_LOSSY=send:zero");
  struct lines *lines = expected(&schedule, mode);
  add_ring(lines, &schedule);
  finish_run(result, lines);
}

/* A peer that goes on sends and receives in the loop, and waits for that before its next
 * collective. */
Test(behind, ring_in_the_loop_before_its_collective) {
  check_with_ring("gather", "--inside 1");
}
Test(behind, ring_in_the_loop_behind_its_collective) {
  check_with_ring("scatter", "--inside 2 --sync-every 0");
}

/* It makes room for sends and receives again and again. */
Test(behind, even_ring_in_the_loop) {
  const struct schedule even = {3, 2, {{29, 29, 29}, {30, 30, 30}}};
  struct run *result = run_behind(&even, "scatter", "--inside 2 --sync-every 0 --count 300000", "");
  cr_expect_not(has_warned(result), "%s", result->errors);
  cr_expect_null(strstr(result->errors, "inputs were uneven"), "%s", result->errors);
  struct lines *lines = expected(&even, "scatter");
  add_ring(lines, &even);
  finish_run(result, lines);
}

/* Nothing is to be told, and nobody shadows anything. */
static void check_even(const char *mode, const char *more) {
  const struct schedule even = {3, 3, {{4, 4, 4}, {2, 2, 2}, {30, 30, 30}}};
  struct run *result = run_behind(&even, mode, more, "");
  cr_expect_not(has_warned(result), "%s", result->errors);
  cr_expect_null(strstr(result->errors, "inputs were uneven"), "%s", result->errors);
  finish_run(result, expected(&even, mode));
}

Test(behind, even_gather) {
  check_even("gather", "");
}
Test(behind, even_chain) {
  check_even("chain", "--sync-every 0");
}
Test(behind, even_receives_in_turn) {
  check_even("turns", "--second 1 --sync-every 0");
}

/* The order of both is told once: the first time that it decides, and only of what is sent. */
Test(behind, order_that_nothing_tells_yet) {
  const struct schedule schedule = {2, 3, {{3, 2}, {3, 2}, {2, 3}}};
  struct run *result = run_behind(&schedule, "gather", "", "");
  const char *told = strstr(result->errors, "rank 1 has left a loop, and sends or receives");
  cr_expect(told != NULL && strstr(told, "waits until the other has left the loop, too") != NULL,
            "%s", result->errors);
  cr_expect(told != NULL && strstr(told + 20, "has left a loop") == NULL, "%s", result->errors);
  finish_run(result, expected(&schedule, "gather"));
}
Test(behind, order_that_an_even_epoch_has_told) {
  const struct schedule schedule = {2, 3, {{3, 3}, {3, 2}, {2, 3}}};
  struct run *result = run_behind(&schedule, "gather", "", "");
  cr_expect_not(has_warned(result), "%s", result->errors);
  finish_run(result, expected(&schedule, "gather"));
}
Test(behind, order_of_receives_is_known) {
  const struct schedule schedule = {2, 2, {{3, 2}, {2, 2}}};
  struct run *result = run_behind(&schedule, "scatter", "", "");
  cr_expect_not(has_warned(result), "%s", result->errors);
  finish_run(result, expected(&schedule, "scatter"));
}

Test(behind, who_may_not_guess_stops) {
  const struct schedule schedule = {2, 1, {{3, 2}}};
  char text[256];
  snprintf(text, sizeof text, "--mode gather --iterations %s", schedule_text(&schedule));
  struct run *result = run(&(struct launch){
      .nranks = 2, .program = "behind", .options = text, .environment = "NCCL_JOIN_UNSURE=stop"});
  cr_expect_neq(result->status, 0);
  cr_expect_not_null(strstr(result->errors, "and nothing tells which goes first: rank 1 stops"),
                     "%s", result->errors);
  run_free(result);
}

/* In another order than the others send, as NCCL allows on two communicators and streams. */
Test(behind, what_is_received_in_the_next_epoch_is_not_waited_for) {
  const struct schedule even = {2, 3, {{30, 30}, {30, 30}, {30, 30}}};
  struct run *result = run_behind(&even, "later", "--second 1 --sync-every 0", "");
  cr_expect_null(strstr(result->errors, "inputs were uneven"), "%s", result->errors);
  finish_run(result, expected(&even, "later"));
}

/* It comes in the end. */
Test(behind, peer_that_waits_for_it_outside_of_nccl) {
  const struct schedule even = {2, 1, {{3, 3}}};
  char text[256];
  snprintf(text, sizeof text, "--mode wait --iterations %s", schedule_text(&even));
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "behind",
                                            .options = text,
                                            .environment = "NCCL_JOIN_STALL_WARN=1",
                                            .here = true});
  assert_went_well(result);
  cr_expect_not_null(strstr(result->errors, "rank 1 has left a loop, and has waited 10"), "%s",
                     result->errors);
  finish_run(result, expected(&even, "wait"));
}
