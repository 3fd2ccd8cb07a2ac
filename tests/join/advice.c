/* nccl-join report: what would have made a run better, as far as its traces tell. */
#include "tests/join/written.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(advice, .init = written_begin, .fini = written_end, .timeout = 300);

Test(advice, of_missing_traces_it_does_not_say_what_was_in_them) {
  write_rank(0, "", TWO AT(2100, "done", 2));
  struct run *result = report("--text");
  expect_in(result->output, "Traces are missing: these are of 1 of 2 ranks.");
  expect_in(result->output, "In what there is, no rank has joined.");
  expect_not_in(result->output, "nothing to gain");
  run_free(result);
}

Test(advice, of_traces_without_their_beginning_it_says_what_is_left) {
  write_rank(0, "", AT(1000, "commit", 7) AT(2000, "commit", 8) AT(2100, "done", 9));
  write_rank(1, "", AT(1000, "commit", 7) AT(2000, "commit", 8) AT(2100, "done", 9));
  struct run *result = report("--text");
  expect_in(result->output, "The first 7 collectives are not in the traces");
  expect_not_in(result->output, "nothing to gain");
  run_free(result);
}

static void expect_no_advice(void) {
  struct run *result = report("--text");
  expect_not_in(result->output, "Rebalance");
  expect_not_in(result->output, "would have lost");
  expect_in(result->output, "cannot be told of a part of what they did");
  run_free(result);
}

/* Who has the most of the rest may have the least of all. */
Test(advice, of_a_part_of_what_ranks_did_it_gives_no_advice) {
  write_rank(0, "", AT(1000, "commit", 7) AT(2000, "commit", 8) AT(2100, "done", 9));
  write_rank(1, "", AT(1000, "commit", 7) AT(2000, "shadow", 8) AT(2100, "done", 9));
  expect_no_advice();
  write_rank(0, "", TWO);
  write_rank(1, "", AT(1000, "commit", 0) AT(2000, "shadow", 1) AT(2100, "done", 2));
  expect_no_advice();
}

Test(advice, of_one_epoch_stopping_and_dropping_the_rest_are_the_same) {
  write_rank(0, "", TWO AT(2500, "commit", 2) AT(2600, "done", 3));
  write_rank(1, "", TWO AT(2500, "shadow", 2) AT(2600, "done", 3));
  struct run *result = report("--text");
  expect_in(result->output, "would have lost 1 of 5 collectives with data, 20 %. Waiting");
  run_free(result);
}

Test(advice, even_ranks_have_nothing_to_gain) {
  write_rank(0, "", TWO AT(2100, "done", 2));
  write_rank(1, "", TWO AT(2100, "done", 2));
  struct run *result = report("--text");
  expect_in(result->output, "nothing to gain");
  expect_not_in(result->output, "Rebalance");
  run_free(result);
}

Test(advice, equal_totals_in_other_epochs_have_something_to_gain) {
  write_rank(0, "",
             TWO AT(2500, "shadow", 2) AT(3000, "shadow", 3) AT(4000, "settle", 4)
                 AT(5000, "commit", 5) AT(5500, "commit", 6) AT(6000, "commit", 7)
                     AT(7000, "done", 8));
  write_rank(1, "",
             TWO AT(2500, "commit", 2) AT(3000, "commit", 3) AT(4000, "settle", 4)
                 AT(5000, "commit", 5) AT(5500, "shadow", 6) AT(6000, "shadow", 7)
                     AT(7000, "done", 8));
  struct run *result = report("--text");
  expect_in(
      result->output,
      "Rebalance: all ranks had as many collectives of their own (6), but not "
      "in the same epochs. With as many on each rank in each epoch the run would have taken 6 "
      "collectives and not 8");
  expect_not_in(result->output, "nothing to gain");
  run_free(result);
}

/* One has the most in the first epoch, the other in the second. */
Test(advice, with_the_most_data_on_each_rank_in_turn_nothing_is_moved_from_one_to_another) {
  write_rank(0, "",
             AT(1000, "commit", 0) AT(2000, "shadow", 1) AT(2500, "shadow", 2) AT(4000, "settle", 3)
                 AT(5000, "commit", 4) AT(5500, "commit", 5) AT(7000, "done", 6));
  write_rank(1, "",
             AT(1000, "commit", 0) AT(2000, "commit", 1) AT(2500, "commit", 2) AT(4000, "settle", 3)
                 AT(5000, "commit", 4) AT(5500, "shadow", 5) AT(7000, "done", 6));
  struct run *result = report("--text");
  expect_in(result->output, "Rebalance within each epoch: with as many collectives on each rank");
  expect_not_in(result->output, "moved away");
  run_free(result);
}

/* The wait at the beginning of a round, as of a loop. */
Test(advice, where_a_round_begins_is_no_collective) {
  for (int rank = 0; rank < 2; rank++)
    write_rank(
        rank, "",
        TWO
        "{\"t_ns\":2050000000,\"event\":\"settle\",\"index\":2,\"unit\":\"begin of a round\"}\n" AT(
            2100, "done", 3));
  struct run *result = report("--text");
  expect_in(result->output, "2 ranks, 2 collectives in");
  run_free(result);
}

Test(advice, what_is_even_but_for_less_than_a_collective_is_not_to_be_moved) {
  write_rank(0, "", AT(1000, "commit", 0) AT(2000, "shadow", 1) AT(3000, "done", 2));
  write_rank(1, "", TWO AT(3000, "done", 2));
  struct run *result = report("--text");
  expect_in(result->output, "Nothing to rebalance: with as many collectives on each rank the run "
                            "would have taken 2 all the same.");
  expect_not_in(result->output, "moved away");
  run_free(result);
}

/* A real run: the report knows it by the words of the warning. */
Test(advice, where_epochs_have_mixed_it_says_so) {
  char environment[200];
  run_needs_python();
  snprintf(environment, sizeof environment, "NCCL_JOIN_TRACE=%s", traces_folder);
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "../../tests/join/python/epochs.py",
                                            .options = "for 2,3/3,2",
                                            .environment = environment});
  cr_assert_eq(result->status, 0, "%s", result->errors);
  run_free(result);
  result = report("--text");
  expect_in(result->output, "If rounds are epochs, sums of two epochs were added up");
  expect_in(result->output,
            "No rank has joined: all had as many collectives of their own, over all rounds.");
  expect_not_in(result->output, "nothing to gain");
  run_free(result);
}
