/* The operations of torch.distributed, made of NCCL's calls as PyTorch's NCCL backend makes them,
 * in every role of a joined rank. docs/operations.md has the table. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <math.h>
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

struct run *job_run(const struct job *job, const char *options) {
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
    {"all_reduce_apart", reduced},
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

static void assert_met(const struct run *run, int nranks, int epoch) {
  char in[32], out[32];
  double last_in = 0, first_out = HUGE_VAL;
  snprintf(in, sizeof in, "in %d", epoch);
  snprintf(out, sizeof out, "out %d", epoch);
  for (int rank = 0; rank < nranks; rank++) {
    last_in = fmax(last_in, run_time(run, rank, in));
    first_out = fmin(first_out, run_time(run, rank, out));
  }
  cr_assert(first_out > last_in, "a rank came out of barrier %d %.6f s before the last one went in",
            epoch, last_in - first_out);
}

void job_check(const struct job *job, const char *options, bool barriers) {
  const struct schedule *schedule = job->schedule;
  struct run *result = job_run(job, options);
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
  for (int epoch = 0; barriers && epoch < schedule->epochs; epoch++)
    assert_met(result, schedule->nranks, epoch);
  lines_free(lines);
  run_free(result);
}
