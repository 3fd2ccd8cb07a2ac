/* Reading traces back (trace_files.h). */
#include "tests/unit/trace_files.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

char folder[] = "/tmp/nccl-join-trace-XXXXXX";
static char stderr_path[64];

void trace_files_begin(void) {
  cr_assert(mkdtemp(folder));
  snprintf(stderr_path, sizeof(stderr_path), "%s/stderr", folder);
  fflush(stderr);
  int file = open(stderr_path, O_CREAT | O_RDWR | O_APPEND, 0600);
  cr_assert_eq(dup2(file, STDERR_FILENO), STDERR_FILENO);
  close(file);
}

void trace_files_end(void) {
  char command[128];
  snprintf(command, sizeof(command), "rm -rf %s", folder);
  cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

static char file_text[4 * 1024 * 1024];
char *lines[100000];
size_t nlines;

void read_file(const char *path) {
  FILE *file = fopen(path, "r");
  cr_assert(file, "%s: %s", path, strerror(errno));
  size_t size = fread(file_text, 1, sizeof(file_text) - 1, file);
  fclose(file);
  while (size > 0 && file_text[size - 1] == '\0') /* killed as the file grew */
    size--;
  file_text[size] = '\0';
  cr_assert(size == 0 || file_text[size - 1] == '\n', "the last line of %s is not whole", path);
  nlines = 0;
  for (char *line = file_text, *end; (end = strchr(line, '\n')); line = end + 1) {
    *end = '\0';
    lines[nlines++] = line;
  }
}

/* The only trace file in the test's folder, or the i-th. */
const char *path_of(size_t i, size_t of) {
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

void read_only_file(void) {
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
void check_object(const char *line) {
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

unsigned long long number(const char *line, const char *name) {
  char key[64];
  snprintf(key, sizeof(key), "\"%s\":", name);
  const char *found = strstr(line, key);
  cr_assert(found, "no %s in %s", name, line);
  return strtoull(found + strlen(key), NULL, 10);
}

bool has(const char *line, const char *part) {
  return strstr(line, part) != NULL;
}

const char *warnings(void) {
  static char text[65536];
  FILE *file = fopen(stderr_path, "r");
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  return text;
}

void expect_one_warning(const char *part) {
  const char *text = warnings(), *first = strstr(text, "cannot write the trace file");
  cr_expect(first && !strstr(first + 1, "cannot write the trace file"), "not one warning: %s",
            text);
  cr_expect(has(text, part), "no '%s' in: %s", part, text);
  cr_expect(has(text, "NCCL_JOIN_TRACE"));
}

unsigned long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec;
}

/* Lines of a file that no process has closed: empty ones behind the last. */
size_t lines_with_something(void) {
  size_t used = 0;
  for (size_t i = 0; i < nlines; i++)
    if (*lines[i] != '\0')
      lines[used++] = lines[i];
  return nlines = used;
}
