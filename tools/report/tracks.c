/* Reading trace files (tracks.h). */
#include "tools/report/tracks.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRACE_VERSION_READ = 1 };

/* Indices follow one another but for units that were refused, which leave no record. A record that
 * lies further ahead than this is damaged. */
enum { INDEX_GAP_MAX = 65536 };

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

/* The text of a field as it stands there, in memory of its own; NULL: there is none. */
static char *field_copy(const char *line, const char *name) {
  const char *at = field(line, name);
  if (at == NULL || *at != '"')
    return NULL;
  size_t length = 1;
  while (at[length] != '"' && at[length] != '\0')
    length += at[length] == '\\' && at[length + 1] != '\0' ? 2 : 1;
  return strndup(at + 1, length - 1);
}

static void *grown(void *memory, size_t size) {
  memory = realloc(memory, size);
  if (memory == NULL) {
    fprintf(stderr, "nccl-join: out of memory\n");
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
  }
  track->own += part == PART_OWN;
  track->parts[index] = (unsigned char)part;
  if (index >= track->nparts)
    track->nparts = index + 1;
}

/* ---- time ---- */

static void end_span(struct track *track, uint64_t at) {
  if (track->nspans > 0 && track->spans[track->nspans - 1].to_ns < at)
    track->spans[track->nspans - 1].to_ns = at;
}

static void begin_span(struct track *track, enum doing doing, uint64_t at) {
  end_span(track, at);
  if (track->nspans > 0 && track->spans[track->nspans - 1].doing == doing)
    return;
  if ((track->nspans & (track->nspans - 1)) == 0)
    track->spans = grown(track->spans, (2 * track->nspans + 1) * sizeof *track->spans);
  track->spans[track->nspans++] = (struct span){doing, at, at};
}

/* A rank has joined since it began to wait. */
static void track_put_time(struct track *track, const char *event, uint64_t at) {
  struct span *last = track->nspans > 0 ? &track->spans[track->nspans - 1] : NULL;
  if (strcmp(event, "commit") == 0 || strcmp(event, "settle") == 0)
    begin_span(track, DOES_OWN, at);
  else if (strcmp(event, "shadow") == 0 && last != NULL && last->doing == DOES_WAIT) {
    last->doing = DOES_SHADOW;
    end_span(track, at);
  } else if (strcmp(event, "shadow") == 0)
    begin_span(track, DOES_SHADOW, at);
  else if ((strcmp(event, "park") == 0 || strcmp(event, "leave") == 0) &&
           (last == NULL || last->doing == DOES_OWN))
    begin_span(track, DOES_WAIT, at);
  else
    end_span(track, at);
}

static void track_warn(struct track *track, const char *line, uint64_t at) {
  char *text = field_copy(line, "text");
  if (text == NULL)
    return;
  track->warnings = grown(track->warnings, (track->nwarnings + 1) * sizeof *track->warnings);
  track->warnings[track->nwarnings++] = (struct warning){at, text};
}

/* As unit_describe writes them (core/unit/unit.h). */
static bool is_answer(const char *line) {
  const char *unit = field(line, "unit");
  if (unit == NULL)
    return false;
  unit += *unit == '"';
  unit += strncmp(unit, "group{", 6) == 0 ? 6 : 0;
  return strncmp(unit, "send(", 5) == 0 || strncmp(unit, "recv(", 5) == 0;
}

/* The same: what is no collective of the program. */
static bool is_mark(const char *line) {
  static const char *const begins[] = {"begin of a loop\"", "end of a loop\"", "begin of a round\"",
                                       "end of a resynchronisation\"", "state("};
  const char *unit = field(line, "unit");
  for (size_t i = 0; unit != NULL && *unit == '"' && i < sizeof begins / sizeof begins[0]; i++)
    if (strncmp(unit + 1, begins[i], strlen(begins[i])) == 0)
      return true;
  return false;
}

/* A rank that was stopped, and hears of it, may go on. */
static void track_put_end(struct track *track, const char *event, const char *line) {
  uint64_t peer;
  track->failed |= strcmp(event, "fail") == 0;
  track->stopped |= strcmp(event, "stop") == 0;
  track->ended |= track->failed || strcmp(event, "done") == 0;
  if (strcmp(event, "done") != 0)
    track->because_of = field_number(line, "peer", &peer) && peer <= INT_MAX ? (int)peer : -1;
}

static void track_keep(struct track *track, const char *line, uint64_t at, bool shadow) {
  struct issued issued = {
      .at_ns = at, .unit = field_copy(line, "unit"), .peer = -1, .shadow = shadow};
  uint64_t peer;
  (void)field_number(line, "index", &issued.index);
  if (field_number(line, "peer", &peer) && peer <= INT_MAX)
    issued.peer = (int)peer;
  if ((track->nissued & (track->nissued - 1)) == 0)
    track->issued = grown(track->issued, (2 * track->nissued + 1) * sizeof *track->issued);
  track->issued[track->nissued++] = issued;
}

/* False if the line is damaged. */
static bool track_read_event(struct track *track, const char *line, bool keep) {
  char event[16];
  uint64_t index, at;
  if (!field_text(line, "event", event, sizeof event))
    return false;
  if (field_number(line, "t_ns", &at) && strcmp(event, "warn") == 0)
    track_warn(track, line, at);
  else if (field_number(line, "t_ns", &at))
    track_put_time(track, event, at);
  bool own = strcmp(event, "commit") == 0 || strcmp(event, "settle") == 0;
  if (keep && (own || strcmp(event, "shadow") == 0) && field_number(line, "t_ns", &at))
    track_keep(track, line, at, !own);
  if (strcmp(event, "fail") == 0 || strcmp(event, "stop") == 0 || strcmp(event, "done") == 0)
    track_put_end(track, event, line);
  else if (!own && is_answer(line))
    track->answers += strcmp(event, "shadow") == 0;
  else if (own || strcmp(event, "shadow") == 0) {
    if (!field_number(line, "index", &index) || index < track->base ||
        index - track->base > track->nparts + INDEX_GAP_MAX)
      return false;
    track_put(track, index, !own ? PART_SHADOW : is_mark(line) ? PART_MARK : PART_OWN);
  }
  return true;
}

/* The next whole line with something in it, in memory that the caller frees; false at the end. What
 * a crash of the machine has cut off is counted as damaged; what a killed process has not finished
 * does not begin with '{' (core/report/ring.h). */
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

/* The records of a file that is full begin in its middle, with the oldest one: those are read
 * first. */
static void read_records(struct track *track, FILE *file, bool keep, uint64_t *damaged) {
  char *line = NULL;
  uint64_t time, first = UINT64_MAX, ignored = 0, index;
  long behind_header = ftell(file), oldest = behind_header, at = behind_header;
  for (; read_line(file, &line, &ignored); at = ftell(file))
    if (field_number(line, "t_ns", &time) && field_number(line, "index", &index) && time < first) {
      first = time;
      oldest = at;
      track->base = index;
    }
  fseek(file, oldest, SEEK_SET);
  while (read_line(file, &line, damaged))
    *damaged += !track_read_event(track, line, keep);
  fseek(file, behind_header, SEEK_SET);
  for (at = behind_header; at < oldest && read_line(file, &line, damaged); at = ftell(file))
    *damaged += !track_read_event(track, line, keep);
  free(line);
}

static void read_file(struct tracks *tracks, const char *path) {
  char *line = NULL;
  FILE *file = fopen(path, "r");
  struct track track = {.because_of = -1};
  struct stat status;
  uint64_t rank, version, given, damaged = 0;
  if (file == NULL)
    return;
  if (read_line(file, &line, &damaged) && field_number(line, "version", &version) &&
      version == TRACE_VERSION_READ && field_number(line, "rank", &rank) && rank <= INT_MAX &&
      field_text(line, "team", track.team, sizeof track.team)) {
    track.rank = (int)rank;
    field_text(line, "host", track.host, sizeof track.host);
    field_text(line, "nccl_join", track.version, sizeof track.version);
    track.settings = field_copy(line, "settings");
    (void)field_number(line, "ranks", &track.nranks);
    (void)(field_number(line, "pid", &track.pid) &&
           field_number(line, "start_ns", &track.start_ns));
    (void)field_number(line, "group", &track.group);
    (void)field_number(line, "start_unix_ns", &track.start_unix_ns);
    track.given_rank = field_number(line, "job_rank", &given) && given <= INT_MAX ? (int)given : -1;
    if (fstat(fileno(file), &status) == 0) {
      track.device = status.st_dev;
      track.inode = status.st_ino;
    }
    read_records(&track, file, tracks->wants_issued, &damaged);
    if (damaged > 0)
      fprintf(stderr, "nccl-join: %s: %" PRIu64 " damaged line%s left out\n", path, damaged,
              damaged == 1 ? " is" : "s are");
    tracks->all = grown(tracks->all, (tracks->count + 1) * sizeof *tracks->all);
    tracks->all[tracks->count++] = track;
  } else if (fstat(fileno(file), &status) == 0 && status.st_size == 0) {
    fprintf(stderr,
            "nccl-join: %s is empty: there was no room, or its rank ended before it wrote\n", path);
  } else {
    fprintf(stderr, "nccl-join: %s is not a trace of version %d\n", path, TRACE_VERSION_READ);
  }
  free(line);
  fclose(file);
}

static int compare_tracks(const void *left, const void *right) {
  const struct track *a = left, *b = right;
  int teams = strcmp(a->team, b->team);
  if (a->nranks != b->nranks)
    return a->nranks < b->nranks ? 1 : -1;
  return teams != 0 ? teams : (a->rank > b->rank) - (a->rank < b->rank);
}

bool tracks_read(struct tracks *tracks, const char *folder) {
  *tracks = (struct tracks){.wants_issued = tracks->wants_issued};
  DIR *directory = opendir(folder);
  if (directory == NULL) {
    fprintf(stderr, "nccl-join: cannot read the folder %s: %s\n", folder, strerror(errno));
    return false;
  }
  bool reports = false;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    char path[PATH_MAX];
    reports |= strncmp(entry->d_name, "report-", 7) == 0;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    if (strstr(entry->d_name, ".jsonl") != NULL)
      read_file(tracks, path);
  }
  closedir(directory);
  if (tracks->count > 0) {
    qsort(tracks->all, tracks->count, sizeof *tracks->all, compare_tracks);
    job_ranks_find(tracks);
    launches_read(tracks, folder);
    launches_find_open(tracks);
  } else if (reports) {
    fprintf(stderr,
            "nccl-join: no traces in %s: what is there has been written by NCCL_JOIN_REPORT, as "
            "JSON. Run with NCCL_JOIN_TRACE=FOLDER for a report with timelines\n",
            folder);
  } else {
    fprintf(stderr, "nccl-join: no traces in %s: a run with NCCL_JOIN_TRACE=%s writes them there\n",
            folder, folder);
  }
  return tracks->count > 0;
}

void tracks_free(struct tracks *tracks) {
  for (size_t i = 0; i < tracks->count; i++) {
    struct track *track = &tracks->all[i];
    for (uint64_t j = 0; j < track->nwarnings; j++)
      free(track->warnings[j].text);
    free(track->warnings);
    for (uint64_t j = 0; j < track->nissued; j++)
      free(track->issued[j].unit);
    free(track->issued);
    free(track->settings);
    free(track->why);
    free(track->parts);
    free(track->joins);
    free(track->spans);
  }
  free(tracks->all);
  *tracks = (struct tracks){0};
}

size_t tracks_of_team(const struct tracks *tracks, size_t first) {
  size_t next = first + 1;
  while (next < tracks->count && strcmp(tracks->all[next].team, tracks->all[first].team) == 0)
    next++;
  return next - first;
}

const char *track_end(const struct track *track) {
  return track->failed       ? " failed"
         : track->ended      ? ""
         : track->was_ended  ? " was ended"
         : track->stopped    ? " stopped"
         : track->still_open ? " still runs"
                             : " (the trace ends here)";
}

enum part track_part(const struct track *track, uint64_t index) {
  bool known = index >= track->base && index - track->base < track->nparts;
  return known ? (enum part)track->parts[index - track->base] : PART_NONE;
}

const char *track_team(const struct track *track) {
  size_t length = strlen(track->team), zeros = strspn(track->team, "0");
  size_t most = length > 8 ? length - 8 : 0;
  return track->team + (zeros < most ? zeros : most);
}

void track_unescape(char *text) {
  char *to = text;
  while (*text != '\0') {
    unsigned code = (unsigned char)*text++;
    if (code == '\\' && *text == 'u' && sscanf(text + 1, "%4x", &code) == 1)
      text += strnlen(text, 5);
    else if (code == '\\' && *text != '\0')
      code = (unsigned char)*text++;
    *to++ = (char)(code == '\n' || (code >= ' ' && code < 0x7f) ? code : '?');
  }
  *to = '\0';
}
