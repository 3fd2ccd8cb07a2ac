/* One all-reduce per iteration, by ranks of several machines. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>

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

Test(machines, an_even_program_is_passed_through_and_told) {
  NEED_MACHINES();
  struct run *result =
      machines_run(&(struct machines_job){.machines = "2,2", .program = "sum", .options = even});
  assert_went_well(result);
  cr_assert(run_says(result, "or on another machine"), "%s", result->errors);
  run_free(result);
}
