/* What does not need a GPU, or fails without one, is the same with and without nccl-join, byte for
 * byte; and what it is that nccl-join stands in front of. */
#include "tests/clients/client.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first characters of a line of glog that differ from run to run: time, process. */
static size_t stamp_length(const char *line) {
  int length = 0;
  if (strchr("IWEF", *line) == NULL ||
      sscanf(line + 1, "%*4d %*2d:%*2d:%*2d.%*6d %*d%n", &length) != 0 || length == 0)
    return 0;
  return 1 + (size_t)length;
}

/* Without what differs from run to run: such stamps, and addresses. */
static void normalise(char *text) {
  char *to = text;
  for (const char *from = text; *from != '\0';) {
    if (from == text || from[-1] == '\n')
      from += stamp_length(from);
    if (strncmp(from, "0x", 2) == 0)
      for (from += 2; isxdigit((unsigned char)*from); from++)
        ;
    else if (*from != '\0')
      *to++ = *from++;
  }
  *to = '\0';
}

static struct run *run_normalised(const char *front, const char *command) {
  char line[2048];
  /* What it leaves in memory that others see is part of what it does. */
  snprintf(line, sizeof line, "%s %s; status=$?; ls -A /dev/shm; exit $status", front, command);
  struct run *run = client_run(line);
  normalise(run->output);
  normalise(run->errors);
  return run;
}

static void assert_equal(const struct run *with, const struct run *without, const char *front) {
  cr_assert_str_eq(with->output, without->output, "%s: it says\n%sinstead of\n%s", front,
                   with->output, without->output);
  cr_assert_str_eq(with->errors, without->errors, "%s: on stderr it says\n%sinstead of\n%s", front,
                   with->errors, without->errors);
  cr_assert_eq(with->status, without->status, "%s: status %d instead of %d", front, with->status,
               without->status);
}

static void assert_unchanged(const char *command, const char *beginning) {
  static const char *const fronts[] = {"env LD_PRELOAD=$P", "$R"};
  struct run *without = run_normalised("", command);
  cr_assert(without->status == 0, "status %d\n%s%s", without->status, without->output,
            without->errors);
  cr_assert(strncmp(without->output, beginning, strlen(beginning)) == 0, "%s", without->output);
  for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
    struct run *with = run_normalised(fronts[i], command);
    assert_equal(with, without, fronts[i]);
    run_free(with);
  }
  run_free(without);
}

/* One line on stderr says which NCCL it is in front of: the one that the wheel brings. */
static void assert_caught(const char *command, const char *found_by) {
  char line[1024];
  snprintf(line, sizeof line, "NCCL_JOIN_DEBUG=INFO LD_PRELOAD=$P %s", command);
  struct run *run = client_run(line);
  cr_assert(run->status == 0, "status %d\n%s%s", run->status, run->output, run->errors);
  cr_assert(run_says_in_a_line(run, "NCCL-JOIN INFO in front of NCCL 2.30.7 in ",
                               "/site-packages/nvidia/nccl/lib/libnccl.so.2 (found by ", found_by,
                               NULL),
            "%s", run->errors);
  client_assert_on_page(run);
  run_free(run);
}

/* ---- PyTorch ---- */

Test(torch, imported, .timeout = 1800) {
  client_begin("torch");
  assert_unchanged("$PY $C/torch_import.py", "torch ");
  struct run *run = client_run("LD_PRELOAD=$P $PY $C/torch_import.py");
  client_assert_on_page(run);
  run_free(run);
  client_end();
}

Test(torch, forked_workers_of_a_data_loader, .timeout = 1800) {
  client_begin("torch");
  assert_unchanged("$PY $C/torch_workers.py", "epoch 0 2016.0\nepoch 1 2016.0\n");
  client_end();
}

Test(torch, gloo_under_torchrun, .timeout = 1800) {
  client_begin("torch");
  assert_unchanged("$BIN/torchrun --nproc-per-node 2 $C/torch_gloo.py",
                   "rank 0 of 2 [1.0, 3.0, 5.0, 7.0]\nrank 1 of 2 [1.0, 3.0, 5.0, 7.0]\n");
  client_end();
}

Test(torch, nccl_without_a_gpu_fails_as_it_does, .timeout = 1800) {
  client_begin("torch");
  assert_unchanged("$PY $C/torch_nccl.py", "process group RuntimeError ");
  client_end();
}

/* Its own messages and nothing about nccl-join: it does not know of it. */
Test(torch, nothing_is_said_in_front_of_a_script_that_fails, .timeout = 1800) {
  client_begin("torch");
  struct run *without = run_normalised("", "$PY -c 'import torch; torch.ones(1).cuda()'");
  struct run *with = run_normalised("LD_PRELOAD=$P", "$PY -c 'import torch; torch.ones(1).cuda()'");
  cr_assert_eq(without->status, 1);
  assert_equal(with, without, "LD_PRELOAD");
  run_free(with);
  run_free(without);
  client_end();
}

/* PyTorch makes no communicator without a GPU. So the dynamic linker is asked where each function
 * of NCCL that it is linked to leads: to libnccl.so.2 itself only those that nccl-join has nothing
 * to do with. */
Test(torch, each_function_of_nccl_that_it_is_linked_to, .timeout = 1800) {
  client_begin("torch");
  struct run *run = client_run(
      "T=$(mktemp -d); LD_DEBUG=bindings LD_DEBUG_OUTPUT=$T/bound LD_BIND_NOW=1 LD_PRELOAD=$P $PY "
      "-c 'import torch'; sed -n 's/.*libtorch_cuda.so .0. to .*\\/\\(libnccl[^ ]*\\) .*symbol "
      "`\\(nccl[A-Za-z0-9]*\\).*/\\1 \\2/p' $T/bound* | LC_ALL=C sort; rm -rf $T");
  cr_assert(run->status == 0, "status %d\n%s", run->status, run->errors);
  int caught = 0;
  char past[2048] = "", *rest = run->output;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;)
    if (strncmp(line, "libnccl-join.so ", 16) == 0)
      caught++;
    else if (strncmp(line, "libnccl.so.2 nccl", 17) == 0)
      snprintf(past + strlen(past), sizeof past - strlen(past), " %s", line + 17);
  cr_assert_str_eq(past,
                   " CommCount CommGetUniqueId CommMemStats CommUserRank "
                   "CommWindowDeregister DevCommDestroy "
                   "GetLsaMultimemDevicePointer GetPeerDevicePointer GetVersion MemAlloc MemFree "
                   "WinGetUserPtr",
                   "to libnccl.so.2 itself lead:%s", past);
  cr_assert_eq(caught, 39, "to libnccl-join.so lead %d", caught);
  run_free(run);
  client_end();
}

/* ---- others ---- */

Test(cupy, its_module_for_nccl, .timeout = 1800) {
  client_begin("cupy");
  assert_unchanged("$PY $C/cupy_nccl.py", "CuPy ");
  assert_caught("$PY $C/cupy_nccl.py", "search order");
  client_end();
}

Test(nccl4py, without_a_gpu, .timeout = 1800) {
  client_begin("nccl4py");
  assert_unchanged("$PY $C/nccl4py_nccl.py", "nccl4py ");
  assert_caught("$PY $C/nccl4py_nccl.py", "search order");
  client_end();
}

Test(vllm, its_module_for_nccl, .timeout = 1800) {
  client_begin("torch vllm-needs vllm");
  assert_unchanged("$PY $C/vllm_nccl.py", "vLLM ");
  assert_caught("$PY $C/vllm_nccl.py", "dlsym");
  client_end();
}
