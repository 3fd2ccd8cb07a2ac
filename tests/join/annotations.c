/* What a program may say to nccl-join (hooks/include/nccl_join.h): where a loop begins and ends,
 * who was last and who is active. What becomes of its buffers: resync.c. */
#include "tests/join/annotated.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end of a loop, said ---- */

/* Without any collective after the loop, and over several epochs of lengths that vary: nothing but
 * the word tells where a loop ends. */
Test(annotations, the_end_of_a_loop_is_where_the_program_says_it_is) {
  annotated_check(
      &(struct annotated){.schedule = {3, 4, {{3, 5, 9}, {7, 2, 4}, {6, 6, 6}, {0, 8, 1}}},
                          .say_leave = true,
                          .no_meeting = true});
}
Test(annotations, a_rank_without_data_where_it_had_some_before) {
  annotated_check(&(struct annotated){.schedule = {3, 3, {{10, 8, 12}, {10, 0, 10}, {5, 9, 0}}},
                                      .say_leave = true});
}
Test(annotations, begin_and_end_are_said) {
  annotated_check(
      &(struct annotated){.schedule = {4, 3, {{4, 9, 0, 7}, {0, 3, 3, 12}, {20, 1, 2, 3}}},
                          .say_leave = true,
                          .say_enter = true});
}
Test(annotations, a_loop_that_is_well_learnt_ends_where_it_is_said) {
  annotated_check(&(struct annotated){
      .schedule = {2, 2, {{60, 35}, {30, 70}}}, .say_leave = true, .no_meeting = true});
}
Test(annotations, epochs_so_alike_that_their_end_is_part_of_the_pattern) {
  annotated_check(&(struct annotated){
      .schedule = {3, 6, {{3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 2, 5}, {4, 1, 1}}},
      .say_leave = true,
      .parts = ALL_PARTS,
      .no_meeting = true,
      .options = "--state all"});
}

/* The same program without the words cannot be told apart from one whose loop goes on. */
Test(annotations, without_words_the_ranks_of_that_program_meet_elsewhere) {
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "annotations", .options = "--iterations 3,5,9/7,2,4 --meet 0"});
  assert_went_well(result);
  cr_assert(strstr(result->output, "RESULT 0 step 1 6 ") != NULL);
  struct run *other =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 3,5,9/7,2,4 --meet 0 --say leave"});
  cr_assert_str_neq(strstr(result->output, "RESULT 0 step 1 6 "),
                    strstr(other->output, "RESULT 0 step 1 6 "));
  run_free(result);
  run_free(other);
}

/* A rank that leaves for good has left the loop; one that says nothing is followed until it does.
 */
Test(annotations, ranks_that_say_nothing_are_followed_until_they_leave) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 2,5,7 --meet 0 --say leave,none,none"});
  assert_went_well(result);
  run_free(result);
}

Test(annotations, a_rank_that_fails_frees_those_who_wait_at_the_end_of_a_loop) {
  struct run *result =
      run(&(struct launch){.nranks = 2,
                           .program = "annotations",
                           .options = "--iterations 2,5 --meet 0 --say leave,none --end fail",
                           .each = true});
  cr_assert(!result->timed_out, "%s", result->errors);
  cr_assert_neq(result->rank_status[0], 0);
  cr_assert(strstr(result->output, "RESULT 0 error 6 nccl_join_leave") != NULL, "%s%s",
            result->output, result->errors);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 1 failed", "end of a loop", NULL),
            "%s", result->errors);
  run_free(result);
}

/* ---- questions ---- */

Test(annotations, who_was_last_and_who_is_active) {
  annotated_check(&(struct annotated){.schedule = {3, 2, {{3, 5, 4}, {9, 2, 9}}}, .ask = true});
  annotated_check(
      &(struct annotated){.schedule = {4, 3, {{0, 20, 3, 9}, {2, 2, 2, 2}, {5, 0, 0, 4}}},
                          .ask = true,
                          .say_leave = true});
}

Test(annotations, words_do_nothing_without_nccl_join) {
  static const char options[] =
      "--iterations 3 --say both --state all --ask 1 --wrong 1 --thread 1";
  struct run *without = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = options, .without = RUN_ALL_RANKS});
  struct run *off = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = options, .environment = "NCCL_JOIN=0"});
  struct run *alone = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = options, .without = 1 << 1});
  assert_went_well(without);
  cr_assert(strstr(without->output, "RESULT 1 last 0 -1\n") != NULL &&
                strstr(without->output, "RESULT 1 active 0 2 -1\n") != NULL &&
                strstr(without->output, "RESULT 0 wrong 0 0 0 0 0 0 0 0 0\n") != NULL,
            "%s", without->output);
  assert_went_well(off);
  assert_same_results(without, off);
  cr_assert_eq(alone->status, 0, "%s", alone->errors);
  cr_assert(strstr(alone->output, "RESULT 0 last 0 -1\n") != NULL, "%s", alone->output);
  run_free(without);
  run_free(off);
  run_free(alone);
}

/* 4: ncclInvalidArgument, 5: ncclInvalidUsage. */
Test(annotations, calls_that_are_wrong_are_refused_with_a_reason) {
  struct run *result = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = "--iterations 3,5 --wrong 1"});
  assert_went_well(result);
  for (int rank = 0; rank < 2; rank++) {
    char expected[64];
    snprintf(expected, sizeof expected, "RESULT %d wrong 4 4 4 4 4 4 4 4 5\n", rank);
    cr_assert(strstr(result->output, expected) != NULL, "%s", result->output);
  }
  cr_assert(annotated_is_said(result, "ncclJoinLeave: the communicator is NULL"), "%s",
            result->errors);
  cr_assert(annotated_is_said(result, "between ncclGroupStart and ncclGroupEnd"), "%s",
            result->errors);
  cr_assert(annotated_is_said(result, "is not registered"), "%s", result->errors);
  cr_assert(annotated_is_said(result, "the 8796093022208 bytes from"), "%s", result->errors);
  run_free(result);
}

Test(annotations, another_thread_may_ask_and_register_meanwhile) {
  annotated_check(&(struct annotated){.schedule = {3, 3, {{30, 12, 40}, {5, 50, 22}, {40, 30, 0}}},
                                      .parts = ALL_PARTS,
                                      .options = "--state all --thread 1"});
}

/* ---- Python ---- */

/* Of weights that begin with the rank: the sums of both ranks, then those of rank 1 alone. */
Test(annotations, the_example_in_python_runs) {
  run_needs_python();
  struct run *with =
      run(&(struct launch){.nranks = 2, .program = "../../docs/annotations.py", .options = "3,5"});
  struct run *without = run(&(struct launch){.nranks = 2,
                                             .program = "../../docs/annotations.py",
                                             .options = "3",
                                             .without = RUN_ALL_RANKS});
  assert_went_well(with);
  cr_assert(strstr(with->output, "RESULT 0 weights 14 last 1 active [0, 1]\n") != NULL &&
                strstr(with->output, "RESULT 1 weights 14 last 1 active [1]\n") != NULL,
            "%s", with->output);
  assert_went_well(without);
  cr_assert(strstr(without->output, "RESULT 0 weights 9 last -1 active None\n") != NULL &&
                strstr(without->output, "RESULT 1 weights 10 last -1 active None\n") != NULL,
            "%s", without->output);
  run_free(with);
  run_free(without);
}
