/* The log: formatting, the file and what happens when it fails. See log.h.
 *
 * The file is held open from log_open on. Programs that close every descriptor they do not know
 * may hand its number to a file of their own, so each line checks that the descriptor is still our
 * file before it writes.
 */
#include "core/report/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/report/last_line.h"

/* HOST_NAME_MAX is 64 on Linux, but a container's name need not keep to it. */
#define HOST_SIZE 256

/* Written by log_open alone, before opened is set with release order; read after it with acquire
 * order. */
static struct {
  enum log_level level;
  dev_t device; /* of the file, with inode: whose the descriptor must still be */
  ino_t inode;
  char path[PATH_MAX];
} file;

static atomic_bool opening, opened;
static atomic_int file_descriptor = -1; /* -1: stderr */
static atomic_bool disabled;

static _Thread_local int thread_device;

static const char *const level_names[] = {
    [LOG_LEVEL_ERROR] = "ERROR",
    [LOG_LEVEL_WARN] = "WARN",
    [LOG_LEVEL_INFO] = "INFO",
    [LOG_LEVEL_TRACE] = "TRACE",
};

/* ---- writing ---- */

/* Takes back a signal that this thread's own write has raised while blocked, so that nobody ever
 * sees it. */
static void discard_signal(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  sigtimedwait(&set, NULL, &(struct timespec){0, 0});
}

size_t log_write(int descriptor, const void *bytes, size_t size) {
  sigset_t raised, before, pending;
  sigemptyset(&raised);
  sigaddset(&raised, SIGPIPE);
  sigaddset(&raised, SIGXFSZ);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &raised, &before);
  size_t done = 0;
  int error = 0;
  while (done < size && !error) {
    ssize_t n = write(descriptor, (const char *)bytes + done, size - done);
    if (n > 0)
      done += (size_t)n;
    else if (n < 0 && errno != EINTR)
      error = errno;
    else if (n == 0)
      error = ENOSPC;
  }
  /* A signal that was pending before is the program's own. */
  if (error == EPIPE && !sigismember(&pending, SIGPIPE))
    discard_signal(SIGPIPE);
  if (error == EFBIG && !sigismember(&pending, SIGXFSZ))
    discard_signal(SIGXFSZ);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  errno = error;
  return done;
}

/* Of glibc 2.32; releases before that have no such function. */
extern const char *strerrordesc_np(int error) __attribute__((weak));

const char *log_reason(int error, char text[LOG_REASON]) {
  return strerrordesc_np != NULL ? strerrordesc_np(error) : strerror_r(error, text, LOG_REASON);
}

static bool is_our_file(int descriptor) {
  struct stat now;
  return fstat(descriptor, &now) == 0 && now.st_dev == file.device && now.st_ino == file.inode;
}

/* Writes a finished line to the file, or to stderr if there is none. */
static void write_line(const char *line, size_t size) {
  int descriptor = atomic_load_explicit(&file_descriptor, memory_order_acquire);
  if (descriptor >= 0) {
    char reason[LOG_REASON];
    bool ours = is_our_file(descriptor);
    if (ours && log_write(descriptor, line, size) == size)
      return;
    int error = ours ? errno : EBADF;
    /* One thread gives the file up; the descriptor stays open, others may be about to use it. */
    if (atomic_compare_exchange_strong(&file_descriptor, &descriptor, -1))
      log_line(LOG_LEVEL_WARN,
               "cannot write to the log file %.300s (%s): the log goes on here. Make room, or set "
               "NCCL_JOIN_DEBUG_FILE to another place",
               file.path, ours ? log_reason(error, reason) : "the program closed its descriptor");
  }
  log_write(STDERR_FILENO, line, size);
}

/* ---- lines ---- */

void log_host(char *name, size_t size) {
  if (gethostname(name, size) != 0)
    snprintf(name, size, "unknown");
  name[size - 1] = '\0';
  name[strcspn(name, ".")] = '\0';
  for (char *c = name; *c; c++) {
    if (*c == '/' || *c == '%')
      *c = '-';
  }
}

bool log_enabled(enum log_level level) {
  if (atomic_load_explicit(&disabled, memory_order_relaxed))
    return false;
  bool open = atomic_load_explicit(&opened, memory_order_acquire);
  return level <= (open ? file.level : LOG_LEVEL_WARN);
}

void log_set_device(int device) {
  thread_device = device;
}

/* " [comm 0x5581c0ffee00 rank 1 nranks 4 tag 0badcafe]", or "": about nobody. */
#define SUBJECT_SIZE 96
static void write_subject(const struct log_subject *subject, char text[SUBJECT_SIZE]) {
  char comm[32] = "", rank[32] = "", tag[32] = "";
  if (subject->comm != NULL)
    snprintf(comm, sizeof(comm), "comm %p ", subject->comm);
  if (subject->nranks > 0)
    snprintf(rank, sizeof(rank), "rank %d nranks %d ", subject->rank, subject->nranks);
  if (subject->tag != 0)
    snprintf(tag, sizeof(tag), "tag %08x ", subject->tag);
  int length = snprintf(text, SUBJECT_SIZE, " [%s%s%s", comm, rank, tag);
  text[length > 2 ? length - 1 : 0] = length > 2 ? ']' : '\0'; /* for the last blank */
}

/* Makes one line of a text of length bytes, which may be cut off, and of what stands behind it: at
 * most LOG_LINE_SIZE bytes with its newline. */
static size_t finish_line(char *line, size_t length, const char *behind) {
  static const char cut[] = "...";
  size_t room = LOG_LINE_SIZE - 1 - strlen(behind);
  if (length > room) {
    length = room + 1 - sizeof(cut);
    while (((unsigned char)line[length] & 0xc0) ==
           0x80) /* not in the middle of a UTF-8 character */
      length--;
    memcpy(line + length, cut, sizeof(cut) - 1);
    length += sizeof(cut) - 1;
  }
  for (size_t i = 0; i < length; i++) {
    if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
      line[i] = ' ';
  }
  char *end = stpcpy(line + length, behind);
  *end = '\n';
  return (size_t)(end + 1 - line);
}

/* The text of the last line of WARN or ERROR, with `last_lock`. */
static char last_text[LOG_LINE_SIZE];
static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;

static void (*_Atomic told_to)(uint32_t tag, const char *text);

void log_tell(void (*told)(uint32_t tag, const char *text)) {
  atomic_store(&told_to, told);
}

static void log_tell_line(const struct log_subject *subject, const char *format,
                          va_list arguments) {
  void (*told)(uint32_t tag, const char *text) = atomic_load(&told_to);
  char text[LOG_LINE_SIZE];
  va_list own;
  if (told == NULL)
    return;
  va_copy(own, arguments);
  vsnprintf(text, sizeof(text), format, own);
  va_end(own);
  told(subject->tag, text);
}

static void keep_text(const char *format, va_list arguments) {
  va_list own;
  va_copy(own, arguments);
  pthread_mutex_lock(&last_lock);
  vsnprintf(last_text, sizeof(last_text), format, own);
  last_line_show(last_text);
  pthread_mutex_unlock(&last_lock);
  va_end(own);
}

void log_last(char *text, size_t size) {
  pthread_mutex_lock(&last_lock);
  snprintf(text, size, "%s", last_text);
  pthread_mutex_unlock(&last_lock);
}

static void write_named(const struct log_subject *subject, enum log_level level, const char *format,
                        va_list arguments) {
  int saved_errno = errno;
  char line[LOG_LINE_SIZE + 1], host[HOST_SIZE], behind[SUBJECT_SIZE] = "";
  log_host(host, sizeof(host));
  int prefix = snprintf(line, sizeof(line), "%s:%d:%d [%d] NCCL-JOIN %s ", host, (int)getpid(),
                        (int)syscall(SYS_gettid), thread_device, level_names[level]);
  int text = vsnprintf(line + prefix, sizeof(line) - (size_t)prefix, format, arguments);
  if (*format != ' ')
    write_subject(subject, behind);
  write_line(line, finish_line(line, (size_t)prefix + (text > 0 ? (size_t)text : 0), behind));
  errno = saved_errno;
}

static void write_text(const struct log_subject *subject, enum log_level level, const char *format,
                       va_list arguments) {
  if (level <= LOG_LEVEL_WARN && !log_is_disabled() && *format != ' ') {
    keep_text(format, arguments);
    log_tell_line(subject, format, arguments);
  }
  if (log_enabled(level))
    write_named(subject, level, format, arguments);
}

void log_note_of(struct log_subject subject, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (log_enabled(LOG_LEVEL_WARN))
    write_named(&subject, LOG_LEVEL_INFO, format, arguments);
  va_end(arguments);
}

void log_line(enum log_level level, const char *format, ...) {
  static const struct log_subject nobody;
  va_list arguments;
  va_start(arguments, format);
  write_text(&nobody, level, format, arguments);
  va_end(arguments);
}

void log_line_of(struct log_subject subject, enum log_level level, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_text(&subject, level, format, arguments);
  va_end(arguments);
}

/* ---- the file ---- */

/* Replaces %h, %p, %r and %% (settings.c has seen to it that there are no others). False if it
 * does not fit. */
static bool expand_path(const char *format, int rank, char *path, size_t size) {
  size_t used = 0;
  for (const char *c = format; *c; c++) {
    char text[HOST_SIZE] = {*c, '\0'};
    if (*c == '%') {
      c++;
      if (*c == 'h')
        log_host(text, sizeof(text));
      else if (*c == 'p')
        snprintf(text, sizeof(text), "%d", (int)getpid());
      else if (*c == 'r' && rank < 0)
        snprintf(text, sizeof(text), "unknown");
      else if (*c == 'r')
        snprintf(text, sizeof(text), "%d", rank);
    }
    used += (size_t)snprintf(path + used, size - used, "%s", text);
    if (used >= size)
      return false;
  }
  return true;
}

/* The descriptor of the file in file.path, or -1 with errno. */
static int open_file(const char *format, int rank) {
  if (!expand_path(format, rank, file.path, sizeof(file.path))) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int descriptor = open(file.path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
  struct stat status;
  if (descriptor >= 0 && fstat(descriptor, &status) == 0) {
    file.device = status.st_dev;
    file.inode = status.st_ino;
  }
  return descriptor;
}

void log_open(const struct settings *settings, int rank) {
  if (log_is_disabled() || atomic_exchange(&opening, true))
    return;
  int saved_errno = errno, descriptor = -1, error = 0;
  char reason[LOG_REASON];
  file.level = settings->log_level;
  if (settings->log_file[0]) {
    descriptor = open_file(settings->log_file, rank);
    error = descriptor < 0 ? errno : 0;
  }
  atomic_store_explicit(&file_descriptor, descriptor, memory_order_release);
  atomic_store_explicit(&opened, true, memory_order_release);
  if (error)
    log_line(LOG_LEVEL_WARN,
             "cannot open the log file %.300s (%s): the log goes here. Set NCCL_JOIN_DEBUG_FILE to "
             "a file "
             "in a folder that exists and can be written to",
             file.path, log_reason(error, reason));
  errno = saved_errno;
}

void log_disable(void) {
  atomic_store_explicit(&disabled, true, memory_order_relaxed);
}

bool log_is_disabled(void) {
  return atomic_load_explicit(&disabled, memory_order_relaxed);
}

void log_reset(void) {
  int descriptor = atomic_exchange(&file_descriptor, -1);
  if (descriptor >= 0 && is_our_file(descriptor))
    close(descriptor);
  atomic_store(&disabled, false);
  atomic_store(&opened, false);
  atomic_store(&opening, false);
  thread_device = 0;
  last_line_forget();
}
