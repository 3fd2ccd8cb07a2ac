/* The report in a terminal (summary.h): as wide as that; unbroken lines in a pipe. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/summary.h"
#include "tools/report/timeline.h"
#include "tools/terminal.h"

/* What several ranks have warned of in the same words is one of these. */
#define WARNINGS_SHOWN 8u
#define EPOCHS_SHOWN 16u
#define INDENT 4

static void heading(const char *text) {
  bool bold = terminal_has_colours(stdout);
  printf("\n%s%s%s\n", bold ? "\033[1m" : "", text, bold ? "\033[0m" : "");
}

static void paragraph(const char *text) {
  printf("%*s", INDENT - 2, "");
  terminal_print(stdout, INDENT - 2, INDENT, text);
}

static void print_ranks(const struct summary *summary) {
  uint64_t length = summary->collectives;
  char time[SUMMARY_TIME];
  printf("  rank      own  shadows  share  joined for  host (process)\n");
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    printf("  %4d %8" PRIu64 " %8" PRIu64 "  %3u %%  %10s  %.32s (%" PRIu64 ")%s\n",
           track->job_rank, track->own, track->shadows, summary_percent(track->shadows, length),
           summary_time(summary_joined_ns(track), time), track->host, track->pid, track_end(track));
  }
}

/* Of a communicator of some of the job's ranks. */
static void print_numbering(const struct summary *summary) {
  char text[512] = "Ranks are numbered as in the job. In this communicator, and its warnings,";
  bool differ = false;
  for (size_t i = 0; i < summary->count && strlen(text) < sizeof text - 64; i++) {
    const struct track *track = &summary->tracks[i];
    size_t used = strlen(text);
    differ |= track->job_rank != track->rank;
    snprintf(text + used, sizeof text - used, "%s %d is %d", i == 0 ? "" : ",", track->job_rank,
             track->rank);
  }
  if (differ)
    paragraph(text);
}

static void print_epochs(const struct summary *summary) {
  if (summary->nepochs < 2)
    return;
  heading("Epochs (from where all ranks were together to where they were again)");
  printf("  collectives                most own        least own      uneven\n");
  for (size_t i = 0; i < summary->nepochs && i < EPOCHS_SHOWN; i++) {
    const struct epoch *epoch = &summary->epochs[i];
    char from[64];
    snprintf(from, sizeof from, "%" PRIu64 " to %" PRIu64, epoch->from, epoch->end - 1);
    if (epoch->most == epoch->least) {
      printf("  %-22s  all ranks %5" PRIu64 "%s\n", from, epoch->most,
             i + 1 == summary->nepochs ? "  (after the last one that was uneven)" : "");
      continue;
    }
    printf("  %-22s  rank %-3d %6" PRIu64 "  rank %-3d %6" PRIu64 "  %5u %%\n", from,
           epoch->most_rank, epoch->most, epoch->least_rank, epoch->least,
           summary_percent(epoch->most - epoch->least, epoch->most));
  }
  if (summary->nepochs > EPOCHS_SHOWN)
    printf("  and %zu more (the page has them)\n", summary->nepochs - EPOCHS_SHOWN);
}

/* " rank 1", " ranks 1, 2": those from `first` on with the same line; none if one before has it.
 * Each rank once. */
static bool write_warned(const struct summary *summary, size_t first, const char *warning,
                         char *text, size_t size) {
  int count = 0;
  size_t used = 0;
  for (size_t i = 0; i < summary->count && used < size; i++) {
    const struct track *track = &summary->tracks[i];
    uint64_t at = 0;
    while (at < track->nwarnings && strcmp(track->warnings[at].text, warning) != 0)
      at++;
    if (at == track->nwarnings)
      continue;
    if (i < first)
      return false;
    used += (size_t)snprintf(text + used, size - used, "%s%d", count++ == 0 ? "" : ", ",
                             track->job_rank);
  }
  return true;
}

static void print_warning(const struct summary *summary, const struct warning *warning,
                          const char *ranks) {
  char text[2048], line[2400], time[SUMMARY_TIME];
  snprintf(text, sizeof text, "%s", warning->text);
  track_unescape(text);
  uint64_t at = warning->at_ns < summary->start_ns ? 0 : warning->at_ns - summary->start_ns;
  snprintf(line, sizeof line, "rank%s %s, at %s: %s", strchr(ranks, ',') != NULL ? "s" : "", ranks,
           summary_time(at, time), text);
  paragraph(line);
}

static bool is_repeated(const struct track *track, uint64_t warning) {
  for (uint64_t before = 0; before < warning; before++)
    if (strcmp(track->warnings[before].text, track->warnings[warning].text) == 0)
      return true;
  return false;
}

static void print_warnings(const struct summary *summary) {
  unsigned shown = 0, more = 0;
  char ranks[256];
  for (size_t i = 0; i < summary->count; i++)
    for (uint64_t j = 0; j < summary->tracks[i].nwarnings; j++) {
      const struct track *track = &summary->tracks[i];
      if (is_repeated(track, j) ||
          !write_warned(summary, i, track->warnings[j].text, ranks, sizeof ranks))
        continue;
      if (shown == WARNINGS_SHOWN) {
        more++;
        continue;
      }
      if (shown++ == 0)
        heading("Warnings");
      print_warning(summary, &track->warnings[j], ranks);
    }
  if (more > 0)
    printf("  and %u more (the page has them)\n", more);
}

/* Of the first rank. */
static void print_settings(const struct summary *summary) {
  const struct track *track = summary->tracks;
  char *text = track->settings != NULL ? strdup(track->settings) : NULL;
  if (text == NULL)
    return;
  track_unescape(text);
  heading("Settings");
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;)
    paragraph(*line != '\0' ? line : "all as by default");
  free(text);
}

void text_print(const struct summary *summary) {
  char advice[ADVICE_MAX][ADVICE_SIZE], title[160], time[SUMMARY_TIME];
  uint64_t length = summary->collectives;
  const struct track *first = summary->tracks;
  snprintf(title, sizeof title, "Communicator %s: %zu rank%s, %" PRIu64 " collective%s in %s%s%s",
           track_team(first), summary->count, summary->count == 1 ? "" : "s", length,
           length == 1 ? "" : "s", summary_time(summary->end_ns - summary->start_ns, time),
           first->version[0] != '\0' ? ", nccl-join " : "", first->version);
  heading(title);
  print_numbering(summary);
  print_ranks(summary);
  printf("\n");
  timeline_draw(summary->tracks, summary->count);
  print_epochs(summary);
  heading("What to do");
  size_t count = summary_advise(summary, advice);
  for (size_t i = 0; i < count; i++)
    paragraph(advice[i]);
  print_warnings(summary);
  print_settings(summary);
}
