/* The programs of docs/examples that need no more than a compiler, a shell and Python. The others:
 * tests/pytorch and tests/clients. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/join/folder.h"
#include "tests/join/run.h"
#include "tests/text_file.h"
#include "tools/port.h"

static char folder[] = "/tmp/nccl-join-examples-XXXXXX";

static void begin(void) {
  folder_make(folder);
}

static void end(void) {
  folder_remove(folder);
}

TestSuite(examples, .init = begin, .fini = end, .timeout = 300);

/* Three ranks with 3, 5 and 7 iterations, then 5, 7 and 3, each of which adds up as many ranks as
 * still have data. */
Test(examples, the_program_in_cpp_adds_up_the_ranks_with_data) {
  static const int totals[3][2] = {{9, 13}, {13, 15}, {15, 9}};
  struct run *result = run(&(struct launch){.nranks = 3, .program = "example_sum"});
  assert_went_well(result);
  for (int rank = 0; rank < 3; rank++)
    for (int epoch = 0; epoch < 2; epoch++) {
      char line[64];
      snprintf(line, sizeof line, "rank %d epoch %d total %d\n", rank, epoch, totals[rank][epoch]);
      cr_expect(strstr(result->output, line) != NULL, "no '%s' in:\n%s", line, result->output);
    }
  run_free(result);
  assert_stuck_without(3, "example_sum", "");
}

static void write_program(const char *name, const char *text) {
  char path[128];
  text_file_write(folder, name, text);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  cr_assert_eq(chmod(path, 0755), 0);
}

/* With an srun that starts three tasks here, and the stand-ins for CUDA and NCCL where the dynamic
 * linker finds them. */
Test(examples, the_batch_file_of_slurm_runs_its_tasks_and_reports) {
  if (strcmp(run_build_folder(), "build") != 0)
    cr_skip("a sanitizer must be the first thing that a process loads, and Python has none");
  int hold, port = port_take(&hold);
  char command[6 * PATH_MAX], here[PATH_MAX], line[512], text[1 << 16] = "";
  cr_assert_not_null(getcwd(here, sizeof here));
  write_program("srun", "#!/bin/sh\nfor i in 0 1 2; do\n  SLURM_PROCID=$i SLURM_LOCALID=$i "
                        "\"$@\" &\ndone\nwait\n");
  write_program("hostname", "#!/bin/sh\necho 127.0.0.1\n");
  write_program("python", "#!/bin/sh\nexec python3 \"$@\"\n");
  snprintf(command, sizeof command,
           "cd %s && ln -s %s/tests/clients/by_ctypes.py train.py && "
           "PATH=$PWD:%s/build/tools:$PATH LD_LIBRARY_PATH=%s/build/loopback "
           "PYTHONPATH=%s/tests/clients PYTHONDONTWRITEBYTECODE=1 MASTER_PORT=%d SLURM_NTASKS=3 "
           "SLURM_JOB_ID=17 bash %s/docs/examples/job.sbatch 3,8,5 2>&1",
           folder, here, here, here, here, port, here);
  FILE *output = popen(command, "r"); /* NOLINT(cert-env33-c) */
  cr_assert_not_null(output);
  while (fgets(line, sizeof line, output) != NULL)
    strncat(text, line, sizeof text - strlen(text) - 1);
  cr_expect_eq(pclose(output), 0, "%s", text);
  static const char *const said[] = {"RESULT 1 sum 0 7 0 2 8\n", "RESULT 0 left\n",
                                     "RESULT 2 left\n", ": 3 ranks, 8 collectives in ",
                                     "The same as a page: traces-17/report.html"};
  for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
    cr_expect(strstr(text, said[i]) != NULL, "no '%s' in:\n%s", said[i], text);
  close(hold);
}
