/* What is seen of machines from outside, and that there is nothing to see where there is one. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Runs a command on the first machine while ranks go round, and waits for what it says. The ranks
 * are ended by the death of the last one. */
static struct run *look(const char *machines, const char *command, const char *says, int last) {
  char order[512];
  struct machines *running = machines_begin(
      &(struct machines_job){.machines = machines,
                             .program = "sum",
                             .options = "--iterations 3,1000000,1000000,1000000 --count 16"});
  machines_await(running, "RESULT 1 sum 0 50 ");
  snprintf(order, sizeof order, "run 0 %s", command);
  machines_order(running, order);
  machines_await(running, says);
  snprintf(order, sizeof order, "rank 9 %d", last);
  machines_order(running, order);
  return machines_finish(running);
}

Test(machines_seen, status_names_the_machines_of_ranks) {
  NEED_MACHINES();
  char command[300];
  snprintf(command, sizeof command, "%s/tools/nccl-join status 2>&1", run_build_folder());
  struct run *result = look("2,2", command, "on machine1: ", 3);
  char said[100000];
  snprintf(said, sizeof said, "%s%s", result->output, result->errors);
  cr_expect(strstr(said, ", 2 ranks here and 2 on other machines: ") != NULL, "%s", said);
  run_free(result);
}

Test(machines_seen, doctor_names_what_they_need) {
  NEED_MACHINES();
  char command[300];
  snprintf(command, sizeof command, "%s/tools/nccl-join doctor 2>&1", run_build_folder());
  run_free(look("1,1", command, "this one is 10.77.0.1 (eth0); all meet at ", 1));
}

/* There is no reason to start anything. Afterwards start.c looks. */
Test(machines_seen, one_machine_has_no_agent_no_file_and_no_port) {
  NEED_MACHINES();
  run_free(look("2",
                "grep -ls nccl-join-agent /proc/[0-9]*/comm || ls /dev/shm | grep ^nccl-join- || "
                "grep ' 0A ' /proc/net/tcp /proc/net/tcp6 || echo there is nothing",
                "there is nothing", 1));
  run_free(look("1,1", "grep -ls nccl-join-agent /proc/[0-9]*/comm && echo an agent is there",
                "an agent is there", 1));
}
