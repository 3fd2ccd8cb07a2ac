/* Strangers on the network and on the machine, peers that have the secret and say what is no
 * message, and a job that has stolen another one's id (docs/security.md): the job inside comes to
 * its end with the right numbers, and the agent that is meant does not grow beyond what is said
 * here. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct schedule schedule = {.nranks = 4, .epochs = 1, .n = {{3, 200, 300, 400}}};

enum {
  QUIET_KB = 4096, /* what an agent may grow by while nothing is wrong */
  STRANGERS_KB =
      40960,         /* 512 descriptors (tools/agent/descriptors.h), each with a frame of 64 KiB */
  FLOOD_KB = 131072, /* AGENT_SLOTS_MAX slots, and a queue of 1,024 messages (links.c) */
};

/* How much more memory the agent has had at most than at first. The kernel counts by thread, and is
 * some hundred kB off now and then. */
static long growth_of(const struct run *result) {
  static const char line[] = "HOSTILE agent: ";
  long first = 0, now, most = 0;
  for (const char *at = result->errors; (at = strstr(at, line)) != NULL; at++)
    if (sscanf(at + strlen(line), "%ld kB, at most %ld kB", &now, &most) == 2)
      first = first == 0 ? now : first;
  cr_assert(first > 0 && most > 0, "%s", result->errors);
  return most - first;
}

static void act(struct machines *machines, int machine, const char *settings, const char *what) {
  char order[256], done[256];
  snprintf(order, sizeof order, "run %d %s%s/machines/hostile %s", machine, settings,
           run_build_folder(), what);
  snprintf(done, sizeof done, "machines: has run %s%s/machines/hostile %s", settings,
           run_build_folder(), what);
  machines_order(machines, order);
  machines_await(machines, done);
}

/* HOSTILE_AT=address in front of what it does: the agent there is meant, which has a parent, and
 * listens, too. */
#define AT_ANOTHER "HOSTILE_AT=10.77.0.2 "

/* Rank 0 has left and stands in for the others; rank 3 is stopped meanwhile, so that the job does
 * not come to its end before. Then every number is compared. */
static struct run *run_against(int machine, const char *settings, const char *what) {
  int meant = settings[0] != '\0';
  char options[256], done[256];
  snprintf(options, sizeof options, "--iterations %s --count 16", schedule_text(&schedule));
  struct machines *machines = machines_begin(&(struct machines_job){
      .machines = "2,2", .program = "sum", .options = options, .environment = "LOOPBACK_HANG_S=0"});
  machines_await(machines, "RESULT 1 sum 0 10 ");
  machines_order(machines, "rank 19 3");
  act(machines, meant, "", "agent before");
  act(machines, machine, settings, what);
  act(machines, meant, "", "agent behind");
  machines_order(machines, "rank 18 3");
  struct run *result = machines_finish(machines);
  assert_went_well(result);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 1);
  lines_add_left(lines, schedule.nranks);
  assert_results(result, lines);
  lines_free(lines);
  snprintf(done, sizeof done, "hostile %s: 0", what);
  cr_assert(run_says(result, done), "%s", result->errors);
  return result;
}

static void check_against(int machine, const char *settings, const char *what, long bound) {
  NEED_MACHINES();
  struct run *result = run_against(machine, settings, what);
  cr_assert(growth_of(result) <= bound, "%s", result->errors);
  run_free(result);
}

Test(machines_hostile, a_scanner_hears_nothing) {
  check_against(1, "", "scan", QUIET_KB);
}

Test(machines_hostile, who_has_not_the_keys_is_not_let_in) {
  check_against(1, "", "wrong-key", QUIET_KB);
}

Test(machines_hostile, a_handshake_cannot_be_said_again) {
  check_against(1, "", "replay", QUIET_KB);
}

Test(machines_hostile, connections_that_say_no_more_are_bounded) {
  check_against(1, "", "half-open 10000 7", STRANGERS_KB);
}

Test(machines_hostile, a_peer_that_sends_no_messages_is_dropped) {
  check_against(1, "", "malformed", QUIET_KB);
}

/* The root stays for as long as it has children: not for ever for those. */
Test(machines_hostile, peers_that_are_gone_at_once_are_not_waited_for) {
  check_against(1, "", "fleeting", QUIET_KB);
}

Test(machines_hostile, another_job_with_the_same_id_is_dropped) {
  check_against(1, "", "stolen", QUIET_KB);
}

Test(machines_hostile, what_a_peer_can_name_is_bounded) {
  check_against(1, "", "flood", FLOOD_KB);
}

/* ---- an agent that is not the root ---- */

Test(machines_hostile, who_has_not_the_keys_is_not_let_in_by_another_machine_either) {
  check_against(0, AT_ANOTHER, "wrong-key", QUIET_KB);
}

Test(machines_hostile, nor_by_a_handshake_that_is_said_again) {
  check_against(0, AT_ANOTHER, "replay", QUIET_KB);
}

Test(machines_hostile, connections_to_another_machine_are_bounded_too) {
  check_against(0, AT_ANOTHER, "half-open 10000 7", STRANGERS_KB);
}

Test(machines_hostile, another_machine_drops_a_peer_that_sends_no_messages) {
  check_against(0, AT_ANOTHER, "malformed", QUIET_KB);
}

Test(machines_hostile, and_another_job_with_the_same_id) {
  check_against(0, AT_ANOTHER, "stolen", QUIET_KB);
}

Test(machines_hostile, and_one_that_names_too_much) {
  check_against(0, AT_ANOTHER, "flood", FLOOD_KB);
}

/* Another one than this test's, which is root's. */
Test(machines_hostile, another_user_of_the_machine_gets_nothing) {
  if (geteuid() != 0)
    cr_skip_test("only root can become another user");
  check_against(0, "", "user", QUIET_KB);
}
