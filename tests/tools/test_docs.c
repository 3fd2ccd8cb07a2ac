/* tools/lint-docs: that what the pages name exists, and that it finds what does not. Run from the
 * top of the repository, as `make check` does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/say.h"

Test(docs, what_pages_and_comments_name_exists) {
  cr_expect(say("tools/lint-docs 2>&1") == 0, "%s", said);
}

/* In a folder with one page, one source and one makefile, to one of which a line is added. */
static int lint_with(const char *line, const char *file) {
  char command[1024];
  snprintf(command, sizeof command,
           "d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; mkdir -p \"$d/core/unit\" \"$d/docs\"; "
           "echo '## The rules' >\"$d/docs/page.md\"; echo 'check: all' >\"$d/Makefile\"; "
           "echo '/* NCCL_JOIN_TRACE */' >\"$d/core/unit/unit.c\"; "
           "echo '%s' >>\"$d/%s\"; tools/lint-docs \"$d\" 2>&1",
           line, file);
  return say(command);
}

static void expect_found(const char *line, const char *file, const char *found) {
  cr_expect(lint_with(line, file) != 0, "nothing is found after: %s", line);
  cr_expect(strstr(said, found) != NULL, "\"%s\" is not in:\n%s", found, said);
}

Test(docs, what_exists_is_accepted) {
  cr_expect(lint_with("[rules](#the-rules) [unit](../core/unit/unit.c) `core/unit/unit.c:name` "
                      "`core/*/unit.c` `make check` `make V=1` `NCCL_JOIN_TRACE=x` "
                      "<https://example.com/core/none.c>",
                      "docs/page.md") == 0,
            "%s", said);
}

Test(docs, a_link_to_nothing_is_found) {
  expect_found("[unit](../core/unit/none.c)", "docs/page.md", "no such file: ../core/unit/none.c");
}

Test(docs, a_link_to_a_heading_that_is_not_there_is_found) {
  expect_found("[rules](page.md#other-rules)", "docs/page.md", "no such heading");
}

Test(docs, a_path_in_backquotes_that_is_not_there_is_found) {
  expect_found("see `core/unit/none.h:name`", "docs/page.md", "no such file: core/unit/none.h");
}

Test(docs, a_path_in_a_comment_that_is_not_there_is_found) {
  expect_found("/* as core/team/none.h says. */", "core/unit/unit.c",
               "no such file: core/team/none.h");
}

Test(docs, a_page_in_a_message_that_is_not_there_is_found) {
  expect_found("log(\"docs/none.md says why\");", "core/unit/unit.c", "no such file: docs/none.md");
}

Test(docs, a_target_that_is_not_there_is_found) {
  expect_found("run `make cheque`", "docs/page.md", "no such target: make cheque");
}

Test(docs, a_setting_that_is_not_there_is_found) {
  expect_found("set `NCCL_JOIN_TRACES`", "docs/page.md", "no such setting: NCCL_JOIN_TRACES");
}
