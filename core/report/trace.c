/* The trace: records to JSON, the buffer, the file. See trace.h for the format. */
#include "core/report/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/report/log.h"

#define HOST_SIZE 256
#define SAME_NAME_MAX                                                                              \
  10000 /* files of one rank, host and pid: old runs in containers, where pids repeat */

/* A record at its longest: a unit of which every byte is escaped, and the other fields. */
#define ESCAPED_SIZE 6
#define RECORD_MAX (TRACE_UNIT_MAX * ESCAPED_SIZE + 256)
_Static_assert(RECORD_MAX < TRACE_BUFFER_SIZE, "a record fits into an empty buffer");

struct trace {
  pthread_mutex_t lock; /* guards all below */
  char path[PATH_MAX];  /* absolute: the program may change its folder */
  off_t written;        /* whole records in the file */
  bool stopped;         /* could not be written: records are dropped */
  size_t used;
  char buffer[TRACE_BUFFER_SIZE];
};

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

static void stop(struct trace *trace, int error) {
  const char *hint = error == ENOSPC || error == EDQUOT
                         ? "Make room, or set NCCL_JOIN_TRACE to another folder"
                         : "Set NCCL_JOIN_TRACE to a folder that exists and may be written to";
  trace->stopped = true;
  log_line(LOG_LEVEL_WARN,
           "cannot write the trace file %.300s (%s): this rank's trace ends here, the program goes "
           "on. %s",
           trace->path, strerrordesc_np(error), hint);
}

/* Appends the buffer to the file. What a full disk has cut in two is taken back to the last whole
 * buffer. */
static void write_out(struct trace *trace) {
  if (trace->used == 0 || trace->stopped)
    return;
  int descriptor = open(trace->path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) {
    stop(trace, errno);
    return;
  }
  size_t done = log_write(descriptor, trace->buffer, trace->used);
  int error = errno;
  if (done < trace->used) {
    while (done > 0 && trace->buffer[done - 1] != '\n')
      done--;
    if (ftruncate(descriptor, trace->written + (off_t)done) != 0)
      error = errno;
    stop(trace, error);
  }
  trace->written += (off_t)done;
  trace->used = 0;
  close(descriptor);
}

/* Makes trace->path the absolute path of a new, empty file. Returns 0 or an errno. */
static int create_file(struct trace *trace, const char *folder, int rank, const char *host) {
  char here[PATH_MAX] = "";
  if (folder[0] != '/' && !getcwd(here, sizeof(here)))
    return errno;
  for (int i = 1; i <= SAME_NAME_MAX; i++) {
    char again[16] = "";
    if (i > 1)
      snprintf(again, sizeof(again), "-%d", i);
    int length = snprintf(trace->path, sizeof(trace->path), "%s%s%s/rank-%d.%s.%d%s.jsonl", here,
                          here[0] ? "/" : "", folder, rank, host, (int)getpid(), again);
    if (length >= (int)sizeof(trace->path))
      return ENAMETOOLONG;
    int descriptor = open(trace->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      close(descriptor);
      return 0;
    }
    if (errno != EEXIST)
      return errno;
  }
  return EEXIST;
}

/* ---- records ---- */

/* The bytes of text as the inside of a JSON string. Others than ASCII are taken for Latin-1, so
 * that the result is valid whatever they are. Always terminated; room for ESCAPED_SIZE * limit + 1
 * bytes. */
static void trace_escape(const char *text, size_t limit, char *escaped) {
  size_t used = 0;
  for (size_t i = 0; i < limit && text[i]; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') {
      escaped[used++] = '\\';
      escaped[used++] = (char)c;
    } else if (c < ' ' || c >= 0x7f) {
      used += (size_t)sprintf(escaped + used, "\\u%04x", c);
    } else {
      escaped[used++] = (char)c;
    }
  }
  escaped[used] = '\0';
}

static void add_header(struct trace *trace, int rank, int ranks, uint64_t team, const char *host) {
  char escaped[HOST_SIZE * ESCAPED_SIZE + 1];
  trace_escape(host, HOST_SIZE, escaped);
  trace->used = (size_t)snprintf(
      trace->buffer, sizeof(trace->buffer),
      "{\"format\":\"nccl-join-trace\",\"version\":%d,\"rank\":%d,\"ranks\":%d,\"team\":\"%"
      "016llx\","
      "\"host\":\"%s\",\"pid\":%d,\"start_ns\":%llu,\"start_unix_ns\":%llu}\n",
      TRACE_VERSION, rank, ranks, (unsigned long long)team, escaped, (int)getpid(),
      (unsigned long long)clock_ns(CLOCK_MONOTONIC), (unsigned long long)clock_ns(CLOCK_REALTIME));
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

static bool is_turning_point(enum trace_event event) {
  switch (event) {
  case TRACE_JOIN:
  case TRACE_LEAVE:
  case TRACE_DONE:
  case TRACE_FAIL:
  case TRACE_STOP:
    return true;
  case TRACE_COMMIT:
  case TRACE_CLAIM:
  case TRACE_PARK:
  case TRACE_SHADOW:
  case TRACE_SETTLE:
    return false;
  }
  return false;
}

/* ---- the interface ---- */

struct trace *trace_open(const char *folder, int rank, int ranks, uint64_t team) {
  if (!folder[0] || log_is_disabled())
    return NULL;
  int saved_errno = errno;
  char host[HOST_SIZE];
  log_host(host, sizeof(host));
  struct trace *trace = calloc(1, sizeof(*trace));
  if (trace) {
    pthread_mutex_init(&trace->lock, NULL);
    mkdir(folder, 0777); /* if it fails, making the file says why */
    int error = create_file(trace, folder, rank, host);
    if (error) {
      stop(trace, error);
    } else {
      add_header(trace, rank, ranks, team, host);
      write_out(trace);
    }
    if (trace->stopped) {
      trace_close(trace);
      trace = NULL;
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
  pthread_mutex_lock(&trace->lock);
  if (!trace->stopped) {
    if (sizeof(trace->buffer) - trace->used < RECORD_MAX)
      write_out(trace);
    trace->used += format_record(trace->buffer + trace->used, event, index, unit, peer);
    if (is_turning_point(event))
      write_out(trace);
  }
  pthread_mutex_unlock(&trace->lock);
  errno = saved_errno;
}

void trace_flush(struct trace *trace) {
  if (!trace || log_is_disabled())
    return;
  int saved_errno = errno;
  pthread_mutex_lock(&trace->lock);
  write_out(trace);
  pthread_mutex_unlock(&trace->lock);
  errno = saved_errno;
}

void trace_close(struct trace *trace) {
  if (!trace)
    return;
  trace_flush(trace);
  pthread_mutex_destroy(&trace->lock);
  free(trace);
}
