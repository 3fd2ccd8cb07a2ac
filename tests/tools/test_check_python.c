/* nccl-join check of Python: what scripts import, from installed packages that are fake. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/workbench.h"

static void set_up(void) {
  sandbox_make();
  make_packages();
  run("mkdir cwd");
}

TestSuite(check_python, .init = set_up, .fini = sandbox_remove, .timeout = 300);

enum { YES, NO, UNKNOWN };

#define LINKED "\"reached\":\"linked\""
#define PYTHON "venv/bin/python "

Test(check_python, what_is_imported_decides) {
  write_file("yes.py", "import os, sys\nimport frame as f\n");
  write_file("no.py", "# import frame\nimport os, plain, sys\nfrom pure import x\nimportant = 1\n");
  expect_answer("", PYTHON "yes.py", YES, LINKED);
  expect_answer("", PYTHON "yes.py", YES, "/nvidia/nccl/lib/libnccl.so.2\",\"version\":\"2.27.3\"");
  expect_answer("", PYTHON "no.py", NO, "\"reached\":\"none\"");
}

/* Its wheel has the preload object and stand-ins, which have or call functions of NCCL. */
Test(check_python, nccl_joins_own_package_is_not_taken_for_nccl) {
  add_package("nccl_join", "frame.so", "");
  write_file("words.py", "import nccl_join\n");
  expect_answer("", PYTHON "words.py", NO, "\"reached\":\"none\"");
  write_file("words.py", "import nccl_join, frame\n");
  expect_answer("", PYTHON "words.py", YES, LINKED);
}

Test(check_python, every_form_of_import_is_read) {
  static const char *const forms[] = {
      "from frame import x\n",
      "from frame.inner.more import (\n  a, b)\n",
      "import plain, frame.inner as i\n",
      "def late():\n\tif 1:\n\t\timport frame\n",
      "import plain; import frame\n",
      "import plain as p , frame\r\n",
      "import  frame # all of it",
  };
  for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
    write_file("form.py", forms[i]);
    expect_answer("", PYTHON "form.py", YES, LINKED);
  }
}

Test(check_python, scripts_by_their_first_line_and_options_of_python) {
  char text[512];
  snprintf(text, sizeof text, "#!%s/venv/bin/python -u\nimport frame\n", sandbox());
  write_file("script", text);
  snprintf(text, sizeof text,
           "#!/bin/sh\n'''exec' \"%s/venv/bin/python\" \"$0\" \"$@\"\n' '''\n"
           "import frame\n",
           sandbox());
  write_file("long", text);
  write_file("found", "#!/usr/bin/env -S python3 -u\nimport frame\n");
  run("chmod +x script long found");
  expect_answer("", "./script", YES, LINKED);
  expect_answer("", "./long", YES, LINKED);
  expect_answer("PATH=$PWD/venv/bin:$PATH", "./found", YES, LINKED);
  expect_answer("", PYTHON "-u -W ignore -X dev script --arg", YES, LINKED);
  expect_answer("", PYTHON "-c 'import frame'", YES, LINKED);
  expect_answer("", PYTHON "-uc 'import plain' frame.py", NO, "\"reached\":\"none\"");
  expect_answer("", PYTHON "-m frame.run", YES, LINKED);
  expect_answer("", PYTHON "-mplain", NO, "\"reached\":\"none\"");
  expect_answer("", PYTHON, UNKNOWN, "\"kind\":\"script\"");
  expect_answer("", PYTHON "not-there.py", UNKNOWN, "No such file");
}

Test(check_python, scripts_that_launchers_are_told_to_start_are_read) {
  char text[512];
  snprintf(text, sizeof text, "#!%s/venv/bin/python\nfrom pure.run import main\n", sandbox());
  write_file("launcher", text);
  run("chmod +x launcher");
  write_file("job/train.py", "import model\n");
  write_file("job/model.py", "import frame\n");
  expect_answer("", "./launcher --nproc 8 job/train.py --lr 1", YES, LINKED);
  expect_answer("", PYTHON "-m pure.run job/train.py", YES, LINKED);
  expect_answer("", "./launcher --nproc 8 job/not-there.py", NO, "\"reached\":\"none\"");
}

Test(check_python, modules_of_ones_own_are_followed) {
  write_file("main.py", "import model\n");
  write_file("model.py", "from package.inner import layer\n");
  write_file("package/__init__.py", "");
  write_file("package/inner.py", "from . import nothing\nfrom .sub.deep import x\n");
  write_file("package/sub/deep.py", "from ..elsewhere import y\n");
  write_file("package/elsewhere.py", "import frame\n");
  expect_answer("", PYTHON "main.py", YES, LINKED);
  expect_answer("cd cwd;", "../" PYTHON "../main.py", YES, LINKED);
  write_file("package/elsewhere.py", "import plain\n");
  expect_answer("", PYTHON "main.py", NO, "\"reached\":\"none\"");
  write_file("more/helper.py", "import frame\n");
  write_file("main.py", "import helper\n");
  expect_answer("PYTHONPATH=more", PYTHON "main.py", YES, LINKED);
  expect_answer("PYTHONPATH=more", PYTHON "-I main.py", UNKNOWN, "not found by");
}

Test(check_python, what_is_not_installed_cannot_be_told) {
  write_file("main.py", "import torch, _thread\nimport math\n");
  expect_answer("", PYTHON "main.py", UNKNOWN, "venv/bin/python: torch\"");
  write_file("main.py", "import frame, torch\n");
  expect_answer("", PYTHON "main.py", YES, LINKED);
}

Test(check_python, requirements_are_followed) {
  add_package("trainer", NULL, "Requires-Dist: pure>=1\nRequires-Dist: Middle_Layer (>=1.0)\n");
  add_package("middle_layer", NULL, "Requires-Dist: frame ; python_version > \"3\"\n");
  add_package("maybe", NULL, "Requires-Dist: frame ; extra == 'all'\n");
  add_package("indirect", NULL, "Requires-Dist: maybe\n");
  expect_answer("", PYTHON "-c 'import trainer'", YES, LINKED);
  expect_answer("", PYTHON "-c 'import maybe'", YES, LINKED);
  expect_answer("", PYTHON "-c 'import indirect'", NO, "\"reached\":\"none\"");
}

Test(check_python, packages_whose_names_differ_and_packages_without_lists) {
  char text[512];
  snprintf(text, sizeof text, "%s", "frame\nframe_backends\n");
  write_file("venv/lib/python3.11/site-packages/frame-1.0.dist-info/top_level.txt", text);
  run("cd venv/lib/python3.11/site-packages; mv frame-1.0.dist-info frame_cuda12x-1.0.dist-info;"
      "mkdir frame_backends; mv frame/_C* frame_backends/;"
      "sed -i 's,frame/_C,frame_backends/_C,' frame_cuda12x-1.0.dist-info/RECORD");
  expect_answer("", PYTHON "-c 'import frame'", YES, LINKED);
  run("cd venv/lib/python3.11/site-packages; rm -r *.dist-info; mkdir -p frame/a/b;"
      "mv frame_backends/_C* frame/a/b/");
  expect_answer("", PYTHON "-c 'import frame'", YES, LINKED);
  expect_answer("", PYTHON "-c 'import plain'", NO, "\"reached\":\"none\"");
}

Test(check_python, folders_of_pth_files_are_searched) {
  write_file("project/editable.py", "import frame\n");
  char text[512];
  snprintf(text, sizeof text, "import os; os.abort()\n%s/project\n", sandbox());
  write_file("venv/lib/python3.11/site-packages/editable.pth", text);
  expect_answer("", PYTHON "-c 'import editable'", YES, LINKED);
  run("rm venv/lib/python3.11/site-packages/editable.pth");
  expect_answer("", PYTHON "-c 'import editable'", UNKNOWN, "editable");
}

Test(check_python, nccl_that_the_script_opens_itself_is_seen) {
  write_file("main.py", "import ctypes\nnccl = ctypes.CDLL('libnccl.so.2')\n");
  expect_answer("", PYTHON "main.py", YES, "\"reached\":\"opened\"");
  write_file("main.py", "import ctypes\nlibc = ctypes.CDLL('libc.so.6')\n");
  expect_answer("", PYTHON "main.py", NO, "\"reached\":\"none\"");
}

Test(check_python, rtld_deepbind_is_noted) {
  write_file("main.py", "import frame, os, sys\nsys.setdlopenflags(os.RTLD_DEEPBIND | 2)\n");
  expect_answer("", PYTHON "main.py", YES, "\"kind\":\"deepbind\",\"harmless\":true");
  write_file("main.py", "import frame\n");
  expect_answer("", PYTHON "main.py", YES, "\"remarks\":[]");
}

Test(check_python, an_extension_with_nccl_inside_is_warned_of) {
  run("echo '#include <dlfcn.h>' >use.c; echo 'int ncclAllReduce(void); void *use(char *n) { "
      "return ncclAllReduce() ? n : dlopen(n, 2); }' >>use.c");
  build("nccl", "use.c -shared -s -o inside.so");
  add_package("inside", "inside.so", "");
  expect_answer("", PYTHON "-c 'import inside'", NO, "\"reached\":\"hidden\"");
  /* As nccl-join run asks, but with more time: this machine may have other work. */
  struct result result =
      run("nccl-join-check --warn 20000 venv/bin/python -c 'lambda: __import__(\"inside\")'");
  cr_expect_eq(result.status, 0);
  cr_expect_eq(count(result.out, "is linked statically into "), 1, "%s", result.out);
  cr_expect_str_empty(run("nccl-join-check --warn 20000 venv/bin/python -c 'import frame'").out);
  result = run("nccl-join run venv/bin/python -c 'lambda: __import__(\"frame\")'");
  cr_expect_eq(count(result.err, "is linked statically into "), 0, "%s", result.err);
}

/* pyenv's shims are shell scripts. */
static void make_pyenv(void) {
  char text[1024];
  snprintf(text, sizeof text,
           "#!/usr/bin/env bash\nset -e\nprogram=\"${0##*/}\"\n"
           "exec \"%s/pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n",
           sandbox());
  write_file("pyenv/shims/python", text);
  run("chmod +x pyenv/shims/python; cp pyenv/shims/python pyenv/shims/python3;"
      "mkdir -p pyenv/versions; mv venv pyenv/versions/3.11.2;"
      "cd pyenv/versions/3.11.2/bin; mv python3 python3.11;"
      "ln -sf python3.11 python; ln -sf python3.11 python3");
}

Test(check_python, the_python_behind_pyenv_is_found) {
  make_pyenv();
  expect_answer("PYENV_VERSION=3.11.2", "pyenv/shims/python -c 'import frame'", YES, LINKED);
  expect_answer("PYENV_VERSION=3.9", "pyenv/shims/python -c 'import frame'", UNKNOWN, "\"script\"");
  write_file("pyenv/version", "3.11.2\n");
  expect_answer("unset PYENV_VERSION;", "pyenv/shims/python -c 'import frame'", YES, LINKED);
  write_file(".python-version", "3.9\n");
  expect_answer("unset PYENV_VERSION;", "pyenv/shims/python -c 'import frame'", UNKNOWN,
                "\"script\"");
}

Test(check_python, the_script_is_kept_where_its_first_line_names_a_shim) {
  make_pyenv();
  char own[128];
  snprintf(own, sizeof own, "#!%s/pyenv/shims/python3 -u", sandbox());
  const char *const lines[] = {"#!/usr/bin/env python3", "#!/usr/bin/env -S python3 -u", own};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    for (int with = 0; with <= 1; with++) {
      static const char environment[] = "PYENV_VERSION=3.11.2 PATH=$PWD/pyenv/shims:$PATH";
      char text[256];
      snprintf(text, sizeof text, "%s\nimport %s\n", lines[i], with ? "frame" : "plain");
      write_file("script.py", text);
      run("chmod +x script.py");
      expect_answer(environment, "./script.py --arg", with ? YES : NO,
                    with ? LINKED : "\"reached\":\"none\"");
      expect_answer(environment, "./script.py", with ? YES : NO, "\"program\":\"./script.py\"");
      expect_answer(environment, "python3 ./script.py", with ? YES : NO,
                    with ? LINKED : "\"reached\":\"none\"");
    }
  }
  /* What is behind a shim may be a script itself, as pip is. */
  run("cp script.py pyenv/versions/3.11.2/bin/tool; cp pyenv/shims/python pyenv/shims/tool");
  expect_answer("PYENV_VERSION=3.11.2 PATH=$PWD/pyenv/shims:$PATH", "tool", YES,
                "/pyenv/versions/3.11.2/bin/tool\"");
}
