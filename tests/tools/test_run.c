/* tests/run: that the end of what it says names all that has failed. In the sandbox, with scripts
 * that say what programs of tests say, and one such program. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/workbench.h"

static char runner[4096];

static void set_out(void) {
  sandbox_make();
  cr_assert_not_null(getcwd(runner, sizeof runner - 16));
  strcat(runner, "/tests/run");
  unsetenv("TEST_FILTER"); /* that of the runner of this program */
}

TestSuite(run, .init = set_out, .fini = sandbox_remove);

/* A program of tests that says this, and ends with a status. */
static void write_program(const char *name, const char *says, int status) {
  char script[8192];
  snprintf(script, sizeof script, "#!/bin/sh\ncat <<'END'\n%s\nEND\nexit %d\n", says, status);
  write_file(name, script);
  cr_assert_eq(run("chmod +x %s", name).status, 0);
}

#define SUM(tested, passing)                                                                       \
  "[====] Synthesis: Tested: " #tested " | Passing: " #passing " | Failing: 1 | Crashing: 1 "

static void expect_said(struct result said, const char *text) {
  cr_expect_not_null(strstr(said.out, text), "\"%s\" is not in:\n%s", text, said.out);
}

static void expect_sum(struct result said, const char *line) {
  const char *last = strrchr(said.out, '\n');
  cr_assert_not_null(last);
  while (last > said.out && last[-1] != '\n')
    last--;
  cr_expect_eq(strcmp(last, line), 0, "the last line is not \"%s\" but \"%s\"", line, last);
}

static void write_programs(void) {
  write_program("good", SUM(4, 4), 0);
  write_program("bad",
                "before\n"
                "[----] part.c:7: Assertion Failed\n"
                "[----]   1 is not 2\n"
                "[FAIL] team::first: (0.01s)\n"
                "==7==ERROR: LeakSanitizer: detected memory leaks\n"
                "[FAIL] team::second: ended with status 23 (0.01s)\n" SUM(5, 3),
                1);
}

Test(run, what_passes_is_summed_up_and_no_more) {
  write_programs();
  struct result said = run("%s ./good ./good", runner);
  cr_expect_eq(said.status, 0);
  expect_sum(said, "8 passed, 0 failed\n");
  cr_expect_null(strstr(said.out, "failed\n=="));
  cr_expect_null(strstr(said.out, "== what failed"), "%s", said.out);
}

Test(run, what_failed_is_said_again_at_the_end) {
  write_programs();
  struct result said = run("%s ./bad ./good", runner);
  cr_expect_eq(said.status, 1);
  expect_sum(said, "7 passed, 2 failed\n");
  expect_said(said, "== what failed\n"
                    "-- ./bad: team::first: (0.01s)\n"
                    "   [----] part.c:7: Assertion Failed\n"
                    "   [----]   1 is not 2\n"
                    "-- ./bad: team::second: ended with status 23 (0.01s)\n"
                    "   ==7==ERROR: LeakSanitizer: detected memory leaks\n"
                    "== again\n");
}

/* What it says below "== again" is run as a shell reads it. */
Test(run, the_command_that_runs_a_test_again_has_its_settings) {
  write_programs();
  write_file("shows", "#!/bin/sh\necho \"$3 $4, $SIZE, $PATTERN, <$GONE>\"\n"
                      "echo '[FAIL] one::two: (0.01s)'\n"
                      "echo '" SUM(1, 0) "'\n"
                                         "exit 1\n");
  cr_assert_eq(run("chmod +x shows; mkdir tests; ln -s %s tests/run", runner).status, 0);
  struct result said =
      run("TEST_FILTER= tests/run --with SIZE=3 GONE=7 TEST_FILTER='*/*' -- ./good --with "
          "'PATTERN=@(a|b) c' GONE= -- ./shows >log; grep -n -A9 '^== again' log");
  expect_said(said, "   SIZE=3 PATTERN='@(a|b) c' TEST_FILTER='one/two' tests/run ./shows\n");
  said = run("sed -n '/^== again/,$p' log | sed -n 2p >command; GONE=1 sh ./command");
  expect_said(said, "--filter one/two, 3, @(a|b) c, <1>\n");
}

Test(run, a_program_that_ends_too_early_is_named_with_its_last_lines) {
  write_program("early", "one\ntwo", 3);
  write_program("late", "something is left\n" SUM(2, 2), 1);
  struct result said = run("%s ./early ./late", runner);
  cr_expect_eq(said.status, 1);
  expect_sum(said, "2 passed, 2 failed\n");
  expect_said(said, "-- ./early ended with status 3 without a summary; its last lines:\n"
                    "   one\n"
                    "   two\n"
                    "-- ./late ended with status 1 although no test failed; its last lines:\n"
                    "   something is left\n");
  expect_said(said, "== again\n"
                    "   TEST_FILTER='*/*' tests/run ./early\n"
                    "   TEST_FILTER='*/*' tests/run ./late\n");
}

/* Without an end of the last line, with bytes that are not text. */
Test(run, a_program_may_say_anything) {
  write_file("odd", "#!/bin/sh\nprintf '\\000\\377\\n" SUM(1, 1) "\\nand more'\n");
  cr_assert_eq(run("chmod +x odd").status, 0);
  struct result said = run("%s ./odd", runner);
  cr_expect_eq(said.status, 0);
  cr_expect_geq(said.out_size, 4);
  static const char end[] = "\n1 passed, 0 failed\n";
  cr_expect_eq(memcmp(said.out + said.out_size - strlen(end), end, strlen(end)), 0);
}

Test(run, tests_that_say_much_leave_room_for_the_others) {
  char *text = NULL;
  size_t size;
  FILE *says = open_memstream(&text, &size);
  cr_assert_not_null(says);
  for (int test = 0; test < 3; test++) {
    for (int line = 0; line < 50; line++)
      fprintf(says, "[----] %d\n", line);
    fprintf(says, "[FAIL] much::number_%d: (0.01s)\n", test);
  }
  fputs(SUM(3, 0), says);
  fclose(says);
  write_program("much", text, 1);
  struct result said = run("%s ./much | tail -n 60", runner);
  for (int test = 0; test < 3; test++) {
    char line[64];
    snprintf(line, sizeof line, "TEST_FILTER='much/number_%d' tests/run ./much\n", test);
    expect_said(said, line);
  }
  cr_expect_eq(count(said.out, "   ... and 30 lines more\n"), 3, "%s", said.out);
}

/* The words of the runner itself. */
Test(run, the_words_are_those_of_the_runner) {
  write_file("part.c", "#include <criterion/criterion.h>\n"
                       "#include <signal.h>\n"
                       "Test(words, good) {}\n"
                       "Test(words, wrong) { cr_assert(1 == 2, \"one is not two\"); }\n"
                       "Test(words, crashed) { raise(SIGSEGV); }\n"
                       "Test(words, late, .timeout = 0.2) { for (;;) pause(); }\n");
  char top[4096];
  cr_assert_not_null(getcwd(top, sizeof top));
  struct result built =
      run("gcc -D_GNU_SOURCE -I%s -include unistd.h -o part part.c %s/tests/runner.c", top, top);
  cr_assert_eq(built.status, 0, "%s", built.err);
  struct result said = run("env -i PATH=\"$PATH\" TEST_JOBS=1 %s ./part", runner);
  expect_sum(said, "1 passed, 3 failed\n");
  expect_said(said, "one is not two\n");
  static const char *const tests[] = {"wrong", "crashed", "late"};
  for (int i = 0; i < 3; i++) {
    char line[64];
    snprintf(line, sizeof line, "TEST_FILTER='words/%s' tests/run ./part\n", tests[i]);
    expect_said(said, line);
  }
}

/* What may take long is not left for the end, where nothing else runs beside it. */
Test(run, those_with_a_limit_begin_first) {
  write_file("part.c", "#include <criterion/criterion.h>\n"
                       "Test(a, first_by_name) {}\n"
                       "Test(b, one_minute, .timeout = 60) {}\n"
                       "TestSuite(c, .timeout = 600);\n"
                       "Test(c, ten_minutes) {}\n");
  char top[4096];
  cr_assert_not_null(getcwd(top, sizeof top));
  struct result built = run("gcc -D_GNU_SOURCE -I%s -o part part.c %s/tests/runner.c", top, top);
  cr_assert_eq(built.status, 0, "%s", built.err);
  expect_said(run("./part --verbose | grep RUN"),
              "[RUN ] c::ten_minutes\n[RUN ] b::one_minute\n[RUN ] a::first_by_name\n");
}

/* Those of make check with sanitizers (tests/join/choose.py). */
Test(run, chosen_tests_are_there) {
  const char *build = getenv("JOIN_TEST_BUILD");
  char top[4096];
  snprintf(top, sizeof top, "%.*s", (int)(strlen(runner) - strlen("/tests/run")), runner);
  struct result listed = run("cd %s && %s/check/join --list >$OLDPWD/there", top,
                             build == NULL || *build == '\0' ? "build" : build);
  cr_assert_eq(listed.status, 0, "make build/check/join: %s", listed.err);
  struct result missing =
      run("LC_ALL=C; export LC_ALL; sort there | comm -13 - %s/tests/join/sanitized", top);
  cr_expect(missing.status == 0 && missing.out[0] == '\0',
            "make choose-sanitized: no tests, but in tests/join/sanitized: %s%s", missing.out,
            missing.err);
}
