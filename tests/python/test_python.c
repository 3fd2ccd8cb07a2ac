/* The scripts of this folder, run by every Python of the machine (tests/python/interpreters). */
#include <criterion/criterion.h>

#include "interpose/places/python/python_layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT_SIZE = 1 << 16 };

/* Runs a command of the shell and returns its status; what it prints is in `output`, cut. */
static int run(char *output, const char *format, const char *python, const char *rest) {
  char command[16384];
  snprintf(command, sizeof(command), format, python, rest);
  FILE *pipe = popen(command, "r");
  cr_assert_not_null(pipe);
  size_t size = fread(output, 1, OUTPUT_SIZE - 1, pipe);
  output[size] = '\0';
  char more[4096];
  while (fread(more, 1, sizeof(more), pipe) > 0)
    continue;
  return pclose(pipe);
}

static const char *built(const char *file) {
  static char path[4096];
  const char *build = getenv("JOIN_TEST_BUILD");
  snprintf(path, sizeof(path), "%s/python/%s", build != NULL ? build : "build", file);
  return path;
}

static const char *library(void) {
  return built("libprobe.so");
}

/* The interpreters, each a line, and for each what it says of itself: version, and whether it is an
 * ordinary build. */
enum { PYTHONS_MAX = 64 };
static struct python {
  char path[1024];
  unsigned minor;
  bool is_ordinary;
} pythons[PYTHONS_MAX];
static unsigned npythons;

static void find_pythons(void) {
  FILE *pipe = popen("tests/python/interpreters", "r");
  char path[1024], said[OUTPUT_SIZE];
  while (npythons < PYTHONS_MAX && fgets(path, sizeof(path), pipe) != NULL) {
    path[strcspn(path, "\n")] = '\0';
    struct python *python = &pythons[npythons];
    snprintf(python->path, sizeof(python->path), "%s", path);
    run(said,
        "%s -c 'import sys, sysconfig; print(sys.version_info[1], sys.version_info[3] == \"final\" "
        "and not sysconfig.get_config_var(\"Py_DEBUG\") and not "
        "sysconfig.get_config_var(\"Py_GIL_DISABLED\"))'%s",
        path, "");
    python->is_ordinary = strstr(said, "True") != NULL;
    npythons += sscanf(said, "%u", &python->minor) == 1;
  }
  pclose(pipe);
}

static bool is_known(const struct python *python) {
  return python->is_ordinary && python->minor >= 9 && python->minor <= 14;
}

static void run_script(const char *script) {
  find_pythons();
  unsigned seen = 0;
  for (unsigned i = 0; i < npythons; i++) {
    char output[OUTPUT_SIZE], rest[5000];
    if (!is_known(&pythons[i]))
      continue;
    seen |= 1u << pythons[i].minor;
    snprintf(rest, sizeof(rest), "tests/python/scripts/%s", script);
    char *arguments = strchr(rest, ' ');
    char where[10000];
    if (arguments != NULL)
      *arguments++ = '\0';
    snprintf(where, sizeof(where), "%s %s %s 2>&1", rest, library(),
             arguments != NULL ? arguments : "");
    int status = run(output, "%s -W ignore %s", pythons[i].path, where);
    cr_expect_eq(status, 0, "%s %s:\n%s", pythons[i].path, script, output);
  }
  for (unsigned minor = 9; minor <= 14; minor++)
    if ((seen & 1u << minor) == 0)
      fprintf(stderr, "   no Python 3.%u here: %s left out\n", minor, script);
}

Test(python, calls_in_all_shapes_of_code_stand_in_their_loops, .timeout = 300) {
  run_script("shapes.py");
}

Test(python, what_a_generator_does_behind_its_last_yield_ends_loops, .timeout = 300) {
  run_script("generators.py");
}

Test(python, conditions_are_decided_and_known_to_change_as_variables_tell, .timeout = 300) {
  run_script("conditions.py");
}

Test(python, functions_of_the_library_that_calls_come_to_the_call, .timeout = 300) {
  run_script("libraries.py");
}

Test(python, ids_are_equal_at_the_same_place_only, .timeout = 600) {
  run_script("ids.py");
}

Test(python, loops_say_in_which_round_a_call_is, .timeout = 300) {
  run_script("rounds.py");
}

Test(python, so_do_those_of_a_thread_as_long_as_it_alone_makes_the_calls, .timeout = 300) {
  run_script("one_thread.py");
}

Test(python, texts_name_files_and_lines_as_python_does, .timeout = 300) {
  run_script("texts.py");
}

Test(python, a_thread_without_frames_is_where_the_one_that_waits_is, .timeout = 300) {
  run_script("waiting.py");
}

Test(python, an_exception_is_under_way_from_where_it_is_raised_to_where_it_has_been_handled,
     .timeout = 300) {
  run_script("exceptions.py");
}

/* RANDOM_FUNCTIONS: how many, for each version. */
Test(python, random_functions_are_seen_as_their_source_says, .timeout = 3000) {
  char script[200];
  const char *n = getenv("RANDOM_FUNCTIONS");
  snprintf(script, sizeof(script), "random_functions.py %s 1", n != NULL ? n : "20");
  run_script(script);
}

Test(python, the_table_of_opcodes_is_what_each_version_says, .timeout = 300) {
  find_pythons();
  char table[OUTPUT_SIZE] = "", row[OUTPUT_SIZE];
  FILE *file = fopen("interpose/places/python/python_opcodes.inc", "r");
  cr_assert_not_null(file);
  table[fread(table, 1, sizeof(table) - 1, file)] = '\0';
  fclose(file);
  for (unsigned i = 0; i < npythons; i++)
    if (is_known(&pythons[i])) {
      cr_expect_eq(run(row, "%s tests/python/opcodes.py%s", pythons[i].path, ""), 0);
      cr_expect(row[0] == '[' && strstr(table, row) != NULL, "%s says\n%s", pythons[i].path, row);
    }
}

/* Versions that are not known, debug and free-threaded builds, as far as the machine has them. */
Test(python, other_pythons_are_left_alone, .timeout = 300) {
  find_pythons();
  for (unsigned i = 0; i < npythons; i++) {
    char output[OUTPUT_SIZE];
    if (is_known(&pythons[i]))
      continue;
    run(output,
        "%s -c 'import ctypes; p = ctypes.CDLL(\"%s\"); p.probe_is_present.restype = "
        "ctypes.c_bool; "
        "print(p.probe_is_present(), p.probe_id(), p.probe_nodes((ctypes.c_uint32 * 128)(), 16))'",
        pythons[i].path, library());
    cr_expect_str_eq(output, "False 0 0\n", "%s: %s", pythons[i].path, output);
  }
}

/* What the interpreter itself does, its loops among it, is no place of the program. */
Test(python, what_runs_in_a_python_that_is_not_read_has_no_place, .timeout = 300) {
  find_pythons();
  for (unsigned i = 0; i < npythons; i++) {
    char output[OUTPUT_SIZE];
    run(output,
        "%s -c 'import ctypes; p = ctypes.CDLL(\"%s\"); p.stand.restype = ctypes.c_uint64; "
        "print([p.stand() & 0xffffffff != 0 for _ in range(3)])'",
        pythons[i].path, built("libstanding.so"));
    const char *expected =
        is_known(&pythons[i]) ? "[True, True, True]\n" : "[False, False, False]\n";
    cr_expect_str_eq(output, expected, "%s: %s", pythons[i].path, output);
  }
}

/* A C program that opens libpython, as far as the interpreter was built with one. */
Test(python, programs_that_call_python_are_seen_on_both_sides, .timeout = 600) {
  find_pythons();
  for (unsigned i = 0; i < npythons; i++) {
    char output[OUTPUT_SIZE], rest[10000];
    snprintf(
        rest, sizeof(rest),
        "-c 'import sys, sysconfig as s; print(\"PYTHONHOME=%%s %%s %%s/%%s\" %% (sys.base_prefix, "
        "\"%s\", s.get_config_var(\"LIBDIR\"), s.get_config_var(\"INSTSONAME\")))'",
        built("embed"));
    run(output, "%s %s", pythons[i].path, rest);
    output[strcspn(output, "\n")] = '\0';
    const char *file = strrchr(output, ' ');
    if (file == NULL || access(file + 1, R_OK) != 0)
      continue;
    for (int global = 0; global < 2; global++) {
      char said[OUTPUT_SIZE];
      snprintf(rest, sizeof(rest), "%s %s 2>&1", global ? "global" : "local",
               is_known(&pythons[i]) ? "readable" : "unreadable");
      int status = run(said, "%s %s", output, rest);
      cr_expect_eq(status, 0, "%s %s:\n%s", output, rest, said);
    }
  }
}

/* ---- versions, without an interpreter ---- */

/* What 3.13.0 says of itself. */
static void say(uint64_t *words) {
  static const uint64_t said[] = {
      0,    0x30d00f0, 0,    283320, 608, 632, 194968, 7272, 7264, 7344, 7400, 7656, 7640, 7648, 16,
      7752, 0,         7768, 7760,   304, 0,   8,      16,   72,   152,  160,  232,  32,   80,   8,
      0,    56,        72,   70,     208, 112, 120,    128,  136,  68,   52,   96,   104,  200,  16,
      8,    416,       24,   88,     168, 32,  24,     16,   40,   24,   16,   48,   32,   40,   24,
      16,   32,        16,   24,     40,  16,  32,     64,   32,   16,   40,   240,  200};
  memset(words, 0, 96 * sizeof(*words));
  memcpy(words, said, sizeof(said));
  memcpy(words, "xdebugpy", 8);
}

Test(python, only_releases_of_known_versions_are_read) {
  struct python_layout layout;
  uint64_t words[96];
  say(words);
  cr_expect(python_layout_of(&layout, "3.9.18 (main, Jan 1 2024) [GCC 12]", NULL));
  cr_expect(python_layout_of(&layout, "3.12.1+ (heads/3.12, Jan 1 2024) [GCC 12]", NULL));
  cr_expect(python_layout_of(&layout, "3.13.0 (main, Jan 1 2024) [GCC 12]", words));
  cr_expect(layout.is_as_listed);
  static const char *const others[] = {"3.8.18 (main) [GCC 12]",
                                       "3.15.0 (main) [GCC 16]",
                                       "2.7.18 (main) [GCC 12]",
                                       "3.12.0rc1 (main) [GCC 12]",
                                       "3.13.0a3 (main) [GCC 12]",
                                       "3.13.0 experimental free-threading build (main) [GCC 12]",
                                       "3.14.0 free-threading build (main) [GCC 12]",
                                       "3.9.18 (abc, Jan 1 2024)\n[PyPy 7.3.15 with GCC 10]",
                                       "3.11.7 (Jan 1 2024)\n[Graal, GraalVM CE]",
                                       "3",
                                       "",
                                       "3.",
                                       "garbage"};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
    cr_expect_not(python_layout_of(&layout, others[i], words), "%s", others[i]);
}

Test(python, debug_offsets_that_cannot_be_are_not_believed) {
  struct python_layout layout;
  uint64_t words[96];
  const char *version = "3.13.0 (main, Jan 1 2024) [GCC 12]";
  cr_expect_not(python_layout_of(&layout, version, NULL));
  static const struct {
    unsigned word;
    uint64_t value;
  } wrong[] = {{0, 1},     {1, 0x30d01f0}, {2, 1},    {23, 70000}, {23, 73},
               {29, 4096}, {33, 200},      {35, 116}, {43, 208},   {51, 32}};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    say(words);
    words[wrong[i].word] = wrong[i].value;
    cr_expect_not(python_layout_of(&layout, version, words), "word %u", wrong[i].word);
  }
  say(words);
  words[23] = 80; /* another thread state is taken as it is said */
  cr_expect(python_layout_of(&layout, version, words));
  cr_expect(layout.at.state_frame == 80 && !layout.is_as_listed);
}
