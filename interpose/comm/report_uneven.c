/* What unevenness has cost, told when all ranks have left: a line, and a file if one is wanted
 * (report.h). What is told has been counted by report_joined.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/report/trace.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report_private.h"
#include "interpose/self/environment.h"

enum {
  NAMED = 8, /* ranks that a line names */
  /* Bytes that say what one of them did, or how many are not named. 96 at most, with the largest of
   * all numbers: what other ranks have counted is in shared memory, and may be anything. */
  SHARE_TEXT = 100,
  SHARES_TEXT = (NAMED + 1) * SHARE_TEXT,
};

/* ---- what all have counted ---- */

struct share {
  uint32_t rank;
  struct plane_joined joined;
};

struct sum {
  struct share *shares; /* of all ranks, those with the most shadows first */
  uint32_t nranks, njoined;
  uint64_t collectives, joined_ms, run_ms;
};

static int by_shadows(const void *a, const void *b) {
  const struct share *x = a, *y = b;
  if (x->joined.shadows != y->joined.shadows)
    return x->joined.shadows < y->joined.shadows ? 1 : -1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

/* False: nobody has shadowed anything, or there is no memory. */
static bool sum_make(struct sum *sum, const struct endpoint *end) {
  const struct plane *plane = end->team->plane;
  uint64_t now = now_ms();
  *sum = (struct sum){.nranks = plane->nranks,
                      .collectives = end->team->head - end->team->leaves,
                      .run_ms = now - end->made_ms,
                      .shares = calloc(plane->nranks, sizeof(struct share))};
  for (uint32_t rank = 0; sum->shares != NULL && rank < plane->nranks; rank++) {
    struct share *share = &sum->shares[rank];
    *share = (struct share){rank, plane_joined(plane, rank, now)};
    sum->njoined += share->joined.shadows != 0;
    sum->joined_ms += share->joined.ms;
  }
  if (sum->shares != NULL)
    qsort(sum->shares, sum->nranks, sizeof(struct share), by_shadows);
  return sum->njoined != 0;
}

static unsigned percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : (unsigned)((part * 100 + whole / 2) / whole);
}

/* ---- for people ---- */

/* Those who have shadowed least: the last of the shares. */
static void write_most(const struct sum *sum, char text[64]) {
  uint32_t last = sum->nranks - 1, count = 1;
  uint64_t least = sum->shares[last].joined.shadows;
  while (count < sum->nranks && sum->shares[last - count].joined.shadows == least)
    count++;
  if (count == sum->nranks)
    snprintf(text, 64, "all ranks had as much in all");
  else if (count == 1)
    snprintf(text, 64, "rank %u had the most data", sum->shares[last].rank);
  else
    snprintf(text, 64, "rank %u and %u more had the most data",
             sum->shares[sum->nranks - count].rank, count - 1);
}

static void write_shares(const struct sum *sum, char text[SHARES_TEXT]) {
  size_t used = 0;
  uint32_t named = sum->njoined < NAMED ? sum->njoined : NAMED;
  for (uint32_t i = 0; i < named; i++) {
    const struct share *share = &sum->shares[i];
    used += (size_t)snprintf(
        text + used, SHARES_TEXT - used, "%srank %u %s%llu%s (%u %%, %.1f s)", i == 0 ? "" : ", ",
        share->rank, i == 0 ? "answered " : "", (unsigned long long)share->joined.shadows,
        i == 0 ? " without data" : "", percent(share->joined.shadows, sum->collectives),
        (double)share->joined.ms / 1000);
  }
  if (named < sum->njoined)
    snprintf(text + used, SHARES_TEXT - used, " and %u more ranks", sum->njoined - named);
}

static void say_line(const struct endpoint *end, const struct sum *sum) {
  char most[64], shares[SHARES_TEXT];
  write_most(sum, most);
  write_shares(sum, shares);
  log_note_of(endpoint_subject(end),
              "inputs were uneven: %s. Of %llu collectives %s: %u %% of the time "
              "of all ranks (%u x %.1f s). Where: NCCL_JOIN_TRACE and nccl-join report. "
              "NCCL_JOIN_REPORT=off: no such line",
              most, (unsigned long long)sum->collectives, shares,
              percent(sum->joined_ms, sum->run_ms * sum->nranks), sum->nranks,
              (double)sum->run_ms / 1000);
}

/* ---- for programs ---- */

static void write_json(FILE *out, const struct endpoint *end, const struct sum *sum) {
  fprintf(out,
          "{\"format\":\"nccl-join-report\",\"version\":1,\"communicator\":\"%08x\",\"ranks\":%u,"
          "\"collectives\":%llu,\"run_ms\":%llu,\"joined_ms\":%llu,\"joined\":[",
          end->tag, sum->nranks, (unsigned long long)sum->collectives,
          (unsigned long long)sum->run_ms, (unsigned long long)sum->joined_ms);
  for (uint32_t i = 0; i < sum->nranks; i++)
    fprintf(out, "%s{\"rank\":%u,\"shadows\":%llu,\"joined_ms\":%llu}", i == 0 ? "" : ",",
            sum->shares[i].rank, (unsigned long long)sum->shares[i].joined.shadows,
            (unsigned long long)sum->shares[i].joined.ms);
  fputs("]}\n", out);
}

static void save(const struct endpoint *end, const struct sum *sum, const char *folder) {
  char path[PATH_MAX], *text = NULL;
  size_t size = 0;
  int length =
      snprintf(path, sizeof(path), "%s/report-%08x.%d.json", folder, end->tag, (int)getpid());
  FILE *memory = open_memstream(&text, &size);
  if (memory == NULL)
    return;
  write_json(memory, end, sum);
  trace_make_folder(folder);
  bool made = fclose(memory) == 0 && length < (int)sizeof(path);
  int file = made ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666) : -1;
  if (file < 0 || log_write(file, text, size) != size)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "cannot write %.300s (%s). Set NCCL_JOIN_REPORT to a folder that may be written to",
                path, strerrordesc_np(errno));
  if (file >= 0)
    close(file);
  free(text);
}

void report_uneven(struct endpoint *end) {
  const char *report = join_settings()->report;
  struct sum sum;
  if (end->summed_up || end->team->plane->rank != 0 || strcmp(report, REPORT_OFF) == 0)
    return;
  end->summed_up = true;
  if (sum_make(&sum, end)) {
    say_line(end, &sum);
    if (strcmp(report, REPORT_LINE) != 0)
      save(end, &sum, report);
  }
  free(sum.shares);
}
