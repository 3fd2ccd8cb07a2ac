/* The report as a page, and as JSON, which the page draws (summary.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json_text.h"
#include "tools/report/page.h"
#include "tools/report/replace.h"
#include "tools/report/summary.h"

/* Of a longer run, spans that are too short to be seen are left out: those of a rank that take less
 * than this part of it. */
#define SHORTEST 4000u

static const char page[] = PAGE_HTML;
static const char mark[] = "@REPORT@";

static double seconds(uint64_t from, uint64_t to) {
  return to < from ? 0 : (double)(to - from) / 1e9;
}

static json_t *text_of(const char *escaped) {
  char *text = strdup(escaped);
  if (text == NULL)
    return json_null();
  track_unescape(text);
  json_t *out = json_of(text);
  free(text);
  return out;
}

static json_t *spans_of(const struct summary *summary, const struct track *track) {
  json_t *out = json_array();
  uint64_t shortest = (summary->end_ns - summary->start_ns) / SHORTEST;
  for (uint64_t i = 0; i < track->nspans; i++) {
    const struct span *span = &track->spans[i];
    if (span->to_ns - span->from_ns >= shortest)
      json_array_append_new(out, json_pack("[i, f, f]", (int)span->doing,
                                           seconds(summary->start_ns, span->from_ns),
                                           seconds(summary->start_ns, span->to_ns)));
  }
  return out;
}

/* A mark is drawn as an index of the rank's own. */
static enum part drawn(const struct track *track, uint64_t i) {
  enum part part = (enum part)track->parts[i];
  return part == PART_MARK ? PART_OWN : part;
}

/* Stretches of the same part. */
static json_t *parts_of(const struct track *track) {
  json_t *out = json_array();
  for (uint64_t i = 0, next; i < track->nparts; i = next) {
    for (next = i + 1; next < track->nparts && drawn(track, next) == drawn(track, i); next++)
      continue;
    json_array_append_new(out, json_pack("[i, I, I]", (int)drawn(track, i),
                                         (json_int_t)track->base + (json_int_t)i,
                                         (json_int_t)track->base + (json_int_t)next));
  }
  return out;
}

static json_t *warnings_of(const struct summary *summary, const struct track *track) {
  json_t *out = json_array();
  for (uint64_t i = 0; i < track->nwarnings; i++)
    json_array_append_new(out, json_pack("{s:f, s:o}", "at_s",
                                         seconds(summary->start_ns, track->warnings[i].at_ns),
                                         "text", text_of(track->warnings[i].text)));
  return out;
}

static json_t *rank_of(const struct summary *summary, const struct track *track) {
  const char *end = track_end(track);
  json_t *out = json_pack(
      "{s:i, s:i, s:o, s:I, s:I, s:I, s:I, s:f, s:b, s:b, s:b, s:s, s:o}", "rank", track->job_rank,
      "team_rank", track->rank, "host", json_of(track->host), "pid", (json_int_t)track->pid, "own",
      (json_int_t)track->own, "shadows", (json_int_t)track->shadows, "answers",
      (json_int_t)track->answers, "joined_s", (double)summary_joined_ns(track) / 1e9, "failed",
      track->failed, "stopped", track->stopped, "ended", track->ended, "end",
      *end == '\0' ? end : end + 1, "warnings", warnings_of(summary, track));
  json_object_set_new(out, "settings",
                      track->settings != NULL ? text_of(track->settings) : json_null());
  json_object_set_new(out, "spans", spans_of(summary, track));
  json_object_set_new(out, "parts", parts_of(track));
  return out;
}

static json_t *epochs_of(const struct summary *summary) {
  json_t *out = json_array();
  for (size_t i = 0; i < summary->nepochs; i++) {
    const struct epoch *epoch = &summary->epochs[i];
    json_array_append_new(out,
                          json_pack("{s:I, s:I, s:I, s:i, s:I, s:i}", "from",
                                    (json_int_t)epoch->from, "end", (json_int_t)epoch->end, "most",
                                    (json_int_t)epoch->most, "most_rank", epoch->most_rank, "least",
                                    (json_int_t)epoch->least, "least_rank", epoch->least_rank));
  }
  return out;
}

static json_t *team_of(const struct summary *summary) {
  char advice[ADVICE_MAX][ADVICE_SIZE];
  json_t *ranks = json_array(), *sentences = json_array();
  size_t count = summary_advise(summary, advice);
  for (size_t i = 0; i < count; i++)
    json_array_append_new(sentences, json_of(advice[i]));
  for (size_t i = 0; i < summary->count; i++)
    json_array_append_new(ranks, rank_of(summary, &summary->tracks[i]));
  return json_pack("{s:o, s:o, s:I, s:I, s:f, s:f, s:o, s:o, s:o}", "communicator",
                   json_of(summary->tracks->team), "nccl_join", json_of(summary->tracks->version),
                   "from", (json_int_t)summary->from, "end", (json_int_t)summary->end, "seconds",
                   seconds(summary->start_ns, summary->end_ns), "joined_s",
                   (double)summary->joined_ns / 1e9, "advice", sentences, "epochs",
                   epochs_of(summary), "ranks", ranks);
}

static json_t *report_of(const struct summary *summaries, size_t count) {
  json_t *teams = json_array();
  for (size_t i = 0; i < count; i++)
    json_array_append_new(teams, team_of(&summaries[i]));
  return json_pack("{s:s, s:i, s:o}", "format", "nccl-join-run", "version", 1, "communicators",
                   teams);
}

void json_write(const struct summary *summaries, size_t count) {
  json_print(stdout, report_of(summaries, count));
}

/* Within a script of a page nothing may look like its end. */
static void write_inside(FILE *out, const char *json) {
  for (; *json != '\0'; json++)
    if (*json == '<')
      fputs("\\u003c", out);
    else
      fputc(*json, out);
}

bool page_write(const char *path, const struct summary *summaries, size_t count) {
  json_t *report = report_of(summaries, count);
  char *json = json_dumps(report, JSON_COMPACT | JSON_REAL_PRECISION(9));
  json_decref(report);
  const char *at = strstr(page, mark);
  struct replace replace;
  replace_begin(&replace, path);
  FILE *out = replace.out;
  if (out != NULL && at != NULL && json != NULL) {
    fwrite(page, 1, (size_t)(at - page), out);
    write_inside(out, json);
    fputs(at + strlen(mark), out);
  }
  bool written = replace_end(&replace, json == NULL);
  if (!written)
    fprintf(stderr,
            "nccl-join: cannot write %s: %s. --output FILE writes it elsewhere, --text prints it\n",
            path, strerror(errno));
  free(json);
  return written;
}
