/* tests/mutants/mutants: what it changes, what it takes for found, and that it goes on. In a small
 * project of its own. Run from the top of the repository, as `make check` does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/text_file.h"

static char folder[] = "/tmp/nccl-join-mutants-XXXXXX", said[1 << 16], top[4096];

/* What a shell command says in the project; its status. */
static int say(const char *command) {
  char all[8192];
  snprintf(all, sizeof all, "cd '%s' && { %s; } 2>&1", folder, command);
  FILE *output = popen(all, "r");
  cr_assert_not_null(output);
  said[fread(said, 1, sizeof said - 1, output)] = '\0';
  int status = pclose(output);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void write_file(const char *name, const char *text) {
  text_file_write(folder, name, text);
}

static void make_project(void) {
  cr_assert_not_null(mkdtemp(folder));
  cr_assert_not_null(getcwd(top, sizeof top));
  cr_assert_eq(say("mkdir core tests"), 0, "%s", said);
  write_file("Makefile", "build/core/%.o: core/%.c\n"
                         "\t@mkdir -p build/core\n"
                         "\t@gcc -O1 -Werror -MMD -c -o $@ $<\n"
                         "build/check: tests/check.c build/core/part.o\n"
                         "\t@gcc -o build/check tests/check.c build/core/part.o\n");
  write_file("core/part.c", "#include <stdbool.h>\n"
                            "bool is_small(int n) { /* n < 10 */\n"
                            "  if (n < 10)\n"
                            "    return true;\n"
                            "  return false;\n"
                            "}\n"
                            "void clear(int *n) {\n"
                            "  *n = 0;\n"
                            "}\n");
  write_file("tests/check.c", "int is_small(int);\n"
                              "int main(void) {\n"
                              "  return !((is_small(9) & 1) && !(is_small(20) & 1));\n"
                              "}\n");
}

static void remove_project(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  cr_assert_eq(system(command), 0);
}

TestSuite(mutants, .init = make_project, .fini = remove_project);

static int mutants(const char *options) {
  char command[8192];
  snprintf(
      command, sizeof command,
      "'%s/tests/mutants/mutants' --slack 2 --explained explained --count 100 %s core -- check",
      top, options);
  return say(command);
}

static void expect_said(const char *text) {
  cr_expect_not_null(strstr(said, text), "\"%s\" is not in:\n%s", text, said);
}

Test(mutants, what_no_test_finds_is_named) {
  cr_assert_eq(mutants(""), 1, "%s", said);
  expect_said("not found: core/part.c:3: is_small\n  - if (n < 10)\n  + if (n <= 10)\n");
  expect_said("not found: core/part.c:8: clear\n  - *n = 0;\n  + *n = 1;\n");
  expect_said("not found: core/part.c:8: clear\n  - *n = 0;\n  + ;\n");
  cr_expect_null(strstr(said, "!(n < 10)"), "a test fails there:\n%s", said);
  cr_expect_null(strstr(said, "core/part.c:2:"), "a comment was changed:\n%s", said);
}

Test(mutants, what_never_ends_is_found) {
  write_file("core/part.c", "int last(int n) {\n"
                            "  volatile int at = 0;\n"
                            "  while (at + 1 < n)\n"
                            "    at++;\n"
                            "  return at;\n"
                            "}\n");
  write_file("tests/check.c", "int last(int);\n"
                              "int main(void) {\n"
                              "  return last(5) != 4;\n"
                              "}\n");
  (void)mutants("");
  cr_assert_eq(say("grep '(time)' build/mutants/verdicts"), 0, "at++ in the loop: %s", said);
}

/* As Python loads what tests/python tests. */
Test(mutants, what_is_in_a_library_that_the_tests_load_is_changed_by_make) {
  cr_assert_eq(
      say("printf 'build/part.so: build/core/part.o\n\t@gcc -shared -o $@ $<\n"
          "build/loaded: tests/check.c | build/part.so\n"
          "\t@gcc -o $@ $< build/part.so\n' >>Makefile; sed -i 's/-O1/-O1 -fPIC/' Makefile"),
      0);
  char command[8192];
  snprintf(command, sizeof command,
           "'%s/tests/mutants/mutants' --slack 2 --count 100 core -- 'MAKE loaded'", top);
  cr_expect_eq(say(command), 1, "%s", said);
  expect_said("not found: core/part.c:3: is_small\n  - if (n < 10)\n  + if (n <= 10)\n");
  cr_expect_null(strstr(said, "!(n < 10)"), "a test fails there:\n%s", said);
  cr_expect_eq(say("cmp core/part.c build/mutants/tree/core/part.c"), 0, "%s", said);
}

Test(mutants, the_tree_stays_as_it_is) {
  cr_assert_eq(say("find . -type f -exec sha256sum {} + >/tmp/sums.$PPID; wc -l </tmp/sums.$PPID"),
               0);
  (void)mutants("");
  cr_expect_eq(say("sha256sum --quiet -c /tmp/sums.$PPID; s=$?; rm /tmp/sums.$PPID; exit $s"), 0,
               "%s", said);
}

Test(mutants, a_seed_draws_always_the_same) {
  char first[sizeof said];
  (void)mutants("--list --count 4 --seed 3");
  strcpy(first, said);
  (void)mutants("--list --count 4 --seed 3");
  cr_expect_str_eq(first, said);
  (void)mutants("--list --count 4 --seed 4");
  cr_expect_str_neq(first, said);
}

Test(mutants, a_second_run_asks_only_for_what_was_not_found_and_only_if_tests_have_changed) {
  (void)mutants("");
  cr_assert_eq(say("cp build/mutants/verdicts before"), 0);
  (void)mutants("");
  cr_expect_eq(say("cmp before build/mutants/verdicts"), 0, "%s", said);
  cr_assert_eq(say("sed -i 's/is_small(20)/is_small(10)/' tests/check.c"), 0);
  (void)mutants("");
  cr_expect_null(strstr(said, "<= 10"), "%s", said);
  say("tail -n +$(($(wc -l <before) + 1)) build/mutants/verdicts | grep -c '\"found\"'");
  cr_expect_leq(atoi(said), 2, "what was found already was run again");
}

#define EXPLAINED_CLEAR                                                                            \
  "core/part.c: clear\n- *n = 0;\n+ *n = 1;\nnobody reads it\n\n"                                  \
  "core/part.c: clear\n- *n = 0;\n+ ;\nnobody reads it\n\n"

Test(mutants, what_is_explained_is_counted_apart) {
  write_file("explained", EXPLAINED_CLEAR);
  (void)mutants("");
  expect_said(" 2 explained, ");
  cr_expect_null(strstr(said, "not found: core/part.c:8"), "%s", said);
}

Test(mutants, an_explanation_of_a_line_that_is_gone_fails) {
  write_file("explained", EXPLAINED_CLEAR "core/part.c: clear\n- *n = 7;\n+ *n = 8;\nit was so\n");
  cr_expect_eq(mutants("--least 0"), 1);
  expect_said("explained, but not there any more:\ncore/part.c: clear\n*n = 7;\n");
}

Test(mutants, an_explanation_of_what_a_test_finds_fails) {
  write_file("explained", "core/part.c: is_small\n- return true;\n+ return false;\nit is not\n");
  cr_expect_eq(mutants("--least 0"), 1);
  expect_said("explained, but found by a test:\ncore/part.c: is_small\n");
}

Test(mutants, an_entry_without_a_reason_is_refused) {
  write_file("explained", "core/part.c: clear\n- *n = 0;\n+ *n = 1;\n");
  cr_expect_neq(mutants("--least 0"), 0);
  expect_said("not an entry with a reason");
}

Test(mutants, tests_that_fail_without_a_change_end_it) {
  cr_assert_eq(say("sed -i 's/is_small(9)/is_small(10)/' tests/check.c"), 0);
  cr_expect_neq(mutants(""), 0);
  expect_said("build/check fails without any change");
}
