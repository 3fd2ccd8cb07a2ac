/* What becomes of a program's buffers when all ranks are together again (hooks/include/nccl_join.h,
 * NCCL_JOIN_RESYNC). */
#include "tests/join/annotated.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static void check_equal_at_the_end(const struct annotated *words) {
  struct annotated_model models[RUN_RANKS_MAX];
  run_free(annotated_run(words, models));
  cr_assert(annotated_are_equal(models, words->schedule.nranks));
}

Test(resync, registered_buffers_become_those_of_the_last_joiner) {
  check_equal_at_the_end(&(struct annotated){.schedule = {3, 3, {{6, 12, 9}, {8, 8, 8}, {3, 5, 4}}},
                                             .parts = ALL_PARTS,
                                             .options = "--state all"});
  check_equal_at_the_end(&(struct annotated){.schedule = {4, 2, {{0, 9, 9, 4}, {7, 0, 0, 0}}},
                                             .parts = ALL_PARTS,
                                             .ask = true,
                                             .say_leave = true,
                                             .options = "--state all"});
}

/* Without it, and with the weights alone, Adam's state keeps the ranks apart. */
Test(resync, what_is_not_registered_stays_as_it_was) {
  struct annotated_model models[RUN_RANKS_MAX];
  const struct schedule schedule = {3, 2, {{6, 12, 12}, {8, 8, 8}}};
  run_free(annotated_run(&(struct annotated){.schedule = schedule}, models));
  cr_assert_not(annotated_are_equal(models, 3));
  run_free(annotated_run(&(struct annotated){.schedule = schedule,
                                             .parts = WEIGHTS_PART,
                                             .options = "--state weights"},
                         models));
  cr_assert_not(annotated_are_equal(models, 3));
}

Test(resync, buffers_of_the_first_broadcasts_are_repeated_from_the_last_joiner) {
  const struct schedule schedule = {3, 3, {{6, 12, 9}, {8, 8, 8}, {12, 5, 7}}};
  static const char *const begins[] = {"--begin broadcast", "--begin group", "--begin barrier"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    check_equal_at_the_end(&(struct annotated){.schedule = schedule,
                                               .parts = ALL_PARTS,
                                               .options = begins[i],
                                               .environment = "NCCL_JOIN_RESYNC=broadcasts"});
  annotated_check(&(struct annotated){.schedule = schedule,
                                      .options = "--begin broadcast",
                                      .environment = "NCCL_JOIN_RESYNC=none"});
}

Test(resync, broadcasts_after_another_collective_are_not_the_start) {
  struct annotated_model models[RUN_RANKS_MAX];
  struct run *result =
      annotated_run(&(struct annotated){.schedule = {3, 1, {{6, 12, 9}}},
                                        .options = "--begin late",
                                        .environment = "NCCL_JOIN_RESYNC=broadcasts"},
                    models);
  cr_assert(annotated_is_said(
                result, "the program has broadcast nothing before its first other collective"),
            "%s", result->errors);
  run_free(result);
}

/* An update that the device has yet to come to is not lost, on the last joiner nor elsewhere. */
Test(resync, work_of_the_program_that_is_under_way_is_waited_for) {
  check_equal_at_the_end(&(struct annotated){.schedule = {3, 2, {{6, 12, 9}, {4, 2, 6}}},
                                             .parts = ALL_PARTS,
                                             .late = true,
                                             .options = "--state all"});
  check_equal_at_the_end(&(struct annotated){.schedule = {2, 2, {{6, 12}, {4, 2}}},
                                             .parts = ALL_PARTS,
                                             .late = true,
                                             .say_leave = true,
                                             .no_meeting = true,
                                             .options = "--state all"});
}

/* The last joiner is killed while all wait for its buffers, or for their own devices: nobody is
 * left waiting, whatever NCCL does about a dead peer. 6: ncclRemoteError. */
static void check_killed(const char *options, const char *death, const char *call) {
  char text[256];
  snprintf(text, sizeof text, "--iterations 3,6,4 --state all --late 2 %s", options);
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "annotations", .options = text, .environment = death, .each = true});
  cr_assert(!result->timed_out && result->seconds < 100, "%s%s", result->output, result->errors);
  cr_assert_eq(result->rank_status[1], 128 + 9);
  for (int rank = 0; rank < 3; rank += 2) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error 6 %s", rank, call);
    cr_assert(strstr(result->output, line) != NULL, "%s%s", result->output, result->errors);
    cr_assert_eq(result->rank_status[rank], 1);
  }
  run_free(result);
}
Test(resync, a_last_joiner_that_is_killed_frees_those_who_wait_for_its_buffers) {
  check_killed("--say leave --meet 0", "LOOPBACK_DEATH=hang LOOPBACK_HANG_S=0", "nccl_join_leave");
  check_killed("--say leave --meet 0", "LOOPBACK_DEATH=error", "nccl_join_leave");
  check_killed("", "LOOPBACK_DEATH=hang LOOPBACK_HANG_S=0", "ncclAllReduce");
}

/* Epochs so short and so alike that nobody waits at their end: a rank that joins once comes back
 * unnoticed, and is like the others once they have waited for each other, here where they leave. */
Test(resync, a_rank_that_comes_back_unnoticed_is_said_to_be_resynchronised_later) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 3/3/3/3/3/3/3/3/2,3,3/3 "
                                      "--state all --end destroy",
                           .environment = "NCCL_JOIN_DEBUG=INFO NCCL_JOIN_PLACES=0"});
  cr_assert(!result->timed_out && result->status == 0, "%s", result->errors);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 0 had joined, but the others have",
                               "where the ranks next wait for each other", NULL),
            "%s", result->errors);
  cr_assert(
      run_says(result, "rank 2, whose data lasted longest: 4 buffers of it are all ranks' now"),
      "%s", result->errors);
  run_free(result);
}

/* ---- several ranks in a process ---- */

/* Each rank's state is what it began with and the sums that it took part in, then the last
 * joiner's. each: ranks of one thread. */
static void check_devices(const char *options, int processes, const struct schedule *schedule,
                          int each) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), options);
  struct run *result =
      run(&(struct launch){.nranks = processes, .program = "devices", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  double states[RUN_RANKS_MAX];
  int nranks = schedule->nranks * each;
  for (int rank = 0; rank < nranks; rank++)
    states[rank] = 100.0 * rank;
  for (int epoch = 0; epoch < schedule->epochs; epoch++) {
    unsigned active;
    for (int i = 0; (active = schedule_active(schedule, epoch, i)) != 0; i++)
      for (int rank = 0; rank < nranks; rank++)
        states[rank] += active >> rank / each & 1 ? each * set_size(active) : 0;
    int last = 0;
    for (int rank = 0; rank < nranks; rank++)
      last = schedule->n[epoch][rank / each] >= schedule->n[epoch][last / each] ? rank : last;
    for (int rank = 0; rank < nranks; rank++)
      states[rank] = states[last];
    for (int rank = 0; rank < nranks; rank++)
      lines_add(lines, rank, "state %d %g", epoch, states[rank]);
  }
  finish_run(result, lines);
}

Test(resync, a_process_with_a_thread_for_each_rank) {
  const struct schedule schedule = {3, 3, {{20, 10, 0}, {3, 3, 9}, {4, 8, 4}}};
  check_devices("--mode threads --say leave", 1, &schedule, 1);
  check_devices("--mode threads --say both", 1, &schedule, 1);
  check_devices("--mode threads --say none", 1, &schedule, 1);
}
Test(resync, processes_with_one_thread_for_two_ranks) {
  const struct schedule schedule = {2, 3, {{20, 10}, {3, 9}, {8, 0}}};
  check_devices("--mode pairs --say leave", 2, &schedule, 2);
  check_devices("--mode pairs --say both", 2, &schedule, 2);
  check_devices("--mode pairs --say none", 2, &schedule, 2);
}

/* More buffers than one unit holds. */
Test(resync, a_thousand_buffers) {
  check_equal_at_the_end(&(struct annotated){.schedule = {3, 2, {{6, 12, 9}, {3, 2, 1}}},
                                             .parts = ALL_PARTS,
                                             .options = "--state all --repeat 1000"});
}

/* Freed on a rank that is not the last: it alone goes without. */
Test(resync, a_buffer_that_has_been_freed_is_left_out) {
  struct annotated_model models[RUN_RANKS_MAX];
  struct run *result =
      annotated_run(&(struct annotated){.schedule = {3, 2, {{6, 12, 9}, {4, 6, 5}}},
                                        .parts = ALL_PARTS,
                                        .not_received = 1 << 2,
                                        .options = "--state all --lose keep,keep,free"},
                    models);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 2: the buffer of 4 elements",
                               "was registered, has been freed", NULL),
            "%s", result->errors);
  run_free(result);
}

/* Another allocation where the buffer was: its content is its own. */
Test(resync, memory_that_is_another_buffers_now_is_left_alone) {
  struct annotated_model models[RUN_RANKS_MAX];
  struct run *result =
      annotated_run(&(struct annotated){.schedule = {3, 1, {{6, 12, 9}}},
                                        .parts = ALL_PARTS,
                                        .not_received = 1 << 0,
                                        .options = "--state all --lose replace,keep,keep"},
                    models);
  cr_assert(annotated_is_said(result, "rank 0: the buffer of 4 elements"), "%s", result->errors);
  run_free(result);
}

/* Freed on the last joiner: nobody gets what was never its model. */
Test(resync, a_buffer_that_the_last_joiner_has_freed_is_left_out_everywhere) {
  struct annotated_model models[RUN_RANKS_MAX];
  struct run *result =
      annotated_run(&(struct annotated){.schedule = {3, 1, {{6, 12, 9}}},
                                        .parts = MOMENTS,
                                        .options = "--state all --lose keep,free,keep"},
                    models);
  cr_assert(annotated_is_said(result, "rank 1: the buffer of 4 elements"), "%s", result->errors);
  run_free(result);
}

/* Ranks that have registered less, or nothing, or other sizes: no collective meets another. */
Test(resync, ranks_that_register_other_buffers_go_without) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 6,12,9 --state none,all,less"});
  assert_went_well(result);
  cr_assert(annotated_is_said(result, "rank 0 has no buffer for one that is resynchronised"), "%s",
            result->errors);
  run_free(result);
}

/* The communicator ends the last epoch: the model is the last joiner's when ncclCommDestroy
 * returns. */
Test(resync, the_end_of_a_communicator_resynchronises_too) {
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "annotations",
                                            .options = "--iterations 3,5 --meet 0 --state all",
                                            .environment = "NCCL_JOIN_DEBUG=INFO"});
  cr_assert(!result->timed_out && result->status == 0, "%s", result->errors);
  cr_assert(
      run_says(result, "rank 1, whose data lasted longest: 4 buffers of it are all ranks' now"),
      "%s", result->errors);
  run_free(result);
}
