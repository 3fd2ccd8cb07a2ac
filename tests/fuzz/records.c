/* What is written for people and tools, and read back: lines of the log, records of the trace, and
 * the timeline over trace files as a crash, a full disk or an editor could leave them.
 *
 * Input: a byte that says which, modulo 3:
 *   0  the log: a byte each for the level set, the level of the lines and the device, then texts,
 *      each ended by a zero byte
 *   1  a trace, cut and damaged afterwards, and its timeline: see write_trace
 *   2  the timeline of files, which byte 0xff separates
 */
#include <dirent.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/report/ring.h"
#include "core/report/trace.h"
#include "tests/fuzz/fuzz.h"

int timeline_main(int argc, char **argv); /* tools/report/timeline_main.c */

enum { PATH_SIZE = 1024, TEXTS_MAX = 32, EVENTS_MAX = 64, FILES_MAX = 8, ROW_MAX = 91 };

static bool is_control(char c) {
  return (unsigned char)c < ' ' || c == 0x7f;
}

/* ---- the log ---- */

/* The line is the text behind the prefix, or the beginning of it and "..." if it does not fit. */
static void check_line(const char *line, const char *prefix, const char *text) {
  size_t length = strcspn(line, "\n"), before = strlen(prefix), whole = before + strlen(text);
  FUZZ_CHECK(length < LOG_LINE_SIZE && line[length] == '\n');
  FUZZ_CHECK(strncmp(line, prefix, before) == 0);
  size_t same = length;
  if (whole < LOG_LINE_SIZE) {
    FUZZ_CHECK(length == whole);
  } else {
    same -= 3;
    FUZZ_CHECK(strncmp(line + same, "...", 3) == 0);
    FUZZ_CHECK(((unsigned char)text[same - before] & 0xc0) != 0x80 || same == before);
  }
  for (size_t i = before; i < same; i++)
    FUZZ_CHECK(line[i] == (is_control(text[i - before]) ? ' ' : text[i - before]));
}

static void fuzz_log(struct input *input) {
  static const char *const names[] = {"ERROR", "WARN", "INFO", "TRACE"};
  struct settings settings;
  settings_defaults(&settings);
  settings.log_level = input_byte(input) % 4;
  enum log_level level = input_byte(input) % 4;
  int device = input_signed(input), n = 0;
  char *texts[TEXTS_MAX];

  capture_begin(STDERR_FILENO);
  log_open(&settings, 0);
  log_set_device(device);
  for (; n < TEXTS_MAX && input->size > 0; n++) {
    texts[n] = input_text(input, SIZE_MAX);
    log_line(level, "%s", texts[n]);
  }
  log_reset();
  const char *line = capture_end(STDERR_FILENO);

  char host[256], prefix[512];
  log_host(host, sizeof host);
  snprintf(prefix, sizeof prefix, "%s:%d:%d [%d] NCCL-JOIN %s ", host, (int)getpid(), (int)gettid(),
           device, names[level]);
  for (int i = 0; i < n; i++) {
    if (level <= settings.log_level) {
      check_line(line, prefix, texts[i]);
      line += strcspn(line, "\n") + 1;
    }
    free(texts[i]);
  }
  FUZZ_CHECK(*line == '\0');
}

/* ---- files ---- */

static const char *trace_folder(void) {
  static char path[PATH_SIZE / 2];
  snprintf(path, sizeof path, "%.400s/traces", fuzz_folder());
  return path;
}

/* The path of the only file, or "" if there is none. */
static void find_file(char *path, size_t size) {
  DIR *directory = opendir(trace_folder());
  *path = '\0';
  for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
    if (entry->d_name[0] != '.')
      snprintf(path, size, "%.500s/%.500s", trace_folder(), entry->d_name);
  if (directory != NULL)
    closedir(directory);
}

static char *read_whole(const char *path, size_t *size) {
  struct stat status;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  FUZZ_CHECK(file >= 0 && fstat(file, &status) == 0);
  *size = (size_t)status.st_size;
  char *bytes = calloc(1, *size + 1);
  FUZZ_CHECK(bytes != NULL && read(file, bytes, *size) == status.st_size);
  close(file);
  return bytes;
}

static void write_whole(const char *path, const void *bytes, size_t size) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  FUZZ_CHECK(file >= 0 && write(file, bytes, size) == (ssize_t)size);
  close(file);
}

static void remove_files(void) {
  char path[PATH_SIZE];
  for (find_file(path, sizeof path); *path != '\0'; find_file(path, sizeof path))
    FUZZ_CHECK(unlink(path) == 0);
}

/* ---- the timeline ---- */

/* Reads the folder, ends with 0 or 1, and draws in plain characters. */
static void run_timeline(void) {
  char program[] = "nccl-join-timeline", folder[PATH_SIZE];
  snprintf(folder, sizeof folder, "%s", trace_folder());
  setenv("LC_ALL", "C", 1);
  capture_begin(STDOUT_FILENO);
  capture_begin(STDERR_FILENO);
  int status = timeline_main(2, (char *[]){program, folder, NULL});
  const char *drawn = capture_end(STDOUT_FILENO), *said = capture_end(STDERR_FILENO);
  FUZZ_CHECK(status == 0 || (status == 1 && *said != '\0' && *drawn == '\0'));
  for (const char *line = drawn; *line != '\0'; line = strchr(line, '\n') + 1) {
    size_t length = strcspn(line, "\n");
    FUZZ_CHECK(line[length] == '\n');
    FUZZ_CHECK(strncmp(line, "  rank ", 7) != 0 || strncmp(line, "  rank   ", 9) == 0 ||
               length <= ROW_MAX);
    for (size_t i = 0; i < length; i++)
      FUZZ_CHECK(line[i] >= ' ' && line[i] < 0x7f);
  }
}

static void fuzz_files(struct input *input) {
  char path[PATH_SIZE];
  mkdir(trace_folder(), 0700);
  for (int i = 0; i < FILES_MAX && input->size > 0; i++) {
    const uint8_t *end = memchr(input->bytes, 0xff, input->size);
    size_t size = end != NULL ? (size_t)(end - input->bytes) : input->size;
    snprintf(path, sizeof path, "%.500s/rank-%d.host.1.jsonl", trace_folder(), i);
    write_whole(path, input->bytes, size);
    input->bytes += size + (end != NULL);
    input->size -= size + (end != NULL);
  }
  run_timeline();
  remove_files();
}

/* ---- the trace ---- */

/* What is behind "name": in a line, and the length of the name with its quotes and colon. */
static const char *skip_text(const char *c) {
  FUZZ_CHECK(*c == '"');
  for (c++; *c != '"'; c++) {
    FUZZ_CHECK((unsigned char)*c >= ' ' && *c != 0x7f);
    if (*c != '\\')
      continue;
    c++;
    FUZZ_CHECK(*c == '"' || *c == '\\' || *c == 'u');
    for (int i = 0; *c == 'u' && i < 4; i++)
      FUZZ_CHECK(strchr("0123456789abcdef", c[i + 1]) != NULL);
  }
  return c + 1;
}

static void check_utf8(const char *text) {
  static locale_t utf8;
  if (utf8 == 0)
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", 0);
  FUZZ_CHECK(utf8 != 0);
  locale_t before = uselocale(utf8);
  FUZZ_CHECK(mbstowcs(NULL, text, 0) != (size_t)-1);
  uselocale(before);
}

/* One JSON object of texts and numbers. */
static void check_object(const char *c) {
  check_utf8(c);
  FUZZ_CHECK(*c == '{');
  do {
    c = skip_text(c + 1);
    FUZZ_CHECK(*c == ':');
    size_t digits = strspn(c + 1, "0123456789");
    c = digits > 0 ? c + 1 + digits : skip_text(c + 1);
  } while (*c == ',');
  FUZZ_CHECK(strcmp(c, "}") == 0);
}

/* A unit in a record is the text that was given, byte for byte, up to TRACE_UNIT_MAX. */
static void check_unit(const char *line, const char *unit) {
  const char *c = strstr(line, ",\"unit\":\"");
  FUZZ_CHECK((c != NULL) == (unit != NULL));
  if (unit == NULL)
    return;
  size_t length = 0;
  for (c += strlen(",\"unit\":\""); *c != '"'; c++, length++) {
    unsigned byte;
    if (*c == '\\' && *++c == 'u') {
      char digits[5] = {c[1], c[2], c[3], c[4], '\0'};
      byte = (unsigned)strtoul(digits, NULL, 16);
      c += 4;
    } else {
      byte = (unsigned char)*c;
    }
    FUZZ_CHECK(byte == (unsigned char)unit[length]);
  }
  FUZZ_CHECK(length == strnlen(unit, TRACE_UNIT_MAX));
}

/* Whole lines, the header first; all of them in their order unless there was a limit. */
static void check_trace(const char *text, size_t size, char **units, int n, bool limited) {
  FUZZ_CHECK(strlen(text) == size && (size == 0 || text[size - 1] == '\n'));
  char *copy = strdup(text), *rest = copy;
  int lines = 0;
  for (char *line; (line = strsep(&rest, "\n")) != NULL; lines++) {
    if (*line == '\0') {
      lines--;
      continue;
    }
    check_object(line);
    if (lines == 0)
      FUZZ_CHECK(strncmp(line, "{\"format\":\"nccl-join-trace\",\"version\":1,", 40) == 0);
    else if (!limited)
      check_unit(line, units[lines - 1]);
  }
  FUZZ_CHECK(limited ? lines <= n + 1 : lines == n + 1);
  free(copy);
}

/* Bytes: rank, ranks, how many KiB the file may be larger than it is made (0: no limit), the number
 * of records. A record: event and whether it has a unit, index, peer, and the unit's text. Returns
 * how many. */
static int write_trace(struct input *input, char **units, bool *limited) {
  struct rlimit before, limit;
  int rank = input_byte(input), ranks = input_byte(input);
  FUZZ_CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  limit = before;
  uint8_t pages = input_byte(input);
  *limited = pages != 0;
  if (*limited)
    limit.rlim_cur = RING_CHUNK + (rlim_t)pages * 1024;
  int n = input_byte(input) % EVENTS_MAX;

  capture_begin(STDERR_FILENO);
  FUZZ_CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  struct trace *trace = trace_open(trace_folder(), 2 << 20, rank, ranks, 0xc0ffee);
  FUZZ_CHECK(trace != NULL);
  for (int i = 0; i < n; i++) {
    uint8_t event = input_byte(input);
    uint64_t index = event & 0x80 ? input_long(input) : input_byte(input);
    int peer = input_signed(input);
    units[i] = event & 0x40 ? input_text(input, SIZE_MAX) : NULL;
    trace_event(trace, (event & 0x3f) % (TRACE_FAIL + 1), index, units[i], peer);
  }
  trace_close(trace);
  FUZZ_CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  capture_end(STDERR_FILENO);
  return n;
}

/* Cuts the file off and overwrites bytes of it as the rest of the input says. */
static void damage(struct input *input, const char *path, char *text, size_t size) {
  if (size == 0)
    return;
  size_t left = input_word(input) % (size + 1);
  while (input->size > 0) {
    size_t at = input_word(input) % size;
    text[at] = (char)input_byte(input);
  }
  write_whole(path, text, left);
}

static void fuzz_trace(struct input *input) {
  char *units[EVENTS_MAX] = {NULL}, path[PATH_SIZE];
  bool limited;
  int n = write_trace(input, units, &limited);
  size_t size;
  find_file(path, sizeof path);
  char *text = read_whole(path, &size);
  check_trace(text, size, units, n, limited);
  run_timeline();
  if (input->size > 0) {
    damage(input, path, text, size);
    run_timeline();
  }
  remove_files();
  free(text);
  for (int i = 0; i < n; i++)
    free(units[i]);
}

void fuzz_records(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  switch (input_byte(&input) % 3) {
  case 0:
    fuzz_log(&input);
    break;
  case 1:
    fuzz_trace(&input);
    break;
  default:
    fuzz_files(&input);
    break;
  }
}
