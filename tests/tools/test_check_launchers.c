/* nccl-join check of launchers: what they start is what is asked about. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/workbench.h"

#define PACKAGES "venv/lib/python3.11/site-packages/"

static void make_console_script(const char *name) {
  char text[512];
  snprintf(text, sizeof text, "#!%s/venv/bin/python\nfrom pure.run import main\nmain()\n",
           sandbox());
  char path[64];
  snprintf(path, sizeof path, "venv/bin/%s", name);
  write_file(path, text);
  run("chmod +x %s", path);
}

/* linked calls NCCL, plain does not; frame is a package that does. The launchers of other packages
 * do nothing here, since they are not run. */
static void set_up(void) {
  sandbox_make();
  make_environment();
  build_nccl(PACKAGES "nvidia/nccl/lib", "2.27.3");
  build("user", "-o linked -L" PACKAGES "nvidia/nccl/lib -lnccl "
                "-Wl,-rpath,'$ORIGIN/" PACKAGES "nvidia/nccl/lib'");
  build("user", "-DLIBRARY -shared -o frame.so -L" PACKAGES "nvidia/nccl/lib -lnccl");
  run("echo 'int main(void) { return 0; }' >main.c; gcc -o plain main.c; mkdir bin;"
      "for name in mpirun mpiexec srun numactl; do cp plain bin/$name; done");
  add_package("frame", "frame.so", "");
  add_package("pure", NULL, "");
  make_console_script("torchrun");
  make_console_script("accelerate");
  make_console_script("deepspeed");
  write_file("with.py", "import frame\n");
  write_file("without.py", "import os\n");
}

TestSuite(check_launchers, .init = set_up, .fini = sandbox_remove, .timeout = 300);

enum { YES, NO, UNKNOWN };

#define LINKED "\"reached\":\"linked\""
#define NONE "\"reached\":\"none\""
#define STARTS "\"kind\":\"starts\""
#define HERE "PATH=$PWD/bin:$PWD/venv/bin:$PATH"

/* A command with one %s: the program. */
static void expect_through(const char *format) {
  char words[512];
  static const struct {
    const char *program, *answer;
    int status;
  } programs[] = {{"./linked", LINKED, YES}, {"./plain", NONE, NO}};
  for (size_t i = 0; i < 2; i++) {
    snprintf(words, sizeof words, format, programs[i].program);
    expect_answer(HERE, words, programs[i].status, programs[i].answer);
  }
}

static void expect_script_through(const char *format) {
  char words[512];
  snprintf(words, sizeof words, format, "with.py");
  expect_answer(HERE, words, YES, LINKED);
  snprintf(words, sizeof words, format, "without.py");
  expect_answer(HERE, words, NO, NONE);
}

Test(check_launchers, programs_that_launchers_start_are_judged) {
  static const char *const commands[] = {
      "mpirun -n 4 %s --lr 1",
      "mpirun -np 4 --mca btl tcp,self --oversubscribe -x A=1 -H host:2 --bind-to none %s",
      "mpiexec -genv A 1 -n 2 -ppn 1 %s",
      "mpiexec -genv A=1 -env B=2 -env C 3 -hostlist h %s",
      "mpirun --bind-to-core -ppr 2:node --default-hostfile hosts --leave-session-attached %s",
      "srun -n 8 -k --overlap --overlap=force --tasks-per-node 4 --x11 --treewidth 3 %s",
      "numactl -c 0 --strict %s",
      "srun -N2 -n 8 -i none -b now --compress --het-group 0 --gpus-per-node=4 --export=ALL --mpi "
      "pmix %s",
      "numactl --cpunodebind=0 -m 0 %s",
      "taskset -c 0-3 %s",
      "taskset 0x3 %s",
      "timeout -k 5 --signal=INT 60 %s",
      "nice -n 5 %s",
      "nice %s",
      "nohup %s",
      "env A=1 B=2 %s",
      "env -u A %s",
      "nccl-join run -n 4 --no-prefix %s",
      "mpirun -n 2 env A=1 nice -n 1 timeout 5 %s",
      "sh -c %s",
      "sh -c 'A=1 exec %s --epochs \"3 4\"'",
      "bash -ec 'mpirun -n 2 %s'",
      "torchrun --no-python --nproc-per-node 8 %s",
      "torchrun --nproc_per_node=8 --no-python %s --arg",
      "python -m torch.distributed.run --no-python %s",
  };
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    expect_through(commands[i]);
  expect_answer(HERE, "mpirun -n 2 env A=1 ./linked", YES, "\"launchers\":[\"mpirun\",\"env\"]");
  struct result result = check(HERE, "mpirun -n 2 env A=1 ./linked");
  cr_expect_not_null(strstr(result.out, "started by  mpirun, env\n"), "%s", result.out);
}

Test(check_launchers, scripts_that_launchers_of_python_start_are_judged) {
  static const char *const commands[] = {
      "torchrun --standalone --nproc-per-node gpu %s --lr 1",
      "torchrun --nnodes 1:2 --rdzv-backend=c10d --rdzv-endpoint host:1 %s",
      "torchrun --nproc 2 %s",
      "python -m torch.distributed.run --nproc-per-node 8 %s",
      "python -u -m torch.distributed.launch --use-env %s",
      "accelerate launch --num_processes 8 --parallelism_config_dp_shard_size 2 --mixed_precision "
      "bf16 %s",
      "deepspeed --num_gpus 8 %s --deepspeed",
      "deepspeed -q --log_level info --num_accelerators 2 %s",
      "accelerate launch --megatron_lm_hidden_dropout 0 --env A=1 --tpu_use_sudo %s",
      "mpirun -n 2 python %s",
      "srun -n2 nccl-join run python -u %s",
      "sh -c 'torchrun %s'",
  };
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    expect_script_through(commands[i]);
  expect_answer(HERE, "torchrun -m frame.train", YES, LINKED);
  expect_answer(HERE, "torchrun --module without", NO, NONE);
}

Test(check_launchers, what_is_not_said_here_cannot_be_told) {
  static const char *const commands[] = {
      "mpirun -n 1 ./linked : -n 1 ./plain",
      "mpirun --app file",
      "mpirun --an-option-of-next-year 3 ./plain",
      "mpirun -n 2",
      "srun --multi-prog file",
      "srun -n 1 ./linked : -n 1 ./plain",
      "mpirun -tune ./plain ./linked",
      "mpirun --mca a=b ./plain ./linked",
      "mpirun -genv A",
      "mpirun --output-proctable ./plain ./linked",
      "mpirun -debug ./plain ./linked",
      "torchrun --frobnicate 3 without.py",
      "accelerate config",
      "sh -c 'cd x && ./plain'",
      "sh -c './plain; ./linked'",
      "sh -c '. ./file'",
      "sh -c 'echo $1'",
      "sh -c './plain `date`'",
      "bash -lc ./plain",
      "sh ./script",
      "sh",
      "env",
      "env -S './plain 1'",
      "find . -exec ./linked",
      "xargs ./linked",
      "taskset -p 1",
      "torchrun ./plain 1",
  };
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    expect_answer(HERE, commands[i], UNKNOWN, "\"seen\":\"unknown\"");
  expect_answer(HERE, "mpirun -n 2 ./not-there", UNKNOWN, "./not-there: program not found");
  expect_answer(HERE, "mpirun --frobnicate 3 ./plain", UNKNOWN,
                "with mpirun --frobnicate it cannot be told");
}

Test(check_launchers, programs_that_start_others_are_no_no) {
  write_file("starts.c", "#include <stdlib.h>\nint main(void) { return system(\"./x\"); }\n");
  run("gcc -o dynamic starts.c; gcc -static -o static starts.c; gcc -static -s -o stripped main.c;"
      "gcc -static -o quiet main.c");
  expect_answer("", "./dynamic", UNKNOWN, STARTS);
  expect_answer("", "./static", UNKNOWN, STARTS);
  expect_answer("", "./stripped", UNKNOWN, STARTS);
  expect_answer("", "./quiet", NO, NONE);
  expect_answer("", "./plain", NO, NONE);
  write_file("library.c", "#include <spawn.h>\nvoid *f(void) { return posix_spawn; }\n");
  run("gcc -shared -fPIC -o libl.so library.c; echo 'void *f(void); int main(void) { return !f(); "
      "}' "
      ">m.c; gcc -o through m.c -L. -ll -Wl,-rpath,'$ORIGIN'");
  expect_answer("", "./through", UNKNOWN, "libl.so can start other programs");
}

Test(check_launchers, python_inside_a_program_imports_what_it_likes) {
  write_file("embeds.c", "int Py_Initialize(void) { return 0; }\n");
  write_file("user.c", "int Py_Initialize(void); int main(void) { return Py_Initialize(); }\n");
  run("gcc -shared -fPIC -o libpython3.so embeds.c; gcc -o embeds user.c -L. -lpython3 "
      "-Wl,-rpath,'$ORIGIN'");
  expect_answer("", "./embeds", UNKNOWN, "\"kind\":\"embeds\"");
}

/* What `nccl-join run` puts in front does not come through. */
Test(check_launchers, launchers_may_take_the_preload_away) {
  static const char *const commands[] = {
      "env -i ./linked",
      "env - ./linked",
      "env -u LD_PRELOAD ./linked",
      "env LD_PRELOAD=other.so ./linked",
      "env LD_PRELOAD= ./linked",
      "srun --export=NONE ./linked",
      "srun --export=A,B=1 ./linked",
      "srun --export=ALL,LD_PRELOAD=/x/other.so ./linked",
      "mpirun -x LD_PRELOAD=/x/other.so ./linked",
      "mpiexec -genv LD_PRELOAD /x/other.so ./linked",
      "mpiexec -env LD_PRELOAD=/x/other.so ./linked",
      "sh -c 'LD_PRELOAD= ./linked'",
      "nccl-join run env -i ./linked",
  };
  for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
    expect_answer(HERE, commands[i], NO, "\"kind\":\"environment\"");
  expect_answer(HERE, "env -i ./plain", NO, NONE);
  expect_answer(HERE, "env -i PATH=$PATH nccl-join run ./linked", YES, "\"remarks\":[]");
  expect_answer(HERE, "env LD_PRELOAD=/x/libnccl-join.so ./linked", YES, "\"remarks\":[]");
  expect_answer(HERE, "mpirun -x LD_PRELOAD -x A=1 ./linked", YES, "\"remarks\":[]");
  expect_answer(HERE, "srun --export=ALL,A=1 ./linked", YES, "\"remarks\":[]");
  expect_answer(HERE, "srun --export=LD_PRELOAD ./linked", YES, "\"remarks\":[]");
  expect_answer(HERE, "mpirun -x NCCL_JOIN=0 ./linked", NO, "\"kind\":\"off\"");
  expect_answer(HERE, "env NCCL_JOIN=0 ./linked", NO, "\"kind\":\"off\"");
  struct result result = run("nccl-join-check --warn 20000 env -i ./linked");
  cr_expect_not_null(strstr(result.out, "env takes LD_PRELOAD away"), "%s", result.out);
  cr_expect_str_empty(run("nccl-join-check --warn 20000 env A=1 ./linked").out);
}
