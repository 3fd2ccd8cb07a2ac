/* Networks that are slow: a relay of the test's own in place of the switch (parts/relay.c), from
 * the first packet on. Every number is compared. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>

static const struct schedule schedule = {.nranks = 4, .epochs = 1, .n = {{3, 12, 20, 9}}};

/* prepare: what the machines do before. Their ranks begin when the relay has. least_s: what the
 * handshakes alone take. */
static void check_over(const char *relay, const char *prepare, double least_s) {
  NEED_MACHINES();
  char options[256], command[512];
  snprintf(options, sizeof options, "--iterations %s --collectives 2", schedule_text(&schedule));
  snprintf(
      command, sizeof command,
      "[ $MACHINE = -1 ] || { %s && until [ -e /dev/shm/loopback/relay ]; do sleep 0.01; done; }",
      prepare);
  struct machines *machines = machines_begin(&(struct machines_job){
      .machines = "2,2", .program = "sum", .options = options, .prepare = command});
  snprintf(command, sizeof command,
           "run -1 RELAY_READY=/dev/shm/shared/relay %s/machines/relay %s cable0 cable1",
           run_build_folder(), relay);
  machines_order(machines, command);
  struct run *result = machines_finish(machines);
  assert_went_well(result);
  cr_assert(result->seconds >= least_s, "in %.3f s", result->seconds);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 2);
  lines_add_left(lines, schedule.nranks);
  finish_run(result, lines);
}

Test(machines_delays, of_a_fifth_of_a_millisecond) {
  check_over("200 0 -1", "true", 0);
}

Test(machines_delays, of_two_milliseconds) {
  check_over("2000 0 -1", "true", 0);
}

Test(machines_delays, of_fifty_milliseconds) {
  check_over("50000 0 -1", "true", 0.5);
}

Test(machines_delays, a_network_that_takes_small_packets) {
  check_over("200 0 -1", "ip link set eth0 mtu 300", 0);
}

/* 20 kB in a second: the agents' own traffic waits for it. */
Test(machines_delays, a_network_that_takes_little) {
  check_over("1000 20000 -1", "ip link set eth0 mtu 600", 0.5);
}
