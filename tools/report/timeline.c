/* The timeline of a team in a terminal (timeline.h). */
#include "tools/report/timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/terminal.h"

/* Columns where there is no terminal, and what stands in front of them. */
enum { COLUMNS = 66, BEFORE = 11, JOINS_SHOWN = 4 };

static struct look { const char *glyphs[3], *colours[3], *plain; /* by enum part */ } look;

void timeline_begin(void) {
  const char *locale = getenv("LC_ALL");
  if (locale == NULL || *locale == '\0')
    locale = getenv("LC_CTYPE");
  if (locale == NULL || *locale == '\0')
    locale = getenv("LANG");
  bool utf8 = locale != NULL && (strstr(locale, "UTF-8") != NULL || strstr(locale, "utf8") != NULL);
  bool colour = terminal_has_colours(stdout);
  look = (struct look){
      .glyphs = {" ", utf8 ? "█" : "#", utf8 ? "░" : "."},
      .colours = {"", colour ? "\033[32m" : "", colour ? "\033[33m" : ""},
      .plain = colour ? "\033[0m" : "",
  };
}

/* What a column shows: what there is most of among its indices. A mark is an index of the rank's
 * own. */
static enum part column_part(const struct track *track, uint64_t begin, uint64_t end) {
  uint64_t counts[PART_MARK + 1] = {0};
  begin = begin > track->base ? begin - track->base : 0;
  end = end > track->base ? end - track->base : 0;
  for (uint64_t index = begin; index < end && index < track->nparts; index++)
    counts[track->parts[index]]++;
  counts[PART_OWN] += counts[PART_MARK];
  if (counts[PART_OWN] == 0 && counts[PART_SHADOW] == 0)
    return PART_NONE;
  return counts[PART_SHADOW] > counts[PART_OWN] ? PART_SHADOW : PART_OWN;
}

static void draw_row(const struct track *track, uint64_t from, uint64_t length, uint64_t columns) {
  printf("  rank %-3d ", track->job_rank);
  enum part before = PART_NONE;
  for (uint64_t column = 0; column < columns; column++) {
    enum part part = column_part(track, from + column * length / columns,
                                 from + (column + 1) * length / columns);
    if (part != before)
      printf("%s%s", look.plain, look.colours[part]);
    printf("%s", look.glyphs[part]);
    before = part;
  }
  printf("%s%s\n", look.plain, track_end(track));
}

static void print_table_row(const struct track *track) {
  printf("  %4d %8" PRIu64 " %8" PRIu64 "   ", track->job_rank, track->own, track->shadows);
  uint64_t shown = track->njoins <= JOINS_SHOWN ? track->njoins : JOINS_SHOWN - 1;
  for (uint64_t i = 0; i < shown; i++)
    printf("%s%" PRIu64 " (%" PRIu64 ")", i > 0 ? ", " : "", track->joins[i].index,
           track->joins[i].shadows);
  if (shown < track->njoins)
    printf(", and %" PRIu64 " times more", track->njoins - shown);
  printf("%s\n", track->njoins == 0 ? "never" : "");
}

void timeline_draw(const struct track *first, size_t n) {
  uint64_t from = UINT64_MAX, end = 0; /* of files that were full, the beginning is lost */
  for (size_t i = 0; i < n; i++) {
    uint64_t last = first[i].base + first[i].nparts;
    if (first[i].nparts == 0)
      continue;
    from = first[i].base < from ? first[i].base : from;
    end = last > end ? last : end;
  }
  if (from >= end)
    return;
  uint64_t length = end - from, width = (uint64_t)terminal_width(stdout), beside = 0;
  for (size_t i = 0; i < n; i++)
    beside = strlen(track_end(&first[i])) > beside ? strlen(track_end(&first[i])) : beside;
  uint64_t columns = width == 0                    ? COLUMNS
                     : width > BEFORE + beside + 8 ? width - BEFORE - beside
                                                   : 8;
  columns = length < columns ? length : columns;
  char begin[24];
  int digits = snprintf(begin, sizeof begin, "%" PRIu64, from);
  printf("  index    %s%*" PRIu64 "\n", begin, (int)columns - digits, end - 1);
  for (size_t i = 0; i < n; i++)
    draw_row(&first[i], from, length, columns);
  printf("           %s%s%s its own   %s%s%s a shadow, for those still active\n\n",
         look.colours[PART_OWN], look.glyphs[PART_OWN], look.plain, look.colours[PART_SHADOW],
         look.glyphs[PART_SHADOW], look.plain);
  printf("  rank      own  shadows   joined at collective (shadows from there on)\n");
  for (size_t i = 0; i < n; i++)
    print_table_row(&first[i]);
}
