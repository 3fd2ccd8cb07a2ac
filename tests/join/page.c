/* docs/scenarios.md names tests: they exist. */
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

Test(page, tests_of_the_scenarios_exist) {
  glob_t sources;
  cr_assert_eq(glob("tests/join/*.c", 0, NULL, &sources), 0);
  char *page = read_text("docs/scenarios.md"), suite[64], test[128];
  int named = 0;
  for (const char *at = strstr(page, "| tests |"); (at = strchr(at, '`')) != NULL; named++) {
    cr_assert_eq(sscanf(at, "`%63[a-z_]/%127[a-z0-9_]`", suite, test), 2, "%.60s", at);
    cr_assert(test_exists(&sources, suite, test), "docs/scenarios.md names %s/%s: no such test",
              suite, test);
    at = strchr(at + 1, '`') + 1;
  }
  cr_assert_gt(named, 50);
  free(page);
  globfree(&sources);
}
