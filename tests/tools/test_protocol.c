/* docs/protocol.md names functions, files, tests and rules of the model: that they are all there,
 * and that the model has no rule that the page does not have. Run from the top of the repository,
 * as `make check` does. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL)
    return NULL;
  char *text = NULL;
  size_t size = 0;
  ssize_t length = getdelim(&text, &size, '\0', file);
  fclose(file);
  cr_assert(length > 0, "%s is empty", path);
  return text;
}

static bool is_in_word(char c) {
  return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *text, const char *word) {
  size_t length = strlen(word);
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
    if ((at == text || !is_in_word(at[-1])) && !is_in_word(at[length]))
      return true;
  return false;
}

/* `path:name`; files of the model are named without their folder. */
static void check_reference(const char *reference) {
  char file[128], name[128], path[160];
  if (sscanf(reference, "%127[^:]:%127s", file, name) != 2)
    return;
  snprintf(path, sizeof(path), "%s%s", strchr(file, '/') == NULL ? "tests/model/" : "", file);
  char *text = read_file(path);
  cr_expect(text != NULL, "docs/protocol.md names %s, which is not there", path);
  cr_expect(text == NULL || has_word(text, name), "docs/protocol.md names %s, which is not in %s",
            name, path);
  free(text);
}

static char *read_model(void) {
  static const char *const files[] = {"log.pml",   "claims.pml",   "team.pml",
                                      "ranks.pml", "one_team.pml", "several_teams.pml"};
  char *all = calloc(1, 1);
  for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
    char path[64];
    snprintf(path, sizeof(path), "tests/model/%s", files[i]);
    char *text = read_file(path);
    cr_assert(text != NULL, "%s is not there", path);
    all = realloc(all, strlen(all) + strlen(text) + 1);
    strcat(all, text);
    free(text);
  }
  return all;
}

Test(protocol, page_names_what_is_there) {
  char *page = read_file("docs/protocol.md");
  cr_assert(page != NULL);
  int references = 0;
  char *rest = page;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
    char *token = line;
    for (int i = 0; (token = strsep(&line, "`")) != NULL; i++)
      if (i % 2 == 1 && strchr(token, ':') != NULL) {
        check_reference(token);
        references++;
      }
  }
  cr_expect_gt(references, 50);
  free(page);
}

Test(protocol, page_and_model_have_the_same_rules) {
  char *page = read_file("docs/protocol.md"), *model = read_model();
  cr_assert(page != NULL);
  for (int rule = 1; rule < 100; rule++) {
    char row[16], label[16];
    snprintf(row, sizeof(row), "\n| R%d |", rule);
    snprintf(label, sizeof(label), "R%d", rule);
    bool in_page = strstr(page, row) != NULL, in_model = has_word(model, label);
    cr_expect_eq(in_page, in_model, "R%d is %s", rule,
                 in_page ? "on the page and not in the model" : "in the model and not on the page");
  }
  free(page);
  free(model);
}

/* The mutants that the page names are those that there are. */
Test(protocol, page_and_mutants_agree) {
  char *page = read_file("docs/protocol.md"), *mutants = read_file("tests/model/mutants");
  cr_assert(page != NULL && mutants != NULL);
  for (int number = 1; number < 100; number++) {
    char start[16], name[16];
    snprintf(start, sizeof(start), "\nM%d|", number);
    snprintf(name, sizeof(name), "M%d", number);
    cr_expect_eq(has_word(page, name), strstr(mutants, start) != NULL,
                 "M%d is only in one of docs/protocol.md and tests/model/mutants", number);
  }
  free(page);
  free(mutants);
}
