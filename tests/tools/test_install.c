/* What is installed: help, manual pages, completion, where things are; and that it goes away again.
 */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/workbench.h"

TestSuite(install, .init = sandbox_make, .fini = sandbox_remove, .timeout = 300);

#define expect_in(text, part) cr_expect(strstr(text, part), "no '%s' in: %s", part, text)

/* A target of the repository, installed into the sandbox. */
static struct result make(const char *target) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  return run("folder=$PWD; cd %s && make -s %s PREFIX=\"$folder/prefix\"", here, target);
}

Test(install, everything_is_there_and_goes_away_again) {
  struct result result = make("install");
  cr_assert_eq(result.status, 0, "%s%s", result.out, result.err);
  static const char *const files[] = {"bin/nccl-join",
                                      "bin/nccl-join-timeline",
                                      "lib/nccl-join/libnccl-join.so",
                                      "lib/nccl-join/nccl-join-doctor",
                                      "lib/nccl-join/nccl-join-report",
                                      "lib/nccl-join/nccl-join-imports/__main__.py",
                                      "include/nccl_join.h",
                                      "share/man/man1/nccl-join.1",
                                      "share/man/man7/libnccl-join.7",
                                      "share/doc/nccl-join/LICENSE",
                                      "share/doc/nccl-join/README.md",
                                      "share/doc/nccl-join/docs/usage.md",
                                      "share/bash-completion/completions/nccl-join"};
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
    cr_expect_eq(run("test -s prefix/%s", files[i]).status, 0, "%s", files[i]);
  result = run("prefix/bin/nccl-join doctor");
  expect_in(result.out, "/prefix/lib/nccl-join/libnccl-join.so\n");
  expect_in(result.out, "ok     preload       a child process has it in front\n");
  result = run("prefix/bin/nccl-join config --preload --include");
  expect_in(result.out, "/prefix/lib/nccl-join/libnccl-join.so\n");
  expect_in(result.out, "/prefix/include\n");
  result = run("echo '#include <nccl_join.h>' | gcc -E -I $(prefix/bin/nccl-join config --include) "
               "-I /usr/local/cuda/include - 2>&1 | grep -c 'nccl_join.h: No such'");
  cr_expect_str_eq(result.out, "0\n");
  result = run("prefix/bin/nccl-join timeline");
  expect_in(result.err, "usage: nccl-join timeline FOLDER");
  expect_in(run("prefix/bin/nccl-join check prefix/bin/nccl-join-timeline").out,
            "no: it makes no NCCL calls");
  run("touch prefix/bin/other");
  result = make("uninstall");
  cr_expect_eq(result.status, 0, "%s", result.err);
  cr_expect_str_eq(run("find prefix").out, "prefix\nprefix/bin\nprefix/bin/other\n");
  run("rm prefix/bin/other");
  make("install");
  make("uninstall");
  cr_expect_str_eq(run("find prefix").out, "prefix\n");
}

Test(install, takes_no_folder_that_nothing_could_be_loaded_from) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  static const char *const prefixes[] = {"/a b", "/a:b", "/a'b", "/a\\\"b", "relative"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    struct result result =
        run("mkdir -p to; to=$PWD/to; cd %s && make -s install DESTDIR=$to PREFIX=\"%s\"", here,
            prefixes[i]);
    cr_expect_neq(result.status, 0, "%s", prefixes[i]);
    expect_in(result.err, "make install: ");
    cr_expect_str_empty(run("find to -mindepth 1").out);
  }
}

Test(install, all_may_read_what_is_installed) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  struct result result =
      run("folder=$PWD; umask 077; cd %s && make -s install PREFIX=\"$folder/prefix\"", here);
  cr_assert_eq(result.status, 0, "%s", result.err);
  cr_expect_str_empty(run("find prefix -type f ! -perm -444").out);
  make("uninstall");
}

/* In a copy without .deps, where a tools/deps would be noticed. */
/* Sources are not installed, so nothing links to them. */
Test(install, the_pages_have_no_dead_links) {
  make("install");
  write_file(
      "links",
      "cd prefix/share/doc/nccl-join && for page in README.md docs/*.md docs/examples/*.md; do\n"
      "  grep -zoE '\\]\\([^)[:space:]]+\\)' \"$page\" | tr '\\0' '\\n' |\n"
      "    sed -e 's/^](//' -e 's/)$//' -e 's/#.*//' | while read -r target; do\n"
      "    case $target in '' | http*) continue ;; esac\n"
      "    echo link >&2\n"
      "    (cd \"$(dirname \"$page\")\" && test -e \"$target\") || echo \"$page: $target\"\n"
      "  done\n"
      "done\n");
  struct result result = run("sh links");
  cr_expect_str_empty(result.out);
  cr_expect_gt(count(result.err, "link\n"), 50);
}

Test(install, help_installs_and_downloads_nothing) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  struct result result =
      run("mkdir copy && cd %s && git ls-files -co --exclude-standard | grep -E "
          "'(^|/)(Makefile|[a-z]+[.]mk)$' | tar cf - -T - | tar xf - -C %s/copy; cd "
          "%s/copy && printf '#!/bin/sh\\ntouch asked\\nexit 1\\n' >tools/deps "
          "&& chmod +x tools/deps && make help "
          "&& make clean && make uninstall PREFIX=$PWD/none && test ! -e asked "
          "&& ! make product 2>/dev/null && test -e asked",
          here, sandbox(), sandbox());
  cr_expect_eq(result.status, 0, "%s%s", result.out, result.err);
  expect_in(result.out, "\nmake install           to PREFIX=");
}

Test(install, a_plain_make_ends_with_what_it_has_built_and_what_to_do_next) {
  struct result result = make("all");
  cr_expect_eq(result.status, 0, "%s%s", result.out, result.err);
  expect_in(result.out, "built: build/lib/libnccl-join.so, ");
  expect_in(result.out, "\nnext:  make demo, make check; make install PREFIX=");
  result = make("product loopback");
  cr_expect_str_empty(result.out, "%s", result.out);
}

/* What a target does stands in one column. */
Test(install, help_of_make_fits_80_columns) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  struct result result = run(
      "make -C %s --no-print-directory help | awk 'length > 80 || substr($0, 23, 1) != \" \" && "
      "length > 22'; make -C %s --no-print-directory help | wc -l",
      here, here);
  cr_expect(strchr(result.out, '\n') == result.out + result.out_size - 1, "%s", result.out);
}

/* ---- help, manual pages, completion: each command, option and setting is in all of them ---- */

static const char *const words[] = {"run",    "check",      "doctor",    "env",
                                    "config", "report",     "timeline",  "--output",
                                    "--text", "--loopback", "--no-join", "--no-prefix",
                                    "--json", "--preload",  "--include", "-n"};

Test(install, help_manual_and_completion_name_every_command_and_option) {
  static char help[OUTPUT_MAX], manual[OUTPUT_MAX], completion[OUTPUT_MAX];
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  snprintf(help, sizeof help, "%s", run("nccl-join --help").out);
  snprintf(manual, sizeof manual, "%s",
           run("%s/tools/man/make %s %s/man && sed 's/\\\\-/-/g' man/nccl-join.1", here, sandbox(),
               sandbox())
               .out);
  snprintf(completion, sizeof completion, "%s", run("cat %s/tools/completion.bash", here).out);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    expect_in(help, words[i]);
    expect_in(manual, words[i]);
    expect_in(completion, words[i]);
  }
  /* And none that there is not. */
  struct result result =
      run("nccl-join --help | grep -oE '(^|[ [])--?[a-z][a-z-]*' | tr -d ' [' | sort -u");
  for (char *word = strtok((char *)result.out, "\n"); word != NULL; word = strtok(NULL, "\n"))
    cr_expect(strstr(completion, word) != NULL || strcmp(word, "-I") == 0, "%s", word);
}

Test(install, help_and_manual_name_every_setting) {
  static char names[OUTPUT_MAX], help[OUTPUT_MAX];
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  snprintf(names, sizeof names, "%s",
           run("nccl-join env | sed -n 's/^\\(NCCL_JOIN[A-Z_]*\\) .*/\\1/p'").out);
  snprintf(help, sizeof help, "%s", run("nccl-join --help").out);
  cr_expect_geq(count(names, "\n"), 16);
  struct result result = run("cd %s && tools/man/make %s %s/man && cat %s/man/*", here, sandbox(),
                             sandbox(), sandbox());
  cr_assert_eq(result.status, 0, "%s", result.err);
  for (char *name = strtok(names, "\n"); name != NULL; name = strtok(NULL, "\n")) {
    char item[80];
    expect_in(help, name);
    snprintf(item, sizeof item, "\n.B %s\n", name);
    cr_expect_eq(count(result.out, item), 2, "%s", name);
  }
}

Test(install, help_fits_80_columns) {
  struct result result = run("nccl-join --help | awk 'length > 80'");
  cr_expect_str_empty(result.out);
}

static void make_manual_pages(void) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  struct result result = run("cd %s && tools/man/make %s %s/man", here, sandbox(), sandbox());
  cr_assert_eq(result.status, 0, "%s", result.err);
}

Test(install, manual_pages_are_in_ascii) {
  make_manual_pages();
  struct result result = run("LC_ALL=C grep -n '[^ -~]' man/*");
  cr_expect_str_empty(result.out, "groff takes this for Latin-1 (tools/man/make: plain):\n%s",
                      result.out);
}

Test(install, manual_pages_are_well_formed_and_have_the_tables_of_the_pages) {
  make_manual_pages();
  if (run("command -v groff && command -v col").status != 0)
    cr_skip("no groff, or no col");
  struct result result =
      run("cd man && for page in *; do groff -man -Tutf8 -ww -P-c $page | col -bx; done");
  cr_expect_str_empty(result.err);
  expect_in(result.out, "AllReduce, Reduce, ReduceScatter with sum or PreMulSum");
  expect_in(result.out, "exactly the reduction over the active ranks");
  expect_in(result.out, "Sends and receives");
  cr_expect_null(strstr(result.out, "]("));
  cr_expect_null(strchr(result.out, '`'));
}

/* What bash offers behind a line. */
static struct result complete(const char *line) {
  char here[PATH_MAX];
  cr_assert_not_null(getcwd(here, sizeof here));
  return run(
      "bash --norc -c 'source %s/tools/completion.bash; COMP_WORDS=(%s); "
      "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _nccl_join; printf \"%%s\\n\" \"${COMPREPLY[@]}\"'",
      here, line);
}

Test(install, bash_completes_commands_options_and_programs) {
  cr_expect_str_eq(complete("nccl-join do").out, "doctor\n");
  cr_expect_str_eq(complete("nccl-join run --l").out, "--loopback\n");
  cr_expect_str_eq(complete("nccl-join run -n 2 --no-p").out, "--no-prefix\n");
  cr_expect_str_eq(complete("nccl-join check --j").out, "--json\n");
  cr_expect_str_eq(complete("nccl-join config --i").out, "--include\n");
  cr_expect_str_eq(complete("nccl-join timeline loo").out, "loopback\n");
  expect_in(complete("nccl-join run -n 2 grep too").out, "tools\n");
  cr_expect_null(strstr(complete("nccl-join run -n 2 grep --l").out, "--loopback"));
}

Test(install, config_says_where_things_are) {
  struct result result = run("nccl-join config --preload");
  char expected[PATH_MAX];
  snprintf(expected, sizeof expected, "%s/lib/libnccl-join.so\n", sandbox());
  cr_expect_str_eq(result.out, expected);
  result = run("nccl-join config --loopback");
  snprintf(expected, sizeof expected, "%s/loopback\n", sandbox());
  cr_expect_str_eq(result.out, expected);
  result = run("nccl-join config --what");
  cr_expect_eq(result.status, 2);
  expect_in(result.err, "config knows --preload, --include and --loopback, not --what");
  cr_expect_eq(run("nccl-join config --include").status, 1); /* the sandbox has none */
}

/* They are no part of the sandbox, as the other programs are. */
Test(install, the_report_is_bold_where_that_is_wanted) {
  const char *folder = getenv("JOIN_TEST_BUILD");
  char here[PATH_MAX], report[PATH_MAX + 64];
  cr_assert_not_null(getcwd(here, sizeof here));
  snprintf(report, sizeof report, "%s/%s/tools/nccl-join-report --text traces", here,
           folder != NULL ? folder : "build");
  run("mkdir traces; printf '{\"version\":1,\"team\":\"t\",\"rank\":0}\\n"
      "{\"t_ns\":1,\"event\":\"commit\",\"index\":0}\\n' >traces/a.jsonl");
  expect_in(run("%s", report).out, "\nCommunicator t: 1 rank,");
  cr_expect_null(strstr(run("%s", report).out, "\033["));
  expect_in(run("TERM=xterm script -qec '%s' log >/dev/null; cat log", report).out, "\033[1m");
  static const char *const without[] = {"NO_COLOR=1 TERM=xterm", "TERM=dumb"};
  for (size_t i = 0; i < 2; i++)
    cr_expect_null(strstr(
        run("%s script -qec '%s' log >/dev/null; cat log", without[i], report).out, "\033["));
}

Test(install, an_unknown_option_is_told_in_the_words_of_the_command_line) {
  expect_in(run("nccl-join timeline --bogus").err,
            "nccl-join: timeline has no option --bogus\nusage: nccl-join timeline FOLDER");
  expect_in(run("nccl-join report --bogus .").err,
            "nccl-join: report: unrecognized option '--bogus'\nusage: nccl-join report ");
  expect_in(run("nccl-join status --bogus").err,
            "nccl-join: status: unrecognized option '--bogus'\nusage: nccl-join status ");
  expect_in(run("nccl-join report --output").err, "nccl-join: report: option '--output' requires");
}

/* On a full disk. */
Test(install, what_cannot_be_written_is_a_failure) {
  static const char *const commands[] = {"--help",
                                         "--version",
                                         "run --help",
                                         "env",
                                         "doctor",
                                         "config --preload",
                                         "status",
                                         "status --json",
                                         "report --help",
                                         "timeline --help",
                                         "timeline traces",
                                         "report --text traces",
                                         "report --json traces"};
  run("mkdir traces");
  write_file("traces/rank-0.here.1.jsonl",
             "{\"format\":\"nccl-join-trace\",\"version\":1,\"rank\":0,\"team\":\"aa\"}\n"
             "{\"t_ns\":900,\"event\":\"commit\",\"index\":0}\n");
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
    struct result result = run("nccl-join %s >/dev/full", commands[i]);
    cr_expect_eq(result.status, 1, "%s", commands[i]);
    cr_expect_str_not_empty(result.err, "%s", commands[i]);
  }
  cr_expect_eq(run("nccl-join report --json traces").status, 0);
}

Test(install, the_timeline_says_what_it_cannot_read_and_has_colours_where_they_are_wanted) {
  const char *folder = getenv("JOIN_TEST_BUILD");
  char here[PATH_MAX], timeline[PATH_MAX + 64];
  cr_assert_not_null(getcwd(here, sizeof here));
  snprintf(timeline, sizeof timeline, "%s/%s/tools/nccl-join-timeline traces", here,
           folder != NULL ? folder : "build");
  run("mkdir traces; printf '{\"version\":1,\"team\":\"t\",\"rank\":0}\\n"
      "{\"event\":\"commit\",\"index\":0}\\n{\"event\":\"done\"}\\n' >traces/a.jsonl");
  expect_in(run("%s", timeline).out, "rank 0");
  expect_in(run("%s/none", timeline).err,
            "cannot read the folder traces/none: No such file or directory");
  expect_in(run("%s/a.jsonl", timeline).err, "a.jsonl: Not a directory");
  expect_in(run("mkdir traces/none; %s/none", timeline).err, "no traces in traces/none");
  cr_expect_null(strstr(run("%s", timeline).out, "\033["));
  expect_in(run("TERM=xterm script -qec '%s' log >/dev/null; cat log", timeline).out, "\033[32m");
  cr_expect_null(
      strstr(run("NO_COLOR=1 TERM=xterm script -qec '%s' log >/dev/null; cat log", timeline).out,
             "\033["));
  cr_expect_null(
      strstr(run("TERM=dumb script -qec '%s' log >/dev/null; cat log", timeline).out, "\033["));
}
