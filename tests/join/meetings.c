/* Loops that are left into functions that are no NCCL calls: of a library, and MPI's. */
#include "tests/join/expected.h"
#include "tests/join/folder.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMED "NCCL_JOIN_EXIT_ON=meeting_of_all"

/* What mpirun needs to be started by root; and what Open MPI itself does not give back is not to be
 * looked for. */
#define OF_MPI                                                                                     \
  "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "                                     \
  "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"

static const struct schedule uneven = {3, 1, {{3, 8, 5}}};

/* What programs/meet prints, with so many meetings on every rank. */
static struct lines *expected(const struct schedule *schedule, int meetings) {
  struct lines *lines = lines_create();
  lines_add_epoch_sums(lines, schedule);
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int met = 1; met <= meetings; met++)
      lines_add(lines, rank, "met %d", met);
  lines_add_left(lines, schedule->nranks);
  return lines;
}

static struct run *start(const struct schedule *schedule, const char *options,
                         const char *environment) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), options);
  return run(&(struct launch){
      .nranks = schedule->nranks, .program = "meet", .options = text, .environment = environment});
}

/* The run has met so often, without a WARN. */
static void finish(struct run *result, const struct schedule *schedule, int meetings) {
  assert_went_well(result);
  cr_assert(!run_says(result, "WARN"), "%s", result->errors);
  finish_run(result, expected(schedule, meetings));
}

static void check(const struct schedule *schedule, const char *options, const char *environment,
                  int meetings) {
  finish(start(schedule, options, environment), schedule, meetings);
}

/* ---- of a library ---- */

Test(meetings, loop_that_is_left_into_one) {
  check(&uneven, "", NAMED, 1);
}

Test(meetings, loop_that_is_left_into_one_is_stuck_without) {
  assert_stuck_without(3, "meet", "--iterations 3,8,5");
}

Test(meetings, what_is_not_named_is_not_seen) {
  char text[64];
  snprintf(text, sizeof text, "--iterations %s", schedule_text(&uneven));
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "meet",
                           .options = text,
                           .environment = "NCCL_JOIN_EXIT_ON=meeting_prepare LOOPBACK_DEATH=hang",
                           .limit_s = 2});
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  run_free(result);
}

Test(meetings, after_each_epoch) {
  const struct schedule schedule = {3, 3, {{3, 8, 5}, {6, 2, 4}, {1, 9, 9}}};
  check(&schedule, "", NAMED, 3);
}

Test(meetings, ranks_without_data) {
  const struct schedule schedule = {3, 3, {{0, 4, 4}, {5, 0, 3}, {0, 0, 6}}};
  check(&schedule, "", NAMED, 3);
}

Test(meetings, before_the_loop_as_well) {
  const struct schedule schedule = {3, 2, {{0, 4, 6}, {3, 0, 5}}};
  check(&schedule, "--before 1", NAMED, 3);
}

Test(meetings, last_loop_that_is_left_into_the_end_of_the_process) {
  const struct schedule schedule = {3, 2, {{3, 8, 5}, {6, 2, 4}}};
  check(&schedule, "--end 1", NAMED, 1);
}

Test(meetings, in_every_iteration_of_an_even_loop) {
  const struct schedule schedule = {3, 2, {{7, 7, 7}, {4, 4, 4}}};
  check(&schedule, "--inside 1", NAMED, 7 + 4 + 2);
}

/* The others wait until it has come to where they are. */
Test(meetings, function_that_only_one_rank_calls_is_named_first) {
  const struct schedule schedule = {3, 2, {{3, 8, 5}, {6, 0, 4}}};
  struct run *result =
      start(&schedule, "--prepare 1", "NCCL_JOIN_EXIT_ON=meeting_prepare,meeting_of_all");
  assert_went_well(result);
  struct lines *lines = expected(&schedule, 2);
  lines_add(lines, 0, "prepared 1");
  lines_add(lines, 0, "prepared 2");
  finish_run(result, lines);
}

/* Rank 2 comes to the function three times before it meets the others, rank 0 once. */
Test(meetings, function_that_calls_itself_is_waited_before_once) {
  const struct schedule schedule = {3, 2, {{3, 8, 5}, {6, 0, 4}}};
  check(&schedule, "--steps 1", "NCCL_JOIN_EXIT_ON=meeting_by_steps", 2);
}

/* There is no communicator of all ranks to wait in. */
Test(meetings, of_ranks_with_communicators_of_rows_and_columns) {
  const struct schedule schedule = {4, 2, {{6, 6, 3, 3}, {2, 2, 7, 7}}};
  struct run *result = start(&schedule, "--grid 1", NAMED);
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int epoch = 0; epoch < schedule.epochs; epoch++)
    for (int rank = 0; rank < schedule.nranks; rank++)
      for (int i = 0; i < schedule.n[epoch][rank]; i++) {
        unsigned active = schedule_active(&schedule, epoch, i);
        unsigned row = active & (3U << (rank & 2)), column = active & (5U << (rank & 1));
        lines_add(lines, rank, "row %d %d %u %d", epoch, i, row,
                  set_size(row) * (1000 * epoch + i + 1));
        lines_add(lines, rank, "column %d %d %u %d", epoch, i, column,
                  set_size(column) * (1000 * epoch + i + 1));
      }
  for (int rank = 0; rank < schedule.nranks; rank++)
    for (int met = 1; met <= 2; met++)
      lines_add(lines, rank, "met %d", met);
  lines_add_left(lines, schedule.nranks);
  finish_run(result, lines);
}

/* What PyTorch's legacy backend waits in when it makes the communicator of all ranks. */
Test(meetings, communicator_that_pytorch_makes_after_the_loop) {
  const struct schedule schedule = {3, 3, {{3, 8, 5}, {0, 4, 4}, {5, 5, 5}}};
  check(&schedule, "--group 1", "", 3);
  check(&uneven, "--group 2", "", 1);
}

/* The same of a communicator of some of them: who is there first answers its peers until the others
 * of its half are. */
Test(meetings, communicators_that_pytorch_makes_of_halves_after_the_loop) {
  const struct schedule schedule = {4, 3, {{3, 8, 5, 0}, {2, 2, 7, 7}, {0, 0, 4, 1}}};
  check(&schedule, "--group 1 --halves 1", "", 3);
  if (run_machines(5) > 1)
    return; /* one of the halves is of two machines: docs/limits.md */
  const struct schedule odd = {5, 2, {{3, 8, 5, 1, 6}, {4, 4, 4, 4, 4}}};
  check(&odd, "--group 1 --halves 1", "", 2);
}

/* Before the first collective, in every iteration, and with nobody in a loop. */
Test(meetings, communicators_of_halves_of_even_ranks_wait_for_their_own_only) {
  const struct schedule even = {4, 2, {{4, 4, 4, 4}, {1, 1, 1, 1}}};
  check(&even, "--group 1 --halves 1 --inside 1 --before 1", "", 8);
}

Test(meetings, rank_that_fails_releases_those_of_its_half_that_wait_to_make_a_communicator) {
  struct run *result = run(&(struct launch){.nranks = 4,
                                            .program = "meet",
                                            .options = "--iterations 1,100,100,100 --wait 20 "
                                                       "--group 1 --halves 1 --fail 1:9",
                                            .each = true,
                                            .limit_s = 20,
                                            .enough = "rank 0, parked in ProcessGroupNCCL"});
  cr_assert(run_says_in_a_line(result, "rank 1 failed", "parked in ProcessGroupNCCL", NULL), "%s",
            result->errors);
  run_free(result);
}

static void check_not_waited_before(const char *options, const char *environment) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "meet",
                                            .options = options,
                                            .environment = environment,
                                            .limit_s = 2});
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  run_free(result);
}

/* One rank has been told of more ranks: all of them see that. */
Test(meetings, nobody_waits_before_that_if_it_is_not_known_to_be_of_all) {
  check_not_waited_before("--iterations 3,8,5 --group 1 --world 7", "LOOPBACK_DEATH=hang");
  check_not_waited_before("--iterations 3,8,5 --group 1",
                          "NCCL_JOIN_EXIT_ON=-ProcessGroupNCCL LOOPBACK_DEATH=hang");
  check_not_waited_before("--iterations 3,8,5 --group 1 --halves 1",
                          "NCCL_JOIN_EXIT_ON=-ProcessGroupNCCL LOOPBACK_DEATH=hang");
  check_not_waited_before("--iterations 3,8,5 --group 1 --halves 1 --world 7",
                          "LOOPBACK_DEATH=hang");
}

Test(meetings, one_that_nothing_calls_is_said_once_by_each_rank) {
  const struct schedule even = {2, 1, {{4, 4}}};
  struct run *result = start(&even, "", "NCCL_JOIN_EXIT_ON=meeting_of_none");
  assert_went_well(result);
  int times = 0;
  for (const char *at = result->errors; (at = strstr(at, "meeting_of_none through an import"));)
    times++, at++;
  cr_assert_eq(times, 2, "%s", result->errors);
  run_free(result);
}

Test(meetings, with_throw_all_ranks_stop_where_the_first_has_left) {
  struct run *result = start(&uneven, "", NAMED " NCCL_JOIN_EARLY_EXIT=throw");
  cr_assert(!result->timed_out && result->status == 1, "status %d\n%s%s", result->status,
            result->output, result->errors);
  /* The first rank that ends with its error ends the others, rank 0 too, wherever that is. */
  cr_assert(run_says_in_a_line(result, "rank 0 has left its loop", "after 3 collectives", NULL),
            "%s", result->errors);
  cr_assert(strstr(result->output, "sum 0 2 7 9") != NULL, "%s", result->output);
  cr_assert(strstr(result->output, "sum 0 3") == NULL, "%s", result->output);
  run_free(result);
}

Test(meetings, rank_that_fails_releases_those_that_wait) {
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "meet",
                                            .options = "--iterations 1,100 --wait 20 --fail 1:9",
                                            .environment = NAMED,
                                            .each = true,
                                            .limit_s = 20,
                                            .enough = "rank 0, parked in meeting_of_all"});
  cr_assert(run_says_in_a_line(result, "rank 1 failed", "parked in meeting_of_all", NULL), "%s",
            result->errors);
  run_free(result);
}

Test(meetings, switched_off_nothing_is_seen) {
  struct run *result = run(&(struct launch){.nranks = 3,
                                            .program = "meet",
                                            .options = "--iterations 3,8,5",
                                            .environment = NAMED " NCCL_JOIN=0 LOOPBACK_DEATH=hang",
                                            .limit_s = 2});
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  run_free(result);
}

/* ---- MPI ---- */

static bool has_mpi(void) {
  char program[256];
  snprintf(program, sizeof program, "%s/programs/mpi", run_build_folder());
  return access(program, X_OK) == 0;
}

/* Nothing else says which tests skip themselves. */
ReportHook(PRE_ALL)(struct criterion_test_set *tests) {
  (void)tests;
  if (!has_mpi())
    fputs("tests/join: no tests with MPI: no mpicc (tools/deps --check installs Open MPI)\n",
          stderr);
}

/* Where mpirun keeps what belongs to a run. All runs of one user share a folder otherwise, and fail
 * with "mkdir: File exists" where one begins while another ends. */
static char session[] = "/tmp/nccl-join-mpi-XXXXXX";

static void begin_session(void) {
  folder_make(session);
}

static void end_session(void) {
  folder_remove(session);
}

TestSuite(mpi, .init = begin_session, .fini = end_session, .timeout = 600);

static struct run *start_mpi(const struct schedule *schedule, const char *options, bool without,
                             double limit_s) {
  char starter[128], text[256];
  if (!has_mpi())
    cr_skip("no mpicc");
  snprintf(starter, sizeof starter,
           "mpirun --oversubscribe --bind-to none --mca orte_tmpdir_base %s -n %d", session,
           schedule->nranks);
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), options);
  return run(&(struct launch){.nranks = schedule->nranks,
                              .program = "mpi",
                              .options = text,
                              .environment = OF_MPI " LOOPBACK_DEATH=hang",
                              .starter = starter,
                              .without = without ? RUN_ALL_RANKS : 0,
                              .limit_s = limit_s});
}

static void check_mpi(const struct schedule *schedule, const char *options, int meetings) {
  finish(start_mpi(schedule, options, false, 0), schedule, meetings);
}

Test(mpi, loop_that_is_left_into_a_barrier) {
  check_mpi(&uneven, "", 1);
}

/* With more time than the others here: mpirun takes a while to start and to end. */
Test(mpi, loop_that_is_left_into_a_barrier_is_stuck_without) {
  struct run *result = start_mpi(&uneven, "", true, 5);
  cr_assert(run_is_stuck(result), "status %d\n%s%s", result->status, result->output,
            result->errors);
  cr_assert(strstr(result->output, "RESULT 1 sum 0 2 7 9") != NULL, "%s", result->output);
  run_free(result);
}

Test(mpi, loop_that_is_left_into_mpi_finalize) {
  check_mpi(&uneven, "--end 1", 0);
}

Test(mpi, ranks_without_data_and_several_epochs) {
  const struct schedule schedule = {3, 3, {{0, 4, 6}, {3, 0, 5}, {2, 2, 0}}};
  check_mpi(&schedule, "--before 1", 4);
}

Test(mpi, barrier_in_every_iteration_of_an_even_loop) {
  const struct schedule schedule = {3, 1, {{6, 6, 6}}};
  check_mpi(&schedule, "--inside 1", 7);
}

/* Those of the other half never come to it: nobody has left. */
Test(mpi, barrier_of_a_part_of_the_ranks_is_no_end_of_a_loop) {
  const struct schedule schedule = {4, 1, {{6, 6, 6, 6}}};
  check_mpi(&schedule, "--parts 2", 1);
}
