/* Pages of docs/ name tests: they exist. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file's text, which the caller frees. */
static char *read_text(const char *path) {
  FILE *file = fopen(path, "r");
  cr_assert(file != NULL, "%s is missing", path);
  char *text = NULL;
  size_t size = 0;
  cr_assert(getdelim(&text, &size, '\0', file) > 0, "%s is empty", path);
  fclose(file);
  return text;
}

/* Whether a source file of this folder has the test. */
static bool test_exists(const glob_t *sources, const char *suite, const char *test) {
  char line[256];
  bool found = false;
  snprintf(line, sizeof line, "\nTest(%s, %s)", suite, test);
  for (size_t i = 0; i < sources->gl_pathc && !found; i++) {
    char *text = read_text(sources->gl_pathv[i]);
    found = strstr(text, line) != NULL;
    free(text);
  }
  return found;
}

/* A name in backquotes, "`suite/test`". */
static bool read_name(const char *at, char suite[64], char test[128]) {
  int length = 0;
  return sscanf(at, "`%63[a-z_]/%127[a-z0-9_]`%n", suite, test, &length) == 2 && length > 0;
}

/* Every name of a test that a page has from a place on is that of one that exists; returns how many
 * there are. all: nothing else is in backquotes there. */
static int check_names(const char *path, const char *at, bool all) {
  glob_t sources;
  cr_assert_eq(glob("tests/join/*.c", 0, NULL, &sources), 0);
  char suite[64], test[128];
  int named = 0;
  for (; (at = strchr(at, '`')) != NULL; at = strchr(at + 1, '`') + 1) {
    bool name = read_name(at, suite, test);
    cr_assert(name || !all, "%.60s", at);
    if (!name)
      continue;
    cr_assert(test_exists(&sources, suite, test), "%s names %s/%s: no such test", path, suite,
              test);
    named++;
  }
  globfree(&sources);
  return named;
}

/* A row: the feature; what the others do, each with its source in brackets; what we do, with tests.
 */
static void check_feature(const char *row) {
  char copy[4096], *rest = copy, *cells[6] = {NULL};
  snprintf(copy, sizeof copy, "%s", row);
  for (int cell = 0; cell < 6; cell++)
    cells[cell] = strsep(&rest, "|");
  cr_assert(cells[5] != NULL && rest == NULL, "not four cells: %s", row);
  for (int other = 2; other <= 3; other++)
    cr_assert(strchr(cells[other], '[') != NULL, "no source in \"%s\" of %s", cells[other], row);
  cr_assert_gt(check_names("docs/features.md", cells[4], false), 0, "no test in \"%s\" of %s",
               cells[4], row);
}

Test(page, features_have_tests_and_sources) {
  char *page = read_text("docs/features.md"), *rest = page;
  int features = 0;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    if (line[0] != '|' || strncmp(line, "| feature |", 11) == 0 || strncmp(line, "|---", 4) == 0)
      continue;
    check_feature(line);
    features++;
  }
  cr_assert_gt(features, 40);
  free(page);
}

Test(page, tests_of_the_scenarios_exist) {
  char *page = read_text("docs/scenarios.md");
  cr_assert_gt(check_names("docs/scenarios.md", strstr(page, "| tests |"), true), 50);
  free(page);
}

Test(page, tests_of_the_operations_exist_and_are_all_named) {
  char *page = read_text("docs/operations.md"), *tests = read_text("tests/join/operations.c");
  char name[128], text[160];
  int there = 0;
  check_names("docs/operations.md", page, false);
  for (const char *at = tests; (at = strstr(at, "\nTest(operations, ")) != NULL; at++, there++) {
    cr_assert_eq(sscanf(at, "\nTest(operations, %127[a-z0-9_])", name), 1);
    snprintf(text, sizeof text, "`operations/%s`", name);
    cr_assert(strstr(page, text) != NULL, "docs/operations.md does not name %s", text);
  }
  cr_assert_gt(there, 40);
  free(page);
  free(tests);
}
