/* The chart of the agreement's growth, and the counting behind it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/plane_memory.h"
#include "core/transport/words.h"
#include "tools/bench/counted.h"
#include "tools/bench/traffic.h"

#define PICTURE_MAX ((size_t)1 << 18)

static char picture[PICTURE_MAX];

static const char *build(void) {
  const char *folder = getenv("JOIN_TEST_BUILD");
  return folder != NULL ? folder : "build";
}

static size_t read_all(FILE *file, char *bytes) {
  size_t size = fread(bytes, 1, PICTURE_MAX - 1, file);
  bytes[size] = '\0';
  return size;
}

/* What chart makes of a file; its status. */
static int chart(const char *path) {
  char command[1024];
  snprintf(command, sizeof command, "'%s/bench/chart' '%s' 2>&1", build(), path);
  FILE *output = popen(command, "r");
  cr_assert_not_null(output);
  read_all(output, picture);
  return pclose(output);
}

/* ---- the chart ---- */

Test(chart, the_picture_in_docs_is_what_the_figures_in_docs_make) {
  static char checked_in[PICTURE_MAX];
  FILE *file = fopen("docs/growth.svg", "r");
  cr_assert_not_null(file, "docs/growth.svg is missing: run make growth");
  cr_assert_gt(read_all(file, checked_in), 0);
  fclose(file);
  cr_assert_eq(chart("docs/growth.json"), 0, "%s", picture);
  cr_assert_str_eq(picture, checked_in, "docs/growth.svg is not of docs/growth.json: make growth");
}

/* A file with the same value for every count, for 2 and 4,096 ranks; without the last section if
 * it is not complete. */
static void write_figures(const char *path, bool complete) {
  static const char *const sections[] = {"Growth: a claim that all ranks make", "Growth: a join",
                                         "Growth: a unit that one joined rank shadows"};
  static const char *const counts[] = {"reads", "messages", "bytes", "steps"};
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fputs("{\"format\": 1, \"rows\": [\n{\"section\": \"other\", \"name\": \"one\"}", file);
  for (int section = 0; section < (complete ? 3 : 2); section++)
    for (int count = 0; count < 4; count++)
      for (int ranks = 2; ranks <= 4096; ranks *= 2048)
        fprintf(file, ",\n{\"section\": \"%s\", \"name\": \"%s, %d ranks\", \"median\": 1000}",
                sections[section], counts[count], ranks);
  fputs("\n]}\n", file);
  fclose(file);
}

Test(chart, names_of_lines_that_end_together_are_apart) {
  char path[] = "/tmp/chart-XXXXXX";
  cr_assert_geq(mkstemp(path), 0);
  write_figures(path, true);
  int status = chart(path), names = 0;
  remove(path);
  cr_assert_eq(status, 0, "%s", picture);
  double last_x = 0, last_y = 0;
  for (char *line = strtok(picture, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    double x, y;
    if (strstr(line, "reads<") == NULL && strstr(line, "messages<") == NULL &&
        strstr(line, "bytes<") == NULL && strstr(line, "steps<") == NULL)
      continue;
    cr_assert_eq(sscanf(line, "<text x=\"%lf\" y=\"%lf\"", &x, &y), 2, "%s", line);
    cr_assert(x != last_x || y - last_y >= 13, "%s is %g below the name before", line, y - last_y);
    names++;
    last_x = x;
    last_y = y;
  }
  cr_assert_eq(names, 12);
}

Test(chart, a_file_without_all_figures_is_refused) {
  char path[] = "/tmp/chart-XXXXXX";
  cr_assert_geq(mkstemp(path), 0);
  write_figures(path, false);
  int status = chart(path);
  remove(path);
  cr_assert_neq(status, 0);
  cr_assert_null(strstr(picture, "<svg"));
  cr_assert_not_null(strstr(picture, "Growth: a unit that one joined rank shadows"), "%s", picture);
  cr_assert_neq(chart("/nowhere"), 0);
}

/* ---- counting ---- */

static struct plane_memory *memory;
static struct plane_log *logs[2];

static void start(void) {
  memory = plane_memory_create(2);
  for (uint32_t rank = 0; rank < 2; rank++)
    logs[rank] = plane_memory_rank(memory, 0)->logs[rank];
  traffic_begin(plane_memory_rank(memory, 0));
}

static void stop(void) {
  traffic_end();
  plane_memory_destroy(memory);
}

TestSuite(traffic, .init = start, .fini = stop);

/* Messages for one read of rank 0's head. */
static uint64_t messages_to(uint32_t rank) {
  uint64_t before = traffic_so_far().messages;
  traffic_set_rank(rank);
  counted_read(&logs[0]->head, sizeof logs[0]->head);
  return traffic_so_far().messages - before;
}

static void write_head(void) {
  traffic_set_rank(0);
  counted_write(&logs[0]->head, sizeof logs[0]->head);
}

Test(traffic, a_line_comes_once_for_each_time_it_was_written) {
  write_head();
  cr_assert_eq(messages_to(1), 1);
  cr_assert_eq(messages_to(1), 0);
  write_head();
  write_head();
  cr_assert_eq(messages_to(1), 1);
  cr_assert_eq(messages_to(0), 0, "what a rank has written itself need not come");
  cr_assert_eq(traffic_so_far().bytes, 3 * sizeof logs[0]->head);
  cr_assert_eq(traffic_so_far().reads, 3, "its own log is no other's");
}

Test(traffic, a_line_may_be_written_any_number_of_times) {
  for (int i = 0; i < 200000; i++)
    write_head();
  cr_assert_eq(messages_to(1), 1);
  cr_assert_eq(messages_to(1), 0);
  for (int i = 0; i < 65535; i++)
    write_head();
  cr_assert_eq(messages_to(1), 1, "as many writes as there are versions");
  cr_assert_eq(messages_to(0), 0);
}

Test(traffic, what_is_private_is_not_counted) {
  uint64_t own = 0;
  counted_write(&own, sizeof own);
  counted_read(&own, sizeof own);
  cr_assert_eq(traffic_so_far().reads + traffic_so_far().messages + traffic_so_far().bytes, 0);
}

/* ---- the simulation ---- */

Test(growth, each_event_reaches_every_rank) {
  char command[1024], line[1024];
  int rows = 0;
  snprintf(command, sizeof command, "BENCH_QUICK=1 '%s/bench/growth'", build());
  FILE *output = popen(command, "r");
  cr_assert_not_null(output);
  while (fgets(line, sizeof line, output) != NULL) {
    char count[32];
    unsigned ranks;
    double value;
    const char *name = strstr(line, "\"name\": \""), *median = strstr(line, "\"median\": ");
    cr_assert(name != NULL && median != NULL, "%s", line);
    cr_assert_eq(sscanf(name, "\"name\": \"%31[a-z], %u ranks", count, &ranks), 2, "%s", line);
    cr_assert_eq(sscanf(median, "\"median\": %lf", &value), 1, "%s", line);
    rows++;
    if (strcmp(count, "steps") == 0)
      cr_assert(value >= 2, "waking up is a step of its own: %s", line);
    else if (strcmp(count, "rings") == 0)
      cr_assert(value >= 1, "somebody sleeps: %s", line);
    else if (strcmp(count, "bytes") == 0)
      cr_assert(value >= ranks * 24, "every rank publishes an entry: %s", line);
    else
      cr_assert(value >= ranks, "no rank knows by itself: %s", line);
  }
  cr_assert_eq(pclose(output), 0);
  cr_assert_eq(rows, 3 * 5 * 4, "three events, five counts, 2 to 16 ranks");
}
