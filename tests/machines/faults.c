/* Ranks, agents and machines that die while others wait for them: every rank ends, and says who is
 * gone and where, and nothing is left on any machine. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Rank 0 leaves early and shadows the others, which go on until they are stopped. */
static const struct machines_job endless = {
    .machines = "2,2",
    .program = "sum",
    .options = "--iterations 3,1000000,1000000,1000000 --count 16"};

/* Every rank has ended by itself, with an error of its own. */
static void assert_all_told(const struct run *result, const int *ranks, int count) {
  cr_assert(!result->timed_out, "after %.0f s\n%s", result->seconds, result->errors);
  cr_assert(result->status != 0);
  cr_assert(!run_says(result, "machines: left"), "%s", result->errors);
  for (int i = 0; i < count; i++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error ", ranks[i]);
    cr_assert(strstr(result->output, line) != NULL, "rank %d\n%s", ranks[i], result->errors);
  }
}

static struct run *run_with(const struct machines_job *job, const char *order) {
  struct machines *machines = machines_begin(job);
  machines_await(machines, "RESULT 1 sum 0 50 ");
  machines_order(machines, order);
  return machines_finish(machines);
}

Test(machines_faults, a_killed_rank_is_told_of_with_its_machine) {
  NEED_MACHINES();
  struct run *result = run_with(&endless, "rank 9 3");
  assert_all_told(result, (const int[]){0, 1, 2}, 3);
  cr_assert(run_says_in_a_line(result, "rank 3 failed", "on machine1", "rank 0", NULL), "%s",
            result->errors);
  run_free(result);
}

/* NCCL's own connections tell rank 1 at once. The agent is stopped meanwhile. */
Test(machines_faults, who_died_is_named_where_nccl_hears_of_it_before_the_agent) {
  NEED_MACHINES();
  struct machines *machines = machines_begin(&endless);
  machines_await(machines, "RESULT 1 sum 0 50 ");
  machines_order(machines, "kill 19 nccl-join-agent 0");
  machines_order(machines, "rank 9 3");
  usleep(500000);
  machines_order(machines, "kill 18 nccl-join-agent 0");
  struct run *result = machines_finish(machines);
  assert_all_told(result, (const int[]){0, 1, 2}, 3);
  cr_assert(run_says_in_a_line(result, "rank 3 failed", "on machine1", "rank 0", NULL), "%s",
            result->errors);
  cr_assert(run_says_in_a_line(result, "rank 3 failed", "on machine1", "rank 1", NULL), "%s",
            result->errors);
  run_free(result);
}

static void check_killed_agent(int machine) {
  NEED_MACHINES();
  char order[64], name[64];
  snprintf(order, sizeof order, "kill 9 nccl-join-agent %d", machine);
  snprintf(name, sizeof name, "on machine%d", machine);
  struct run *result = run_with(&endless, order);
  assert_all_told(result, (const int[]){0, 1, 2, 3}, 4);
  cr_assert(run_says_in_a_line(result, "failed", name, "out of reach", NULL), "%s", result->errors);
  run_free(result);
}

Test(machines_faults, a_killed_agent_ends_the_job) {
  check_killed_agent(1);
}

Test(machines_faults, so_does_that_of_the_root) {
  check_killed_agent(0);
}

/* It is there still, and says nothing: to the other machines and to the ranks of its own. Once all
 * have ended it may go on, so that it ends, too. */
static void check_stopped_agent(int machine, const char *says) {
  NEED_MACHINES();
  enum { SILENCE_S = 3, LOOKS_S = 2, LIMIT_S = 40 };
  static const char *const ends[] = {"RESULT 0 error ", "RESULT 1 error ", "RESULT 2 error ",
                                     "RESULT 3 error "};
  struct machines_job job = endless;
  char order[64], name[64];
  job.environment = "NCCL_JOIN_MACHINES_SILENCE=3";
  struct machines *machines = machines_begin(&job);
  machines_await(machines, "RESULT 1 sum 0 50 ");
  double stopped = machines_now();
  snprintf(order, sizeof order, "kill 19 nccl-join-agent %d", machine);
  machines_order(machines, order);
  for (int rank = 0; rank < 4; rank++)
    while (!machines_say(machines, ends[rank]) && machines_now() < stopped + LIMIT_S)
      machines_let(machines, 0.1);
  snprintf(order, sizeof order, "kill 18 nccl-join-agent %d", machine);
  machines_order(machines, order);
  struct run *result = machines_finish(machines);
  assert_all_told(result, (const int[]){0, 1, 2, 3}, 4);
  snprintf(name, sizeof name, "on machine%d", machine);
  cr_assert(run_says_in_a_line(result, "failed", name, "out of reach", NULL), "%s", result->errors);
  cr_assert(run_says(result, says), "%s", result->errors);
  for (int rank = 0; rank < 4; rank++) {
    double told = run_time(result, rank, "error") - stopped;
    cr_expect(told > 0 && told < SILENCE_S + LOOKS_S, "rank %d: after %.3f s\n%s", rank, told,
              result->errors);
  }
  run_free(result);
}

Test(machines_faults, an_agent_that_is_stopped_for_ever_ends_the_job) {
  check_stopped_agent(1, "the agent of this machine is stopped");
}

Test(machines_faults, so_does_that_of_the_root_that_is) {
  check_stopped_agent(0, "out of reach"); /* NCCL tells its ranks before */
}

/* Ranks wait for NCCL then, and look at nothing: what they are told of is said in time. */
Test(machines_faults, a_machine_that_is_cut_off_counts_as_dead_within_the_time_that_is_set) {
  NEED_MACHINES();
  enum { SILENCE_S = 5 };
  struct machines_job job = endless;
  job.environment = "NCCL_JOIN_MACHINES_SILENCE=5";
  struct machines *machines = machines_begin(&job);
  machines_await(machines, "RESULT 1 sum 0 50 ");
  double cut = machines_now();
  machines_order(machines, "cut 1");
  struct run *result = machines_finish(machines);
  assert_all_told(result, (const int[]){0, 1, 2, 3}, 4);
  cr_assert(run_says_in_a_line(result, "failed", "on machine1", "out of reach", NULL), "%s",
            result->errors);
  for (int rank = 0; rank < 4; rank++) {
    double told = run_time(result, rank, "error") - cut;
    cr_expect(told > 0 && told < SILENCE_S, "rank %d: after %.3f s", rank, told);
  }
  run_free(result);
}

/* TCP sends again what was lost meanwhile. */
Test(machines_faults, one_that_is_back_in_time_goes_on) {
  NEED_MACHINES();
  struct machines *machines = machines_begin(&(struct machines_job){
      .machines = "2,2", .program = "sum", .options = "--iterations 3,400,500,600 --count 16"});
  machines_await(machines, "RESULT 1 sum 0 20 ");
  machines_order(machines, "cut 1\nmend 1");
  struct run *result = machines_finish(machines);
  assert_went_well(result);
  run_free(result);
}
