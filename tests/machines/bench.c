/* make bench-machines measures what it is for. How long anything takes is not looked at. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/machines/job.h"

static char *output_of(const char *command, int *status) {
  static char output[65536];
  FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c) */
  cr_assert_not_null(pipe);
  size_t length = fread(output, 1, sizeof output - 1, pipe);
  output[length] = '\0';
  *status = pclose(pipe);
  return output;
}

Test(bench, every_row_of_several_machines_is_measured, .timeout = 300) {
  static const char *const rows[] = {
      "\"name\": \"64 bytes over TCP, and back\", \"unit\": \"us\"",
      "\"name\": \"leaving the loop: from the call to the first shadow\"",
      "\"name\": \"going on: from the last rank's call until both are in NCCL\"",
      "\"name\": \"2 machines\"",
      "\"name\": \"8 machines, 99 of 100 within\"",
      "\"name\": \"iterations of 10 ms\"",
      "\"name\": \"processor time\", \"unit\": \"%\"",
      "\"name\": \"memory of its own\", \"unit\": \"KiB\"",
  };
  char command[512];
  int status;
  NEED_MACHINES();
  snprintf(command, sizeof command, "BENCH_BUILD=$(readlink -f %s) BENCH_QUICK=1 %s/bench/machines",
           run_build_folder(), run_build_folder());
  const char *output = output_of(command, &status);
  cr_assert_eq(status, 0, "status %d\n%s", status, output);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    cr_expect_not_null(strstr(output, rows[i]), "%s is not in\n%s", rows[i], output);
}
