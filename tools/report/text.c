/* The report in a terminal (summary.h): as wide as that; unbroken lines in a pipe. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/summary.h"
#include "tools/report/timeline.h"
#include "tools/terminal.h"

/* A warning that several ranks have given in a row is one. */
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
  uint64_t length = summary->end - summary->from;
  printf("  rank      own  shadows  share  joined for  host (process)\n");
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    printf("  %4d %8" PRIu64 " %8" PRIu64 "  %3u %%  %8.2f s  %.32s (%" PRIu64 ")%s\n", track->rank,
           track->own, track->shadows, summary_percent(track->shadows, length),
           (double)summary_joined_ns(track) / 1e9, track->host, track->pid,
           track->failed  ? ", failed"
           : track->ended ? ""
                          : ", no end in its trace");
  }
}

static void print_epochs(const struct summary *summary) {
  if (summary->nepochs < 2)
    return;
  heading("Epochs (from where all ranks were together to where they were again)");
  printf("  collectives                most own        least own      uneven\n");
  for (size_t i = 0; i < summary->nepochs && i < EPOCHS_SHOWN; i++) {
    const struct epoch *epoch = &summary->epochs[i];
    char from[48];
    snprintf(from, sizeof from, "%" PRIu64 " to %" PRIu64, epoch->from, epoch->end - 1);
    printf("  %-22s  rank %-3d %6" PRIu64 "  rank %-3d %6" PRIu64 "  %5u %%\n", from,
           epoch->most_rank, epoch->most, epoch->least_rank, epoch->least,
           summary_percent(epoch->most - epoch->least, epoch->most));
  }
  if (summary->nepochs > EPOCHS_SHOWN)
    printf("  and %zu more (the page has them)\n", summary->nepochs - EPOCHS_SHOWN);
}

static void print_warnings(const struct summary *summary) {
  unsigned shown = 0, more = 0;
  for (size_t i = 0; i < summary->count; i++)
    for (uint64_t j = 0; j < summary->tracks[i].nwarnings; j++) {
      const struct warning *warning = &summary->tracks[i].warnings[j];
      char text[2048], line[2200];
      if (shown == WARNINGS_SHOWN) {
        more++;
        continue;
      }
      if (shown++ == 0)
        heading("Warnings");
      snprintf(text, sizeof text, "%s", warning->text);
      track_unescape(text);
      snprintf(line, sizeof line, "rank %d, at %.2f s: %s", summary->tracks[i].rank,
               warning->at_ns < summary->start_ns
                   ? 0
                   : (double)(warning->at_ns - summary->start_ns) / 1e9,
               text);
      paragraph(line);
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
  char advice[ADVICE_MAX][ADVICE_SIZE], title[160];
  const struct track *first = summary->tracks;
  const char *team = first->team;
  while (*team == '0' && team[1] != '\0')
    team++;
  snprintf(title, sizeof title, "Communicator %s: %zu ranks, %" PRIu64 " collectives in %.1f s%s%s",
           team, summary->count, summary->end - summary->from,
           (double)(summary->end_ns - summary->start_ns) / 1e9,
           first->version[0] != '\0' ? ", nccl-join " : "", first->version);
  heading(title);
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
