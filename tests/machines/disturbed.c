/* Machines that are not as they should be: wires that are broken one way, routes that lead nowhere,
 * memory that is full, clocks that jump, agents of other versions, processes that are stopped.
 * Either the numbers are right, or every rank ends and says why. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/machines/frames.h"

static const struct schedule uneven = {.nranks = 4, .epochs = 1, .n = {{3, 200, 300, 400}}},
                             even = {.nranks = 4, .epochs = 1, .n = {{30, 30, 30, 30}}};

/* Every rank has ended with an error of its own, and somebody says which rank has failed, and
 * where. */
static void finish_told(struct run *result, const char *machine) {
  cr_assert(!result->timed_out, "after %.0f s\n%s", result->seconds, result->errors);
  cr_assert(result->status != 0 && !run_says(result, "machines: left"), "%s", result->errors);
  for (int rank = 0; rank < 4; rank++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error ", rank);
    cr_assert(strstr(result->output, line) != NULL, "rank %d\n%s", rank, result->errors);
  }
  cr_assert(run_says_in_a_line(result, "failed", machine, NULL), "%s", result->errors);
  run_free(result);
}

static struct machines *begin_uneven(const char *environment) {
  struct machines *machines = machines_begin(&(struct machines_job){.machines = "2,2",
                                                                    .program = "sum",
                                                                    .options = job_options(&uneven),
                                                                    .environment = environment});
  machines_await(machines, "RESULT 1 sum 0 20 ");
  return machines;
}

/* ---- wires ---- */

/* The relay takes the place of the switch in the middle of it, and passes on nothing that a machine
 * says. */
static void check_broken_wire(int deaf, const char *machine) {
  NEED_MACHINES();
  char order[512];
  struct machines *machines = begin_uneven("NCCL_JOIN_MACHINES_SILENCE=2");
  snprintf(order, sizeof order,
           "run -1 RELAY_READY=/dev/shm/shared/relay %s/machines/relay 0 0 %d cable0 cable1",
           run_build_folder(), deaf);
  machines_order(machines, order);
  finish_told(machines_finish(machines), machine);
}

Test(machines_disturbed, a_machine_that_is_not_heard_counts_as_dead) {
  check_broken_wire(1, "on machine1");
}

Test(machines_disturbed, so_does_the_root_s) {
  check_broken_wire(0, "on machine0");
}

/* ---- firewalls ---- */

/* What the root's machine answers from the agents' ports is dropped, as a firewall in front of it
 * does. 65535 is none that ip-rule(8) takes. */
static const char firewall[] =
    "[ $MACHINE != 0 ] || ip rule add ipproto tcp sport 61000-65534 blackhole";

Test(machines_disturbed, machines_that_cannot_reach_the_root_say_so_and_go_on_alone) {
  NEED_MACHINES();
  struct run *result =
      machines_run(&(struct machines_job){.machines = "2,2",
                                          .program = "sum",
                                          .options = job_options(&even),
                                          .environment = "NCCL_JOIN_MACHINES_WAIT=2",
                                          .prepare = firewall});
  cr_assert(
      run_says_in_a_line(result, "no agent of the job has answered at 10.77.0.1", "firewall", NULL),
      "%s", result->errors);
  cr_assert(run_says(result, "2 of its 4 ranks have not been heard of"), "%s", result->errors);
  job_finish_right(result, &even);
}

Test(machines_disturbed, a_firewall_that_is_opened_in_time) {
  NEED_MACHINES();
  struct machines *machines = machines_begin(&(struct machines_job){
      .machines = "2,2", .program = "sum", .options = job_options(&uneven), .prepare = firewall});
  machines_order(machines,
                 "run 0 until [ -e /dev/shm/nccl-join-machines-* ]; do sleep 0.1; done; sleep 2; "
                 "ip rule del ipproto tcp sport 61000-65534 blackhole");
  machines_await(machines, "machines: has run until");
  job_finish_right(machines_finish(machines), &uneven);
}

/* ---- full memory ---- */

/* The machine's /dev/shm holds so many kB. */
static struct run *run_in(int kilobytes) {
  char command[256];
  snprintf(command, sizeof command, "[ $MACHINE != 1 ] || mount -o remount,size=%dk /dev/shm",
           kilobytes);
  return machines_run(&(struct machines_job){.machines = "2,2",
                                             .program = "sum",
                                             .options = job_options(&even),
                                             .environment = "NCCL_JOIN_MACHINES_WAIT=2",
                                             .prepare = command});
}

Test(machines_disturbed, a_full_memory_has_no_room_for_the_segment) {
  NEED_MACHINES();
  struct run *result = run_in(300);
  cr_assert(run_says(result, "No space left"), "%s", result->errors);
  job_finish_right(result, &even);
}

Test(machines_disturbed, or_for_the_board) {
  NEED_MACHINES();
  struct run *result = run_in(700);
  cr_assert(run_says(result, "No space left"), "%s", result->errors);
  job_finish_right(result, &even);
}

Test(machines_disturbed, or_for_the_ranks_of_the_others) {
  NEED_MACHINES();
  struct run *result = run_in(900);
  cr_assert(run_says(result, "is full"), "%s", result->errors);
  job_finish_right(result, &even);
}

Test(machines_disturbed, memory_that_fills_up_later_is_no_harm) {
  NEED_MACHINES();
  struct machines *machines = machines_begin(
      &(struct machines_job){.machines = "2,2",
                             .program = "sum",
                             .options = job_options(&uneven),
                             .prepare = "[ $MACHINE = -1 ] || mount -o remount,size=3m /dev/shm"});
  machines_await(machines, "RESULT 1 sum 0 20 ");
  for (int machine = 0; machine < 2; machine++) {
    char order[128];
    snprintf(order, sizeof order,
             "run %d dd if=/dev/zero of=/dev/shm/full bs=4k; sleep 1; rm /dev/shm/full", machine);
    machines_order(machines, order);
  }
  machines_await(machines, "machines: has run dd");
  struct run *result = machines_finish(machines);
  cr_assert(run_says(result, "No space left"), "%s", result->errors);
  job_finish_right(result, &uneven);
}

Test(machines_disturbed, a_full_disk_costs_a_trace_and_no_more) {
  NEED_MACHINES();
  struct run *result = machines_run(&(struct machines_job){
      .machines = "2,2",
      .program = "sum",
      .options = job_options(&uneven),
      .environment = "NCCL_JOIN_TRACE=/dev/shm/traces",
      .prepare = "[ $MACHINE = -1 ] || { mkdir /dev/shm/traces && mount -t tmpfs -o "
                 "size=$((4 + 65536 * (1 - MACHINE)))k none /dev/shm/traces; }"});
  cr_assert(run_says(result, "No space left"), "%s", result->errors);
  job_finish_right(result, &uneven);
}

/* ---- clocks ---- */

Test(machines_disturbed, machines_that_have_been_up_for_another_time) {
  NEED_MACHINES();
  job_finish_right(
      machines_run(&(struct machines_job){.machines = "2,1,1 tests/machines/parts/skewed",
                                          .program = "sum",
                                          .options = job_options(&uneven)}),
      &uneven);
}

Test(machines_disturbed, clocks_of_the_day_that_jump) {
  NEED_MACHINES();
  char command[512];
  snprintf(command, sizeof command,
           "[ $MACHINE = -1 ] || tests/machines/parts/preloading $PWD/%s/lib/nccl-join-agent "
           "$PWD/%s/machines/jumps.so",
           run_build_folder(), run_build_folder());
  job_finish_right(
      machines_run(&(struct machines_job){.machines = "2,2",
                                          .program = "sum",
                                          .options = job_options(&uneven),
                                          .environment = "NCCL_JOIN_MACHINES_SILENCE=2",
                                          .prepare = command}),
      &uneven);
}

/* ---- an agent that is held up ---- */

/* Of machine 1, by so many milliseconds in each of its turns. */
static const char *held_up(int milliseconds) {
  static char command[512];
  snprintf(command, sizeof command,
           "[ $MACHINE != 1 ] || tests/machines/parts/preloading $PWD/%s/lib/nccl-join-agent "
           "$PWD/%s/machines/late.so LATE_MS=%d",
           run_build_folder(), run_build_folder(), milliseconds);
  return command;
}

/* The last rank of all has its peers' leaves, claims its own and ends between two looks. */
Test(machines_disturbed, what_the_last_rank_of_a_machine_has_done_is_told) {
  static const struct schedule few = {.nranks = 4, .epochs = 1, .n = {{1, 2, 3, 4}}};
  NEED_MACHINES();
  job_finish_right(machines_run(&(struct machines_job){.machines = "2,2",
                                                       .program = "sum",
                                                       .options = job_options(&few),
                                                       .prepare = held_up(1000)}),
                   &few);
}

/* A rank that aborts behind its loop has heard late of how far those on other machines are. */
Test(machines_disturbed, an_abort_behind_the_loop_waits_to_hear_of_the_others) {
  NEED_MACHINES();
  struct run *result =
      machines_run(&(struct machines_job){.machines = "1,1",
                                          .program = "endings",
                                          .options = "--iterations 3,6 --end abort",
                                          .prepare = held_up(100)});
  assert_went_well(result);
  cr_assert_not(run_says(result, "aborts its communicator"), "%s", result->errors);
  run_free(result);
}

/* ---- versions ---- */

/* One machine has an agent that speaks version 999 of the frames (rules.mk). is, speaks, own: of
 * whose WARN. */
static void check_other_agent(int machine, const char *says, const char *is, uint32_t speaks,
                              uint32_t own) {
  NEED_MACHINES();
  char command[512], version[128];
  snprintf(version, sizeof version,
           "another nccl-join is %s: its agent speaks version %u, this one's %u", is, speaks, own);
  snprintf(
      command, sizeof command,
      "[ $MACHINE != %d ] || mount --bind $PWD/%s/machines/other-agent $PWD/%s/lib/nccl-join-agent",
      machine, run_build_folder(), run_build_folder());
  struct run *result =
      machines_run(&(struct machines_job){.machines = "2,2",
                                          .program = "sum",
                                          .options = job_options(&even),
                                          .environment = "NCCL_JOIN_MACHINES_WAIT=2",
                                          .prepare = command});
  cr_assert(run_says_in_a_line(result, says, version, NULL), "%s", result->errors);
  cr_assert_not(run_says(result, "firewall"), "%s", result->errors);
  job_finish_right(result, &even);
}

Test(machines_disturbed, an_agent_of_another_version_is_told_of) {
  check_other_agent(1, "2 of its 4 ranks have not been heard of", "on machine1", 999,
                    FRAMES_VERSION);
  check_other_agent(1, "no agent of the job has answered", "there", FRAMES_VERSION, 999);
}

Test(machines_disturbed, so_is_the_root_s) {
  check_other_agent(0, "no agent of the job has answered", "there", 999, FRAMES_VERSION);
}

/* ---- who is stopped ---- */

static void check_stopped(const char *stop, const char *go_on) {
  NEED_MACHINES();
  struct machines *machines = begin_uneven("LOOPBACK_HANG_S=0");
  machines_order(machines, stop);
  machines_let(machines, 1.5);
  machines_order(machines, go_on);
  job_finish_right(machines_finish(machines), &uneven);
}

Test(machines_disturbed, a_rank_that_is_stopped_for_a_while) {
  check_stopped("rank 19 3", "rank 18 3");
}

Test(machines_disturbed, a_rank_that_stands_in_and_is_stopped) {
  check_stopped("rank 19 0", "rank 18 0");
}

Test(machines_disturbed, an_agent_that_is_stopped_for_a_while) {
  check_stopped("kill 19 nccl-join-agent 1", "kill 18 nccl-join-agent 1");
}

Test(machines_disturbed, the_root_s_agent_that_is_stopped_for_a_while) {
  check_stopped("kill 19 nccl-join-agent 0", "kill 18 nccl-join-agent 0");
}

/* It is not dead, so nobody can say so but the other machines. */
Test(machines_disturbed, an_agent_that_is_stopped_for_long_counts_as_dead) {
  NEED_MACHINES();
  struct machines *machines = begin_uneven("NCCL_JOIN_MACHINES_SILENCE=2");
  machines_order(machines, "kill 19 nccl-join-agent 1");
  machines_let(machines, 5);
  machines_order(machines, "kill 18 nccl-join-agent 1");
  finish_told(machines_finish(machines), "on machine1");
}
