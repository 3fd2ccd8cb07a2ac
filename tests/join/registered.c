/* Registered buffers (ncclCommRegister). The loopback stops a run whose ranks' buffers do not look
 * alike to NCCL, joined ranks' included: registered or not, of the same kind of memory, in place or
 * not. */
#include "tests/join/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The first rank leaves first; another one does; one has no iterations and has never issued what it
 * stands in for. */
static const struct schedule schedules[] = {
    {3, 1, {{2, 6, 6}}}, {3, 1, {{14, 8, 14}}}, {3, 1, {{4, 0, 4}}}};

/* pieces: across the borders of what is mapped. */
static const char *const kinds[] = {"registered", "mapped", "private", "pieces"};
enum { KINDS = sizeof kinds / sizeof *kinds, SCHEDULES = sizeof schedules / sizeof *schedules };

static void check(const char *operation, const char *lossy, const char *kind,
                  const struct schedule *schedule) {
  static const char *const forms[] = {"plain", "coalesced"};
  char options[64];
  snprintf(options, sizeof options, "--memory %s", kind);
  for (int form = 0; form < 2; form++)
    job_check(&(struct job){schedule, operation, forms[form], lossy, 0, false}, options, false);
}

static void check_all(const char *operation, const char *lossy) {
  for (int s = 0; s < SCHEDULES; s++)
    check(operation, lossy, kinds[s % 2], &schedules[s]);
}

#define OPERATION(name, lossy)                                                                     \
  Test(registered, name) {                                                                         \
    check_all(#name, lossy);                                                                       \
  }
OPERATION(all_reduce, NULL)
OPERATION(all_reduce_apart, NULL)
OPERATION(broadcast, NULL)
OPERATION(reduce, NULL)
OPERATION(reduce_scatter, NULL)
OPERATION(reduce_scatter_uneven, NULL)
OPERATION(barrier, NULL)
OPERATION(all_gather, "zero")
OPERATION(all_gather_uneven, "zero")
OPERATION(all_to_all_single, "zero")
OPERATION(all_to_all, "zero")
OPERATION(gather, "zero")
OPERATION(scatter, "zero")
OPERATION(batch_isend_irecv, "zero")
OPERATION(send_recv, "zero")

/* Their sizes are gathered first; the tensors are one rank's alone. */
Test(registered, all_gather_object) {
  for (int s = 0; s < SCHEDULES; s++)
    job_check(
        &(struct job){&schedules[s], "all_gather_object", "plain", "allgather:zero", 0, false},
        "--memory mapped", false);
}

Test(registered, memory_of_each_kind) {
  for (int kind = 0; kind < KINDS; kind++)
    for (int s = 0; s < SCHEDULES; s++) {
      check("all_reduce", NULL, kinds[kind], &schedules[s]);
      check("all_reduce_apart", NULL, kinds[kind], &schedules[s]);
    }
}

/* Ranks that go on, and join again: what has been registered for shadows is used again. */
Test(registered, several_epochs) {
  static const struct schedule schedule = {3, 3, {{2, 4, 3}, {4, 1, 2}, {13, 23, 0}}};
  for (int kind = 0; kind < KINDS; kind++) {
    char options[64];
    snprintf(options, sizeof options, "--barrier 1 --memory %s", kinds[kind]);
    job_check(&(struct job){&schedule, "all_reduce_apart", "plain", NULL, 0, false}, options, true);
  }
}

/* As on machines with NVLink SHARP: each such collective waits on the host for all ranks. */
Test(registered, ranks_that_meet_on_the_host) {
  static const char *const operations[] = {"all_reduce", "all_reduce_apart", "reduce_scatter"};
  for (int i = 0; i < 3; i++) {
    char options[128];
    snprintf(options, sizeof options,
             "--operation %s --memory mapped --barrier 1 --iterations 12,20,17/20,12,0",
             operations[i]);
    struct run *result = run(&(struct launch){.nranks = 3,
                                              .program = "operations",
                                              .options = options,
                                              .environment = "LOOPBACK_NVLS=1"});
    assert_went_well(result);
    run_free(result);
  }
}

/* What is sent with NCCL_JOIN_LOSSY=last lies in memory whose registration has been taken back. */
Test(registered, last_of_a_buffer_that_is_no_longer_registered) {
  static const struct schedule schedule = {3, 1, {{12, 5, 12}}};
  job_check(&(struct job){&schedule, "all_to_all_single", "plain", "last", 0, true},
            "--memory registered --step 1 --deregister 1", false);
  job_check(&(struct job){&schedule, "batch_isend_irecv", "plain", "last", 0, true},
            "--memory registered --step 1 --deregister 1", false);
}

/* Which kernel runs is decided by the windows of a rank's own buffers: nothing can stand in for
 * that. Even ranks notice nothing but the line. */
Test(registered, windows_are_refused) {
  struct launch launch = {.nranks = 3,
                          .program = "operations",
                          .options =
                              "--operation all_reduce --memory window --iterations 12,12,12"};
  struct run *even = run(&launch);
  assert_went_well(even);
  cr_assert(run_says_in_a_line(even, "ncclCommWindowRegister", "cannot be shadowed", NULL), "%s",
            even->errors);
  run_free(even);
  launch.options = "--operation all_reduce --memory window --iterations 12,7,12";
  struct run *uneven = run(&launch);
  cr_assert(!uneven->timed_out, "%s", uneven->errors);
  cr_assert_neq(uneven->status, 0);
  cr_assert_neq(uneven->status, RUN_LOOPBACK_STOPPED, "%s", uneven->errors);
  cr_assert(run_says_in_a_line(uneven, "no shadow can be issued", "ncclCommWindowRegister",
                               "as many iterations", NULL),
            "%s", uneven->errors);
  run_free(uneven);
}

/* Nothing is registered then, and no line is said. */
Test(registered, switched_off_by_the_setting_of_nccl) {
  struct run *result = run(&(struct launch){
      .nranks = 3,
      .program = "operations",
      .options = "--operation all_reduce_apart --memory registered --iterations 7,3,7",
      .environment = "NCCL_LOCAL_REGISTER=0"});
  assert_went_well(result);
  cr_assert(strstr(result->errors, "WARN") == NULL, "%s", result->errors);
  run_free(result);
}
