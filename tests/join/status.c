/* nccl-join status: what it says of a job, which it does not disturb. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
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

/* Rank 0 leaves its loop and waits for rank 1, which is held; rank 2 waits for that on its device. */
static struct running *start_held(void) {
  char options[160];
  snprintf(options, sizeof options, "--iterations 4,20,20 --hold 1:10:%s --barrier 1", let_go);
  return run_start(&(struct launch){
      .nranks = 3, .program = "endings", .options = options, .each = true, .limit_s = 200});
}

static struct run *finish(struct running *running) {
  close(open(let_go, O_CREAT | O_WRONLY, 0600));
  struct run *result = run_finish(running);
  assert_went_well(result);
  return result;
}

/* Whether somebody waits, for a second or more. */
static bool says_wait(const char *said) {
  const char *at = strstr(said, " s  waits in");
  while (at != NULL && at > said && at[-1] >= '0' && at[-1] <= '9')
    at--;
  return at != NULL && strtol(at, NULL, 10) > 0;
}

/* What is said of the job once rank 0 has waited for a second; the caller's. */
static struct run *status_of(struct running *running) {
  char arguments[64];
  snprintf(arguments, sizeof arguments, "%d", (int)run_process(running, 0));
  for (int i = 0; i < 600; i++) {
    struct run *status = run_tool("tools/nccl-join-status", arguments);
    if (says_wait(status->output))
      return status;
    run_free(status);
    cr_assert(run_goes_on(running, 0.1), "the job has ended");
  }
  cr_assert_fail("nobody waits");
  return NULL;
}

Test(status, ranks_are_where_they_are) {
  struct running *running = start_held();
  struct run *status = status_of(running);
  cr_expect_eq(status->status, 0);
  cr_expect(strstr(status->output, ", 3 ranks here\n") != NULL, "%s", status->output);
  cr_expect(strstr(status->output, " s  waits in allreduce(sum, float32, 1) on comm ") != NULL,
            "%s", status->output);
  cr_expect(strstr(status->output, "; joined since collective 12\n") != NULL, "%s", status->output);
  cr_expect(strstr(status->output, " 30             runs its program, last allreduce(") != NULL,
            "%s", status->output);
  cr_expect(strstr(status->output, "\n  rank 0 waits for ranks 1, 2\n") != NULL, "%s",
            status->output);
  run_free(status);
  struct run *result = finish(running);
  cr_expect_str_empty(result->errors);
  run_free(result);
}

/* Stopped ranks cannot be asked, and need not be. */
Test(status, ranks_may_be_stopped) {
  struct running *running = start_held();
  run_free(status_of(running));
  for (int rank = 0; rank < 3; rank++)
    kill(run_process(running, rank), SIGSTOP);
  struct run *status = run_tool("tools/nccl-join-status", "--json --all");
  for (int rank = 0; rank < 3; rank++)
    kill(run_process(running, rank), SIGCONT);
  char pid[32];
  snprintf(pid, sizeof pid, "\"pid\":%d,\"state\":\"waits\"", (int)run_process(running, 0));
  cr_expect(strstr(status->output, pid) != NULL, "no %s in\n%s", pid, status->output);
  cr_expect_eq(status->output[0], '[');
  run_free(status);
  run_free(finish(running));
}

Test(status, a_process_without_a_job_has_none) {
  struct run *status = run_tool("tools/nccl-join-status", "1");
  cr_expect_eq(status->status, 1);
  cr_expect(strstr(status->output, "no job of this user") != NULL, "%s", status->output);
  run_free(status);
  status = run_tool("tools/nccl-join-status", "everywhere");
  cr_expect_eq(status->status, 2);
  run_free(status);
}
