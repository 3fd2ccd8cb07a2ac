/* tools/lint-layout: that the sources are as docs/architecture.md says, and that it finds what is
 * not. Run from the top of the repository, as `make check` does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tools/say.h"

Test(layout, nobody_calls_upward) {
  const char *build = getenv("JOIN_TEST_BUILD");
  char command[512];
  snprintf(command, sizeof command, "tools/lint-layout --calls '%s' 2>&1",
           build != NULL ? build : "build");
  cr_expect(say(command) == 0, "%s", said);
}

/* A copy of the sources, changed by a shell command, in which that is found. */
static void expect_found(const char *change, const char *found) {
  char command[2560];
  snprintf(command, sizeof command,
           "d=$(mktemp -d); trap 'rm -rf \"$d\"' EXIT; cp -r core hooks interpose docs \"$d\"; "
           "(cd \"$d\" && %s); tools/lint-layout \"$d\" --calls \"$d/build\" 2>&1",
           change);
  cr_expect(say(command) != 0, "nothing is found after: %s", change);
  cr_expect(strstr(said, found) != NULL, "\"%s\" is not in:\n%s", found, said);
}

Test(layout, an_include_upward_is_found) {
  expect_found("echo '#include \"interpose/calls/group.h\"' >>core/unit/unit.c",
               "core/unit may not call interpose/calls");
}

Test(layout, an_include_sideways_is_found) {
  expect_found("echo '#include \"core/place/place.h\"' >>core/unit/unit.h",
               "core/unit may not call core/place");
}

Test(layout, a_static_function_with_a_name_of_one_word_is_found) {
  expect_found(
      "echo 'static int find(int x) { return x; }' >>core/unit/unit.c",
      "core/unit/unit.c: find: a static function's name of one word has the file's before it: "
      "unit_find");
}

/* Lines that are added to files of rooms that may call core/transport, all in one copy, and what is
 * found of each. */
struct added {
  const char *line, *file, *found;
};
static void expect_all_found(const struct added *added, size_t count) {
  char change[2048] = "true";
  for (size_t i = 0; i < count; i++) {
    size_t used = strlen(change);
    snprintf(change + used, sizeof change - used, " && printf '%%s\\n' \"%s\" >>%s", added[i].line,
             added[i].file);
  }
  expect_found(change, added[0].found);
  for (size_t i = 1; i < count; i++)
    cr_expect(strstr(said, added[i].found) != NULL, "\"%s\" is not in:\n%s", added[i].found, said);
}

Test(layout, words_of_a_log_or_a_team_elsewhere_are_found) {
  static const struct added added[] = {
      {"x = team->plane->logs[rank]->state;", "interpose/comm/clock.c",
       ": ->logs: the words of a log or a team are for core/transport"},
      {"x = team->plane->logs[rank]->state;", "core/team/team_past.c",
       "core/team/team_past.c: line "},
      {"static struct plane_log *theirs;", "interpose/comm/activation.c",
       ": plane_log: the words of a log or a team are for core/transport"},
      {"uint64_t head = atomic_load(&team->own->head);", "interpose/comm/call.c",
       ": ->own: the words of a log or a team are for core/transport"},
  };
  expect_all_found(added, sizeof added / sizeof *added);
}

#define INCLUDE(header) "#include \\\"core/transport/" header ".h\\\""
#define NOT_FOR(header, room) "core/transport/" header ".h is not for " room
#define NOT_INCLUDED(header)                                                                       \
  {INCLUDE(header), "interpose/comm/clock.c", NOT_FOR(header, "interpose/comm")}, {                \
    INCLUDE(header), "core/team/team_past.c", NOT_FOR(header, "core/team")                         \
  }

Test(layout, what_a_transport_is_made_of_is_not_included_elsewhere) {
  static const struct added added[] = {NOT_INCLUDED("words"), NOT_INCLUDED("logs_inline"),
                                       NOT_INCLUDED("segment"), NOT_INCLUDED("plane_shm")};
  expect_all_found(added, sizeof added / sizeof *added);
}

/* Where no name tells it: the compiler does. */
Test(layout, a_word_of_a_log_or_a_team_that_those_who_agree_read_is_found) {
  static const struct added added[] = {
      {"uint64_t peek(struct team *team) { return team->own->head; }", "core/team/team_past.c",
       "with the words of logs and teams hidden, as they are for core/transport: "
       "core/team/team_past.c:"},
      {"int peek(const struct plane_log *log) { return log->state == RANK_DONE; }",
       "core/overlap/overlap_quiet.c",
       "with the words of logs and teams hidden, as they are for core/transport: "
       "core/overlap/overlap_quiet.c:"},
  };
  expect_all_found(added, sizeof added / sizeof *added);
}

Test(layout, a_room_that_is_not_in_the_table_is_found) {
  expect_found("mkdir core/new && touch core/new/new.c", "core/new is not in the table");
}

Test(layout, a_file_that_is_too_long_is_found) {
  expect_found("mkdir tests tools && yes '' | head -n 450 >>core/unit/unit.c && "
               "yes '' | head -n 451 >tests/long.py && "
               "(echo '#!/bin/sh'; yes '' | head -n 450) >tools/long",
               "core/unit/unit.c: ");
  cr_expect(strstr(said, "tests/long.py: 451 lines") != NULL, "%s", said);
  cr_expect(strstr(said, "tools/long: 451 lines") != NULL, "%s", said);
}

Test(layout, a_header_that_is_too_short_is_found) {
  expect_found("echo '#pragma once' >hooks/small.h",
               "hooks/small.h: a header of 1 lines, less than 20");
}

Test(layout, a_table_with_a_circle_is_found) {
  expect_found("sed -i 's/^\\(| `core\\/unit` .*| \\)|$/\\1`core\\/team` |/' docs/architecture.md",
               "core/unit may call core/team, which is not above it");
}

Test(layout, calls_upward_and_round_are_found_without_an_include) {
  const char *change =
      "p=core/unit/ping q=core/unit/pong; mkdir -p build/core/unit; "
      "echo 'void pong(void); void ping(void); void ping(void) { pong(); }' >$p.c; "
      "echo 'void ping(void); void pong(void); void team_tell(void *); "
      "void pong(void) { ping(); team_tell(0); }' >$q.c; "
      "echo 'void team_tell(void *team); void team_tell(void *team) { (void)team; }' "
      ">core/team/team_tell.c; mkdir build/core/team; "
      "for f in $p $q core/team/team_tell; do gcc -c -o build/$f.o $f.c; done";
  expect_found(change, "call one another round: core/unit/ping.c core/unit/pong.c");
  cr_expect(strstr(said, "core/unit may not call core/team") != NULL, "%s", said);
}
