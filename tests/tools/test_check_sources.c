/* nccl-join check of Python: what is written in a source, and what only a run can tell. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/workbench.h"

static void set_up(void) {
  sandbox_make();
  make_packages();
  run("rm frame.so");
}

TestSuite(check_sources, .init = set_up, .fini = sandbox_remove, .timeout = 300);

enum { YES, NO, UNKNOWN };

#define LINKED "\"reached\":\"linked\""
#define NONE "\"reached\":\"none\""
#define DYNAMIC "\"kind\":\"dynamic\""
#define PYTHON "venv/bin/python "
#define PACKAGES "venv/lib/python3.11/site-packages/"

static void expect_source(const char *source, int status, const char *text) {
  write_file("main.py", source);
  expect_answer("", PYTHON "main.py", status, text);
}

Test(check_sources, imports_are_found_however_they_are_written) {
  expect_source("try: import frame\nexcept ImportError: pass\n", YES, LINKED);
  expect_source("import os, \\\n  frame\n", YES, LINKED);
  expect_source("from frame \\\n  import x\n", YES, LINKED);
  expect_source("import importlib\nm = importlib.import_module('frame.inner')\n", YES, LINKED);
  expect_source("from importlib import import_module as get\nget(name='x')\nget('frame')\n", YES,
                LINKED);
  expect_source("__import__('frame')\n", YES, LINKED);
  expect_source("exec('import frame')\n", YES, LINKED);
  expect_source("async def f():\n  with x: import frame\n", YES, LINKED);
  expect_source("match 1:\n  case 1: import frame\n", YES, LINKED);
}

Test(check_sources, texts_that_mention_an_import_are_none) {
  expect_source("\"\"\"To use it:\n\nimport frame\n\"\"\"\nimport plain\n", NO, NONE);
  expect_source("usage = '''\nimport frame\nlibnccl.so.2'''\n", NO, NONE);
  expect_source("def f():\n  '''import frame'''\n  # import frame\n", NO, NONE);
  expect_source("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import frame\n", NO, NONE);
  expect_source("if 0: import frame\n", NO, NONE);
  expect_source("print('libnccl.so.2')\n", NO, NONE);
}

Test(check_sources, modules_of_ones_own_package_are_followed) {
  write_file("package/__init__.py", "from . import b\n");
  write_file("package/b.py", "from . import c as d\n");
  write_file("package/c.py", "import frame\n");
  expect_source("import package\n", YES, LINKED);
  expect_answer("", PYTHON "-m package.b", YES, LINKED);
  write_file("package/__main__.py", "import package.b\n");
  expect_answer("", PYTHON "-m package", YES, LINKED);
  expect_answer("", PYTHON "package", UNKNOWN, "\"package\""); /* not its parent on the path */
  /* What is under `if __name__ == ...` is run of the script alone. */
  write_file("package/c.py", "if __name__ == '__main__':\n  import frame\n");
  expect_source("import package\n", NO, NONE);
  expect_answer("", PYTHON "package/c.py", YES, LINKED);
  /* One's own comes before what is installed, and before the standard library. */
  write_file("frame.py", "import plain\n");
  expect_source("import frame\n", NO, NONE);
  run("rm frame.py");
  write_file("random.py", "import frame\n");
  expect_source("import random\n", YES, LINKED);
}

Test(check_sources, modules_of_an_installed_package_are_followed) {
  write_file(PACKAGES "pure/__init__.py", "from . import core\n");
  write_file(PACKAGES "pure/core.py", "import frame\n");
  expect_source("import pure\n", YES, LINKED);
  write_file(PACKAGES "pure/core.py", "import plain\n");
  expect_source("import pure\n", NO, NONE);
  /* What it does when it is called is not known. */
  write_file(PACKAGES "pure/core.py", "def f():\n  import frame\n");
  expect_source("import pure\n", UNKNOWN, "core.py:2 imports frame in a function; and ");
  write_file(PACKAGES "pure/core.py", "def f():\n  import os\n");
  expect_source("import pure\n", NO, NONE);
  write_file(PACKAGES "pure/core.py",
             "import importlib\ndef f(name):\n  return importlib.import_module(name)\n");
  expect_source("import pure\n", UNKNOWN,
                "/_C.cpython-311-x86_64-linux-gnu.so, which is installed, calls NCCL");
  /* Nothing that it could import calls NCCL. */
  run("rm -r " PACKAGES "frame*");
  expect_source("import pure\n", NO, NONE);
}

Test(check_sources, what_is_decided_when_it_runs_cannot_be_told) {
  static const char *const sources[] = {
      "import importlib, sys\nimportlib.import_module(sys.argv[1])\n",
      "import sys\nm = __import__(sys.argv[1])\n",
      "exec(open('more.py').read())\n",
      "eval(input())\n",
      "import runpy\nrunpy.run_path('x.py')\n",
      "from importlib.metadata import entry_points\n[e.load() for e in entry_points()]\n",
      "import pickle\npickle.load(open('x', 'rb'))\n",
      "import sys\nsys.path.insert(0, 'vendor')\nimport plain\n",
      "import sys\nsys.path += ['vendor']\n",
      "import subprocess as s\ns.run(['./train'])\n",
      "import os\nos.execv('./train', [])\n",
      "from os import system\nsystem('./train')\n",
      "import ctypes\nctypes.CDLL('lib' + name)\n",
      "from cffi import FFI\n",
      "import ctypes\nctypes.CDLL('./not-there.so')\n",
      "print 'of Python 2'\n",
      "from ..above import x\n",
  };
  for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
    expect_source(sources[i], UNKNOWN, "\"seen\":\"unknown\",\"reached\":\"unknown\"");
  expect_source("import sys\n__import__(sys.argv[1])\nimport frame\n", YES, LINKED);
  expect_source("import ctypes\nctypes.CDLL(None)\nctypes.CDLL('libc.so.6')\n", NO, NONE);
  expect_source("class Model:\n  def eval(self): self.eval()\n", NO, NONE);
  expect_source("def compile(x): pass\ncompile(1)\n", NO, NONE);
  expect_source("import sys\n__import__(sys.argv[1])\n", UNKNOWN,
                "main.py:2 imports a module whose name is made when it runs");
}

Test(check_sources, libraries_that_it_opens_are_looked_at) {
  build("user", "-DLIBRARY -shared -o mine.so -L%s/" PACKAGES "nvidia/nccl/lib -lnccl", sandbox());
  run("cp plain.so other.so");
  expect_source("import ctypes\nctypes.CDLL('./mine.so')\n", YES, LINKED);
  expect_source("from ctypes import cdll\ncdll.LoadLibrary('./mine.so')\n", YES, LINKED);
  expect_source("import ctypes\nctypes.CDLL('./other.so')\n", NO, NONE);
  expect_source("import ctypes, ctypes.util\nctypes.CDLL(ctypes.util.find_library('nccl'))\n", YES,
                "\"reached\":\"opened\"");
  /* An extension of one's own. */
  run("cp mine.so mine.abi3.so; cp opener.so more.abi3.so 2>/dev/null; rm mine.so");
  expect_source("import mine\n", YES, LINKED);
  run("echo '#include <dlfcn.h>' >opens.c; echo 'void *f(char *n) { return dlopen(n, 2); }' "
      ">>opens.c;"
      "gcc -shared -fPIC -o opens.abi3.so opens.c");
  expect_source("import opens\n", UNKNOWN, "\"kind\":\"plugins\"");
}

Test(check_sources, archives_and_compiled_modules) {
  write_file("app/__main__.py", "import inner\n");
  write_file("app/inner.py", "import frame\n");
  run("venv/bin/python -m zipapp app -p \"$PWD/venv/bin/python\" -o app.pyz");
  expect_answer("", "./app.pyz", YES, LINKED);
  expect_answer("", PYTHON "app.pyz", YES, LINKED);
  expect_answer("", PYTHON "app", YES, LINKED);
  write_file("app/inner.py", "import plain\n");
  run("venv/bin/python -m zipapp app -p \"$PWD/venv/bin/python\" -o app.pyz");
  expect_answer("", "./app.pyz", NO, NONE);
  run("venv/bin/python -m compileall -qb app; rm app/inner.py");
  expect_answer("", PYTHON "app", UNKNOWN, "has no source");
}

Test(check_sources, what_is_no_source_is_not_waited_for) {
  run("mkfifo pipe; mkdir folder; printf '\\000\\001' >binary; printf '\\357\\273\\277import "
      "frame\\n' >mark");
  expect_answer("", PYTHON "pipe", UNKNOWN, "pipe cannot be read");
  expect_answer("", PYTHON "folder", UNKNOWN, "folder has no __main__");
  expect_answer("", PYTHON "binary", UNKNOWN, "binary is not a text of this Python");
  expect_answer("", PYTHON "mark", YES, LINKED);
  write_file("absent", "#!/not/there/python\nimport frame\n");
  run("chmod +x absent");
  expect_answer("", "./absent", UNKNOWN, "#!/not/there/python, is not found");
}

Test(check_sources, nothing_is_run) {
  write_file(PACKAGES "evil.pth", "import os; open('run', 'w')\n");
  write_file(PACKAGES "sitecustomize.py", "open('run', 'w')\n");
  write_file(PACKAGES "pure/__init__.py", "open('run', 'w')\n");
  write_file("own.py", "open('run', 'w')\n");
  write_file("ast.py", "open('run', 'w')\n");
  write_file(PACKAGES "importlib_metadata.py", "open('run', 'w')\n");
  expect_source("open('run', 'w')\nimport own, pure, frame\n", YES, LINKED);
  expect_answer("PYTHONPATH=. PYTHONSTARTUP=own.py", PYTHON "-m own", NO, NONE);
  cr_expect_neq(run("test -e run").status, 0);
  /* Nor is what only has Python's name. */
  write_file("main.c", "#include <stdio.h>\nint main(void) { fopen(\"run\", \"w\"); return 0; }\n");
  run("gcc -o python3 main.c");
  expect_answer("", "./python3 main.py", UNKNOWN, "is no CPython");
  cr_expect_neq(run("test -e run").status, 0);
}

Test(check_sources, packages_that_are_installed_as_links) {
  write_file("project/editable/__init__.py", "import frame\n");
  char text[512];
  snprintf(text, sizeof text, "MAPPING: dict[str, str] = {'editable': '%s/project/editable'}\n",
           sandbox());
  write_file(PACKAGES "__editable___editable_1_0_finder.py", text);
  write_file(PACKAGES "__editable__.editable-1.0.pth",
             "import __editable___editable_1_0_finder; "
             "__editable___editable_1_0_finder.install()\n");
  expect_source("import editable\n", YES, LINKED);
}
