/* nccl-join-timeline: draws the traces of a run (NCCL_JOIN_TRACE) in a terminal of 80 columns.
 *
 *   nccl-join-timeline FOLDER
 *
 * For each team one row per rank, over the indices of the team's agreed sequence: where the rank
 * issued collectives of its own, and where shadows for others. Then a table of who joined when. The
 * format of the files is in core/report/trace.h; fields and events it does not know are skipped.
 * UTF-8 where the locale says so; colours on a terminal that has them, if the user does.
 *
 * Lines are searched for their fields, and not parsed by a library: what a crash has cut off, or a full
 * disk, counts as damaged and costs no more than its line.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/terminal.h"

enum { COLUMNS = 66, JOINS_SHOWN = 4, TRACE_VERSION_READ = 1 };

/* Indices follow one another but for units that were refused, which leave no record. A record that
 * lies further ahead than this is damaged. */
enum { INDEX_GAP_MAX = 65536 };

enum part { PART_NONE, PART_OWN, PART_SHADOW };

/* A stretch of shadows without a unit of its own in between. */
struct join {
  uint64_t index, shadows;
};

/* One rank's file. */
struct track {
  char team[32];
  int rank;
  uint64_t base;        /* the first index of which there is a record */
  unsigned char *parts; /* enum part by index, from there on */
  uint64_t nparts, room, own, shadows;
  struct join *joins;
  uint64_t njoins;
  bool failed, ended; /* ended: the rank has left, or failed */
};

static struct track *tracks;
static size_t ntracks;

/* ---- reading ---- */

/* What follows "name": in a line of the trace, NULL if it is not there. */
static const char *field(const char *line, const char *name) {
  char key[40];
  snprintf(key, sizeof key, "\"%s\":", name);
  const char *at = strstr(line, key);
  return at != NULL ? at + strlen(key) : NULL;
}

static bool field_number(const char *line, const char *name, uint64_t *number) {
  const char *at = field(line, name);
  if (at == NULL || *at < '0' || *at > '9')
    return false;
  errno = 0;
  *number = strtoull(at, NULL, 10);
  return errno == 0;
}

static bool field_text(const char *line, const char *name, char *text, size_t size) {
  const char *at = field(line, name);
  if (at == NULL || *at != '"')
    return false;
  snprintf(text, size, "%.*s", (int)strcspn(at + 1, "\""), at + 1);
  return true;
}

static void *grown(void *memory, size_t size) {
  memory = realloc(memory, size);
  if (memory == NULL) {
    fprintf(stderr, "nccl-join-timeline: out of memory\n");
    exit(1);
  }
  return memory;
}

static void track_put(struct track *track, uint64_t at, enum part part) {
  uint64_t index = at - track->base;
  if (index >= track->room) {
    uint64_t room = 2 * index + 1024;
    track->parts = grown(track->parts, room);
    memset(track->parts + track->room, PART_NONE, room - track->room);
    track->room = room;
  }
  if (part == PART_SHADOW && (index == 0 || track->parts[index - 1] != PART_SHADOW)) {
    track->joins = grown(track->joins, (track->njoins + 1) * sizeof *track->joins);
    track->joins[track->njoins++] = (struct join){.index = at};
  }
  if (part == PART_SHADOW) {
    track->shadows++;
    track->joins[track->njoins - 1].shadows++;
  } else {
    track->own++;
  }
  track->parts[index] = (unsigned char)part;
  if (index >= track->nparts)
    track->nparts = index + 1;
}

/* False if the line is damaged. */
static bool track_read_event(struct track *track, const char *line) {
  char event[16];
  uint64_t index;
  if (!field_text(line, "event", event, sizeof event))
    return false;
  bool own = strcmp(event, "commit") == 0 || strcmp(event, "settle") == 0;
  if (strcmp(event, "fail") == 0)
    track->failed = track->ended = true;
  else if (strcmp(event, "done") == 0)
    track->ended = true;
  else if (own || strcmp(event, "shadow") == 0) {
    if (!field_number(line, "index", &index) || index < track->base ||
        index - track->base > track->nparts + INDEX_GAP_MAX)
      return false;
    track_put(track, index, own ? PART_OWN : PART_SHADOW);
  }
  return true;
}

/* The next whole line with something in it, in memory that the caller frees; false at the end. What a
 * crash of the machine has cut off is counted as damaged; what a killed process has not finished does
 * not begin with '{' (core/report/ring.h). */
static bool read_line(FILE *file, char **line, uint64_t *damaged) {
  size_t size = 0;
  ssize_t length;
  free(*line);
  *line = NULL;
  while ((length = getline(line, &size, file)) > 0) {
    if (**line != '{')
      continue;
    if ((*line)[length - 1] == '\n' && strlen(*line) == (size_t)length)
      return true;
    ++*damaged;
  }
  return false;
}

/* The records of a file that is full begin in its middle, with the oldest one: those are read first. */
static void read_records(struct track *track, FILE *file, uint64_t *damaged) {
  char *line = NULL;
  uint64_t time, first = UINT64_MAX, ignored = 0, index;
  long behind_header = ftell(file), oldest = behind_header, at = behind_header;
  for (; read_line(file, &line, &ignored); at = ftell(file))
    if (field_number(line, "t_ns", &time) && time < first) {
      first = time;
      oldest = at;
      track->base = field_number(line, "index", &index) ? index : 0;
    }
  fseek(file, oldest, SEEK_SET);
  while (read_line(file, &line, damaged))
    *damaged += !track_read_event(track, line);
  fseek(file, behind_header, SEEK_SET);
  for (at = behind_header; at < oldest && read_line(file, &line, damaged); at = ftell(file))
    *damaged += !track_read_event(track, line);
  free(line);
}

static void read_file(const char *path) {
  char *line = NULL;
  FILE *file = fopen(path, "r");
  struct track track = {0};
  uint64_t rank, version, damaged = 0;
  if (file == NULL)
    return;
  if (read_line(file, &line, &damaged) && field_number(line, "version", &version) &&
      version == TRACE_VERSION_READ && field_number(line, "rank", &rank) && rank <= INT_MAX &&
      field_text(line, "team", track.team, sizeof track.team)) {
    track.rank = (int)rank;
    read_records(&track, file, &damaged);
    if (damaged > 0)
      fprintf(stderr, "nccl-join-timeline: %s: %" PRIu64 " damaged lines are left out\n", path,
              damaged);
    tracks = grown(tracks, (ntracks + 1) * sizeof *tracks);
    tracks[ntracks++] = track;
  } else {
    fprintf(stderr, "nccl-join-timeline: %s is not a trace of version %d\n", path,
            TRACE_VERSION_READ);
  }
  free(line);
  fclose(file);
}

static int compare_tracks(const void *left, const void *right) {
  const struct track *a = left, *b = right;
  int teams = strcmp(a->team, b->team);
  return teams != 0 ? teams : (a->rank > b->rank) - (a->rank < b->rank);
}

static bool read_folder(const char *folder) {
  DIR *directory = opendir(folder);
  if (directory == NULL) {
    fprintf(stderr, "nccl-join-timeline: cannot read the folder %s: %s\n", folder, strerror(errno));
    return false;
  }
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (strstr(entry->d_name, ".jsonl") != NULL)
      read_file(path);
  }
  closedir(directory);
  if (ntracks > 0)
    qsort(tracks, ntracks, sizeof *tracks, compare_tracks);
  else
    fprintf(stderr, "nccl-join-timeline: no traces in %s\n", folder);
  return ntracks > 0;
}

static void forget_tracks(void) {
  for (size_t i = 0; i < ntracks; i++) {
    free(tracks[i].parts);
    free(tracks[i].joins);
  }
  free(tracks);
  tracks = NULL;
  ntracks = 0;
}

/* ---- drawing ---- */

static struct look { const char *glyphs[3], *colours[3], *plain; /* by enum part */ } look;

static void choose_look(void) {
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

/* What a column shows: what there is most of among its indices. */
static enum part column_part(const struct track *track, uint64_t begin, uint64_t end) {
  uint64_t counts[3] = {0};
  begin = begin > track->base ? begin - track->base : 0;
  end = end > track->base ? end - track->base : 0;
  for (uint64_t index = begin; index < end && index < track->nparts; index++)
    counts[track->parts[index]]++;
  if (counts[PART_OWN] == 0 && counts[PART_SHADOW] == 0)
    return PART_NONE;
  return counts[PART_SHADOW] > counts[PART_OWN] ? PART_SHADOW : PART_OWN;
}

static void draw_row(const struct track *track, uint64_t from, uint64_t length, uint64_t columns) {
  printf("  rank %-3d ", track->rank);
  enum part before = PART_NONE;
  for (uint64_t column = 0; column < columns; column++) {
    enum part part = column_part(track, from + column * length / columns,
                                 from + (column + 1) * length / columns);
    if (part != before)
      printf("%s%s", look.plain, look.colours[part]);
    printf("%s", look.glyphs[part]);
    before = part;
  }
  printf("%s%s\n", look.plain,
         track->failed   ? " failed"
         : !track->ended ? " (the trace ends here)"
                         : "");
}

static void print_table_row(const struct track *track) {
  printf("  %4d %8" PRIu64 " %8" PRIu64 "   ", track->rank, track->own, track->shadows);
  uint64_t shown = track->njoins <= JOINS_SHOWN ? track->njoins : JOINS_SHOWN - 1;
  for (uint64_t i = 0; i < shown; i++)
    printf("%s%" PRIu64 " (%" PRIu64 ")", i > 0 ? ", " : "", track->joins[i].index,
           track->joins[i].shadows);
  if (shown < track->njoins)
    printf(", and %" PRIu64 " times more", track->njoins - shown);
  printf("%s\n", track->njoins == 0 ? "never" : "");
}

/* The tracks of one team. */
static void draw_team(const struct track *first, size_t n) {
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
  uint64_t length = end - from, columns = length < COLUMNS ? length : COLUMNS;
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

int main(int argc, char **argv) {
  if (argc != 2 || strcmp(argv[1], "--help") == 0) {
    fprintf(argc == 2 ? stdout : stderr,
            "usage: nccl-join-timeline FOLDER   (what NCCL_JOIN_TRACE named)\n");
    return argc == 2 ? 0 : 2;
  }
  if (!read_folder(argv[1]))
    return 1;
  choose_look();
  for (size_t first = 0, next; first < ntracks; first = next) {
    for (next = first + 1; next < ntracks; next++)
      if (strcmp(tracks[next].team, tracks[first].team) != 0)
        break;
    draw_team(&tracks[first], next - first);
  }
  forget_tracks();
  return 0;
}
