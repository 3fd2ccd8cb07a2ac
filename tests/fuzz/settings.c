/* The settings from an arbitrary environment: what is read, what is said about errors, what
 * `nccl-join env` prints, and the name of the log file that a pattern becomes.
 *
 * Input: a byte for the room for errors, a byte for the rank, then the environment's entries, each
 * ended by a zero byte.
 */
#include "core/settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/report/log.h"
#include "tests/fuzz/fuzz.h"

enum { ENTRIES_MAX = 64, ERROR_ROOM = 1 << 20 };

/* What a string writes to a stream, allocated. */
static char *printed_environment(char **environment, int width) {
  static char *text; /* gcc takes a local one for what the stream still points to */
  static size_t size;
  FILE *stream = open_memstream(&text, &size);
  FUZZ_CHECK(stream != NULL);
  settings_print(stream, environment, width);
  FUZZ_CHECK(fclose(stream) == 0 && strlen(text) == size);
  return text;
}

static size_t count_lines(const char *text) {
  size_t lines = *text != '\0';
  for (; *text != '\0'; text++)
    lines += *text == '\n' && text[1] != '\0';
  return lines;
}

static bool has_controls(const char *text) {
  for (; *text != '\0'; text++)
    if (((unsigned char)*text < ' ' && *text != '\n') || *text == 0x7f)
      return true;
  return false;
}

static bool is_set(char **environment, const char *name) {
  size_t length = strlen(name);
  for (; *environment != NULL; environment++)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
      return (*environment)[length + 1] != '\0';
  return false;
}

static bool names_a_setting(const char *table, const char *entry) {
  char row[64];
  int length = (int)strcspn(entry, "=");
  if (length != (int)strcspn(entry, "= "))
    return false;
  return length < 32 && strstr(table, (snprintf(row, sizeof row, "\n%.*s ", length, entry), row));
}

/* Each setting has a line of its own, which says where its value is from, and indented ones that
 * explain it; the number of those that are wrong. */
static size_t check_printed(const char *text, char **environment) {
  char name[32], from[32];
  size_t wrong = 0, column = (size_t)(strstr(text, "FROM") - text);
  FUZZ_CHECK(!has_controls(text));
  for (const char *line = strchr(text, '\n') + 1; *line != '\0'; line = strchr(line, '\n') + 1) {
    if (*line == '\n' || strncmp(line, "    ", 4) == 0)
      continue;
    FUZZ_CHECK(sscanf(line, "%31s", name) == 1 && strncmp(name, "NCCL_JOIN", 9) == 0);
    FUZZ_CHECK(strcspn(line, "\n") > column && sscanf(line + column, "%31s", from) == 1);
    bool is_wrong = strcmp(from, "WRONG") == 0;
    if (is_set(environment, name))
      FUZZ_CHECK(is_wrong || strcmp(from, "environment") == 0);
    else
      FUZZ_CHECK(strcmp(from, "default") == 0);
    wrong += is_wrong;
  }
  return wrong;
}

static void check_ranges(const struct settings *settings) {
  for (int kind = 0; kind < LOSSY_KINDS; kind++)
    FUZZ_CHECK(settings->lossy[kind] <= LOSSY_LAST);
  FUZZ_CHECK(settings->skew_warn <= 1000000000);
  FUZZ_CHECK(settings->timeout_s >= 1 && settings->timeout_s <= 31536000);
  FUZZ_CHECK(settings->log_level <= LOG_LEVEL_TRACE);
  FUZZ_CHECK(memchr(settings->log_file, '\0', sizeof settings->log_file) != NULL);
  FUZZ_CHECK(memchr(settings->trace_folder, '\0', sizeof settings->trace_folder) != NULL);
}

static bool is_same(const struct settings *a, const struct settings *b) {
  return a->enabled == b->enabled && memcmp(a->lossy, b->lossy, sizeof a->lossy) == 0 &&
         a->skew_warn == b->skew_warn && a->timeout_s == b->timeout_s &&
         a->log_level == b->log_level && strcmp(a->log_file, b->log_file) == 0 &&
         strcmp(a->trace_folder, b->trace_folder) == 0;
}

/* However little room there is for errors, the same is read, and what is written is whole lines of
 * what there would be with room. */
static void check_room(char **environment, size_t room, const struct settings *wanted, bool good,
                       const char *whole) {
  char *error = malloc(room);
  struct settings settings;
  FUZZ_CHECK(settings_read(&settings, environment, error, room) == good);
  FUZZ_CHECK(is_same(&settings, wanted));
  if (room > 0)
    FUZZ_CHECK(strlen(error) < room && count_lines(error) <= count_lines(whole));
  free(error);
}

/* ---- the log file's name ---- */

/* The pattern as a file in the folder of this process, whatever it was. */
static bool make_private(const char *pattern, struct settings *settings) {
  char entry[SETTINGS_PATH_SIZE + 128];
  char *environment[] = {entry, NULL};
  snprintf(entry, sizeof entry, "NCCL_JOIN_DEBUG_FILE=%s/log-%s", fuzz_folder(), pattern);
  for (char *c = strstr(entry, "/log-") + 5; *c != '\0'; c++)
    if (*c == '/')
      *c = '_';
  return settings_read(settings, environment, NULL, 0);
}

static void expand(const char *pattern, int rank, char *path, size_t size) {
  char host[256], process[16], number[16] = "unknown";
  log_host(host, sizeof host);
  snprintf(process, sizeof process, "%d", (int)getpid());
  if (rank >= 0)
    snprintf(number, sizeof number, "%d", rank);
  FILE *stream = fmemopen(path, size, "w");
  for (; *pattern != '\0'; pattern++) {
    if (*pattern != '%')
      fputc(*pattern, stream);
    else
      fputs(*++pattern == 'h' ? host
            : *pattern == 'p' ? process
            : *pattern == 'r' ? number
                              : "%",
            stream);
  }
  fputc('\0', stream);
  fclose(stream);
}

/* One line of the log goes to the file that the pattern says, or to stderr where that cannot be. */
static void check_log_file(const char *pattern, int rank) {
  struct settings settings;
  char path[64 * SETTINGS_PATH_SIZE];
  if (!make_private(pattern, &settings))
    return;
  expand(settings.log_file, rank, path, sizeof path);
  capture_begin(STDERR_FILENO);
  log_open(&settings, rank);
  log_line(LOG_LEVEL_WARN, "a line");
  log_reset();
  const char *said = capture_end(STDERR_FILENO);
  bool made = access(path, F_OK) == 0;
  FUZZ_CHECK(made == (strstr(said, "a line") == NULL));
  FUZZ_CHECK(made == (strstr(said, "cannot open the log file") == NULL));
  if (made)
    FUZZ_CHECK(unlink(path) == 0);
}

/* ---- the target ---- */

void fuzz_settings(const uint8_t *bytes, size_t size) {
  struct input input = {bytes, size};
  size_t room = (size_t)input_byte(&input) * 16;
  int rank = input_signed(&input);
  char *environment[ENTRIES_MAX + 1] = {NULL};
  for (size_t n = 0; n < ENTRIES_MAX && input.size > 0; n++)
    environment[n] = input_text(&input, SIZE_MAX);

  static char error[ERROR_ROOM];
  struct settings settings, again;
  bool good = settings_read(&settings, environment, error, sizeof error);
  check_ranges(&settings);
  FUZZ_CHECK(settings_read(&again, environment, NULL, 0) == good);
  FUZZ_CHECK(is_same(&settings, &again));
  check_room(environment, room, &settings, good, error);

  char *table = printed_environment(environment, 20 + (int)(room % 100));
  size_t wrong = check_printed(table, environment);
  for (char **entry = environment; *entry != NULL; entry++)
    wrong += strncmp(*entry, "NCCL_JOIN_", 10) == 0 && !names_a_setting(table, *entry);
  FUZZ_CHECK(!has_controls(error) && count_lines(error) == wrong && good == (wrong == 0));

  if (settings.log_file[0] != '\0')
    check_log_file(settings.log_file, rank);
  free(table);
  for (size_t n = 0; n < ENTRIES_MAX; n++)
    free(environment[n]);
}
