/* chart: the growth of the agreement as a picture, from the rows of growth.c.
 *
 *   chart FILE >docs/growth.svg   FILE is build/bench.json, or an extract of it
 *
 * Three panels, a claim, a join and a shadow unit, each with the same two axes: ranks from left to
 * right and counts upwards, both by powers. Each line has its name at its end. A white ground of
 * its own, so that it looks the same on light and dark pages.
 *
 * Drawn here and not by gnuplot or matplotlib: the picture is checked in, and a test draws it again
 * and compares it to the last byte, which those promise from one of their releases to the next of
 * none.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/json.h"

enum { RANKS_LOG2 = 12, PANELS = 3, LINES = 4 };

/* The picture, in its own units. A panel's frame is PANEL_WIDTH wide; room for names is beside it.
 */
enum {
  WIDTH = 1090,
  HEIGHT = 490,
  PANEL_LEFT = 78,
  PANEL_TOP = 106,
  PANEL_WIDTH = 200,
  PANEL_HEIGHT = 300,
  PANEL_STEP = 346,
  DECADES = 9,
  NAME_HEIGHT = 16, /* two names are at least so far apart */
};

struct panel {
  const char *section, *title, *subtitle;
};

static const struct panel panels[PANELS] = {
    {"Growth: a claim that all ranks make", "A claim",
     "all ranks come to a barrier, until all go on"},
    {"Growth: a join", "A join", "one rank leaves the loop, until it follows"},
    {"Growth: a unit that one joined rank shadows", "A shadow unit",
     "issued by all but one rank, followed by that one"},
};

struct line {
  const char *count, *colour, *dashes;
};

static const struct line lines[LINES] = {
    {"reads", "#2f6f9f", "none"},
    {"messages", "#9c2f1b", "none"},
    {"bytes", "#3d7d52", "none"},
    {"steps", "#444444", "5 3"},
};

struct series {
  unsigned npoints;
  int log2[RANKS_LOG2]; /* of the ranks */
  double value[RANKS_LOG2];
};

static struct series all_series[PANELS][LINES];

static bool fail(const char *what, const char *where) {
  fprintf(stderr, "chart: %s: %s\n", what, where);
  return false;
}

/* ---- reading ---- */

/* Of "messages, 64 ranks": where the count goes, and the logarithm of the ranks. */
static struct series *find_series(const struct json_object *row, int *ranks_log2) {
  const char *section = json_text(row, "section"), *name = json_text(row, "name");
  if (section == NULL || name == NULL)
    return NULL;
  for (int panel = 0; panel < PANELS; panel++)
    for (int line = 0; line < LINES; line++) {
      size_t length = strlen(lines[line].count);
      if (strcmp(section, panels[panel].section) != 0 ||
          strncmp(name, lines[line].count, length) != 0 || name[length] != ',')
        continue;
      long ranks = strtol(name + length + 1, NULL, 10);
      for (*ranks_log2 = 1; *ranks_log2 <= RANKS_LOG2; ++*ranks_log2)
        if (1L << *ranks_log2 == ranks)
          return &all_series[panel][line];
    }
  return NULL;
}

static bool add_point(const struct json_object *row) {
  int ranks_log2;
  double value;
  struct series *series = find_series(row, &ranks_log2);
  if (series == NULL)
    return true;
  if (series->npoints == RANKS_LOG2 || !json_number(row, "median", &value) || value < 1 ||
      value > pow(10, DECADES))
    return fail("not a count that can be drawn", json_text(row, "name"));
  series->log2[series->npoints] = ranks_log2;
  series->value[series->npoints++] = value;
  return true;
}

static bool read_rows(const char *path) {
  static char bytes[1 << 20];
  FILE *file = fopen(path, "r");
  size_t size = file == NULL ? 0 : fread(bytes, 1, sizeof bytes - 1, file);
  if (file != NULL)
    fclose(file);
  bytes[size] = '\0';
  const char *at = strstr(bytes, "\"rows\":");
  at = at == NULL ? NULL : strchr(at, '[');
  if (at == NULL)
    return fail("cannot be read, or has no rows", path);
  do {
    struct json_object row;
    at++;
    if (!json_read(&at, &row))
      return fail("not a row", at);
    if (!add_point(&row))
      return false;
    at += strspn(at, " \n");
  } while (*at == ',');
  for (int panel = 0; panel < PANELS; panel++)
    for (int line = 0; line < LINES; line++)
      if (all_series[panel][line].npoints < 2)
        return fail("too few rows of", panels[panel].section);
  return true;
}

/* ---- drawing ---- */

static double x_of(int panel, double ranks_log2) {
  return PANEL_LEFT + panel * PANEL_STEP + PANEL_WIDTH * (ranks_log2 - 1) / (RANKS_LOG2 - 1);
}

static double y_of(double value) {
  return PANEL_TOP + PANEL_HEIGHT * (1 - log10(value) / DECADES);
}

static void draw_text(double x, double y, const char *attributes, const char *text) {
  printf("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, text);
}

static void draw_axes(int panel) {
  static const char *const superscript[DECADES + 1] = {"1",   "10",  "10²", "10³", "10⁴",
                                                       "10⁵", "10⁶", "10⁷", "10⁸", "10⁹"};
  double left = x_of(panel, 1), right = x_of(panel, RANKS_LOG2), bottom = y_of(1);
  for (int decade = 0; decade <= DECADES; decade++) {
    double y = y_of(pow(10, decade));
    printf("<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\"/>\n", left, y, right,
           decade == 0 ? "#555555" : "#e2e2e2");
    draw_text(left - 7, y + 4, "text-anchor=\"end\" fill=\"#444444\"", superscript[decade]);
  }
  static const int ticks[] = {1, 3, 6, 9, 12};
  for (size_t i = 0; i < sizeof ticks / sizeof *ticks; i++) {
    char text[16];
    double x = x_of(panel, ticks[i]);
    snprintf(text, sizeof text, ticks[i] < 10 ? "%d" : "4,096", 1 << ticks[i]);
    printf("<path d=\"M%.1f %.1fv5\" stroke=\"#555555\"/>\n", x, bottom);
    draw_text(x, bottom + 19, "text-anchor=\"middle\" fill=\"#444444\"", text);
  }
  draw_text((left + right) / 2, bottom + 39, "text-anchor=\"middle\" fill=\"#1a1a1a\"",
            "ranks of the team");
  draw_text(left, PANEL_TOP - 44, "font-weight=\"bold\" font-size=\"15\" fill=\"#1a1a1a\"",
            panels[panel].title);
  draw_text(left, PANEL_TOP - 25, "fill=\"#444444\"", panels[panel].subtitle);
}

static void draw_line(int panel, int line) {
  const struct series *series = &all_series[panel][line];
  printf("<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\" d=\"",
         lines[line].colour, lines[line].dashes);
  for (unsigned i = 0; i < series->npoints; i++)
    printf("%s%.1f %.1f", i == 0 ? "M" : "L", x_of(panel, series->log2[i]), y_of(series->value[i]));
  puts("\"/>");
}

/* Slope of the last doubling: how the count grows where there are many ranks. */
static const char *growth_text(const struct series *series) {
  unsigned last = series->npoints - 1;
  double power = log2(series->value[last] / series->value[last - 1]) /
                 (series->log2[last] - series->log2[last - 1]);
  return power < 0.25 ? "" : power < 1.5 ? " ~ n" : " ~ n²";
}

/* At the ends of the lines, the highest first; each below the one before if they are too near. */
static void draw_names(int panel) {
  bool drawn[LINES] = {false};
  double last_y = 0;
  for (int i = 0; i < LINES; i++) {
    int next = -1;
    for (int line = 0; line < LINES; line++) {
      const struct series *series = &all_series[panel][line];
      if (!drawn[line] &&
          (next < 0 || series->value[series->npoints - 1] >
                           all_series[panel][next].value[all_series[panel][next].npoints - 1]))
        next = line;
    }
    const struct series *series = &all_series[panel][next];
    double y = y_of(series->value[series->npoints - 1]) + 4;
    if (i > 0 && y < last_y + NAME_HEIGHT)
      y = last_y + NAME_HEIGHT;
    char text[64], attributes[64];
    snprintf(text, sizeof text, "%s%s", lines[next].count, growth_text(series));
    snprintf(attributes, sizeof attributes, "fill=\"%s\"", lines[next].colour);
    draw_text(x_of(panel, series->log2[series->npoints - 1]) + 7, y, attributes, text);
    drawn[next] = true;
    last_y = y;
  }
}

static void draw(void) {
  printf(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"Helvetica, "
      "Arial, sans-serif\" font-size=\"12.5\" role=\"img\" aria-label=\"What a claim, a join and "
      "a shadow unit cost a team of 2 to 4,096 ranks\">\n"
      "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
      WIDTH, HEIGHT, WIDTH, HEIGHT);
  draw_text(20, 28, "font-size=\"14\" fill=\"#1a1a1a\"",
            "What one of these costs a team of 2 to 4,096 ranks, counted in a simulation");
  printf("<text transform=\"translate(26 %d) rotate(-90)\" text-anchor=\"middle\" "
         "fill=\"#1a1a1a\">how many, in all ranks together</text>\n",
         PANEL_TOP + PANEL_HEIGHT / 2);
  for (int panel = 0; panel < PANELS; panel++) {
    draw_axes(panel);
    for (int line = 0; line < LINES; line++)
      draw_line(panel, line);
    draw_names(panel);
  }
  draw_text(20, HEIGHT - 16, "fill=\"#444444\"",
            "reads: words of other ranks’ logs looked at. messages: cache lines of 64 bytes that "
            "came from another rank. bytes: written for others. steps: one after the other.");
  puts("</svg>");
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fputs("usage: chart FILE\n", stderr);
    return 2;
  }
  if (!read_rows(argv[1]))
    return 1;
  draw();
  return 0;
}
