/* Programs that open NCCL and look its functions up, and such with several NCCL libraries. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>

static void check(const char *environment, const char *options, int collectives) {
  struct schedule schedule = {.nranks = 3, .epochs = 1, .n = {{3, 8, 5}}};
  char text[512];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(&schedule), options);
  struct run *result = run(&(struct launch){
      .nranks = schedule.nranks, .program = "opened", .options = text, .environment = environment});
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, collectives);
  lines_add_left(lines, schedule.nranks);
  assert_results(result, lines);
  lines_free(lines);
  cr_assert(!run_says(result, "WARN"), "%s", result->errors);
  run_free(result);
}

Test(clients, program_that_opens_nccl) {
  check("", "", 1);
}

Test(clients, program_that_opens_nccl_and_has_groups) {
  check("", "--collectives 3 --group 1", 3);
}

Test(clients, program_that_opens_nccl_is_stuck_without) {
  assert_stuck_without(3, "opened", "--iterations 3,8,5");
}

/* Communicators of two libraries, with the same ranks. */
static const char *two_libraries(void) {
  static char text[512];
  snprintf(text, sizeof text, "NCCL_FILES=libnccl.so.2:%s/programs/libanother.so",
           run_build_folder());
  return text;
}

Test(clients, program_with_two_libraries) {
  check(two_libraries(), "--communicators 2", 2);
}

Test(clients, program_with_two_libraries_and_groups_of_both) {
  check(two_libraries(), "--communicators 2 --collectives 2 --group 1", 4);
}
