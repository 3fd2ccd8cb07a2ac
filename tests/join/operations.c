/* The operations of torch.distributed, made of NCCL's calls as PyTorch's NCCL backend makes them,
 * in every role of a joined rank. docs/operations.md has the table. */
#include "tests/join/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char *const forms[] = {"plain", "coalesced", "repeated"};

/* Nothing is lost, so nothing has to be allowed. */
static void check_exact(const char *operation, int root, const struct schedule *schedule) {
  for (int form = 0; form < 3; form++)
    job_check(&(struct job){schedule, operation, forms[form], NULL, root, false}, "", false);
}

/* With zeros; and with what the joined ranks' buffers hold, if all ranks have had some iterations:
 * what they changed there after the last one. */
static void check_lossy(const char *operation, int root, const struct schedule *schedule) {
  for (int form = 0; form < 3; form++)
    job_check(&(struct job){schedule, operation, forms[form], "zero", root, false}, "", false);
  for (int rank = 0; rank < schedule->nranks; rank++)
    if (schedule->n[0][rank] < 2)
      return;
  for (int form = 0; form < 3; form++)
    job_check(&(struct job){schedule, operation, forms[form], "last", root, true}, "--step 1",
              false);
}

/* Rank 0 leaves first; rank 1 does; two leave, one after the other, once the loop has been learnt;
 * one has no iterations at all. */
static const struct schedule first_leaves = {3, 1, {{2, 6, 6}}},
                             second_leaves = {3, 1, {{7, 3, 7}}},
                             two_leave = {4, 1, {{14, 8, 14, 11}}},
                             one_without = {3, 1, {{4, 0, 4}}};

static void check_exact_of_any(const char *operation) {
  check_exact(operation, 0, &first_leaves);
  check_exact(operation, 0, &second_leaves);
}
static void check_exact_of_several(const char *operation) {
  check_exact(operation, 0, &two_leave);
  check_exact(operation, 0, &one_without);
}
static void check_lossy_of_any(const char *operation) {
  check_lossy(operation, 0, &first_leaves);
  check_lossy(operation, 0, &second_leaves);
}
static void check_lossy_of_several(const char *operation) {
  check_lossy(operation, 0, &two_leave);
  check_lossy(operation, 0, &one_without);
}

/* ---- with a root ---- */

Test(operations, broadcast_whose_root_has_joined) {
  check_exact("broadcast", 0, &first_leaves);
  check_exact("broadcast", 1, &two_leave);
}
Test(operations, broadcast_to_a_joined_rank) {
  check_exact("broadcast", 0, &second_leaves);
  check_exact("broadcast", 2, &one_without);
}
Test(operations, reduce_whose_root_has_joined) {
  check_exact("reduce", 0, &first_leaves);
  check_exact("reduce", 1, &two_leave);
}
Test(operations, reduce_to_an_active_root) {
  check_exact("reduce", 0, &second_leaves);
  check_exact("reduce", 2, &one_without);
}
Test(operations, gather_whose_root_has_joined) {
  check_exact("gather", 0, &first_leaves);
}
Test(operations, gather_from_a_joined_rank) {
  check_lossy("gather", 0, &second_leaves);
  check_lossy("gather", 2, &two_leave);
  check_lossy("gather", 0, &one_without);
}
Test(operations, scatter_whose_root_has_joined) {
  check_lossy("scatter", 0, &first_leaves);
  check_lossy("scatter", 1, &two_leave);
}
Test(operations, scatter_to_a_joined_rank) {
  check_exact("scatter", 0, &second_leaves);
  check_exact("scatter", 0, &one_without);
}

/* ---- without ---- */

Test(operations, all_reduce_with_a_joined_rank) {
  check_exact_of_any("all_reduce");
}
Test(operations, all_reduce_with_several_joined_ranks) {
  check_exact_of_several("all_reduce");
}
Test(operations, reduce_scatter_with_a_joined_rank) {
  check_exact_of_any("reduce_scatter");
}
Test(operations, reduce_scatter_with_several_joined_ranks) {
  check_exact_of_several("reduce_scatter");
}
Test(operations, reduce_scatter_of_uneven_parts_with_a_joined_rank) {
  check_exact_of_any("reduce_scatter_uneven");
}
Test(operations, reduce_scatter_of_uneven_parts_with_several_joined_ranks) {
  check_exact_of_several("reduce_scatter_uneven");
}
Test(operations, all_gather_with_a_joined_rank) {
  check_lossy_of_any("all_gather");
}
Test(operations, all_gather_with_several_joined_ranks) {
  check_lossy_of_several("all_gather");
}
Test(operations, all_gather_of_uneven_parts_with_a_joined_rank) {
  check_lossy_of_any("all_gather_uneven");
}
Test(operations, all_gather_of_uneven_parts_with_several_joined_ranks) {
  check_lossy_of_several("all_gather_uneven");
}
Test(operations, all_to_all_single_with_a_joined_rank) {
  check_lossy_of_any("all_to_all_single");
}
Test(operations, all_to_all_single_with_several_joined_ranks) {
  check_lossy_of_several("all_to_all_single");
}
Test(operations, all_to_all_with_a_joined_rank) {
  check_lossy_of_any("all_to_all");
}
Test(operations, all_to_all_with_several_joined_ranks) {
  check_lossy_of_several("all_to_all");
}

/* Ranks connect with all peers of a group at once, on the host: a joined rank must not connect with
 * the first one alone, which waits for the late one, which waits for the joined rank. */
Test(operations, all_to_all_with_a_joined_rank_and_a_late_one) {
  static const struct schedule schedule = {3, 1, {{2, 0, 2}}};
  job_check(&(struct job){&schedule, "all_to_all", "plain", "send:zero", 0, false}, "--late 0",
            false);
}

/* Their sizes are gathered first: that of a joined rank is 0. */
static void check_objects(const struct schedule *schedule) {
  job_check(&(struct job){schedule, "all_gather_object", "plain", "allgather:zero", 0, false}, "",
            false);
}
Test(operations, all_gather_object_with_a_joined_rank) {
  check_objects(&first_leaves);
  check_objects(&second_leaves);
}
Test(operations, all_gather_object_with_several_joined_ranks) {
  check_objects(&two_leave);
  check_objects(&one_without);
}

/* ---- point to point ---- */

Test(operations, send_to_a_joined_rank) {
  check_exact("send_recv", 0, &second_leaves);
  check_exact("send_recv", 0, &(struct schedule){4, 1, {{14, 8, 14, 11}}});
}
Test(operations, receive_from_a_joined_rank) {
  check_lossy("send_recv", 0, &first_leaves);
  check_lossy("send_recv", 0, &(struct schedule){4, 1, {{8, 14, 11, 14}}});
}
Test(operations, send_and_receive_of_joined_ranks_only) {
  check_exact("send_recv", 0, &(struct schedule){4, 1, {{9, 9, 3, 3}}});
}
Test(operations, batch_with_a_joined_neighbour) {
  check_lossy_of_any("batch_isend_irecv");
}
Test(operations, batch_with_joined_neighbours_on_both_sides) {
  check_lossy("batch_isend_irecv", 0, &(struct schedule){4, 1, {{12, 5, 12, 8}}});
  check_lossy("batch_isend_irecv", 0, &one_without);
}
Test(operations, batch_of_two_ranks) {
  check_lossy("batch_isend_irecv", 0, &(struct schedule){2, 1, {{3, 8}}});
}

/* ---- barriers ---- */

/* The rank that has joined stands in for the others' barriers, and they do not wait for it. */
Test(operations, barrier_in_the_loop_is_shadowed) {
  check_exact("barrier", 0, &first_leaves);
  check_exact("barrier", 0, &two_leave);
  check_exact("barrier", 0, &one_without);
}

/* After the barrier all ranks sum once more: all of them are there. */
Test(operations, barrier_after_each_epoch_meets_all) {
  job_check(&(struct job){&(struct schedule){3, 3, {{2, 4, 3}, {4, 1, 2}, {3, 3, 0}}}, "all_reduce",
                          "plain", NULL, 0, false},
            "--barrier 1", true);
  job_check(&(struct job){&(struct schedule){3, 2, {{12, 20, 17}, {20, 12, 15}}}, "reduce_scatter",
                          "plain", NULL, 0, false},
            "--barrier 1", true);
}

/* The same signature in both places: only where it stands tells them apart. */
Test(operations, barrier_in_the_loop_and_after_each_epoch) {
  job_check(&(struct job){&(struct schedule){3, 2, {{5, 9, 7}, {9, 6, 5}}}, "barrier", "plain",
                          NULL, 0, false},
            "--barrier 1", true);
  job_check(
      &(struct job){&(struct schedule){4, 3, {{12, 20, 17, 4}, {20, 12, 15, 9}, {3, 5, 9, 9}}},
                    "barrier", "plain", NULL, 0, false},
      "--barrier 1", true);
}

/* ---- refused ---- */

/* All ranks but the one that joins are refused, which is said, and all leave in peace. */
static void check_refused_with(const struct job *job, const char *options, int joined,
                               const char *says) {
  struct run *result = job_run(job, options);
  char name[32];
  snprintf(name, sizeof name, "rank %d", joined);
  cr_assert(run_says_in_a_line(result, name, says, NULL), "%s %s: no line says %s and %s\n%s",
            job->operation, job->form, name, says, result->errors);
  assert_refused(result, job->schedule->nranks, joined);
  run_free(result);
}

/* While the loop is not known yet, and when it is. */
static void check_refused(const char *operation, int root, const char *says) {
  static const struct schedule early = {3, 1, {{7, 2, 7}}}, late = {3, 1, {{20, 12, 20}}};
  for (int form = 0; form < 3; form++)
    check_refused_with(&(struct job){&early, operation, forms[form], NULL, root, false}, "", 1,
                       says);
  check_refused_with(&(struct job){&late, operation, "plain", NULL, root, false}, "", 1, says);
}

Test(operations, all_gather_is_refused) {
  check_refused("all_gather", 0, "NCCL_JOIN_LOSSY=allgather:zero");
}
Test(operations, all_gather_of_uneven_parts_is_refused) {
  check_refused("all_gather_uneven", 0, "NCCL_JOIN_LOSSY=allgather:zero");
}
Test(operations, all_gather_object_is_refused) {
  check_refused("all_gather_object", 0, "NCCL_JOIN_LOSSY=allgather:zero");
}
Test(operations, all_to_all_single_is_refused) {
  check_refused("all_to_all_single", 0, "NCCL_JOIN_LOSSY=alltoall:zero");
}
Test(operations, all_to_all_is_refused) {
  check_refused("all_to_all", 0, "NCCL_JOIN_LOSSY=send:zero");
}
Test(operations, gather_is_refused) {
  check_refused("gather", 0, "NCCL_JOIN_LOSSY=send:zero");
}
Test(operations, scatter_is_refused) {
  check_refused("scatter", 1, "NCCL_JOIN_LOSSY=send:zero");
}
Test(operations, receive_is_refused) {
  static const struct schedule schedule = {3, 1, {{2, 7, 7}}};
  for (int form = 0; form < 3; form++)
    check_refused_with(&(struct job){&schedule, "send_recv", forms[form], NULL, 0, false}, "", 0,
                       "NCCL_JOIN_LOSSY=send:zero");
}
Test(operations, batch_is_refused) {
  check_refused("batch_isend_irecv", 0, "NCCL_JOIN_LOSSY=send:zero");
}

/* ---- last ---- */

/* What the rank writes to its buffer before it waits in the barrier is what it sends from there. */
Test(operations, last_is_what_the_buffer_holds_when_the_rank_waits) {
  for (int form = 0; form < 3; form++) {
    job_check(&(struct job){&(struct schedule){3, 1, {{12, 4, 12}}}, "all_gather", forms[form],
                            "allgather:last", 0, true},
              "--step 2 --barrier 1", true);
    job_check(&(struct job){&(struct schedule){3, 1, {{12, 4, 12}}}, "batch_isend_irecv",
                            forms[form], "send:last", 0, true},
              "--step 2 --barrier 1", true);
  }
}

Test(operations, last_of_a_rank_without_iterations_is_an_error) {
  check_refused_with(
      &(struct job){&(struct schedule){3, 1, {{4, 0, 4}}}, "all_gather", "plain", "last", 0, true},
      "", 1, "it has not made this call itself");
  check_refused_with(
      &(struct job){&(struct schedule){3, 1, {{4, 0, 4}}}, "gather", "plain", "last", 0, true}, "",
      1, "it has not made this call itself");
}

Test(operations, last_of_a_buffer_that_is_gone_is_an_error) {
  check_refused_with(
      &(struct job){&(struct schedule){3, 1, {{9, 3, 9}}}, "all_gather", "plain", "last", 0, true},
      "--free 1", 1, "the buffer that its own call used is gone");
}

/* Each of two buffers has been used once: it could be either. */
Test(operations, last_of_buffers_that_nothing_tells_apart_is_a_guess) {
  struct job job = {
      &(struct schedule){3, 1, {{4, 1, 4}}}, "all_gather", "repeated", "last", 0, true};
  struct run *result = job_run(&job, "");
  cr_assert(run_says_in_a_line(result, "rank 1 has joined", "nothing tells which", NULL), "%s",
            result->errors);
  run_free(result);
}

/* Plug-ins get a copy: the program's own buffer stays as it is, and the next shadow sends it anew.
 */
Test(operations, last_is_what_plug_ins_are_given) {
  static const struct schedule schedule = {3, 1, {{7, 3, 7}}};
  char environment[512];
  snprintf(environment, sizeof environment,
           "NCCL_JOIN_LOSSY=allgather:last FIRST=add-gathered NCCL_JOIN_HOOK=%s/plugins/first.so",
           run_build_folder());
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "operations",
                           .options = "--operation all_gather --step 1 --iterations 7,3,7",
                           .environment = environment});
  assert_went_well(result);
  for (int i = schedule.n[0][1]; i < schedule.n[0][0]; i++) {
    char text[96];
    snprintf(text, sizeof text, "all_gather %d 0 100 %d 201 1003 300 %d\n", i, i + 1, i + 1);
    cr_assert(has_result(result, 0, text) && has_result(result, 2, text), "no %s%s", text,
              result->output);
  }
  run_free(result);
}
