/* Caches of ranks, by versions: a line has a version, which writing raises, and each rank remembers
 * which version it has. */
#include "tools/bench/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/words.h"
#include "tools/bench/counted.h"

#define LINE 64
#define LOG_LINES ((sizeof(struct plane_log) + LINE - 1) / LINE)

/* Lines of one log that are ever touched; versions of a line. */
enum { TOUCHED_MAX = 256 };
#define VERSION_MAX UINT16_MAX

/* The team's shared words are a log that belongs to nobody. */
static struct {
  const char *logs, *team;
  uint32_t nranks, rank;
  uint16_t *place;   /* by log and line: one more than its place among those touched; 0: none */
  uint16_t *touched; /* by log: how many */
  uint16_t *version; /* by log and place */
  uint16_t **has;    /* by log and place: the version that each rank has; made when touched */
  struct traffic traffic;
} caches;

static void *zeros(size_t count, size_t size) {
  void *memory = calloc(count, size);
  if (memory == NULL) {
    fputs("growth: no memory for the ranks' caches\n", stderr);
    exit(1);
  }
  return memory;
}

void traffic_begin(const struct plane *plane) {
  size_t nlogs = (size_t)plane->nranks + 1;
  caches.logs = (const char *)plane->logs[0];
  caches.team = (const char *)plane->team;
  caches.nranks = plane->nranks;
  if (plane->logs[plane->nranks - 1] != plane->logs[0] + plane->nranks - 1) {
    fputs("growth: the logs do not lie one behind the other\n", stderr);
    exit(1);
  }
  caches.place = zeros(nlogs * LOG_LINES, sizeof *caches.place);
  caches.touched = zeros(nlogs, sizeof *caches.touched);
  caches.version = zeros(nlogs * TOUCHED_MAX, sizeof *caches.version);
  caches.has = zeros(nlogs * TOUCHED_MAX, sizeof *caches.has);
  caches.traffic = (struct traffic){0};
}

void traffic_end(void) {
  for (size_t i = 0; i < ((size_t)caches.nranks + 1) * TOUCHED_MAX; i++)
    free(caches.has[i]);
  free(caches.place);
  free(caches.touched);
  free(caches.version);
  free(caches.has);
  memset(&caches, 0, sizeof caches);
}

void traffic_set_rank(uint32_t rank) {
  caches.rank = rank;
}

struct traffic traffic_so_far(void) {
  return caches.traffic;
}

/* Where an address lies: the log, nranks for the team; false if it is a rank's own memory. */
static bool find_log(const char *address, uint32_t *log, size_t *line) {
  if (caches.logs == NULL)
    return false;
  if (address >= caches.team && address < caches.team + sizeof(struct plane_team)) {
    *log = caches.nranks;
    *line = (size_t)(address - caches.team) / LINE;
    return true;
  }
  if (address < caches.logs ||
      address >= caches.logs + (size_t)caches.nranks * sizeof(struct plane_log))
    return false;
  size_t offset = (size_t)(address - caches.logs);
  *log = (uint32_t)(offset / sizeof(struct plane_log));
  *line = offset % sizeof(struct plane_log) / LINE;
  return true;
}

static size_t find_place(uint32_t log, size_t line) {
  uint16_t *place = &caches.place[(size_t)log * LOG_LINES + line];
  if (*place == 0) {
    if (caches.touched[log] == TOUCHED_MAX) {
      fputs("growth: more lines of a log are touched than there is room for\n", stderr);
      exit(1);
    }
    *place = ++caches.touched[log];
    size_t at = (size_t)log * TOUCHED_MAX + *place - 1;
    caches.version[at] = 1;
    caches.has[at] = zeros(caches.nranks, sizeof **caches.has);
  }
  return (size_t)log * TOUCHED_MAX + *place - 1;
}

void counted_read(const volatile void *object, size_t size) {
  uint32_t log;
  size_t line;
  (void)size;
  if (!find_log((const char *)object, &log, &line))
    return;
  size_t place = find_place(log, line);
  uint16_t *has = &caches.has[place][caches.rank];
  caches.traffic.reads += log != caches.rank;
  caches.traffic.messages += *has != caches.version[place] && log != caches.rank;
  *has = caches.version[place];
}

void counted_write(const volatile void *object, size_t size) {
  uint32_t log;
  size_t line;
  if (!find_log((const char *)object, &log, &line))
    return;
  size_t place = find_place(log, line);
  /* Nobody else has what is written now: versions may begin anew. */
  if (caches.version[place] == VERSION_MAX) {
    memset(caches.has[place], 0, caches.nranks * sizeof *caches.has[place]);
    caches.version[place] = 0;
  }
  caches.has[place][caches.rank] = ++caches.version[place];
  caches.traffic.bytes += size;
}
