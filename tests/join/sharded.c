/* Training with sharded state: ZeRO and FSDP. A joined rank's shard nobody else has, so these are
 * refused; or, where the user asks for it, done with what is left.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS = 3 }; /* of fsdp, in programs/sharded */

static struct run *run_sharded(const struct schedule *schedule, const char *more,
                               const char *environment) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), more);
  return run(&(struct launch){.nranks = schedule->nranks,
                              .program = "sharded",
                              .options = text,
                              .environment = environment});
}

/* ---- what training makes of parameters ---- */

/* Appends a shard after a number of steps: its owner adds the gradients of all active ranks, for as
 * long as it is active itself. */
static void describe_shard(char *text, size_t size, const struct schedule *schedule, int owner,
                           int steps) {
  size_t length = strlen(text);
  int even = 0, odd = 0;
  for (int i = 0; i < steps; i++) {
    unsigned active = schedule_active(schedule, 0, i);
    if (!(active >> owner & 1))
      continue;
    even += (int)active;
    odd += set_size(active) * (i + 1);
  }
  snprintf(text + length, size - length, " %d %d", even, odd);
}

/* As all ranks have them after iteration i. */
static void add_parameters(struct lines *lines, const struct schedule *schedule, int rank, int i) {
  char text[256] = "";
  for (int owner = 0; owner < schedule->nranks; owner++)
    describe_shard(text, sizeof text, schedule, owner, i + 1);
  lines_add(lines, rank, "shards %d%s", i, text);
}

/* What the forward pass of iteration i sees, and the rank's own shard after it. */
static void add_fsdp(struct lines *lines, const struct schedule *schedule, int rank, int i) {
  char all[256] = "", own[64] = "";
  for (int owner = 0; owner < schedule->nranks; owner++)
    describe_shard(all, sizeof all, schedule, owner, i);
  for (int layer = 0; layer < LAYERS; layer++)
    lines_add(lines, rank, "gathered %d %d%s", i, layer, all);
  describe_shard(own, sizeof own, schedule, rank, i + 1);
  lines_add(lines, rank, "shards %d%s", i, own);
}

typedef void add_iteration(struct lines *lines, const struct schedule *schedule, int rank, int i);

/* All ranks go on to their end. */
static void check_trained(const struct schedule *schedule, const char *options,
                          const char *environment, add_iteration *add) {
  struct run *result = run_sharded(schedule, options, environment);
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++)
      add(lines, schedule, rank, i);
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* Rank `joined` leaves first, and all others are refused a call of their next iteration. Each says
 * so once. */
static void check_refused(const struct schedule *schedule, const char *options, int joined,
                          const char *call, int root, add_iteration *add) {
  struct run *result = run_sharded(schedule, options, "");
  assert_went_well(result);
  char joined_name[32];
  snprintf(joined_name, sizeof joined_name, "rank %d", joined);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", joined_name, "joined", "ncclInvalidUsage",
                               "ZeRO", "NCCL_JOIN_LOSSY=", "all ranks as many iterations", NULL),
            "%s", result->errors);
  int said = 0;
  for (const char *at = result->errors; (at = strstr(at, "ncclInvalidUsage")) != NULL; at++)
    said++;
  cr_assert_eq(said, schedule->nranks - 1, "%s", result->errors);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++) {
    for (int i = 0; i < schedule->n[0][joined]; i++)
      add(lines, schedule, rank, i);
    if (rank != joined)
      lines_add(lines, rank, "refused %d %s %d", schedule->n[0][joined], call, root);
  }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

/* ---- ZeroRedundancyOptimizer: each rank broadcasts its shard ---- */

/* With as many iterations on every rank, broadcasts from all of them are as they are. */
Test(sharded, zero_with_even_inputs) {
  check_trained(&(struct schedule){3, 1, {{15, 15, 15}}}, "--style zero", "", add_parameters);
  check_trained(&(struct schedule){4, 1, {{15, 15, 15, 15}}}, "--style zero --group 1", "",
                add_parameters);
}

/* Refused in the first iteration without the joined rank: at its own broadcast if others come
 * before it, otherwise at the first of another. */
static void check_zero_refused(const struct schedule *schedule, int joined) {
  check_refused(schedule, "--style zero", joined, "broadcast", joined == 0 ? 1 : joined,
                add_parameters);
}

Test(sharded, zero_is_refused_when_rank_0_has_joined) {
  check_zero_refused(&(struct schedule){3, 1, {{2, 6, 6}}}, 0);
  check_zero_refused(&(struct schedule){2, 1, {{2, 6}}}, 0);
}
Test(sharded, zero_is_refused_when_another_rank_has_joined) {
  check_zero_refused(&(struct schedule){3, 1, {{6, 2, 6}}}, 1);
  check_zero_refused(&(struct schedule){3, 1, {{6, 6, 2}}}, 2);
  check_zero_refused(&(struct schedule){2, 1, {{6, 2}}}, 1);
}
Test(sharded, zero_is_refused_once_learnt) {
  check_zero_refused(&(struct schedule){3, 1, {{12, 20, 20}}}, 0);
  check_zero_refused(&(struct schedule){3, 1, {{20, 20, 12}}}, 2);
}
Test(sharded, zero_is_refused_to_a_rank_without_iterations) {
  check_zero_refused(&(struct schedule){3, 1, {{0, 6, 6}}}, 0);
  check_zero_refused(&(struct schedule){4, 1, {{6, 6, 0, 6}}}, 2);
}

/* Ranks without a shard, where there are fewer parameters than ranks, may join: nothing of theirs
 * is missing. */
static void add_parameters_of_two(struct lines *lines, const struct schedule *schedule, int rank,
                                  int i) {
  char text[256] = "";
  for (int owner = 0; owner < 2; owner++)
    describe_shard(text, sizeof text, schedule, owner, i + 1);
  lines_add(lines, rank, "shards %d%s", i, text);
}
Test(sharded, zero_goes_on_without_a_rank_that_has_no_shard) {
  static const char options[] = "--style zero --owners 2";
  check_trained(&(struct schedule){4, 1, {{8, 8, 2, 5}}}, options, "", add_parameters_of_two);
  check_trained(&(struct schedule){3, 1, {{25, 25, 0}}}, options, "", add_parameters_of_two);
}

/* The shard of a joined rank stays as it was last broadcast, and the others go on. */
Test(sharded, zero_goes_on_without_the_shard_of_a_joined_rank) {
  static const char lossy[] = "NCCL_JOIN_LOSSY=zero";
  check_trained(&(struct schedule){3, 1, {{2, 9, 6}}}, "--style zero", lossy, add_parameters);
  check_trained(&(struct schedule){3, 1, {{25, 12, 18}}}, "--style zero", lossy, add_parameters);
  check_trained(&(struct schedule){4, 1, {{3, 8, 8, 5}}}, "--style zero", lossy, add_parameters);
}

/* ---- DeepSpeed: shards are gathered ---- */

Test(sharded, deepspeed_with_even_inputs) {
  check_trained(&(struct schedule){3, 1, {{15, 15, 15}}}, "--style deepspeed", "", add_parameters);
}
Test(sharded, deepspeed_is_refused) {
  check_refused(&(struct schedule){3, 1, {{2, 6, 6}}}, "--style deepspeed", 0, "allgather", 0,
                add_parameters);
  check_refused(&(struct schedule){2, 1, {{6, 0}}}, "--style deepspeed", 1, "allgather", 0,
                add_parameters);
}

/* In a loop that is learnt a gather may be done with zeros before its rank can know: the next call
 * says so, and nobody goes on for another iteration. */
static void check_refused_once_learnt(const struct schedule *schedule, const char *options,
                                      int joined) {
  struct run *result = run_sharded(schedule, options, "");
  assert_went_well(result);
  assert_refused(result, schedule->nranks, joined);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    char step[32];
    snprintf(step, sizeof step, "shards %d ", schedule->n[0][joined] + 1);
    cr_assert_not(has_result(result, rank, step), "rank %d\n%s", rank, result->output);
  }
  run_free(result);
}

/* Broadcasts as a coalescing manager issues them, or an all-gather of uneven sizes: they are one
 * unit, which as a whole gathers. */
Test(sharded, zero_is_refused_in_a_group) {
  static const char options[] = "--style zero --group 1";
  check_refused(&(struct schedule){3, 1, {{2, 6, 6}}}, options, 0, "group", 0, add_parameters);
  check_refused_once_learnt(&(struct schedule){3, 1, {{20, 20, 12}}}, options, 2);
}

Test(sharded, deepspeed_is_refused_once_learnt) {
  check_refused_once_learnt(&(struct schedule){3, 1, {{20, 20, 12}}}, "--style deepspeed", 2);
}

/* The last collective before the end: the call that leaves says so, for there is no other. Not to a
 * rank that had joined before: nothing of its own was spoiled. */
static void check_refused_at_the_end(const char *iterations, int nranks, const char *end,
                                     const char *call) {
  char options[96];
  snprintf(options, sizeof options, "--style deepspeed --iterations %s --end %s", iterations, end);
  struct run *result = run(
      &(struct launch){.nranks = nranks, .program = "sharded", .options = options, .each = true});
  cr_assert_not(result->timed_out);
  for (int rank = 0; rank < nranks; rank++)
    cr_assert_eq(result->rank_status[rank], rank == nranks - 1, "rank %d\n%s", rank,
                 result->errors);
  cr_assert(run_says(result, "rank 0 has joined and could only send zeros"), "%s", result->errors);
  cr_assert(call == NULL || run_says(result, call), "%s", result->errors);
  run_free(result);
}

Test(sharded, deepspeed_is_refused_in_the_last_iteration) {
  check_refused_at_the_end("12,13", 2, "abort", "ncclCommAbort");
  check_refused_at_the_end("12,13", 2, "return", NULL);
  check_refused_at_the_end("12,13", 2, "exit", NULL);
  check_refused_at_the_end("12,13", 2, "finalize", "ncclCommFinalize");
  check_refused_at_the_end("12,13", 2, "destroy", "ncclCommDestroy");
  check_refused_at_the_end("12,12,13", 3, "destroy", "ncclCommDestroy");
}

/* ---- FSDP: parameters are gathered, gradients reduce-scattered ---- */

Test(sharded, fsdp_with_even_inputs) {
  check_trained(&(struct schedule){2, 1, {{15, 15}}}, "--style fsdp", "", add_fsdp);
  check_trained(&(struct schedule){4, 1, {{6, 6, 6, 6}}}, "--style fsdp", "", add_fsdp);
}
Test(sharded, fsdp_is_refused) {
  check_refused(&(struct schedule){2, 1, {{2, 6}}}, "--style fsdp", 0, "allgather", 0, add_fsdp);
  check_refused(&(struct schedule){4, 1, {{6, 6, 0, 6}}}, "--style fsdp", 2, "allgather", 0,
                add_fsdp);
}
Test(sharded, fsdp_is_refused_once_learnt) {
  check_refused_once_learnt(&(struct schedule){4, 1, {{20, 12, 20, 20}}}, "--style fsdp", 1);
}

/* With "last" a joined rank's shards stay as its last step left them. */
Test(sharded, gathers_go_on_with_the_last_shard_of_a_joined_rank) {
  static const char last[] = "NCCL_JOIN_LOSSY=allgather:last";
  check_trained(&(struct schedule){3, 1, {{2, 9, 6}}}, "--style deepspeed", last, add_parameters);
  check_trained(&(struct schedule){3, 1, {{25, 12, 18}}}, "--style deepspeed", last,
                add_parameters);
  check_trained(&(struct schedule){2, 1, {{5, 2}}}, "--style fsdp", last, add_fsdp);
  check_trained(&(struct schedule){4, 1, {{20, 20, 12, 16}}}, "--style fsdp", last, add_fsdp);
}

/* What NCCL_JOIN_LOSSY=zero would do to it, and why its documentation warns of that: the forward
 * pass sees zeros in the place of a joined rank's parameters. */
static void add_fsdp_with_zeros(struct lines *lines, const struct schedule *schedule, int rank,
                                int i) {
  char all[256] = "", own[64] = "";
  for (int owner = 0; owner < schedule->nranks; owner++) {
    bool active = schedule_active(schedule, 0, i) >> owner & 1;
    describe_shard(all, sizeof all, schedule, owner, active ? i : 0);
  }
  for (int layer = 0; layer < LAYERS; layer++)
    lines_add(lines, rank, "gathered %d %d%s", i, layer, all);
  describe_shard(own, sizeof own, schedule, rank, i + 1);
  lines_add(lines, rank, "shards %d%s", i, own);
}
Test(sharded, fsdp_with_zeros_loses_parameters) {
  check_trained(&(struct schedule){2, 1, {{5, 2}}}, "--style fsdp", "NCCL_JOIN_LOSSY=zero",
                add_fsdp_with_zeros);
}

/* ---- early termination ---- */

/* With NCCL_JOIN_EARLY_EXIT=throw nothing is missing: all ranks stop with the first call of the
 * iteration for which one has no data. */
static void check_stopped(const struct schedule *schedule, const char *style, int joined,
                          const char *call) {
  char options[128], refused[64], step[32];
  int n = schedule->n[0][joined];
  snprintf(options, sizeof options, "--style %s --iterations %s", style, schedule_text(schedule));
  struct run *result = run(&(struct launch){.nranks = schedule->nranks,
                                            .program = "sharded",
                                            .options = options,
                                            .environment = "NCCL_JOIN_EARLY_EXIT=throw",
                                            .each = true});
  cr_assert_not(result->timed_out, "%s", result->errors);
  cr_assert(run_says(result, "exhausted all inputs"), "%s", result->errors);
  snprintf(refused, sizeof refused, "refused %d %s 0\n", n, call);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    snprintf(step, sizeof step, "shards %d ", n - 1);
    cr_assert(has_result(result, rank, step), "rank %d\n%s", rank, result->output);
    snprintf(step, sizeof step, "shards %d ", n);
    cr_assert_not(has_result(result, rank, step), "rank %d\n%s", rank, result->output);
    cr_assert_eq(has_result(result, rank, refused), rank != joined, "rank %d\n%s%s", rank,
                 result->output, result->errors);
  }
  run_free(result);
}

Test(sharded, all_stop_together_where_that_is_asked_for) {
  check_stopped(&(struct schedule){3, 1, {{2, 6, 6}}}, "zero", 0, "allreduce");
  check_stopped(&(struct schedule){3, 1, {{20, 12, 20}}}, "zero", 1, "allreduce");
  check_stopped(&(struct schedule){3, 1, {{20, 20, 12}}}, "deepspeed", 2, "reducescatter");
  check_stopped(&(struct schedule){2, 1, {{20, 12}}}, "fsdp", 1, "allgather");
}

Test(sharded, hangs_without_join) {
  assert_stuck_without(3, "sharded", "--iterations 2,6,6 --style zero");
  assert_stuck_without(2, "sharded", "--iterations 4,6 --style fsdp");
}
