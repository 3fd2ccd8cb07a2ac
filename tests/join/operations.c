/* The operations of torch.distributed, made of NCCL's calls as PyTorch's NCCL backend makes them,
 * in every role of a joined rank. docs/operations.md has the table. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { THEN = 3 }; /* all-reduces after a refusal, in programs/operations */

/* One run of programs/operations. */
struct job {
  const struct schedule *schedule;
  const char *operation, *form;
  const char *lossy; /* NCCL_JOIN_LOSSY, or NULL */
  int root;
  bool last; /* joined ranks send what their buffers hold now */
};

static struct run *run_operations(const struct job *job, const char *options) {
  char text[256], environment[128] = "";
  snprintf(text, sizeof text, "--iterations %s --operation %s --form %s --root %d --then %d %s",
           schedule_text(job->schedule), job->operation, job->form, job->root, THEN, options);
  if (job->lossy != NULL)
    snprintf(environment, sizeof environment, "NCCL_JOIN_LOSSY=%s", job->lossy);
  struct run *result = run(&(struct launch){.nranks = job->schedule->nranks,
                                            .program = "operations",
                                            .options = text,
                                            .environment = environment});
  assert_went_well(result);
  return result;
}

/* ---- what is received ---- */

/* Where a rank stands in a run. */
struct place {
  const struct job *job;
  int rank, i, tensor;
  unsigned active;
};

/* A result's text, made piece by piece. */
struct text {
  char bytes[512];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  text->used +=
      (size_t)vsnprintf(text->bytes + text->used, sizeof text->bytes - text->used, format, values);
  va_end(values);
}

static struct text begin_text(const struct place *at) {
  struct text text = {"", 0};
  add(&text, "%s %d %d", at->job->operation, at->i, at->tensor);
  return text;
}

/* What one rank has sent to another: zeros, or its last step, if it has joined. */
static void add_sent(struct text *text, const struct place *at, int from, int to) {
  bool active = at->active >> from & 1;
  int value = 1000 * at->tensor + 100 * (from + 1) + to;
  if (active)
    add(text, " %d %d", value, at->i + 1);
  else if (at->job->last)
    add(text, " %d %d", value, 1000 + at->job->schedule->n[0][from] - 1);
  else
    add(text, " 0 0");
}

typedef void expectation(struct lines *lines, const struct place *at);

static void reduced(struct lines *lines, const struct place *at) {
  struct text text = begin_text(at);
  add(&text, " %u %d", at->active, set_size(at->active) * (at->i + 1));
  lines_add(lines, at->rank, "%s", text.bytes);
}

static void reduced_at_root(struct lines *lines, const struct place *at) {
  if (at->rank == at->job->root)
    reduced(lines, at);
}

/* The root's, or, once that has joined, what the lowest active rank has in its place. */
static void broadcast(struct lines *lines, const struct place *at) {
  int root = at->active >> at->job->root & 1 ? at->job->root : set_lowest(at->active);
  struct text text = begin_text(at);
  add_sent(&text, at, root, 0);
  lines_add(lines, at->rank, "%s", text.bytes);
}

static void gathered(struct lines *lines, const struct place *at) {
  struct text text = begin_text(at);
  for (int from = 0; from < at->job->schedule->nranks; from++)
    add_sent(&text, at, from, 0);
  lines_add(lines, at->rank, "%s", text.bytes);
}

static void gathered_at_root(struct lines *lines, const struct place *at) {
  if (at->rank == at->job->root)
    gathered(lines, at);
}

static void add_part(struct lines *lines, const struct place *at, int from, int to) {
  struct text text = begin_text(at);
  add(&text, " %d", from);
  add_sent(&text, at, from, to);
  lines_add(lines, at->rank, "%s", text.bytes);
}

static void gathered_in_parts(struct lines *lines, const struct place *at) {
  for (int from = 0; from < at->job->schedule->nranks; from++)
    add_part(lines, at, from, 0);
}

static void exchanged(struct lines *lines, const struct place *at) {
  struct text text = begin_text(at);
  for (int from = 0; from < at->job->schedule->nranks; from++)
    add_sent(&text, at, from, at->rank);
  lines_add(lines, at->rank, "%s", text.bytes);
}

/* A rank sends nothing to every third one. */
static void exchanged_in_parts(struct lines *lines, const struct place *at) {
  for (int from = 0; from < at->job->schedule->nranks; from++)
    if ((from + 2 * at->rank) % 3 != 0)
      add_part(lines, at, from, at->rank);
}

static void scattered(struct lines *lines, const struct place *at) {
  struct text text = begin_text(at);
  add_sent(&text, at, at->job->root, at->rank);
  lines_add(lines, at->rank, "%s", text.bytes);
}

static void received(struct lines *lines, const struct place *at) {
  if (at->rank % 2 == 0)
    return;
  struct text text = begin_text(at);
  add_sent(&text, at, at->rank - 1, at->rank);
  lines_add(lines, at->rank, "%s", text.bytes);
}

static void received_from_both(struct lines *lines, const struct place *at) {
  int nranks = at->job->schedule->nranks;
  struct text text = begin_text(at);
  add_sent(&text, at, (at->rank + nranks - 1) % nranks, at->rank);
  add_sent(&text, at, (at->rank + 1) % nranks, at->rank);
  lines_add(lines, at->rank, "%s", text.bytes);
}

/* A joined rank has no object. */
static void objects(struct lines *lines, const struct place *at) {
  for (int from = 0; from < at->job->schedule->nranks; from++)
    if (at->active >> from & 1)
      lines_add(lines, at->rank, "all_gather_object %d %d %d %d", at->i, from, from + 1, at->i + 1);
}

static void passed(struct lines *lines, const struct place *at) {
  lines_add(lines, at->rank, "barrier %d 0", at->i);
}

static const struct {
  const char *name;
  expectation *expect;
} operations[] = {
    {"broadcast", broadcast},
    {"all_reduce", reduced},
    {"reduce", reduced_at_root},
    {"all_gather", gathered},
    {"all_gather_uneven", gathered_in_parts},
    {"all_gather_object", objects},
    {"reduce_scatter", reduced},
    {"reduce_scatter_uneven", reduced},
    {"all_to_all_single", exchanged},
    {"all_to_all", exchanged_in_parts},
    {"gather", gathered_at_root},
    {"scatter", scattered},
    {"send_recv", received},
    {"batch_isend_irecv", received_from_both},
    {"barrier", passed},
};

static expectation *expectation_of(const char *operation) {
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
    if (strcmp(operations[i].name, operation) == 0)
      return operations[i].expect;
  cr_assert_fail("no expectation of %s", operation);
  return NULL;
}

/* ---- all that is received, compared ---- */

static void add_epoch(struct lines *lines, const struct job *job, int rank, int epoch) {
  expectation *expect = expectation_of(job->operation);
  for (int i = 0; i < job->schedule->n[epoch][rank]; i++) {
    unsigned active = schedule_active(job->schedule, epoch, i);
    lines_add(lines, rank, "sum %d %u %d", i, active, set_size(active) * (i + 1));
    for (int tensor = 0; tensor < (strcmp(job->form, "plain") == 0 ? 1 : 2); tensor++)
      expect(lines, &(struct place){job, rank, i, tensor, active});
  }
}

static void check(const struct job *job, const char *options, bool barriers) {
  const struct schedule *schedule = job->schedule;
  struct run *result = run_operations(job, options);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int epoch = 0; epoch < schedule->epochs; epoch++) {
      add_epoch(lines, job, rank, epoch);
      if (barriers)
        lines_add(lines, rank, "met %d %u %d", epoch, set_of_all(schedule->nranks),
                  schedule->nranks * (epoch + 1));
    }
  lines_add_left(lines, schedule->nranks);
  assert_results(result, lines);
  lines_free(lines);
  run_free(result);
}

static const char *const forms[] = {"plain", "coalesced", "repeated"};

/* Nothing is lost, so nothing has to be allowed. */
static void check_exact(const char *operation, int root, const struct schedule *schedule) {
  for (int form = 0; form < 3; form++)
    check(&(struct job){schedule, operation, forms[form], NULL, root, false}, "", false);
}

/* With zeros; and with what the joined ranks' buffers hold, if all ranks have had some iterations:
 * what they changed there after the last one. */
static void check_lossy(const char *operation, int root, const struct schedule *schedule) {
  for (int form = 0; form < 3; form++)
    check(&(struct job){schedule, operation, forms[form], "zero", root, false}, "", false);
  for (int rank = 0; rank < schedule->nranks; rank++)
    if (schedule->n[0][rank] < 2)
      return;
  for (int form = 0; form < 3; form++)
    check(&(struct job){schedule, operation, forms[form], "last", root, true}, "--step 1", false);
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

/* Their sizes are gathered first: that of a joined rank is 0. */
static void check_objects(const struct schedule *schedule) {
  check(&(struct job){schedule, "all_gather_object", "plain", "allgather:zero", 0, false}, "",
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
  check(&(struct job){&(struct schedule){3, 3, {{2, 4, 3}, {4, 1, 2}, {3, 3, 0}}}, "all_reduce",
                      "plain", NULL, 0, false},
        "--barrier 1", true);
  check(&(struct job){&(struct schedule){3, 2, {{12, 20, 17}, {20, 12, 15}}}, "reduce_scatter",
                      "plain", NULL, 0, false},
        "--barrier 1", true);
}

/* ---- refused ---- */

static bool has_result(const struct run *run, int rank, const char *text) {
  char line[128];
  snprintf(line, sizeof line, "RESULT %d %s", rank, text);
  return strstr(run->output, line) != NULL;
}

/* All ranks but the one that joins are refused, which is said, and all leave in peace. */
static void check_refused_with(const struct job *job, const char *options, int joined,
                               const char *says) {
  struct run *result = run_operations(job, options);
  char name[32];
  snprintf(name, sizeof name, "rank %d", joined);
  cr_assert(run_says_in_a_line(result, name, says, NULL), "%s %s: no line says %s and %s\n%s",
            job->operation, job->form, name, says, result->errors);
  for (int rank = 0; rank < job->schedule->nranks; rank++) {
    cr_assert(has_result(result, rank, "left"), "rank %d\n%s", rank, result->output);
    cr_assert_eq(has_result(result, rank, "refused"), rank != joined, "rank %d\n%s%s", rank,
                 result->output, result->errors);
  }
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
    check(&(struct job){&(struct schedule){3, 1, {{12, 4, 12}}}, "all_gather", forms[form],
                        "allgather:last", 0, true},
          "--step 1 --barrier 1", true);
    check(&(struct job){&(struct schedule){3, 1, {{12, 4, 12}}}, "batch_isend_irecv", forms[form],
                        "send:last", 0, true},
          "--step 1 --barrier 1", true);
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
  struct run *result = run_operations(&job, "");
  cr_assert(run_says_in_a_line(result, "rank 1 has joined", "nothing tells which", NULL), "%s",
            result->errors);
  run_free(result);
}
