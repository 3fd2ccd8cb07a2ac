/* Clients and launchers on the loopback, with ranks that have different numbers of iterations:
 * stuck without nccl-join, and with it to the end, with the right sums. */
#include "tests/clients/client.h"
#include "tests/join/expected.h"
#include "tools/port.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITERATIONS "3,8,5"
static const struct schedule schedule = {.nranks = 3, .epochs = 1, .n = {{3, 8, 5}}};

static void assert_sums(const char *command) {
  struct run *run = client_run(command);
  assert_went_well(run);
  struct lines *lines = lines_create();
  lines_add_sum(lines, &schedule, 1);
  lines_add_left(lines, schedule.nranks);
  assert_results(run, lines);
  lines_free(lines);
  cr_assert(!run_says(run, "NCCL-JOIN WARN") && !run_says(run, "NCCL-JOIN ERROR"), "%s",
            run->errors);
  run_free(run);
}

/* Without nccl-join no rank comes past the point where another has left. The loopback says so to
 * those that would wait there; NVIDIA's NCCL has them wait. */
static void assert_stuck(const char *command) {
  char limited[600];
  bool for_ever = run_adds_in_any_order();
  snprintf(limited, sizeof limited, "%s%s", for_ever ? "timeout 300 env " : "", command);
  struct run *run = client_run(limited);
  cr_assert(run->status != 0 && run->timed_out == for_ever, "%s: status %d\n%s%s", command,
            run->status, run->output, run->errors);
  cr_assert(strstr(run->output, "RESULT 1 sum 0 2 0 7 9\n") != NULL &&
                strstr(run->output, "RESULT 1 total") == NULL,
            "%s", run->output);
  run_free(run);
}

/* ---- clients ---- */

static void check_client(const char *python, const char *script) {
  static const char format[] =
      "VLLM_NCCL_SO_PATH=$B/%s $R %s --loopback --no-prefix -n 3 %s $C/%s " ITERATIONS;
  const char *nccl = run_adds_in_any_order() ? "loopback/libnccl.so.2" : "clients/libnewer_nccl.so";
  char command[512];
  snprintf(command, sizeof command, format, nccl, "", python, script);
  assert_sums(command);
  snprintf(command, sizeof command, format, nccl, "--no-join", python, script);
  assert_stuck(command);
}

Test(uneven, ctypes, .timeout = 1800) {
  client_begin("");
  check_client("python3", "by_ctypes.py");
  client_end();
}

Test(uneven, cupy, .timeout = 1800) {
  client_begin("cupy");
  check_client("$PY", "by_cupy.py");
  client_end();
}

/* docs/examples/by_cupy.py: 10, 15 and 20 iterations. */
Test(uneven, the_example_with_cupy, .timeout = 1800) {
  static const char *const totals[] = {"rank 0 total [165.0, 165.0,", "rank 1 total [295.0, 295.0,",
                                       "rank 2 total [385.0, 385.0,"};
  static const char format[] = "$R --loopback %s --no-prefix -n 3 $PY $C/cupy_example.py";
  char command[160];
  client_begin("cupy");
  snprintf(command, sizeof command, format, "");
  struct run *run = client_run(command);
  assert_went_well(run);
  for (int rank = 0; rank < 3; rank++)
    cr_expect(strstr(run->output, totals[rank]) != NULL, "%s", run->output);
  run_free(run);
  snprintf(command, sizeof command, format, "--no-join");
  run = client_run(command);
  cr_expect_neq(run->status, 0);
  run_free(run);
  client_end();
}

Test(uneven, nccl4py, .timeout = 1800) {
  client_begin("nccl4py");
  check_client("$PY", "by_nccl4py.py");
  client_end();
}

Test(uneven, vllm, .timeout = 1800) {
  client_begin("torch vllm-needs vllm");
  check_client("$PY", "by_vllm.py");
  client_end();
}

/* ---- launchers ---- */

#define SUM "$B/programs/sum --iterations " ITERATIONS

/* nccl-join in front of each rank, in front of the launcher, and by LD_PRELOAD alone. */
static void check_launcher(const char *launcher) {
  static const char *const ways[] = {
      "%s $R --loopback " SUM,
      "$R --loopback %s " SUM,
      "LD_PRELOAD=$P LD_LIBRARY_PATH=$B/loopback %s " SUM,
  };
  char command[512];
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    snprintf(command, sizeof command, ways[i], launcher);
    assert_sums(command);
  }
  snprintf(command, sizeof command, "$R --loopback --no-join %s " SUM, launcher);
  assert_stuck(command);
}

/* For Open MPI, which has nothing that tells ranks of each other for programs that do not use MPI,
 * and for torchrun, which takes any free port for itself: the one behind, where the program
 * listens then, may belong to somebody. The port is kept until the test ends. */
static void set_port(void) {
  int hold;
  char port[16];
  snprintf(port, sizeof port, "%d", port_take(&hold));
  cr_assert(hold >= 0);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port, 1);
}

Test(uneven, mpirun, .timeout = 1800) {
  client_begin("mpirun");
  set_port();
  check_launcher("$MPIRUN -n 3 $C/as_rank");
  client_end();
}

Test(uneven, torchrun, .timeout = 1800) {
  client_begin("torch");
  set_port();
  check_launcher("$BIN/torchrun --nproc-per-node 3 --master-port $MASTER_PORT --no-python");
  client_end();
}
