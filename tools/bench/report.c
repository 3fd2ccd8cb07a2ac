/* report: tables and build/bench.json from the rows of all benchmarks (rows.h).
 *
 *   report [--revision TEXT] FILE   rows on stdin; writes FILE and prints the tables
 *   report --markdown FILE          prints the tables of docs/speed.md from FILE: rows with a goal
 *
 * FILE is {"format": 1, "about": {…}, "rows": [{…}, …]}, one row a line: rows as in rows.h, and
 * about as about_here writes it: date, machine and versions.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

#include <nccl.h>

#include "tools/bench/json.h"
#include "tools/bench/rows.h"

#define FORMAT 1
#define ROWS_MAX 1024

struct report {
  struct json_object about;
  struct json_object rows[ROWS_MAX];
  unsigned nrows;
};

static bool fail(const char *what, const char *where) {
  fprintf(stderr, "report: %s: %s\n", what, where);
  return false;
}

/* ---- where it was measured ---- */

static void add_processor(struct json_object *about) {
  char line[JSON_TEXT_MAX] = "", *name = NULL;
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file != NULL && name == NULL && fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "model name", 10) == 0 && (name = strchr(line, ':')) != NULL)
      name += 2;
  if (file != NULL)
    fclose(file);
  struct utsname system;
  uname(&system);
  line[strcspn(line, "\n")] = '\0';
  json_add(about, "processor", name != NULL ? name : system.machine);
  char number[16];
  snprintf(number, sizeof number, "%d", get_nprocs());
  json_add(about, "processors", number);
  json_add(about, "kernel", system.release);
}

static void about_here(struct json_object *about, const char *revision) {
  time_t now = time(NULL);
  char text[64];
  strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", gmtime(&now));
  json_add(about, "date", text);
  add_processor(about);
  json_add(about, "nccl-join", NCCL_JOIN_VERSION);
  json_add(about, "revision", revision);
#ifdef __clang__
  json_add(about, "compiler", __VERSION__);
#else
  json_add(about, "compiler", "gcc " __VERSION__);
#endif
  snprintf(text, sizeof text, "%d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
  json_add(about, "nccl.h", text);
  json_add(about, "quick", row_is_quick() ? "yes" : "no");
}

/* ---- reading ---- */

static bool row_is_valid(const struct json_object *row) {
  double low, median, high, samples;
  return json_text(row, "section") && json_text(row, "name") && json_text(row, "unit") &&
         json_number(row, "low", &low) && json_number(row, "median", &median) &&
         json_number(row, "high", &high) && json_number(row, "samples", &samples) &&
         low <= median && median <= high && samples >= 1;
}

static bool is_same(const struct json_object *a, const struct json_object *b) {
  return strcmp(json_text(a, "section"), json_text(b, "section")) == 0 &&
         strcmp(json_text(a, "name"), json_text(b, "name")) == 0;
}

static bool add_row(struct report *report, const char **at) {
  const char *start = *at;
  if (report->nrows == ROWS_MAX)
    return fail("too many rows", start);
  struct json_object *row = &report->rows[report->nrows];
  if (!json_read(at, row) || !row_is_valid(row))
    return fail("not a row", start);
  for (unsigned i = 0; i < report->nrows; i++)
    if (is_same(&report->rows[i], row))
      return fail("a row that was there before", start);
  report->nrows++;
  return true;
}

static bool read_rows(struct report *report) {
  char line[4096];
  while (fgets(line, sizeof line, stdin) != NULL) {
    const char *at = line;
    if (!add_row(report, &at))
      return false;
    if (strcmp(at, "\n") != 0)
      return fail("more on the line than a row", at);
  }
  return report->nrows > 0 || fail("no rows", "stdin");
}

/* A file that report wrote. */
static bool read_file(struct report *report, const char *path) {
  static char bytes[ROWS_MAX * 1024];
  FILE *file = fopen(path, "r");
  size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof bytes - 1, file);
  if (file != NULL)
    fclose(file);
  bytes[size] = '\0';
  const char *about = strstr(bytes, "\"about\":"), *rows = strstr(bytes, "\"rows\":");
  if (about == NULL || rows == NULL)
    return fail("cannot be read, or is no file of this program", path);
  about += strlen("\"about\":");
  rows = strchr(rows, '[') + 1;
  if (!json_read(&about, &report->about))
    return fail("bad file", about);
  do {
    if (!add_row(report, &rows))
      return false;
  } while (*rows++ == ',');
  return true;
}

/* ---- writing ---- */

static bool write_file(const struct report *report, const char *path) {
  FILE *file = fopen(path, "w");
  if (file == NULL)
    return fail("cannot write", path);
  fprintf(file, "{\"format\": %d,\n \"about\": ", FORMAT);
  json_write(file, &report->about);
  fputs(",\n \"rows\": [\n", file);
  for (unsigned i = 0; i < report->nrows; i++) {
    fputs("  ", file);
    json_write(file, &report->rows[i]);
    fputs(i + 1 < report->nrows ? ",\n" : "\n", file);
  }
  fputs(" ]}\n", file);
  return fclose(file) == 0 || fail("cannot write", path);
}

/* Three digits, or all before the point. */
static const char *number_text(const struct json_object *row, const char *name, char text[32]) {
  double value = 0;
  json_number(row, name, &value);
  double size = value < 0 ? -value : value;
  bool whole = value == (double)(long long)value;
  snprintf(text, 32, "%.*f", whole || size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2, value);
  return text;
}

/* "11.9 .. 13.1", or nothing where there is one sample. */
static const char *spread_text(const struct json_object *row, char text[72]) {
  char low[32], high[32];
  double samples = 1;
  json_number(row, "samples", &samples);
  if (samples < 2)
    return "";
  snprintf(text, 72, "%s .. %s", number_text(row, "low", low), number_text(row, "high", high));
  return text;
}

static const char *or_nothing(const char *text) {
  return text == NULL ? "" : text;
}

/* Characters, not bytes, so that columns stay columns. */
static int width(const char *text) {
  int characters = 0;
  for (; *text != '\0'; text++)
    characters += ((unsigned char)*text & 0xc0) != 0x80;
  return characters;
}

static void print_row(const struct json_object *row, bool markdown, int names) {
  char median[32], spread[72];
  const char *name = json_text(row, "name");
  if (markdown)
    printf("| %s | %s | %s | %s | %s | %s |\n", name, number_text(row, "median", median),
           spread_text(row, spread), json_text(row, "unit"), json_text(row, "samples"),
           or_nothing(json_text(row, "goal")));
  else
    printf("  %s%*s %9s  %-19s %-22s %4s  %s\n", name, names - width(name), "",
           number_text(row, "median", median), spread_text(row, spread), json_text(row, "unit"),
           json_text(row, "samples"), or_nothing(json_text(row, "goal")));
}

/* docs/speed.md has what there are goals for; DDP and growth have pages of their own. */
static bool is_shown(const struct json_object *row, bool markdown) {
  const char *goal = json_text(row, "goal"), *section = json_text(row, "section");
  return !markdown || (goal != NULL && *goal != '\0' && strncmp(section, "DDP", 3) != 0 &&
                       strncmp(section, "Growth", 6) != 0);
}

/* All rows of the section of the row `first`. */
static void print_section(const struct report *report, unsigned first, bool markdown) {
  const char *section = json_text(&report->rows[first], "section");
  int names = width(section) - 2;
  for (unsigned i = first; i < report->nrows; i++)
    if (strcmp(json_text(&report->rows[i], "section"), section) == 0 &&
        width(json_text(&report->rows[i], "name")) > names)
      names = width(json_text(&report->rows[i], "name"));
  if (markdown)
    printf(
        "\n### %s\n\n| | median | quartiles | unit | samples | goal |\n|---|---|---|---|---|---|\n",
        section);
  else
    printf("\n%s%*s %9s  %-19s %-22s %4s  %s\n", section, names + 2 - width(section), "", "median",
           "quartiles", "unit", "n", "goal");
  for (unsigned i = first; i < report->nrows; i++)
    if (strcmp(json_text(&report->rows[i], "section"), section) == 0 &&
        is_shown(&report->rows[i], markdown))
      print_row(&report->rows[i], markdown, names);
}

static void print_tables(const struct report *report, bool markdown) {
  for (unsigned i = 0; i < report->about.nfields; i++)
    printf("%s%s %s", i > 0 ? ", " : "", report->about.fields[i].name,
           report->about.fields[i].text);
  puts("");
  for (unsigned i = 0; i < report->nrows; i++) {
    bool seen = !is_shown(&report->rows[i], markdown);
    for (unsigned j = 0; j < i && !seen; j++)
      seen = is_shown(&report->rows[j], markdown) &&
             strcmp(json_text(&report->rows[i], "section"),
                    json_text(&report->rows[j], "section")) == 0;
    if (!seen)
      print_section(report, i, markdown);
  }
}

int main(int argc, char **argv) {
  static struct report report;
  if (argc == 3 && strcmp(argv[1], "--markdown") == 0) {
    if (!read_file(&report, argv[2]))
      return 1;
    print_tables(&report, true);
    return 0;
  }
  bool revision = argc == 4 && strcmp(argv[1], "--revision") == 0;
  if (argc != 2 && !revision) {
    fputs("usage: report [--revision TEXT] FILE | report --markdown FILE\n", stderr);
    return 2;
  }
  about_here(&report.about, revision ? argv[2] : "unknown");
  if (!read_rows(&report) || !write_file(&report, argv[argc - 1]))
    return 1;
  print_tables(&report, false);
  return 0;
}
