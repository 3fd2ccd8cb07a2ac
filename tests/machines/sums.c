/* One all-reduce per iteration, by ranks of several machines. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const char uneven[] = "--iterations 3+1", even[] = "--iterations 4";

Test(machines, an_even_program_comes_through_without_nccl_join) {
  NEED_MACHINES();
  struct run *result = machines_run(&(struct machines_job){
      .machines = "2,2", .program = "sum", .options = even, .without = true});
  assert_went_well(result);
  run_free(result);
}

Test(machines, an_uneven_program_is_stuck_without_nccl_join) {
  NEED_MACHINES();
  struct run *result = machines_run(&(struct machines_job){.machines = "2,2",
                                                           .program = "sum",
                                                           .options = uneven,
                                                           .environment = "LOOPBACK_DEATH=hang",
                                                           .without = true,
                                                           .limit_s = 4});
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  run_free(result);
}

Test(machines, an_even_program_is_passed_through_when_off_and_told) {
  NEED_MACHINES();
  struct run *result = machines_run(
      &(struct machines_job){.machines = "2,2", .program = "sum", .options = even, .off = true});
  assert_went_well(result);
  cr_assert(run_says_in_a_line(result, "or on another machine", "NCCL_JOIN_MACHINES=0", NULL), "%s",
            result->errors);
  run_free(result);
}

/* ---- with agents ---- */

/* Runs programs/sum on these machines, and compares every number. */
static void check_sum(const char *machines, const struct schedule *schedule, int collectives) {
  NEED_MACHINES();
  char options[512];
  snprintf(options, sizeof options, "--iterations %s --collectives %d", schedule_text(schedule),
           collectives);
  struct run *result = machines_run(
      &(struct machines_job){.machines = machines, .program = "sum", .options = options});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, schedule, collectives);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

Test(machines, ranks_of_two_machines_leave_one_after_the_other) {
  check_sum("2,2", &(struct schedule){.nranks = 4, .epochs = 1, .n = {{3, 4, 5, 6}}}, 1);
}

Test(machines, several_collectives_in_an_iteration) {
  check_sum("2,2", &(struct schedule){.nranks = 4, .epochs = 1, .n = {{6, 5, 4, 3}}}, 3);
}

Test(machines, a_machine_whose_ranks_have_all_joined) {
  check_sum("2,2", &(struct schedule){.nranks = 4, .epochs = 1, .n = {{3, 3, 40, 50}}}, 2);
  check_sum("2,2", &(struct schedule){.nranks = 4, .epochs = 1, .n = {{30, 20, 2, 2}}}, 1);
}

Test(machines, of_one_two_and_five_ranks) {
  check_sum("1,2,5", &(struct schedule){.nranks = 8, .epochs = 1, .n = {{9, 2, 7, 7, 3, 3, 4, 1}}},
            1);
}

Test(machines, of_one_rank_each) {
  check_sum("1,1,1,1,1", &(struct schedule){.nranks = 5, .epochs = 1, .n = {{3, 4, 5, 6, 7}}}, 1);
}

/* More than a log holds: one machine's ranks shadow all of it. */
Test(machines, a_machine_that_goes_on_for_long) {
  check_sum("1,1", &(struct schedule){.nranks = 2, .epochs = 1, .n = {{3, 6000}}}, 1);
}

/* Epochs with a barrier behind each, where all are together again. */
Test(machines, ranks_leave_and_come_back_in_the_next_epoch) {
  NEED_MACHINES();
  const struct schedule schedule = {
      .nranks = 4, .epochs = 3, .n = {{3, 5, 5, 4}, {5, 3, 2, 9}, {1, 2, 3, 4}}};
  const struct ddp ddp = {.buffers = true, .barrier = true, .batches = 2};
  struct run *result = machines_run(&(struct machines_job){
      .machines = "2,2", .program = "ddp", .options = ddp_text(&schedule, &ddp)});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_ddp(lines, &schedule, &ddp);
  lines_add_left(lines, schedule.nranks);
  finish_run(result, lines);
}
