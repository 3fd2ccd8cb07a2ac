/* docs/examples: what cannot be run here is read. What can: tests/join/examples.c. */
#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/workbench.h"

static char here[PATH_MAX];

static void set_up(void) {
  cr_assert_not_null(getcwd(here, sizeof here));
  sandbox_make();
}

TestSuite(examples, .init = set_up, .fini = sandbox_remove, .timeout = 300);

static struct result read_manifest(const char *expression) {
  return run(
      "/usr/bin/python3 -c 'import sys, yaml; job = yaml.safe_load(open(sys.argv[1])); pod = "
      "job[\"spec\"][\"template\"][\"spec\"]; container = pod[\"containers\"][0]; print(%s)' "
      "%s/docs/examples/job.yaml",
      expression, here);
}

Test(examples, the_pod_of_kubernetes_has_shared_memory) {
  struct result result = read_manifest("job[\"kind\"], len(pod[\"containers\"])");
  cr_assert_eq(result.status, 0, "%s", result.err);
  cr_expect_str_eq(result.out, "Job 1\n");
  result = read_manifest(
      "[v for v in pod[\"volumes\"] for m in container[\"volumeMounts\"] if v[\"name\"] == "
      "m[\"name\"] and m[\"mountPath\"] == \"/dev/shm\"][0][\"emptyDir\"]");
  cr_expect_str_eq(result.out, "{'medium': 'Memory', 'sizeLimit': '1Gi'}\n");
  result =
      read_manifest("{m[\"name\"] for m in container[\"volumeMounts\"]} == {v[\"name\"] for v in "
                    "pod[\"volumes\"]}, container[\"resources\"][\"limits\"]"
                    "[\"nvidia.com/gpu\"] == int(container[\"command\"][2])");
  cr_expect_str_eq(result.out, "True True\n");
}

/* Its command, with a torchrun, a train.py and the launcher of this sandbox. */
Test(examples, the_command_of_the_pod_is_one_that_nccl_join_sees) {
  make_environment();
  build_nccl("nccl", "2.28.9");
  build("user", "-DLIBRARY -shared -o frame.so -Lnccl -lnccl -Wl,-rpath,$PWD/nccl");
  add_package("frame", "frame.so", "");
  write_file("train.py", "import frame\n");
  run("printf '#!%%s/venv/bin/python\\nimport torch\\n' $PWD >venv/bin/torchrun; chmod +x "
      "venv/bin/torchrun");
  struct result result = read_manifest("\" \".join(container[\"command\"])");
  char words[256];
  cr_assert_leq(result.out_size, sizeof words);
  snprintf(words, sizeof words, "%.*s", (int)strcspn(result.out, "\n"), result.out);
  expect_answer("PATH=$PWD/venv/bin:$PATH", words, 0, "\"launchers\":[\"torchrun\",\"nccl-join\"]");
}
