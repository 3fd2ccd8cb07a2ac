/* Training as PyTorch's DistributedDataParallel does it, with what users put around it. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* Runs programs/ddp and compares every number. */
static void check_ddp(const struct schedule *schedule, const struct ddp *ddp, const char *more) {
  char text[1600];
  snprintf(text, sizeof text, "%s %s", ddp_text(schedule, ddp), more);
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks, .program = "ddp", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_ddp(lines, schedule, ddp);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* Buckets are rebuilt after the first iteration: three become four, with two broadcasts in between.
 */
Test(training, buckets_change_after_the_first_iteration) {
  check_ddp(&(struct schedule){3, 1, {{5, 8, 8}}}, &(struct ddp){0}, "");
}
Test(training, rank_leaves_before_the_buckets_change) {
  check_ddp(&(struct schedule){3, 1, {{8, 1, 8}}}, &(struct ddp){0}, "");
}
Test(training, rank_0_leaves_before_the_buckets_change) {
  check_ddp(&(struct schedule){3, 1, {{1, 8, 6}}}, &(struct ddp){0}, "");
}
Test(training, rank_0_has_no_iterations) {
  check_ddp(&(struct schedule){4, 1, {{0, 10, 10, 10}}}, &(struct ddp){0}, "");
}
Test(training, last_rank_has_no_iterations) {
  check_ddp(&(struct schedule){3, 1, {{3, 3, 0}}}, &(struct ddp){0}, "");
}
Test(training, rank_leaves_when_the_loop_is_well_learnt) {
  check_ddp(&(struct schedule){4, 1, {{30, 12, 30, 20}}}, &(struct ddp){0}, "");
}
Test(training, hosts_that_run_ahead) {
  check_ddp(&(struct schedule){4, 1, {{60, 25, 60, 40}}}, &(struct ddp){0}, "--sync end");
}

/* Gradients accumulate over k iterations; ranks leave in the middle of that. */
Test(training, gradients_summed_in_every_second_iteration) {
  check_ddp(&(struct schedule){3, 1, {{5, 12, 11}}}, &(struct ddp){.sync_every = 2}, "");
}
Test(training, gradients_summed_in_every_fifth_iteration) {
  check_ddp(&(struct schedule){3, 1, {{23, 48, 40}}}, &(struct ddp){.sync_every = 5}, "");
}
Test(training, gradients_summed_in_every_ninth_iteration) {
  check_ddp(&(struct schedule){2, 1, {{4, 60}}}, &(struct ddp){.sync_every = 9}, "");
}

/* Buffers come from rank 0, which leaves first: the lowest active rank's instead, and never zeros.
 */
Test(training, buffers_when_rank_0_leaves_first) {
  check_ddp(&(struct schedule){3, 1, {{4, 9, 12}}}, &(struct ddp){.buffers = true}, "");
}
Test(training, buffers_when_ranks_leave_in_order) {
  check_ddp(&(struct schedule){4, 1, {{3, 6, 9, 12}}}, &(struct ddp){.buffers = true}, "");
}
Test(training, buffers_when_rank_0_has_no_iterations) {
  check_ddp(&(struct schedule){3, 1, {{0, 5, 5}}}, &(struct ddp){.buffers = true}, "");
}
Test(training, buffers_when_rank_0_stays) {
  check_ddp(&(struct schedule){3, 1, {{12, 4, 8}}}, &(struct ddp){.buffers = true}, "");
}
Test(training, buffers_when_rank_0_leaves_after_long) {
  check_ddp(&(struct schedule){2, 1, {{20, 30}}}, &(struct ddp){.buffers = true}, "--sync end");
}

/* A metric now and then is not a rank leaving. */
Test(training, metric_in_every_third_iteration) {
  check_ddp(&(struct schedule){3, 1, {{20, 20, 20}}}, &(struct ddp){.metric_every = 3}, "");
}
Test(training, metric_and_ranks_that_leave) {
  check_ddp(&(struct schedule){4, 1, {{30, 14, 30, 22}}}, &(struct ddp){.metric_every = 4}, "");
}
Test(training, metric_in_every_iteration) {
  check_ddp(&(struct schedule){3, 1, {{9, 14, 5}}}, &(struct ddp){.metric_every = 1}, "");
}

/* A loss of one float in each iteration looks like the barrier after them. */
static void check_loss_like_the_barrier(const struct schedule *schedule) {
  check_ddp(schedule, &(struct ddp){.metric_every = 1, .scalar_metric = true, .barrier = true}, "");
}
Test(training, loss_like_the_barrier_and_epochs_alike) {
  check_loss_like_the_barrier(&(struct schedule){2, 4, {{25, 26}, {25, 26}, {25, 26}, {25, 26}}});
}
Test(training, loss_like_the_barrier_and_epochs_of_different_lengths) {
  check_loss_like_the_barrier(
      &(struct schedule){4, 3, {{9, 8, 5, 2}, {5, 9, 11, 6}, {10, 2, 4, 9}}});
}
Test(training, loss_like_the_barrier_and_even_epochs_first) {
  check_loss_like_the_barrier(
      &(struct schedule){3, 4, {{9, 9, 9}, {9, 9, 9}, {4, 9, 8}, {9, 3, 8}}});
}

/* Joining again, epoch after epoch. */
Test(training, several_epochs_with_a_barrier) {
  check_ddp(&(struct schedule){3, 3, {{6, 9, 12}, {6, 9, 12}, {6, 9, 12}}},
            &(struct ddp){.barrier = true}, "");
}
Test(training, another_rank_leaves_first_in_each_epoch) {
  check_ddp(&(struct schedule){3, 4, {{4, 9, 9}, {9, 4, 7}, {8, 8, 3}, {5, 0, 9}}},
            &(struct ddp){.barrier = true}, "");
}
Test(training, evaluation_after_each_epoch) {
  check_ddp(&(struct schedule){4, 3, {{5, 9, 7, 9}, {9, 5, 9, 7}, {9, 9, 5, 9}}},
            &(struct ddp){.batches = 3}, "");
}
/* A rank that never has data goes from one evaluation straight to the next: it waits there for the
 * others. */
Test(training, evaluation_of_a_rank_without_iterations) {
  for (int batches = 1; batches <= 3; batches++)
    check_ddp(&(struct schedule){3, 3, {{10, 0, 10}, {10, 0, 8}, {9, 0, 10}}},
              &(struct ddp){.batches = batches}, "");
}

/* Where it has had data before, nothing tells: the ranks may meet at different places, but it is
 * said. */
Test(training, what_cannot_be_known_is_said) {
  const struct schedule schedule = {3, 2, {{10, 8, 12}, {10, 0, 10}}};
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "ddp", .options = ddp_text(&schedule, &(struct ddp){.batches = 2})});
  assert_went_well(result);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "ranks want different collectives at",
                               "allreduce(sum, float64, 2)", "of rank 1 at ", "in a loop does",
                               "allreduce(sum, float32, 264)", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(training, evaluation_longer_than_the_loop) {
  check_ddp(&(struct schedule){2, 2, {{3, 5}, {5, 3}}}, &(struct ddp){.batches = 12}, "");
}
Test(training, evaluation_and_barrier_with_hosts_that_run_ahead) {
  check_ddp(&(struct schedule){3, 2, {{20, 35, 30}, {35, 20, 30}}},
            &(struct ddp){.batches = 4, .barrier = true}, "--sync end");
}

/* The barrier is of all ranks, whenever they come: its sum is the mask of all. */
Test(training, barrier_after_an_uneven_loop_meets_all) {
  check_ddp(&(struct schedule){4, 1, {{3, 6, 10, 8}}}, &(struct ddp){.barrier = true}, "");
}
Test(training, barrier_met_by_a_rank_without_iterations) {
  check_ddp(&(struct schedule){3, 2, {{2, 5, 5}, {0, 6, 6}}}, &(struct ddp){.barrier = true}, "");
}

Test(training, everything_at_once) {
  check_ddp(&(struct schedule){4, 2, {{12, 8, 16, 16}, {12, 16, 8, 16}}},
            &(struct ddp){.buffers = true, .batches = 2, .barrier = true}, "");
}

/* As those of a model of 300 layers whose loop is unrolled: all are known as long as the loop goes
 * on. */
Test(training, an_iteration_of_collectives_of_300_lines) {
  const int iterations[][2] = {{5, 6}, {4, 3}, {6, 6}};
  struct run *result = run(&(struct launch){.nranks = 2, .program = "places", .options = ""});
  assert_went_well(result);
  cr_expect(strstr(result->errors, "look alike") == NULL, "%s", result->errors);
  struct lines *lines = lines_create();
  for (int epoch = 0; epoch < 3; epoch++)
    for (int rank = 0; rank < 2; rank++) {
      lines_add(lines, rank, "epoch %d %d", epoch, 300 * iterations[epoch][rank]);
      lines_add(lines, rank, "end %d 3", epoch);
    }
  lines_add_left(lines, 2);
  finish_run(result, lines);
}

/* A warm-up and a loop that counts on from it; training and evaluation in two branches: each is a
 * loop of its own, although a compiler makes such loops of one, too. */
Test(training, two_loops_whose_collectives_look_alike_are_two) {
  static const char *const modes[] = {"counting", "branches"};
  static const int iterations[][3] = {{6, 8, 7}, {5, 9, 6}, {7, 6, 8}};
  for (int mode = 0; mode < 2; mode++) {
    char options[64];
    snprintf(options, sizeof options, "--mode %s", modes[mode]);
    struct run *result = run(&(struct launch){.nranks = 3, .program = "loops", .options = options});
    assert_went_well(result);
    struct lines *lines = lines_create();
    for (int epoch = 0; epoch < 3; epoch++)
      for (int rank = 0; rank < 3; rank++)
        lines_add(lines, rank, "epoch %d %d", epoch, (1 + mode) * iterations[epoch][rank]);
    lines_add_left(lines, 3);
    finish_run(result, lines);
  }
}

/* What they come to by the other branch, those with data come to behind what they begin with. */
Test(training, those_without_data_wait_in_a_branch_of_their_own) {
  static const int iterations[][3] = {{2, 3, 1}, {0, 4, 2}, {3, 0, 2}, {2, 2, 0}};
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "loops",
                           .options = "--mode alone --iterations 2,3,1/0,4,2/3,0,2/2,2,0"});
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int epoch = 0; epoch < 4; epoch++)
    for (int rank = 0; rank < 3; rank++)
      lines_add(lines, rank, "epoch %d %d", epoch, iterations[epoch][rank] + 1);
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* Who has no data is in the last loop of the epoch again, where that has just ended: as far as can
 * be seen it may go on. */
Test(training, a_loop_that_ends_as_it_did_before_is_not_gone_on_with_without_a_word) {
  static const int metrics[] = {3, 4, 700};
  for (int i = 0; i < 3; i++)
    for (int even = 0; even <= 1; even++) {
      char options[80];
      snprintf(options, sizeof options, "--mode metrics --metrics %d --iterations %s", metrics[i],
               even ? "3,3/2,2/4,4" : "3,2/2,3/2,0/1,2");
      struct run *result =
          run(&(struct launch){.nranks = 2, .program = "loops", .options = options});
      assert_went_well(result);
      cr_expect_eq(run_says(result, "nothing tells which goes first"), !even, "%s: %s", options,
                   result->errors);
      run_free(result);
    }
}

/* Who has nothing left waits behind that for those who have, in the first epoch, too, which may be
 * an even program's. */
Test(training, a_remainder_behind_a_loop_is_not_what_follows_it) {
  static const int iterations[][3] = {{5, 4, 4}, {4, 5, 5}, {3, 3, 2}, {1, 0, 2}};
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "loops",
                           .options = "--mode remainder --iterations 5,4,4/4,5,5/3,3,2/1,0,2"});
  assert_went_well(result);
  cr_expect(run_says(result, "are taken for different points"), "%s", result->errors);
  struct lines *lines = lines_create();
  for (int epoch = 0; epoch < 4; epoch++)
    for (int rank = 0; rank < 3; rank++)
      lines_add(lines, rank, "epoch %d %d", epoch,
                iterations[epoch][rank] / 2 + iterations[epoch][rank] % 2 + 1);
  lines_add_left(lines, 3);
  finish_run(result, lines);
}

/* Where a thread was started is not known: a loop of its own that looks like the training's may
 * meet it. */
Test(training, what_another_thread_does_behind_a_loop_is_told_of) {
  struct run *result =
      run(&(struct launch){.nranks = 3, .program = "loops", .options = "--mode threads"});
  assert_went_well(result);
  cr_expect(run_says(result, "since they look alike"), "%s", result->errors);
  run_free(result);
  result = run(&(struct launch){
      .nranks = 3, .program = "loops", .options = "--mode threads --iterations 6,6,6/5,5,5"});
  assert_went_well(result);
  cr_expect(strstr(result->errors, "WARN") == NULL, "%s", result->errors);
  for (int rank = 0; rank < 3; rank++)
    cr_expect(has_result(result, rank, "epoch 0 12") && has_result(result, rank, "epoch 1 10"));
  run_free(result);
}

/* Where the collective has been issued by the others before the rank comes to one that looks alike.
 */
Test(training, what_is_found_late_stops_the_job_with_the_place_and_the_remedy) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "branches",
                           .options = "",
                           .environment = "NCCL_JOIN_UNSURE=stop NCCL_JOIN_EPOCHS=mix"});
  cr_expect_neq(result->status, 0);
  cr_expect(run_says_in_a_line(result, "NCCL-JOIN WARN", " of rank 0 at ", " (branches)",
                               ", at collective ", " looks like that of rank ", "ncclRemoteError",
                               "nccl_join_leave", "NCCL_JOIN_UNSURE=warn", NULL),
            "%s", result->errors);
  run_free(result);
}

/* The others go on in the loop without being asked, past where rank 0 stands: that goes first when
 * they have left. */
Test(training, that_others_go_past_where_a_rank_stands_is_told_or_stops) {
  for (int stops = 0; stops <= 1; stops++) {
    struct run *result =
        run(&(struct launch){.nranks = 3,
                             .program = "loops",
                             .options = "--mode once --iterations 40,40,40",
                             .environment = stops ? "NCCL_JOIN_UNSURE=stop" : NULL});
    if (!stops)
      assert_went_well(result);
    cr_expect_eq(result->status != 0, stops);
    cr_expect(stops ? run_says_in_a_line(result, "NCCL-JOIN WARN",
                                         "rank 0 stands at allreduce(sum, float32, 1)",
                                         " (loops), in a loop", "goes on in the same loop at ",
                                         "ncclRemoteError", "NCCL_JOIN_UNSURE=warn", NULL)
                    : run_says_in_a_line(result, "NCCL-JOIN WARN", "nothing tells which goes first",
                                         "allreduce(sum, float32, 1)", " of rank 0 at ", "waits",
                                         NULL),
              "%s", result->errors);
    run_free(result);
  }
}

/* The same where the job is to stop instead. */
Test(training, what_cannot_be_known_stops_the_job_if_it_is_to) {
  const struct schedule schedule = {3, 2, {{10, 8, 12}, {10, 0, 10}}};
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "ddp",
                           .options = ddp_text(&schedule, &(struct ddp){.batches = 2}),
                           .environment = "NCCL_JOIN_UNSURE=stop"});
  cr_assert(!result->timed_out, "%s", result->errors);
  cr_assert_neq(result->status, 0);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "all stop after", "NCCL_JOIN_UNSURE=stop",
                               "ncclInvalidUsage", NULL),
            "%s", result->errors);
  run_free(result);
}
