/* Expected lines: the arithmetic of the programs sum and ddp, and the comparison. */
#include "tests/join/expected.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of each pair of numbers: contributions, and (iteration + 1) of the epoch. As in programs/ddp.c.
 */
enum { DDP_FIRST_BUCKETS = 3, DDP_BUCKETS = 4, POWER_WARM_UP = 2, POWER_PARTS = 3, EPOCH = 1000 };
enum { HEARD_LATER = 3 }; /* iterations */

/* ---- schedules ---- */

const char *schedule_text(const struct schedule *schedule) {
  static char text[1024];
  size_t length = 0;
  for (int epoch = 0; epoch < schedule->epochs; epoch++)
    for (int rank = 0; rank < schedule->nranks; rank++)
      length += (size_t)snprintf(text + length, sizeof text - length, "%s%d",
                                 rank > 0    ? ","
                                 : epoch > 0 ? "/"
                                             : "",
                                 schedule->n[epoch][rank]);
  return text;
}

unsigned schedule_active(const struct schedule *schedule, int epoch, int i) {
  cr_assert_leq(schedule->nranks, 32);
  unsigned active = 0;
  for (int rank = 0; rank < schedule->nranks; rank++)
    if (schedule->n[epoch][rank] > i)
      active |= 1u << rank;
  return active;
}

int set_size(unsigned ranks) {
  return __builtin_popcount(ranks);
}

int set_lowest(unsigned ranks) {
  return __builtin_ctz(ranks);
}

unsigned set_of_all(int nranks) {
  return (1u << nranks) - 1;
}

/* ---- lines ---- */

struct lines {
  char **texts;
  size_t n, room;
};

struct lines *lines_create(void) {
  return calloc(1, sizeof(struct lines));
}

void lines_free(struct lines *lines) {
  for (size_t i = 0; i < lines->n; i++)
    free(lines->texts[i]);
  free(lines->texts);
  free(lines);
}

static void lines_append(struct lines *lines, const char *text) {
  if (lines->n == lines->room) {
    lines->room = lines->room * 2 + 64;
    lines->texts = realloc(lines->texts, lines->room * sizeof *lines->texts);
  }
  lines->texts[lines->n++] = strdup(text);
}

void lines_add(struct lines *lines, int rank, const char *format, ...) {
  char text[512];
  int length = snprintf(text, sizeof text, "RESULT %d ", rank);
  va_list values;
  va_start(values, format);
  vsnprintf(text + length, sizeof text - (size_t)length, format, values);
  va_end(values);
  lines_append(lines, text);
}

void lines_add_left(struct lines *lines, int nranks) {
  for (int rank = 0; rank < nranks; rank++)
    lines_add(lines, rank, "left");
}

void lines_add_sum(struct lines *lines, const struct schedule *schedule, int collectives) {
  for (int rank = 0; rank < schedule->nranks; rank++) {
    double total = 0;
    for (int epoch = 0; epoch < schedule->epochs; epoch++)
      for (int i = 0; i < schedule->n[epoch][rank]; i++)
        for (int k = 0; k < collectives; k++) {
          unsigned active = schedule_active(schedule, epoch, i);
          lines_add(lines, rank, "sum %d %d %d %u %d", epoch, i, k, active,
                    set_size(active) * (EPOCH * epoch + i + 1));
          total += active;
        }
    lines_add(lines, rank, "total %.9g", total);
  }
}

void lines_add_sums(struct lines *lines, const struct schedule *schedule, int epoch, int named) {
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[epoch][rank]; i++) {
      unsigned active = schedule_active(schedule, epoch, i);
      lines_add(lines, rank, "sum %d %d %u %d", named, i, active,
                set_size(active) * (EPOCH * named + i + 1));
    }
}

void lines_add_epoch_sums(struct lines *lines, const struct schedule *schedule) {
  for (int epoch = 0; epoch < schedule->epochs; epoch++)
    lines_add_sums(lines, schedule, epoch, epoch);
}

const char *ddp_text(const struct schedule *schedule, const struct ddp *ddp) {
  static char text[1536];
  const char *after = ddp->batches > 0 && ddp->barrier ? "both"
                      : ddp->batches > 0               ? "evaluation"
                      : ddp->barrier                   ? "barrier"
                                                       : "none";
  snprintf(text, sizeof text,
           "--iterations %s --sync-every %d --metric-every %d --metric-elements %d --buffers %d "
           "--after %s --batches %d "
           "--forwards %d --forward-only-every %d --layer %d --loss %d --unused %d --hook %s",
           schedule_text(schedule), ddp->sync_every > 0 ? ddp->sync_every : 1, ddp->metric_every,
           ddp->scalar_metric ? 1 : 3, ddp->buffers, after, ddp->batches,
           ddp->forwards > 0 ? ddp->forwards : 1, ddp->forward_only_every, ddp->layer, ddp->loss,
           ddp->unused, ddp->hook != NULL ? ddp->hook : "none");
  return text;
}

/* Where a rank's run through the program ddp stands. */
struct position {
  const struct schedule *schedule;
  const struct ddp *ddp;
  int rank, synced;
};

static int forwards(const struct ddp *ddp) {
  return ddp->forwards > 0 ? ddp->forwards : 1;
}

/* Forward passes that a rank has done before iteration i of an epoch. */
static int seen(const struct position *at, int rank, int epoch, int i) {
  for (int before = 0; before < epoch; before++)
    i += at->schedule->n[before][rank];
  return i * forwards(at->ddp);
}

/* Sums of an iteration that have a name of their own. */
static void add_sum(struct lines *lines, const struct position *at, const char *name, int epoch,
                    int i) {
  unsigned active = schedule_active(at->schedule, epoch, i);
  lines_add(lines, at->rank, "%s %d %d %u %d", name, epoch, i, active,
            set_size(active) * (EPOCH * epoch + i + 1));
}

static void add_gradients(struct lines *lines, struct position *at, int epoch, int i) {
  unsigned active = schedule_active(at->schedule, epoch, i);
  bool factors = at->ddp->hook != NULL && strcmp(at->ddp->hook, "powersgd") == 0 &&
                 at->synced >= POWER_WARM_UP;
  if (at->synced == 1)
    for (int half = 0; half < 2; half++)
      lines_add(lines, at->rank, "layout %d %d 1", half, 100 * (set_lowest(active) + 1));
  for (int b = 0; b < (at->synced == 0 ? DDP_FIRST_BUCKETS : DDP_BUCKETS); b++)
    for (int part = 0; part < (factors ? POWER_PARTS : 1); part++) {
      char text[64];
      int length =
          snprintf(text, sizeof text, "%s %d %d %d", factors ? "part" : "bucket", epoch, i, b);
      if (factors)
        snprintf(text + length, sizeof text - (size_t)length, " %d", part);
      lines_add(lines, at->rank, "%s %u %d", text, active,
                set_size(active) * (EPOCH * epoch + i + 1));
    }
  at->synced++;
}

static void add_buffers(struct lines *lines, const struct position *at, int epoch, int i,
                        int forward) {
  int root = set_lowest(schedule_active(at->schedule, epoch, i));
  int passes = seen(at, root, epoch, i) + forward;
  lines_add(lines, at->rank, "buffer %d %d float32 %d %d", epoch, i, 100 * (root + 1), passes);
  lines_add(lines, at->rank, "buffer %d %d int64 %d %d", epoch, i, 100 * (root + 1), passes);
}

static void add_iteration(struct lines *lines, struct position *at, int epoch, int i) {
  const struct ddp *ddp = at->ddp;
  bool backward = ddp->forward_only_every == 0 || (i + 1) % ddp->forward_only_every != 0;
  for (int forward = 0; forward < forwards(ddp); forward++) {
    if (ddp->buffers)
      add_buffers(lines, at, epoch, i, forward);
    if (ddp->layer)
      add_sum(lines, at, "layer", epoch, i);
  }
  if (ddp->loss && backward)
    add_sum(lines, at, "loss", epoch, i);
  if (backward && (ddp->sync_every == 0 || (i + 1) % ddp->sync_every == 0)) {
    add_gradients(lines, at, epoch, i);
    if (ddp->unused) {
      unsigned active = schedule_active(at->schedule, epoch, i), even_ranks = 0x55555555;
      lines_add(lines, at->rank, "used %d %d %d %d", epoch, i, set_size(active),
                set_size(active & even_ranks));
    }
  }
  if (ddp->metric_every != 0 && (i + 1) % ddp->metric_every == 0 && ddp->scalar_metric)
    lines_add(lines, at->rank, "metric %d %d %u", epoch, i,
              schedule_active(at->schedule, epoch, i));
  else if (ddp->metric_every != 0 && (i + 1) % ddp->metric_every == 0)
    add_sum(lines, at, "metric", epoch, i);
}

void lines_add_ddp(struct lines *lines, const struct schedule *schedule, const struct ddp *ddp) {
  unsigned all = set_of_all(schedule->nranks);
  for (int rank = 0; rank < schedule->nranks; rank++) {
    struct position at = {schedule, ddp, rank, 0};
    for (int epoch = 0; epoch < schedule->epochs; epoch++) {
      for (int i = 0; i < schedule->n[epoch][rank]; i++)
        add_iteration(lines, &at, epoch, i);
      for (int batch = 0; batch < ddp->batches; batch++)
        lines_add(lines, rank, "evaluation %d %d %u %d", epoch, batch, all,
                  schedule->nranks * (EPOCH * epoch + batch + 1));
      if (ddp->barrier)
        lines_add(lines, rank, "barrier %d %u", epoch, all);
    }
  }
}

/* ---- comparison ---- */

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void lines_sort(struct lines *lines) {
  if (lines->n > 0)
    qsort(lines->texts, lines->n, sizeof *lines->texts, compare_texts);
}

static struct lines *lines_of_run(const struct run *run) {
  struct lines *lines = lines_create();
  char *copy = strdup(run->output), *rest = copy;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;)
    if (strncmp(line, "RESULT ", 7) == 0)
      lines_append(lines, line);
  free(copy);
  return lines;
}

/* Two words that are numbers with all their digits, and the same but for the last ones. */
static bool is_nearly(const char *a, size_t alength, const char *b, size_t blength) {
  enum { DIGITS = 14 };
  if (alength < DIGITS || blength < DIGITS)
    return false;
  double x = strtod(a, NULL), y = strtod(b, NULL);
  return fabs(x - y) <= 1e-10 * fabs(x);
}

/* As strcmp, word by word; 0 also for lines that are the same but for roundings, where NCCL adds in
 * an order of its own. */
static int compare_lines(const char *a, const char *b) {
  int order = strcmp(a, b);
  if (order == 0 || !run_adds_in_any_order())
    return order;
  for (size_t alength, blength; *a != '\0' && *b != '\0'; a += alength, b += blength) {
    a += strspn(a, " "), b += strspn(b, " ");
    alength = strcspn(a, " "), blength = strcspn(b, " ");
    if ((alength != blength || memcmp(a, b, alength) != 0) && !is_nearly(a, alength, b, blength))
      return order;
  }
  return *a == *b ? 0 : order;
}

/* Appends up to a few lines that only one of two sorted sets has; returns how many there are. */
static int describe_difference(const struct lines *wanted, const struct lines *got, char *text,
                               size_t size) {
  enum { SHOWN = 12 };
  int n = 0;
  size_t length = 0;
  for (size_t w = 0, g = 0; w < wanted->n || g < got->n;) {
    int order = w == wanted->n ? 1
                : g == got->n  ? -1
                               : compare_lines(wanted->texts[w], got->texts[g]);
    if (order != 0 && n++ < SHOWN && length < size)
      length += (size_t)snprintf(
          text + length, size - length, "%s %s\n",
          order < 0 ? "missing: " : "too many:", order < 0 ? wanted->texts[w] : got->texts[g]);
    w += order <= 0;
    g += order >= 0;
  }
  return n;
}

static void assert_equal(struct lines *wanted, struct lines *got, const char *errors) {
  char text[4096] = "";
  lines_sort(wanted);
  lines_sort(got);
  int n = describe_difference(wanted, got, text, sizeof text);
  cr_assert(n == 0, "%d lines differ:\n%s%s", n, text, errors);
}

bool has_result(const struct run *run, int rank, const char *text) {
  char line[192];
  snprintf(line, sizeof line, "RESULT %d %s", rank, text);
  return strstr(run->output, line) != NULL;
}

void assert_refused(const struct run *run, int nranks, int joined) {
  for (int rank = 0; rank < nranks; rank++) {
    cr_assert(has_result(run, rank, "left"), "rank %d\n%s", rank, run->output);
    cr_assert_eq(has_result(run, rank, "refused"), rank != joined, "rank %d\n%s%s", rank,
                 run->output, run->errors);
  }
}

int heard_within(int nranks, int iterations) {
  return run_machines(nranks) > 1 ? iterations + HEARD_LATER : iterations;
}

void assert_not_gone_on(const struct run *run, const struct schedule *schedule, int joined,
                        int iterations) {
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = schedule->n[0][joined] + iterations; i < schedule->n[0][rank]; i++) {
      char text[64];
      snprintf(text, sizeof text, "got %d ", i);
      cr_assert(!has_result(run, rank, text), "rank %d went on in iteration %d\n%s", rank, i,
                run->output);
    }
}

void assert_results(const struct run *run, struct lines *lines) {
  struct lines *got = lines_of_run(run);
  assert_equal(lines, got, run->errors);
  lines_free(got);
}

void finish_run(struct run *run, struct lines *lines) {
  assert_results(run, lines);
  lines_free(lines);
  run_free(run);
}

void assert_same_results(const struct run *one, const struct run *other) {
  struct lines *wanted = lines_of_run(one), *got = lines_of_run(other);
  cr_assert(wanted->n > 0, "no results at all\n%s", one->errors);
  assert_equal(wanted, got, other->errors);
  lines_free(wanted);
  lines_free(got);
}
