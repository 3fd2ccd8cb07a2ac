/* Machines that lack something, where nobody has set anything: no agent, no libraries, no
 * nccl-join. Join is off, each machine says so once for each communicator, and even programs go on
 * as without it. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 4, WAIT_S = 3, COMMUNICATORS = 3 };

static int count(const char *text, const char *wanted) {
  int times = 0;
  for (; (text = strstr(text, wanted)) != NULL; text += strlen(wanted))
    times++;
  return times;
}

/* machines that run nccl-join say it once for each of their communicators, and nothing else. */
static void finish_off(struct run *result, int machines, int communicators) {
  static const struct schedule even = {.nranks = RANKS, .epochs = 1, .n = {{4, 4, 4, 4}}};
  assert_went_well(result);
  cr_expect_eq(count(result->errors, "join is off for communicator"), machines * communicators,
               "%s", result->errors);
  cr_expect_eq(count(result->errors, "NCCL-JOIN WARN"), machines * communicators, "%s",
               result->errors);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &even, communicators);
  lines_add_left(lines, RANKS);
  finish_run(result, lines);
}

static struct run *run_with(const char *launcher, const char *prepare, const char *options) {
  return machines_run(&(struct machines_job){.machines = "2,2",
                                             .program = "sum",
                                             .options = options,
                                             .environment = "NCCL_JOIN_MACHINES_WAIT=3",
                                             .launcher = launcher,
                                             .prepare = prepare});
}

/* ---- the agent ---- */

/* Machine 1 has this in its place. */
static struct run *run_with_agent(const char *instead) {
  char command[512];
  snprintf(command, sizeof command,
           "[ $MACHINE != 1 ] || mount --bind %s $PWD/%s/lib/nccl-join-agent", instead,
           run_build_folder());
  return run_with(NULL, command, "--iterations 4");
}

/* An agent without its libraries ends at once, as the dynamic linker ends it. */
Test(machines_missing, a_machine_without_the_libraries_says_which) {
  NEED_MACHINES();
  struct run *result = run_with_agent("/bin/false");
  cr_expect(run_says_in_a_line(result, "machine1", "join is off", "libzmq5", NULL), "%s",
            result->errors);
  finish_off(result, 2, 1);
}

Test(machines_missing, a_machine_whose_agent_cannot_be_started_says_so) {
  NEED_MACHINES();
  struct run *result = run_with_agent("/dev/null");
  cr_expect(
      run_says_in_a_line(result, "machine1", "join is off", "the agent of this machine", NULL),
      "%s", result->errors);
  finish_off(result, 2, 1);
}

/* ---- nccl-join ---- */

/* The others wait for it once, and not for each communicator. */
static void check_waits_once(const char *launcher, const char *prepare, int machines,
                             const char *says) {
  NEED_MACHINES();
  char whole[128], again[128];
  struct run *result = run_with(launcher, prepare, "--iterations 4 --communicators 3");
  snprintf(whole, sizeof whole, "%s %d s", says, WAIT_S);
  snprintf(again, sizeof again, "%s 1 s", says);
  cr_expect_eq(count(result->errors, whole), 1, "%s", result->errors);
  cr_expect_eq(count(result->errors, again), COMMUNICATORS - 1, "%s", result->errors);
  finish_off(result, machines, COMMUNICATORS);
}

Test(machines_missing, a_machine_without_nccl_join_is_waited_for_once) {
  check_waits_once("tests/machines/parts/alone 1 NCCL_JOIN=0", NULL, 1, " not been heard of in");
}

Test(machines_missing, so_is_one_where_it_is_set_to_0) {
  check_waits_once("tests/machines/parts/alone 1 NCCL_JOIN_MACHINES=0", NULL, 2,
                   " not been heard of in");
}

Test(machines_missing, so_is_a_root_that_cannot_be_reached) {
  check_waits_once(NULL, "[ $MACHINE != 0 ] || ip rule add ipproto tcp sport 61000-65534 blackhole",
                   2, "61000 to 65535, for");
}

/* Its ids say nothing, so nobody is looked for. */
Test(machines_missing, without_nccl_join_where_ids_are_made_nobody_waits) {
  NEED_MACHINES();
  struct run *result = run_with("tests/machines/parts/alone 0 NCCL_JOIN=0", NULL, "--iterations 4");
  cr_expect(run_says_in_a_line(result, "join is off",
                               "made with NCCL_COMM_ID, or without nccl-join", NULL),
            "%s", result->errors);
  finish_off(result, 1, 1);
}
