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
  SHARES = (NAMED + 1) * SHARE_TEXT,
};

/* ---- what all have counted ---- */

struct share {
  uint32_t rank;
  struct plane_joined joined;
};

struct sum {
  struct share *shares; /* of all ranks, those with the most shadows first */
  uint32_t nranks, njoined;
  uint64_t collectives, shadows, joined_ms, run_ms;
  struct plane_parts parts; /* of teams of some of these ranks */
};

static int by_shadows(const void *a, const void *b) {
  const struct share *x = a, *y = b;
  if (x->joined.shadows != y->joined.shadows)
    return x->joined.shadows < y->joined.shadows ? 1 : -1;
  return (x->rank > y->rank) - (x->rank < y->rank);
}

/* False: nobody has shadowed anything, or there is no memory. */
static bool sum_make(struct sum *sum, struct endpoint *end) {
  struct plane *plane = end->team->plane;
  uint64_t now = now_ms();
  *sum = (struct sum){.nranks = plane->nranks,
                      .collectives = team_collectives(end->team),
                      .run_ms = now - end->made_ms,
                      .parts = plane_take_parts(plane),
                      .shares = calloc(plane->nranks, sizeof(struct share))};
  for (uint32_t rank = 0; sum->shares != NULL && rank < plane->nranks; rank++) {
    struct share *share = &sum->shares[rank];
    *share = (struct share){rank, plane_joined(plane, rank, now)};
    sum->njoined += share->joined.shadows != 0;
    sum->shadows += share->joined.shadows;
    sum->joined_ms += share->joined.ms;
  }
  if (sum->shares != NULL)
    qsort(sum->shares, sum->nranks, sizeof(struct share), by_shadows);
  return sum->shares != NULL && sum->njoined + sum->parts.teams != 0;
}

static unsigned report_uneven_percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : (unsigned)((part * 100 + whole / 2) / whole);
}

/* ---- teams of some of these ranks ---- */

/* Whether `other` is of the same rank, and of all ranks of `end` and more. */
static bool report_uneven_covers(const struct endpoint *other, const struct endpoint *end) {
  const struct plane *plane = end->team->plane;
  if (other->identity != end->identity || other->team->plane->nranks <= plane->nranks)
    return false;
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    if (!endpoint_has_rank(other, end->identities[rank]))
      return false;
  return true;
}

/* False: there is no larger team of this rank any more, or it has told already. */
static bool leave_to_larger(const struct endpoint *end, const struct sum *sum) {
  struct plane *larger = NULL;
  for (struct endpoint *other = communicator_hold_endpoints(); other != NULL; other = other->next)
    if (!other->summed_up && other->state == RANK_PRESENT && report_uneven_covers(other, end) &&
        (larger == NULL || larger->nranks < other->team->plane->nranks))
      larger = other->team->plane;
  struct plane_parts more = {sum->parts.teams + (sum->njoined != 0),
                             sum->parts.shadows + (uint32_t)sum->shadows};
  bool left = larger != NULL && plane_leave_parts(larger, more);
  communicator_release_endpoints();
  return left;
}

/* ---- for people ---- */

/* "1.2 s", "45 ms": returns text. */
#define TIME 24
static const char *write_time(uint64_t ms, char text[TIME]) {
  if (ms < 1000)
    snprintf(text, TIME, ms == 0 ? "under 1 ms" : "%u ms", (unsigned)ms);
  else
    snprintf(text, TIME, "%.1f s", (double)ms / 1000);
  return text;
}

/* Those who have shadowed least: the last of the shares. */
static void write_most(const struct sum *sum, char text[64]) {
  uint32_t last = sum->nranks - 1, count = 1;
  uint64_t least = sum->shares[last].joined.shadows;
  while (count < sum->nranks && sum->shares[last - count].joined.shadows == least)
    count++;
  if (count == sum->nranks)
    snprintf(text, 64, "each rank lacked data at times, none more than others in all");
  else if (count == 1)
    snprintf(text, 64, "rank %u had the most data", sum->shares[last].rank);
  else
    snprintf(text, 64, "rank %u and %u more had the most data",
             sum->shares[sum->nranks - count].rank, count - 1);
}

static void write_shares(const struct sum *sum, char text[SHARES]) {
  size_t used = 0;
  char time[TIME];
  uint32_t named = sum->njoined < NAMED ? sum->njoined : NAMED;
  for (uint32_t i = 0; i < named; i++) {
    const struct share *share = &sum->shares[i];
    used +=
        (size_t)snprintf(text + used, SHARES - used, "%srank %u %s%llu%s (%u %%, %s)",
                         i == 0 ? "" : ", ", share->rank, i == 0 ? "answered " : "",
                         (unsigned long long)share->joined.shadows, i == 0 ? " without data" : "",
                         report_uneven_percent(share->joined.shadows, sum->collectives),
                         write_time(share->joined.ms, time));
  }
  if (named < sum->njoined)
    snprintf(text + used, SHARES - used, " and %u more ranks", sum->njoined - named);
}

/* "rank 2 had the most data. Of 37 collectives ...": of the team alone. */
#define TOLD (SHARES + 256)
static void write_team(const struct sum *sum, char text[TOLD]) {
  char most[64], shares[SHARES], run[TIME];
  write_most(sum, most);
  write_shares(sum, shares);
  snprintf(text, TOLD, "%s. Of %llu collectives %s: %u %% of the time of all ranks (%u x %s)", most,
           (unsigned long long)sum->collectives, shares,
           report_uneven_percent(sum->joined_ms, sum->run_ms * sum->nranks), sum->nranks,
           write_time(sum->run_ms, run));
}

static void write_parts(const struct sum *sum, char text[160]) {
  bool besides = sum->njoined > 0;
  text[0] = '\0';
  if (sum->parts.teams > 0)
    snprintf(
        text, 160,
        "%s %u communicator%s of some of these ranks%s answered %u collective%s %swithout data",
        besides ? ". Besides, in" : "in", sum->parts.teams, sum->parts.teams == 1 ? "" : "s",
        besides ? " they" : ", which", sum->parts.shadows, sum->parts.shadows == 1 ? "" : "s",
        besides ? "" : "there ");
}

static void say_line(const struct endpoint *end, const struct sum *sum) {
  char team[TOLD] = "", parts[160];
  if (sum->njoined > 0)
    write_team(sum, team);
  write_parts(sum, parts);
  const char *folder = join_settings()->trace_folder;
  bool traces = folder[0] != '\0';
  log_note_of(endpoint_subject(end),
              "inputs were uneven: %s%s. Where: %snccl-join report%s%s. "
              "NCCL_JOIN_REPORT=off: no such line",
              team, parts, traces ? "" : "NCCL_JOIN_TRACE and ", traces ? " " : "", folder);
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

static void report_uneven_save(const struct endpoint *end, const struct sum *sum,
                               const char *folder) {
  char path[PATH_MAX], reason[LOG_REASON], *text = NULL;
  size_t size = 0;
  int length =
      snprintf(path, sizeof(path), "%s/report-%08x.%d.json", folder, end->tag, (int)getpid());
  FILE *memory = open_memstream(&text, &size);
  if (memory == NULL)
    return;
  write_json(memory, end, sum);
  int unmade = trace_make_folder(folder);
  bool made = fclose(memory) == 0 && length < (int)sizeof(path);
  errno = ENAMETOOLONG;
  int file = made ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666) : -1;
  if (file < 0 || log_write(file, text, size) != size)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "cannot write %.300s (%s). Set NCCL_JOIN_REPORT to a folder that may be written to",
                path, log_reason(unmade != 0 ? unmade : errno, reason));
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
    if (!leave_to_larger(end, &sum))
      say_line(end, &sum);
    if (sum.njoined > 0 && strcmp(report, REPORT_LINE) != 0)
      report_uneven_save(end, &sum, report);
  }
  free(sum.shares);
}
