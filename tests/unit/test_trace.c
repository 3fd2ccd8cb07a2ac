/* The trace: its format, read back by a small JSON reader, and what happens when it cannot be
 * written. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/report/trace.h"

static char folder[] = "/tmp/nccl-join-trace-XXXXXX";
static char stderr_path[64];

static void redirect(void) {
  cr_assert(mkdtemp(folder));
  snprintf(stderr_path, sizeof(stderr_path), "%s/stderr", folder);
  fflush(stderr);
  int file = open(stderr_path, O_CREAT | O_RDWR | O_APPEND, 0600);
  cr_assert_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
  close(file);
}

static void clean(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

TestSuite(trace, .init = redirect, .fini = clean);

/* ---- reading back ---- */

static char file_text[4 * 1024 * 1024];
static char *lines[100000];
static size_t nlines;

static void read_file(const char *path) {
  FILE *file = fopen(path, "r");
  cr_assert(file, "%s: %s", path, strerror(errno));
  size_t size = fread(file_text, 1, sizeof(file_text) - 1, file);
  fclose(file);
  file_text[size] = '\0';
  cr_assert(size == 0 || file_text[size - 1] == '\n', "the last line of %s is not whole", path);
  nlines = 0;
  for (char *line = file_text, *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = '\0';
    lines[nlines++] = line;
  }
}

/* The only trace file in the test's folder, or the i-th. */
static const char *path_of(size_t i, size_t of) {
  static char path[256];
  char pattern[128];
  snprintf(pattern, sizeof(pattern), "%s/rank-*.jsonl", folder);
  glob_t found;
  int result = glob(pattern, 0, NULL, &found);
  cr_assert_eq(result == 0 ? found.gl_pathc : 0, of, "other than %zu trace files", of);
  snprintf(path, sizeof(path), "%s", found.gl_pathv[i]);
  globfree(&found);
  return path;
}

static void read_only_file(void) {
  read_file(path_of(0, 1));
}

static const char *skip_string(const char *c) {
  for (c++; *c != '"'; c++) {
    cr_assert((unsigned char)*c >= ' ' && (unsigned char)*c < 0x7f, "a raw byte in a string");
    if (*c != '\\')
      continue;
    c++;
    cr_assert(strchr("\"\\u", *c), "an unknown escape");
    for (int i = 0; *c == 'u' && i < 4; i++)
      cr_assert(isxdigit((unsigned char)c[i + 1]));
  }
  return c + 1;
}

/* Checks that the line is a flat JSON object of strings and whole numbers. */
static void check_object(const char *line) {
  const char *c = line;
  do {
    cr_assert_eq(c[1], '"', "%s", line);
    c = skip_string(c + 1);
    cr_assert_eq(*c, ':', "%s", line);
    c++;
    if (*c == '"') {
      c = skip_string(c);
    } else {
      cr_assert(isdigit((unsigned char)*c), "%s", line);
      c += strspn(c, "0123456789");
    }
  } while (*c == ',');
  cr_assert_str_eq(c, "}", "%s", line);
}

static unsigned long long number(const char *line, const char *name) {
  char key[64];
  snprintf(key, sizeof(key), "\"%s\":", name);
  const char *found = strstr(line, key);
  cr_assert(found, "no %s in %s", name, line);
  return strtoull(found + strlen(key), NULL, 10);
}

static bool has(const char *line, const char *part) {
  return strstr(line, part) != NULL;
}

static const char *warnings(void) {
  static char text[65536];
  FILE *file = fopen(stderr_path, "r");
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  return text;
}

static void expect_one_warning(const char *part) {
  const char *text = warnings(), *first = strstr(text, "cannot write the trace file");
  cr_expect(first && !strstr(first + 1, "cannot write the trace file"), "not one warning: %s",
            text);
  cr_expect(has(text, part), "no '%s' in: %s", part, text);
  cr_expect(has(text, "NCCL_JOIN_TRACE"));
}

static unsigned long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}

/* ---- tests ---- */

Test(trace, header_and_records_are_as_documented) {
  unsigned long long before = now_ns();
  struct trace *trace = trace_open(folder, 2, 4, 0x00c0ffee00c0ffeeu);
  cr_assert(trace);
  char name[512], host[256];
  log_host(host, sizeof(host));
  snprintf(name, sizeof(name), "%s/rank-2.%s.%d.jsonl", folder, host, (int)getpid());
  cr_expect_str_eq(path_of(0, 1), name);
  trace_event(trace, TRACE_COMMIT, 17, "allreduce(sum, float32, 1024)", -1);
  trace_event(trace, TRACE_SHADOW, 18446744073709551615u, NULL, 0);
  trace_close(trace);

  read_only_file();
  cr_assert_eq(nlines, 3);
  for (size_t i = 0; i < nlines; i++)
    check_object(lines[i]);
  cr_expect(has(lines[0], "{\"format\":\"nccl-join-trace\",\"version\":1,\"rank\":2,\"ranks\":4,"
                          "\"team\":\"00c0ffee00c0ffee\",\"host\":\""),
            "%s", lines[0]);
  cr_expect_eq(number(lines[0], "pid"), getpid());
  cr_expect_geq(number(lines[0], "start_ns"), before);
  cr_expect_gt(number(lines[0], "start_unix_ns"), 1700000000000000000u);
  cr_expect_geq(number(lines[1], "t_ns"), number(lines[0], "start_ns"));
  cr_expect_leq(number(lines[2], "t_ns"), now_ns());
  cr_expect(has(lines[1], ",\"event\":\"commit\",\"index\":17,"
                          "\"unit\":\"allreduce(sum, float32, 1024)\"}"),
            "%s", lines[1]);
  cr_expect(has(lines[2], ",\"event\":\"shadow\",\"index\":18446744073709551615,\"peer\":0}"), "%s",
            lines[2]);
}

Test(trace, every_event_has_its_name) {
  static const char *const names[] = {"commit", "claim", "park", "shadow", "settle",
                                      "join",   "leave", "done", "fail",   "stop"};
  struct trace *trace = trace_open(folder, 0, 1, 1);
  for (int event = TRACE_COMMIT; event <= TRACE_STOP; event++)
    trace_event(trace, (enum trace_event)event, (uint64_t)event, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 1 + sizeof(names) / sizeof(names[0]));
  for (size_t i = 1; i < nlines; i++) {
    char text[64];
    snprintf(text, sizeof(text), "\"event\":\"%s\",\"index\":%zu}", names[i - 1], i - 1);
    cr_expect(has(lines[i], text), "%s", lines[i]);
  }
}

Test(trace, any_text_becomes_valid_json) {
  char all[256];
  for (int i = 0; i < 255; i++)
    all[i] = (char)(i + 1);
  all[255] = '\0';
  struct trace *trace = trace_open(folder, 0, 1, 1);
  trace_event(trace, TRACE_COMMIT, 0, all, -1);
  trace_event(trace, TRACE_COMMIT, 1, "", -1);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 3);
  check_object(lines[1]);
  cr_expect(has(lines[1], "\\u0001") && has(lines[1], "\\u00ff") && has(lines[1], "!\\\"#"));
  cr_expect(has(lines[2], "\"unit\":\"\""));
}

Test(trace, a_huge_unit_is_cut_off) {
  static char text[100000];
  memset(text, 1, sizeof(text) - 1); /* the longest when escaped */
  struct trace *trace = trace_open(folder, 0, 1, 1);
  for (int i = 0; i < 10; i++)
    trace_event(trace, TRACE_COMMIT, 0, text, 3);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 11);
  for (size_t i = 1; i < nlines; i++) {
    check_object(lines[i]);
    cr_expect(has(lines[i], "\"peer\":3}"));
    cr_expect_lt(strlen(lines[i]), 6 * TRACE_UNIT_MAX + 256);
  }
}

Test(trace, nothing_is_lost_or_reordered_over_many_buffers) {
  struct trace *trace = trace_open(folder, 0, 1, 1);
  for (uint64_t i = 0; i < 20000; i++)
    trace_event(trace, TRACE_COMMIT, i, "allreduce(sum, float32, 1024)", -1);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 20001);
  for (size_t i = 1; i < nlines; i++) {
    check_object(lines[i]);
    cr_assert_eq(number(lines[i], "index"), i - 1);
    cr_assert(i < 2 || number(lines[i], "t_ns") >= number(lines[i - 1], "t_ns"));
  }
}

Test(trace, records_are_buffered_until_a_turning_point) {
  struct trace *trace = trace_open(folder, 0, 1, 1);
  static const enum trace_event turning[] = {TRACE_JOIN, TRACE_LEAVE, TRACE_DONE, TRACE_FAIL};
  static const enum trace_event quiet[] = {TRACE_COMMIT, TRACE_CLAIM, TRACE_PARK, TRACE_SHADOW,
                                           TRACE_SETTLE};
  size_t expected = 1;
  for (size_t i = 0; i < 4; i++) {
    for (size_t q = 0; q < 5; q++)
      trace_event(trace, quiet[q], 0, NULL, -1);
    read_only_file();
    cr_expect_eq(nlines, expected, "written before it was time");
    trace_event(trace, turning[i], 0, NULL, -1);
    expected += 6;
    read_only_file();
    cr_expect_eq(nlines, expected, "not written at %d", turning[i]);
  }
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  trace_flush(trace);
  read_only_file();
  cr_expect_eq(nlines, expected + 1);
  trace_close(trace);
}

Test(trace, no_folder_is_no_trace) {
  cr_expect_null(trace_open("", 0, 1, 1));
  trace_event(NULL, TRACE_FAIL, 0, "x", 1);
  trace_flush(NULL);
  trace_close(NULL);
}

Test(trace, a_missing_folder_is_made) {
  char missing[64];
  snprintf(missing, sizeof(missing), "%s/new", folder);
  struct trace *trace = trace_open(missing, 0, 1, 1);
  cr_expect(trace);
  trace_close(trace);
}

Test(trace, a_second_trace_of_the_same_rank_has_its_own_file) {
  struct trace *first = trace_open(folder, 0, 1, 1), *second = trace_open(folder, 0, 1, 2);
  trace_event(first, TRACE_COMMIT, 11, NULL, -1);
  trace_event(second, TRACE_COMMIT, 22, NULL, -1);
  trace_close(first);
  trace_close(second);
  for (size_t i = 0; i < 2; i++) {
    read_file(path_of(i, 2));
    cr_expect_eq(nlines, 2);
    cr_expect_eq(has(lines[0], "\"team\":\"0000000000000002\""), has(lines[1], "\"index\":22"));
  }
}

/* Where a program has closed its standard input, that is the first descriptor to be had. */
Test(trace, a_program_may_have_no_standard_input) {
  cr_assert_eq(close(STDIN_FILENO), 0);
  struct trace *trace = trace_open(folder, 0, 1, 1);
  cr_assert_not_null(trace, "%s", warnings());
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 2);
}

Test(trace, a_program_may_change_its_folder) {
  cr_assert_eq(chdir(folder), 0);
  struct trace *trace = trace_open(".", 0, 1, 1);
  cr_assert_eq(chdir("/"), 0);
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 2);
}

Test(trace, an_unwritable_folder_is_one_warning_and_no_trace) {
  cr_expect_null(trace_open("/proc/nowhere", 0, 1, 1));
  expect_one_warning("/proc/nowhere/rank-0.");
}

Test(trace, a_file_in_place_of_the_folder_is_one_warning) {
  cr_expect_null(trace_open(stderr_path, 0, 1, 1));
  expect_one_warning("Not a directory");
}

/* A limit on the size of files fails as a full disk does: with a short write. */
Test(trace, a_full_disk_is_one_warning_and_the_file_ends_with_a_whole_line) {
  struct trace *trace = trace_open(folder, 0, 1, 1);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, RLIM_INFINITY});
  for (uint64_t i = 0; i < 20000; i++)
    trace_event(trace, TRACE_COMMIT, i, "allreduce(sum, float32, 1024)", -1);
  trace_event(trace, TRACE_FAIL, 0, NULL, -1);
  trace_close(trace);
  expect_one_warning("File too large");
  read_only_file();
  cr_expect_gt(nlines, 500);
  for (size_t i = 1; i < nlines; i++) {
    check_object(lines[i]);
    cr_assert_eq(number(lines[i], "index"), i - 1);
  }
}

Test(trace, a_file_that_was_removed_is_one_warning) {
  struct trace *trace = trace_open(folder, 0, 1, 1);
  cr_assert_eq(unlink(path_of(0, 1)), 0);
  trace_event(trace, TRACE_JOIN, 0, NULL, -1);
  trace_event(trace, TRACE_DONE, 0, NULL, -1);
  trace_close(trace);
  expect_one_warning("No such file");
}

Test(trace, no_descriptor_is_held) {
  int before = dup(0);
  close(before);
  struct trace *trace = trace_open(folder, 0, 1, 1);
  trace_event(trace, TRACE_JOIN, 0, NULL, -1);
  int after = dup(0);
  close(after);
  cr_expect_eq(before, after);
  trace_close(trace);
}

Test(trace, errno_is_kept) {
  errno = ERANGE;
  cr_expect_null(trace_open("/proc/nowhere", 0, 1, 1));
  cr_expect_eq(errno, ERANGE);
  struct trace *trace = trace_open(folder, 0, 1, 1);
  unlink(path_of(0, 1));
  errno = ERANGE;
  trace_event(trace, TRACE_JOIN, 0, NULL, -1);
  cr_expect_eq(errno, ERANGE);
  trace_close(trace);
}

Test(trace, a_forked_child_writes_nothing) {
  struct trace *trace = trace_open(folder, 0, 1, 1);
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  pid_t child = fork();
  if (child == 0) {
    log_disable();
    trace_event(trace, TRACE_JOIN, 0, NULL, -1);
    trace_flush(trace);
    trace_close(trace);
    _exit(trace_open(folder, 5, 6, 7) != NULL);
  }
  int status;
  waitpid(child, &status, 0);
  cr_expect_eq(status, 0);
  read_only_file();
  cr_expect_eq(nlines, 1);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 2);
}
