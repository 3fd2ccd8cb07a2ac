/* The trace: records to JSON, and the file that they go to (ring.h). See trace.h for the format. */
#include "core/report/trace.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/report/ring.h"

#define HOST_SIZE 256
#define SAME_NAME_MAX                                                                              \
  10000 /* files of one rank, host and pid: old runs in containers, where pids repeat */

/* A record at its longest: a unit of which every byte is escaped, and the other fields. */
#define ESCAPED_SIZE 6
#define RECORD_MAX (TRACE_UNIT_MAX * ESCAPED_SIZE + 256)
_Static_assert(RECORD_MAX <= RING_CHUNK / 2, "a record is a line");

#define SETTINGS_SIZE 2048

struct trace {
  uint32_t tag;
  struct trace *next;   /* of those that are open, with `opened` */
  pthread_mutex_t lock; /* guards all below */
  struct ring ring;
  char record[RECORD_MAX];
};

static pthread_mutex_t opened = PTHREAD_MUTEX_INITIALIZER; /* taken before a trace's own */
static struct trace *first;

static const char *const event_names[] = {
    [TRACE_COMMIT] = "commit", [TRACE_CLAIM] = "claim",   [TRACE_PARK] = "park",
    [TRACE_SHADOW] = "shadow", [TRACE_SETTLE] = "settle", [TRACE_JOIN] = "join",
    [TRACE_LEAVE] = "leave",   [TRACE_DONE] = "done",     [TRACE_FAIL] = "fail",
    [TRACE_STOP] = "stop",
};

static uint64_t clock_ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- the file ---- */

static const char *hint_for(int error) {
  return error == ENOSPC || error == EDQUOT
             ? "Make room, or set NCCL_JOIN_TRACE to another folder"
             : "Set NCCL_JOIN_TRACE to a folder that may be written to";
}

int trace_make_folder(const char *folder) {
  char path[PATH_MAX];
  int error = 0;
  if ((size_t)snprintf(path, sizeof(path), "%s", folder) >= sizeof(path))
    return ENAMETOOLONG;
  for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST && error == 0)
      error = errno;
    *slash = '/';
  }
  if (mkdir(path, 0777) == 0 || errno == EEXIST)
    return 0;
  return error != 0 ? error : errno;
}

/* Makes a new file in the folder, its path absolute. Returns 0 or an errno. */
static int create_file(struct trace *trace, const char *folder, size_t limit, int rank,
                       const char *host) {
  char here[PATH_MAX] = "";
  struct ring *ring = &trace->ring;
  if (folder[0] != '/' && !getcwd(here, sizeof(here)))
    return errno;
  for (int i = 1; i <= SAME_NAME_MAX; i++) {
    char again[16] = "";
    if (i > 1)
      snprintf(again, sizeof(again), "-%d", i);
    int length = snprintf(ring->path, sizeof(ring->path), "%s%s%s/rank-%d.%s.%d%s.jsonl", here,
                          here[0] ? "/" : "", folder, rank, host, (int)getpid(), again);
    if (length >= (int)sizeof(ring->path))
      return ENAMETOOLONG;
    int error = ring_create(ring, limit, trace->record, strlen(trace->record));
    if (error != EEXIST)
      return error;
  }
  return EEXIST;
}

/* ---- records ---- */

/* Bytes of the UTF-8 character at text, which has more than ASCII (RFC 3629); 0: it is none. */
static size_t utf8_bytes(const unsigned char *text) {
  static const struct {
    unsigned char first, last, least, most; /* of the first byte, of the second */
    size_t bytes;
  } forms[] = {{0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
               {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3},
               {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
               {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
    if (text[0] < forms[i].first || text[0] > forms[i].last || text[1] < forms[i].least ||
        text[1] > forms[i].most)
      continue;
    for (size_t at = 2; at < forms[i].bytes; at++)
      if ((text[at] & 0xc0) != 0x80)
        return 0;
    return forms[i].bytes;
  }
  return 0;
}

/* The bytes of text, at most limit, as the inside of a JSON string. What is not UTF-8 is taken for
 * Latin-1, so that the result is valid whatever they are. Always terminated; room for
 * ESCAPED_SIZE * limit + 1 bytes. */
static void trace_escape(const char *text, size_t limit, char *escaped) {
  size_t used = 0;
  for (size_t i = 0, bytes; i < limit && text[i]; i += bytes) {
    unsigned char c = (unsigned char)text[i];
    bytes = c < 0x80 ? 1 : utf8_bytes((const unsigned char *)text + i);
    if (c == '"' || c == '\\') {
      escaped[used++] = '\\';
      escaped[used++] = (char)c;
    } else if (c < ' ' || c == 0x7f || bytes == 0 || bytes > limit - i) {
      used += (size_t)sprintf(escaped + used, "\\u%04x", c);
      bytes = 1;
    } else {
      memcpy(escaped + used, text + i, bytes);
      used += bytes;
    }
  }
  escaped[used] = '\0';
}

/* ",\"job_rank\":6", or nothing: torchrun and nccl-join run, Open MPI, PMIx, MPICH, Slurm. */
static const char *write_job_rank(char text[32]) {
  static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                      "SLURM_PROCID"};
  text[0] = '\0';
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    const char *value = getenv(names[i]);
    size_t digits = value ? strspn(value, "0123456789") : 0;
    if (digits == 0 || digits > 9 || value[digits] != '\0')
      continue;
    snprintf(text, 32, ",\"job_rank\":%d", atoi(value));
    break;
  }
  return text;
}

static void write_header(struct trace *trace, int rank, int ranks, uint64_t team,
                         const char *host) {
  char escaped[HOST_SIZE * ESCAPED_SIZE + 1], set[SETTINGS_SIZE], job_rank[32];
  char settings[SETTINGS_SIZE * ESCAPED_SIZE + 1];
  trace_escape(host, HOST_SIZE, escaped);
  settings_write_set(environ, set, sizeof(set));
  trace_escape(set, sizeof(set), settings);
  snprintf(trace->record, sizeof(trace->record),
           "{\"format\":\"nccl-join-trace\",\"version\":%d,\"rank\":%d,\"ranks\":%d,\"team\":\"%"
           "016llx\","
           "\"host\":\"%s\",\"pid\":%d,\"group\":%d%s,\"start_ns\":%llu,\"start_unix_ns\":%llu,"
           "\"nccl_join\":\"" NCCL_JOIN_VERSION "\",\"settings\":\"%s\"}\n",
           TRACE_VERSION, rank, ranks, (unsigned long long)team, escaped, (int)getpid(),
           (int)getpgrp(), write_job_rank(job_rank), (unsigned long long)clock_ns(CLOCK_MONOTONIC),
           (unsigned long long)clock_ns(CLOCK_REALTIME), settings);
}

/* The record as one line; returns its length. */
static size_t format_record(char *record, enum trace_event event, uint64_t index, const char *unit,
                            int peer) {
  int used = snprintf(record, RECORD_MAX, "{\"t_ns\":%llu,\"event\":\"%s\",\"index\":%llu",
                      (unsigned long long)clock_ns(CLOCK_MONOTONIC), event_names[event],
                      (unsigned long long)index);
  if (unit) {
    used += sprintf(record + used, ",\"unit\":\"");
    trace_escape(unit, TRACE_UNIT_MAX, record + used);
    used += (int)strlen(record + used);
    used += sprintf(record + used, "\"");
  }
  if (peer >= 0)
    used += sprintf(record + used, ",\"peer\":%d", peer);
  used += sprintf(record + used, "}\n");
  return (size_t)used;
}

/* ---- warnings ---- */

/* A line about a team goes into its trace, any other into one of the process. If that has no room,
 * it is only in the log. */
static void trace_warning(uint32_t tag, const char *text) {
  pthread_mutex_lock(&opened);
  struct trace *trace = first;
  for (struct trace *other = first; other != NULL; other = other->next)
    if (tag != 0 && other->tag == tag)
      trace = other;
  if (trace != NULL) {
    pthread_mutex_lock(&trace->lock);
    int used = snprintf(trace->record, RECORD_MAX, "{\"t_ns\":%llu,\"event\":\"warn\",\"text\":\"",
                        (unsigned long long)clock_ns(CLOCK_MONOTONIC));
    trace_escape(text, TRACE_UNIT_MAX, trace->record + used);
    size_t length = strlen(trace->record);
    length += (size_t)snprintf(trace->record + length, RECORD_MAX - length, "\"}\n");
    (void)ring_add(&trace->ring, trace->record, length);
    pthread_mutex_unlock(&trace->lock);
  }
  pthread_mutex_unlock(&opened);
}

static void trace_list(struct trace *trace) {
  pthread_mutex_lock(&opened);
  trace->next = first;
  first = trace;
  pthread_mutex_unlock(&opened);
  log_tell(trace_warning);
}

static void trace_unlist(struct trace *trace) {
  pthread_mutex_lock(&opened);
  struct trace **link = &first;
  while (*link != NULL && *link != trace)
    link = &(*link)->next;
  if (*link != NULL)
    *link = trace->next;
  pthread_mutex_unlock(&opened);
}

/* ---- the interface ---- */

struct trace *trace_open(const char *folder, size_t limit, int rank, int ranks, uint64_t team) {
  if (!folder[0] || log_is_disabled())
    return NULL;
  int saved_errno = errno;
  char host[HOST_SIZE], reason[LOG_REASON];
  log_host(host, sizeof(host));
  struct trace *trace = calloc(1, sizeof(*trace));
  if (trace) {
    write_header(trace, rank, ranks, team, host);
    int unmade = trace_make_folder(folder);
    int error = create_file(trace, folder, limit, rank, host);
    if (error == ENOENT && unmade != 0)
      error = unmade;
    if (error) {
      log_line(LOG_LEVEL_WARN,
               "cannot write the trace file %.300s (%s): this rank has no trace, the program goes "
               "on. %s",
               trace->ring.path, log_reason(error, reason), hint_for(error));
      free(trace);
      trace = NULL;
    } else {
      trace->tag = (uint32_t)team;
      pthread_mutex_init(&trace->lock, NULL);
      trace_list(trace);
    }
  }
  errno = saved_errno;
  return trace;
}

void trace_event(struct trace *trace, enum trace_event event, uint64_t index, const char *unit,
                 int peer) {
  if (!trace || log_is_disabled())
    return;
  int saved_errno = errno;
  char reason[LOG_REASON];
  pthread_mutex_lock(&trace->lock);
  size_t size = format_record(trace->record, event, index, unit, peer);
  int error = ring_add(&trace->ring, trace->record, size);
  size_t room = trace->ring.room;
  pthread_mutex_unlock(&trace->lock);
  if (error)
    log_line(LOG_LEVEL_WARN,
             "the trace file %.300s cannot grow (%s): it keeps the last %zu KiB of what this rank "
             "does, the program goes on. %s",
             trace->ring.path, log_reason(error, reason), room / 1024, hint_for(error));
  errno = saved_errno;
}

void trace_flush(struct trace *trace) {
  if (!trace || log_is_disabled())
    return;
  int saved_errno = errno;
  pthread_mutex_lock(&trace->lock);
  ring_trim(&trace->ring);
  pthread_mutex_unlock(&trace->lock);
  errno = saved_errno;
}

void trace_close(struct trace *trace) {
  if (!trace)
    return;
  if (!log_is_disabled())
    trace_unlist(trace);
  trace_flush(trace);
  if (!log_is_disabled())
    ring_close(&trace->ring);
  pthread_mutex_destroy(&trace->lock);
  free(trace);
}
