/* nccl-join status: what it says of a job, which it does not disturb. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/nccl-join-status-XXXXXX", let_go[64];

static void begin(void) {
  cr_assert_not_null(mkdtemp(folder));
  snprintf(let_go, sizeof let_go, "%s/go", folder);
}

static void end(void) {
  unlink(let_go);
  rmdir(folder);
}

TestSuite(status, .init = begin, .fini = end, .timeout = 300);

/* Rank 0 leaves its loop and waits for rank 1, which is held; rank 2 waits for that on its device.
 */
static struct running *start_held(const char *environment) {
  char options[160];
  snprintf(options, sizeof options, "--iterations 4,20,20 --hold 1:10:%s --barrier 1", let_go);
  return run_start(&(struct launch){.nranks = 3,
                                    .program = "endings",
                                    .options = options,
                                    .environment = environment,
                                    .each = true});
}

static void go_on(void) {
  close(open(let_go, O_CREAT | O_WRONLY, 0600));
}

static struct run *finish(struct running *running) {
  go_on();
  struct run *result = run_finish(running);
  assert_went_well(result);
  return result;
}

/* What is said of the communicators that a rank is in. The caller's. */
static struct run *ask(const struct running *running, int rank, const char *option) {
  char arguments[64];
  snprintf(arguments, sizeof arguments, "%s %d", option, (int)run_process(running, rank));
  return run_tool("tools/nccl-join-status", arguments);
}

/* The same, once the text is in it, and `says` (unless NULL) is true of it. */
static struct run *ask_until(struct running *running, int rank, const char *text,
                             bool (*says)(const char *said)) {
  for (;;) {
    struct run *status = ask(running, rank, "");
    if (strstr(status->output, text) != NULL && (says == NULL || says(status->output)))
      return status;
    bool goes_on = run_goes_on(running, 0.2);
    cr_assert(goes_on, "the job has ended without '%s'; at last:\n%s", text, status->output);
    run_free(status);
  }
}

/* Whether somebody waits, for a second or more. */
static bool says_wait(const char *said) {
  const char *at = strstr(said, " s  waits in");
  while (at != NULL && at > said && at[-1] >= '0' && at[-1] <= '9')
    at--;
  return at != NULL && strtol(at, NULL, 10) > 0;
}

/* Rank 0 has waited for a second. */
static struct run *status_of(struct running *running) {
  return ask_until(running, 0, " s  waits in", says_wait);
}

Test(status, ranks_are_where_they_are) {
  struct running *running = start_held("");
  struct run *status = status_of(running);
  cr_expect_eq(status->status, 0);
  cr_expect(strstr(status->output, ", 3 ranks here: ") != NULL, "%s", status->output);
  cr_expect(strstr(status->output, " s  waits in allreduce(sum, float32, 1) on comm ") != NULL,
            "%s", status->output);
  cr_expect(strstr(status->output, "; joined since collective 12\n") != NULL, "%s", status->output);
  cr_expect(strstr(status->output, " 30             runs its program, last allreduce(") != NULL,
            "%s", status->output);
  cr_expect(strstr(status->output, "\n  rank 0 waits for ranks 1, 2\n") != NULL, "%s",
            status->output);
  cr_expect(strstr(status->output, "kill -CONT") == NULL, "%s", status->output);
  run_free(status);
  struct run *result = finish(running);
  cr_expect_str_empty(result->errors);
  run_free(result);
}

/* A signal stops a process only when that runs the next time. */
static void stop(pid_t pid) {
  char path[64], state = '\0';
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  kill(pid, SIGSTOP);
  while (state != 'T') {
    FILE *stat = fopen(path, "r");
    cr_assert(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1, "%s", path);
    fclose(stat);
    usleep(1000);
  }
}

/* Stopped ranks cannot be asked, and need not be. */
Test(status, ranks_may_be_stopped_and_are_said_to_be) {
  struct running *running = start_held("");
  struct run *status = status_of(running);
  cr_expect(strstr(status->output, "stopped") == NULL, "%s", status->output);
  run_free(status);
  for (int rank = 0; rank < 3; rank++)
    stop(run_process(running, rank));
  status = ask(running, 0, "");
  cr_expect(strstr(status->output, " stopped by SIGSTOP, Ctrl-Z or a debugger, last ") != NULL,
            "%s", status->output);
  cr_expect(strstr(status->output, "; its process is stopped by SIGSTOP, Ctrl-Z or a debugger\n"),
            "%s", status->output);
  char remedy[96];
  snprintf(remedy, sizeof remedy, "\n  what lets them go on: kill -CONT %d %d %d\n",
           (int)run_process(running, 0), (int)run_process(running, 1),
           (int)run_process(running, 2));
  cr_expect(strstr(status->output, remedy) != NULL, "no %s in\n%s", remedy, status->output);
  cr_expect(strstr(status->output, " wait for ") == NULL, "%s", status->output);
  run_free(status);
  status = ask(running, 0, "--json");
  cr_expect(strstr(status->output, "\"stopped\":true") != NULL, "%s", status->output);
  cr_expect(strstr(status->output, "\"stopped\":false") == NULL, "%s", status->output);
  run_free(status);
  status = run_tool("tools/nccl-join-status", "--json --all");
  for (int rank = 0; rank < 3; rank++)
    kill(run_process(running, rank), SIGCONT);
  char pid[32];
  snprintf(pid, sizeof pid, "\"pid\":%d,\"state\":\"waits\"", (int)run_process(running, 0));
  cr_expect(strstr(status->output, pid) != NULL, "no %s in\n%s", pid, status->output);
  cr_expect_eq(status->output[0], '[');
  run_free(status);
  struct run *result = finish(running);
  run_free(result);
}

/* Rank 0 has joined and answers nothing any more; the others issue what it has not come to. */
Test(status, ranks_wait_for_one_that_has_joined_and_is_stopped) {
  struct running *running = start_held("");
  run_free(status_of(running));
  stop(run_process(running, 0));
  go_on();
  struct run *status = ask_until(
      running, 1, "\n  ranks 1, 2 wait for rank 0 (stopped by SIGSTOP, Ctrl-Z or a debugger)\n",
      NULL);
  run_free(status);
  status = ask(running, 1, "--json");
  cr_expect(strstr(status->output, "\"waits_for\":[0]") != NULL, "%s", status->output);
  run_free(status);
  kill(run_process(running, 0), SIGCONT);
  run_free(finish(running));
}

/* Rank 2 has issued what rank 1 has not come to, and runs its program as far as that goes. */
Test(status, peers_of_an_active_rank_that_is_stopped_wait_for_it) {
  struct running *running = start_held("");
  run_free(ask_until(running, 0, " 33             runs its program", says_wait));
  stop(run_process(running, 1));
  struct run *status = ask(running, 1, "");
  cr_expect(strstr(status->output,
                   "\n  ranks 0, 2 wait for rank 1 (stopped by SIGSTOP, Ctrl-Z or a debugger)\n"),
            "%s", status->output);
  cr_expect(strstr(status->output, " 33  on device  waits on its device, last allreduce(") != NULL,
            "%s", status->output);
  run_free(status);
  kill(run_process(running, 1), SIGCONT);
  run_free(finish(running));
}

Test(status, the_last_warning_is_told) {
  struct running *running = start_held("NCCL_JOIN_STALL_WARN=1");
  struct run *status = ask_until(running, 0, "  last WARN of rank 0, ", NULL);
  cr_expect(strstr(status->output, " s ago: nothing has moved in communicator ") != NULL, "%s",
            status->output);
  cr_expect(strstr(status->output, "  last WARN of rank 1") == NULL, "%s", status->output);
  run_free(status);
  status = ask(running, 0, "--json");
  cr_expect(strstr(status->output, "\"last_warning\":\"nothing has moved in communicator ") != NULL,
            "%s", status->output);
  run_free(status);
  run_free(finish(running));
}

static void end_ranks(struct running *running, int nranks) {
  for (int rank = 0; rank < nranks; rank++)
    kill(run_process(running, rank), SIGKILL);
  run_free(run_finish(running));
}

/* Before it has come there the ranks may wait in the split, for the same rank. */
static bool says_another_communicator(const char *said) {
  return strstr(said, " waits in communicator ") != NULL;
}

/* Ranks 0 to 2 wait in the communicator of all; their tensor and data parallel groups have nobody
 * who waits there, and rank 3 is on its way. */
Test(status, a_rank_that_waits_in_another_communicator_is_not_said_to_run) {
  struct running *running =
      run_start(&(struct launch){.nranks = 4,
                                 .program = "teams",
                                 .options = "--iterations 12,12,12,40 --late 30 --late-ms 50000",
                                 .each = true});
  struct run *status =
      ask_until(running, 2, "\n  ranks 0, 1, 2 wait for rank 3\n", says_another_communicator);
  cr_expect(strstr(status->output, ", as rank 2 there, last allreduce(") != NULL, "%s",
            status->output);
  cr_expect(strstr(status->output, " runs its program, last allreduce(") != NULL, "%s",
            status->output);
  run_free(status);
  status = ask(running, 2, "--json");
  cr_expect(strstr(status->output, "\"waits_in\":{\"communicator\":\"") != NULL, "%s",
            status->output);
  run_free(status);
  end_ranks(running, 4);
}

/* Of the processes that a launcher has started, the last two: ranks 0 and 1. */
static void find_two_ranks(const struct running *running, pid_t ranks[2]) {
  char path[64];
  int launcher = (int)run_process(running, 0), pid;
  snprintf(path, sizeof path, "/proc/%d/task/%d/children", launcher, launcher);
  FILE *children = fopen(path, "r");
  cr_assert_not_null(children, "%s", path);
  ranks[0] = ranks[1] = 0;
  while (fscanf(children, "%d", &pid) == 1) {
    ranks[0] = ranks[1];
    ranks[1] = pid;
  }
  fclose(children);
  cr_assert(ranks[0] > 0, "no ranks in %s", path);
}

/* The other one is stopped, so nobody but the launcher can say it. */
Test(status, the_launcher_says_where_a_rank_was_that_has_been_killed) {
  pid_t ranks[2];
  struct running *running = run_start(&(struct launch){
      .nranks = 2, .program = "endings", .options = "--iterations 10000 --wait 10", .here = true});
  while (!run_has_said(running, "RESULT 1 bucket 1 0 "))
    cr_assert(run_goes_on(running, 0.05));
  find_two_ranks(running, ranks);
  struct run *status = ask(running, 0, ""); /* of the launcher: of all that it has started */
  cr_expect(strstr(status->output, ", 2 ranks here: ") != NULL, "%s", status->output);
  run_free(status);
  stop(ranks[0]);
  kill(ranks[1], SIGKILL);
  struct run *result = run_finish(running);
  cr_expect_eq(result->status, 128 + SIGKILL);
  cr_expect(run_says_in_a_line(result, "nccl-join: rank 1 was ended by signal 9 (Killed) ",
                               " allreduce(sum, float32, ", ") on comm ", " at ",
                               ": ending the others", NULL),
            "%s", result->errors);
  run_free(result);
}

Test(status, a_process_without_a_job_has_none) {
  char here[16], none[64];
  snprintf(here, sizeof here, "%d", (int)getpid()); /* and what it has started: this status */
  snprintf(none, sizeof none, "process %s is not in a job with nccl-join", here);
  struct run *status = run_tool("tools/nccl-join-status", here);
  cr_expect_eq(status->status, 1);
  cr_expect(strstr(status->output, none) != NULL, "%s", status->output);
  run_free(status);
  status = run_tool("tools/nccl-join-status", "2147483647");
  cr_expect_str_eq(status->output, "there is no process 2147483647\n");
  run_free(status);
  status = run_tool("tools/nccl-join-status", "everywhere");
  cr_expect_eq(status->status, 2);
  run_free(status);
}
