/* The log: the format, the file, and what happens when the file fails. Each test is a process of
 * its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/report/last_line.h"
#include "core/report/log.h"
#include "tests/text_file.h"

static char folder[] = "/tmp/nccl-join-log-XXXXXX";
static char stderr_path[64];
static struct settings settings;

/* stderr becomes a file in a folder of the test's own. */
static void redirect(void) {
  cr_assert(mkdtemp(folder));
  snprintf(stderr_path, sizeof(stderr_path), "%s/stderr", folder);
  fflush(stderr);
  int file = open(stderr_path, O_CREAT | O_RDWR | O_APPEND, 0600);
  cr_assert_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
  close(file);
  settings_defaults(&settings);
}

static void clean(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

TestSuite(log, .init = redirect, .fini = clean);

static const char *on_stderr(void) {
  return text_file_read(stderr_path);
}

static size_t count(const char *text, const char *part) {
  size_t n = 0;
  for (const char *hit = text; (hit = strstr(hit, part)); hit += strlen(part))
    n++;
  return n;
}

/* Opens the log with a file of that name in the folder; returns its path with nothing expanded. */
static const char *open_in_folder(const char *name, int rank) {
  snprintf(settings.log_file, sizeof(settings.log_file), "%s/%s", folder, name);
  log_open(&settings, rank);
  return settings.log_file;
}

Test(log, a_line_has_the_format_of_nccls_log) {
  log_set_device(3);
  log_line(LOG_LEVEL_WARN, "rank %d has left", 2);
  char host[256], expected[512];
  gethostname(host, sizeof(host));
  host[strcspn(host, ".")] = '\0';
  snprintf(expected, sizeof(expected), "%s:%d:%d [3] NCCL-JOIN WARN rank 2 has left\n", host,
           (int)getpid(), (int)gettid());
  cr_expect_str_eq(on_stderr(), expected);
}

/* Expects the text behind the level to be that, and nothing more. */
static void expect_text(const char *text) {
  const char *line = strstr(on_stderr(), "NCCL-JOIN WARN ");
  cr_assert_not_null(line);
  cr_expect_str_eq(line + strlen("NCCL-JOIN WARN "), text);
  cr_assert_eq(truncate(stderr_path, 0), 0);
}

static struct log_subject subject = {(void *)0x5581c0ffee00, 1, 4, 0x0badcafe};

Test(log, a_line_about_a_rank_ends_with_its_communicator) {
  log_line_of(subject, LOG_LEVEL_WARN, "rank %d has left", 1);
  expect_text("rank 1 has left [comm 0x5581c0ffee00 rank 1 nranks 4 tag 0badcafe]\n");
  subject.comm = NULL;
  log_line_of(subject, LOG_LEVEL_WARN, "text");
  expect_text("text [rank 1 nranks 4 tag 0badcafe]\n");
  log_line_of((struct log_subject){.tag = 7}, LOG_LEVEL_WARN, "text");
  expect_text("text [tag 00000007]\n");
  log_line_of((struct log_subject){0}, LOG_LEVEL_WARN, "text");
  expect_text("text\n");
  for (int i = 0; i < 2; i++)
    log_once_of(subject, LOG_LEVEL_WARN, "once");
  expect_text("once [rank 1 nranks 4 tag 0badcafe]\n");
  log_line_of(subject, LOG_LEVEL_WARN, "  of the line before");
  expect_text("  of the line before\n");
}

Test(log, a_text_that_is_too_long_is_cut_before_its_communicator) {
  char text[2 * LOG_LINE_SIZE];
  memset(text, 'x', sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  log_line_of(subject, LOG_LEVEL_WARN, "%s", text);
  cr_expect_eq(strlen(on_stderr()), LOG_LINE_SIZE);
  cr_expect(strstr(on_stderr(), "xxx... [comm 0x5581c0ffee00 rank 1 nranks 4 tag 0badcafe]\n"));
  log_last(text, sizeof(text));
  cr_expect_null(strstr(text, "comm"), "who returns an error says what has happened");
}

Test(log, only_lines_up_to_the_level_are_written) {
  static const char *const names[] = {"ERROR", "WARN", "INFO", "TRACE"};
  for (int level = LOG_LEVEL_ERROR; level <= LOG_LEVEL_TRACE; level++) {
    log_reset();
    cr_assert_eq(truncate(stderr_path, 0), 0);
    settings.log_level = (enum log_level)level;
    log_open(&settings, 0);
    for (int of = LOG_LEVEL_ERROR; of <= LOG_LEVEL_TRACE; of++) {
      log_line((enum log_level)of, "here");
      cr_expect_eq(log_enabled((enum log_level)of), of <= level);
      char text[32];
      snprintf(text, sizeof(text), "NCCL-JOIN %s here\n", names[of]);
      cr_expect_eq(count(on_stderr(), text), of <= level ? 1 : 0, "%s at level %d", text, level);
    }
  }
}

Test(log, before_it_is_opened_warnings_go_to_stderr) {
  log_line(LOG_LEVEL_INFO, "not yet");
  log_line(LOG_LEVEL_WARN, "this one");
  cr_expect_eq(count(on_stderr(), "\n"), 1);
}

Test(log, the_file_name_is_expanded) {
  open_in_folder("log-%h-%p-%r-%%", 7);
  log_line(LOG_LEVEL_WARN, "text");
  char host[256], path[512];
  log_host(host, sizeof(host));
  snprintf(path, sizeof(path), "%s/log-%s-%d-7-%%", folder, host, (int)getpid());
  cr_expect_eq(count(text_file_read(path), "NCCL-JOIN WARN text\n"), 1);
  cr_expect_str_empty(on_stderr());
}

Test(log, an_unknown_rank_has_a_name_too) {
  open_in_folder("log-%r", -1);
  char path[128];
  snprintf(path, sizeof(path), "%s/log-unknown", folder);
  cr_expect_eq(access(path, F_OK), 0);
}

Test(log, a_file_is_appended_to_and_the_first_open_counts) {
  const char *path = open_in_folder("log", 0);
  log_line(LOG_LEVEL_WARN, "one");
  log_reset();
  log_open(&settings, 0);
  log_line(LOG_LEVEL_WARN, "two");
  struct settings others = settings;
  strcpy(others.log_file, "/nowhere/at/all");
  log_open(&others, 1);
  log_line(LOG_LEVEL_WARN, "three");
  cr_expect_eq(count(text_file_read(path), "\n"), 3);
  cr_expect_str_empty(on_stderr());
}

Test(log, a_long_line_is_cut_to_its_size) {
  char text[3000];
  for (size_t length = 900; length < sizeof(text) - 1; length += length < 1100 ? 1 : 97) {
    cr_assert_eq(truncate(stderr_path, 0), 0);
    memset(text, 'x', length);
    text[length] = '\0';
    log_line(LOG_LEVEL_WARN, "%s", text);
    const char *line = on_stderr();
    size_t size = strlen(line);
    cr_assert_leq(size, LOG_LINE_SIZE);
    cr_assert_eq(count(line, "\n"), 1);
    bool whole = strstr(line, text) != NULL;
    cr_assert(whole || (size == LOG_LINE_SIZE && strcmp(line + size - 4, "...\n") == 0));
  }
}

Test(log, a_line_without_text_has_nothing_behind_its_level) {
  log_line(LOG_LEVEL_WARN, "%s", "");
  cr_expect_str_eq(strstr(on_stderr(), " NCCL-JOIN"), " NCCL-JOIN WARN \n");
}

Test(log, a_cut_line_keeps_its_characters_whole) {
  char text[2001] = "";
  for (size_t i = 0; i + 2 < sizeof(text); i += 2)
    memcpy(text + i, "\xc3\xa9", 3);
  for (int shift = 0; shift < 2; shift++) {
    cr_assert_eq(truncate(stderr_path, 0), 0);
    log_line(LOG_LEVEL_WARN, "%.*s%s", shift, "x", text);
    const char *end = strstr(on_stderr(), "...\n");
    cr_assert(end);
    cr_expect_eq(memcmp(end - 2, "\xc3\xa9", 2), 0);
  }
}

Test(log, a_text_with_newlines_is_one_line) {
  log_line(LOG_LEVEL_WARN, "one\ntwo\x1b[2J\r\tthree");
  cr_expect_eq(count(on_stderr(), "\n"), 1);
  cr_expect_eq(count(on_stderr(), "\x1b"), 0);
}

#define THREADS 8
#define LINES 200

static void *write_lines(void *argument) {
  char text[600];
  memset(text, 'a' + *(int *)argument, sizeof(text) - 1);
  text[sizeof(text) - 1] = '\0';
  for (int i = 0; i < LINES; i++)
    log_line(LOG_LEVEL_WARN, "<%s>", text);
  return NULL;
}

static void run_threads(void *(*body)(void *)) {
  pthread_t threads[THREADS];
  int numbers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    numbers[i] = i;
    cr_assert_eq(pthread_create(&threads[i], NULL, body, &numbers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
}

Test(log, lines_of_threads_never_mix) {
  char *path = strdup(open_in_folder("log", 0));
  run_threads(write_lines);
  FILE *file = fopen(path, "r");
  char line[2048];
  int lines = 0;
  while (fgets(line, sizeof(line), file)) {
    char *start = strchr(line, '<'), *end = strchr(line, '>');
    cr_assert(start && end == start + 600 && strcmp(end, ">\n") == 0, "%s", line);
    cr_assert_eq(strspn(start + 1, (char[]){start[1], 0}), 599, "mixed: %s", line);
    lines++;
  }
  fclose(file);
  free(path);
  cr_expect_eq(lines, THREADS * LINES);
}

static void say_once(void) {
  log_once(LOG_LEVEL_WARN, "only once");
}

static void *say_often(void *argument) {
  (void)argument;
  for (int i = 0; i < LINES; i++)
    say_once();
  return NULL;
}

Test(log, log_once_is_once_for_its_call_site_in_all_threads) {
  run_threads(say_often);
  log_once(LOG_LEVEL_WARN, "only once");
  cr_expect_eq(count(on_stderr(), "only once"), 2, "one for each of two call sites");
}

Test(log, a_file_that_cannot_be_opened_is_said_once_and_stderr_is_used) {
  open_in_folder("missing/log", 0);
  log_line(LOG_LEVEL_WARN, "first");
  log_line(LOG_LEVEL_WARN, "second");
  const char *text = on_stderr();
  cr_expect_eq(count(text, "cannot open the log file"), 1);
  cr_expect_eq(count(text, "missing/log (No such file or directory)"), 1, "%s", text);
  cr_expect_eq(count(text, "Set NCCL_JOIN_DEBUG_FILE"), 1);
  cr_expect(strstr(text, "first") && strstr(text, "second"));
}

Test(log, a_full_disk_is_said_once_and_stderr_is_used) {
  strcpy(settings.log_file, "/dev/full");
  log_open(&settings, 0);
  cr_expect_str_empty(on_stderr());
  log_line(LOG_LEVEL_WARN, "first");
  log_line(LOG_LEVEL_WARN, "second");
  const char *text = on_stderr();
  cr_expect_eq(count(text, "cannot write to the log file /dev/full (No space left on device)"), 1,
               "%s", text);
  cr_expect_eq(count(text, "first\n"), 1);
  cr_expect_eq(count(text, "second\n"), 1);
}

Test(log, a_file_size_limit_does_not_kill_the_program) {
  const char *path = open_in_folder("log", 0);
  struct stat before;
  log_line(LOG_LEVEL_WARN, "fits");
  cr_assert_eq(stat(path, &before), 0);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)before.st_size, RLIM_INFINITY});
  cr_assert_eq(close(STDERR_FILENO), 0); /* it has the same limit */
  log_line(LOG_LEVEL_WARN, "does not fit");
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
}

Test(log, a_closed_pipe_does_not_kill_the_program) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
  signal(SIGPIPE, SIG_DFL);
  log_line(LOG_LEVEL_WARN, "to nobody");
  sigset_t pending;
  sigpending(&pending);
  cr_expect_not(sigismember(&pending, SIGPIPE));
}

Test(log, a_pending_signal_of_the_programs_own_stays) {
  int ends[2];
  cr_assert_eq(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  close(ends[0]);
  sigset_t pipe_signal, pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe_signal, NULL);
  raise(SIGPIPE);
  log_line(LOG_LEVEL_WARN, "to nobody");
  sigpending(&pending);
  cr_expect(sigismember(&pending, SIGPIPE));
}

Test(log, a_descriptor_that_the_program_reused_is_not_written_to) {
  const char *path = open_in_folder("log", 0);
  char precious[128];
  snprintf(precious, sizeof(precious), "%s/precious", folder);
  for (int fd = 3; fd < 1024; fd++) {
    char link[64], target[256] = "";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (readlink(link, target, sizeof(target) - 1) > 0 && strcmp(target, path) == 0) {
      int file = open(precious, O_CREAT | O_WRONLY, 0600);
      dup2(file, fd);
      close(file);
    }
  }
  log_line(LOG_LEVEL_WARN, "not into there");
  cr_expect_str_empty(text_file_read(precious));
  cr_expect_eq(count(on_stderr(), "not into there"), 1);
  cr_expect_eq(count(on_stderr(), "closed its descriptor"), 1);
}

Test(log, errno_is_kept) {
  open_in_folder("missing/log", 0);
  errno = ERANGE;
  log_line(LOG_LEVEL_WARN, "text");
  cr_expect_eq(errno, ERANGE);
  log_reset();
  errno = ERANGE;
  log_open(&settings, 0);
  cr_expect_eq(errno, ERANGE);
}

Test(log, a_disabled_process_writes_nothing_and_makes_no_file) {
  pid_t child = fork();
  if (child == 0) {
    log_disable();
    open_in_folder("child", 0);
    log_line(LOG_LEVEL_ERROR, "from the child");
    log_once(LOG_LEVEL_ERROR, "from the child");
    _exit(access(settings.log_file, F_OK) == 0);
  }
  int status;
  waitpid(child, &status, 0);
  cr_expect_eq(status, 0, "the child made a file");
  cr_expect_str_empty(on_stderr());
}

/* What a program gets with an error is the sentence, not the table behind it. */
Test(log, the_last_line_is_a_sentence) {
  char text[128];
  log_open(&settings, 0);
  log_last(text, sizeof text);
  cr_assert_str_eq(text, "");
  log_line(LOG_LEVEL_WARN, "rank %d has waited", 0);
  log_line(LOG_LEVEL_WARN, "  rank %d: parked", 1);
  log_line(LOG_LEVEL_INFO, "nothing");
  log_last(text, sizeof text);
  cr_assert_str_eq(text, "rank 0 has waited");
}

/* The memory that others find by its name among the descriptors. */
static bool read_last_line(struct last_line *line) {
  for (int at = 0; at < 256; at++) {
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", at);
    if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, LAST_LINE_NAME) != NULL)
      return pread(at, line, sizeof *line, 0) == sizeof *line;
  }
  return false;
}

Test(log, the_last_warning_in_memory_is_counted_when_it_begins_and_when_it_is_whole) {
  struct last_line line;
  log_open(&settings, 0);
  for (uint32_t i = 1; i <= 2; i++) {
    log_line(LOG_LEVEL_WARN, "warning %u", i);
    cr_assert(read_last_line(&line));
    cr_expect_eq(line.changes, 2 * i);
    cr_expect_eq(line.format, LAST_LINE_FORMAT);
    cr_expect(strstr(line.text, i == 1 ? "warning 1" : "warning 2"), "%s", line.text);
  }
}
