/* The module nccl_join of Python, as pip installs it, with the communicator of a real run. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/join/folder.h"
#include "tests/join/run.h"

static char folder[] = "/tmp/nccl-join-words-XXXXXX";

/* What there is of the wheel then: the module, what it knows of itself, and the program. */
static void install(void) {
  char command[2 * PATH_MAX];
  folder_make(folder);
  snprintf(command, sizeof command,
           "ln -s \"$(readlink -f tools/package/nccl_join)\" %s/ && cd %s && mkdir bin "
           "nccl_join-1.dist-info && printf 'Metadata-Version: 2.1\\nName: nccl-join\\nVersion: "
           "1\\n' >nccl_join-1.dist-info/METADATA && echo bin/nccl-join,, "
           ">nccl_join-1.dist-info/RECORD && ln -s \"$(cd - >/dev/null && readlink -f "
           "%s/tools/nccl-join)\" bin/nccl-join",
           folder, folder, run_build_folder());
  cr_assert_eq(system(command), 0, "%s", command); /* NOLINT(cert-env33-c) */
}

static void begin(void) {
  run_needs_python();
  install();
}

static void end(void) {
  folder_remove(folder);
}

TestSuite(words, .init = begin, .fini = end, .timeout = 300);

static struct run *run_script(const char *options, const char *iterations) {
  char arguments[256], path[256];
  snprintf(path, sizeof path, "%s:tests/clients", folder);
  setenv("PYTHONPATH", path, 1);
  setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
  snprintf(arguments, sizeof arguments,
           "run --loopback --no-prefix -n 3 %s python3 tests/join/python/words.py %s", options,
           iterations);
  return run_tool("tools/nccl-join", arguments);
}

static void expect_line(const struct run *run, const char *line) {
  char whole[160];
  snprintf(whole, sizeof whole, "RESULT %s\n", line);
  cr_expect(strstr(run->output, whole) != NULL, "no '%s' in:\n%s%s", line, run->output,
            run->errors);
}

/* Rank r adds 2^r, and in odd elements the number of its iteration: with an epoch's ranks of the
 * next one, neither would be right. */
Test(words, end_and_begin_loops_that_nothing_else_tells_apart) {
  struct run *run = run_script("", "3,5,2/4,1,6");
  assert_went_well(run);
  expect_line(run, "1 sum 0 0 7 3");
  expect_line(run, "1 sum 0 1 7 6");
  expect_line(run, "1 sum 0 2 3 6");
  expect_line(run, "1 sum 0 4 2 5");
  expect_line(run, "2 sum 1 0 7 3");
  expect_line(run, "2 sum 1 1 5 4");
  expect_line(run, "2 sum 1 3 5 8");
  expect_line(run, "2 sum 1 5 4 6");
  for (int rank = 0; rank < 3; rank++) {
    char line[64];
    snprintf(line, sizeof line, "%d active True", rank);
    expect_line(run, line);
    snprintf(line, sizeof line, "%d status 3 ranks, of which 1 is this one", rank);
    expect_line(run, line);
    snprintf(line, sizeof line, "%d left", rank);
    expect_line(run, line);
  }
  run_free(run);
}

/* And what they are told of a communicator that there is not. */
Test(words, of_no_communicator_are_an_error_with_its_name) {
  struct run *run = run_script("", "1,1,1");
  assert_went_well(run);
  cr_expect(strstr(run->output, "RESULT 0 ncclJoinLeave returned ") != NULL, "%s", run->output);
  cr_expect(strstr(run->output, "RESULT 0 a communicator is an int or a ctypes.c_void_p") != NULL,
            "%s", run->output);
  run_free(run);
}

Test(words, do_nothing_without_nccl_join) {
  struct run *run = run_script("--no-join", "2,2,2/1,1,1");
  assert_went_well(run);
  expect_line(run, "0 sum 0 1 7 6");
  expect_line(run, "0 active False");
  expect_line(run, "0 left");
  run_free(run);
}
