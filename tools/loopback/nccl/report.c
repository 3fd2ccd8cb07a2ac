/* Messages: last error, stderr, log file, stop. */
#include "report.h"

#include "settings.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 16384
#define LAST_ERROR_BYTES 1024

static pthread_mutex_t last_error_lock = PTHREAD_MUTEX_INITIALIZER; /* guards last_error */
static char last_error[LAST_ERROR_BYTES];

static void write_whole(int file, const char *text, size_t size) {
  while (size > 0) {
    ssize_t written = write(file, text, size);
    if (written < 0 && errno != EINTR)
      return; /* nowhere left to complain */
    if (written > 0) {
      text += written;
      size -= (size_t)written;
    }
  }
}

static void write_line(int file, const char *prefix, const char *format, va_list arguments) {
  char *line = malloc(LINE_BYTES);
  if (line == NULL)
    return;
  size_t used = (size_t)snprintf(line, LINE_BYTES, "%s", prefix);
  int added = vsnprintf(line + used, LINE_BYTES - used - 1, format, arguments);
  used += added > 0 ? (size_t)added : 0;
  if (used > LINE_BYTES - 2)
    used = LINE_BYTES - 2;
  line[used++] = '\n';
  write_whole(file, line, used);
  free(line);
}

static bool errors_are_printed(void) {
  const char *level = getenv("NCCL_DEBUG");
  return level != NULL && (strcasecmp(level, "WARN") == 0 || strcasecmp(level, "INFO") == 0 ||
                           strcasecmp(level, "TRACE") == 0);
}

void report_error(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  pthread_mutex_lock(&last_error_lock);
  vsnprintf(last_error, sizeof last_error, format, arguments);
  pthread_mutex_unlock(&last_error_lock);
  va_end(arguments);
  if (errors_are_printed()) {
    va_start(arguments, format);
    write_line(STDERR_FILENO, "loopback NCCL: WARN ", format, arguments);
    va_end(arguments);
  }
}

static pthread_key_t snapshot_key;

static void create_snapshot_key(void) {
  pthread_key_create(&snapshot_key, free);
}

const char *report_last_error(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, create_snapshot_key);
  char *snapshot = pthread_getspecific(snapshot_key);
  if (snapshot == NULL) {
    snapshot = malloc(LAST_ERROR_BYTES);
    if (snapshot == NULL)
      return "no memory";
    pthread_setspecific(snapshot_key, snapshot);
  }
  pthread_mutex_lock(&last_error_lock);
  memcpy(snapshot, last_error, sizeof last_error);
  pthread_mutex_unlock(&last_error_lock);
  return snapshot;
}

void report_line(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line(STDERR_FILENO, "loopback NCCL: ", format, arguments);
  va_end(arguments);
}

void report_stop(const char *format, ...) {
  static atomic_flag stopping = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&stopping))
    pause(); /* another thread has the word, and ends the process */
  va_list arguments;
  va_start(arguments, format);
  write_line(STDERR_FILENO, "loopback NCCL: ", format, arguments);
  va_end(arguments);
  _exit(REPORT_STOP_STATUS);
}

/* The log's path with %p replaced by this process. */
static void log_path(const char *pattern, char *path, size_t size) {
  const char *mark = strstr(pattern, "%p");
  if (mark == NULL)
    snprintf(path, size, "%s", pattern);
  else
    snprintf(path, size, "%.*s%d%s", (int)(mark - pattern), pattern, (int)getpid(), mark + 2);
}

/* Opened for every line: a forked rank must not write into its parent's file. */
void report_log(const char *format, ...) {
  const char *pattern = settings_get()->log;
  if (pattern == NULL)
    return;
  char path[4096];
  log_path(pattern, path, sizeof path);
  int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0)
    report_stop("cannot write LOOPBACK_LOG %s: %s", path, strerror(errno));
  va_list arguments;
  va_start(arguments, format);
  write_line(file, "", format, arguments);
  va_end(arguments);
  close(file);
}
