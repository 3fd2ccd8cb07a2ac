/* Building what nccl-join check is tested with (workbench.h). */
#include "tests/tools/workbench.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void expect_done(struct result result) {
  cr_assert_eq(result.status, 0, "%s%s", result.out, result.err);
}

void build(const char *source, const char *format, ...) {
  char options[2048], here[PATH_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(options, sizeof options, format, arguments);
  va_end(arguments);
  cr_assert_not_null(getcwd(here, sizeof here));
  expect_done(
      run("gcc -D_GNU_SOURCE -O1 -fPIC -w %s/tests/tools/parts/%s.c %s", here, source, options));
}

void build_nccl(const char *folder, const char *version) {
  expect_done(run("mkdir -p %s && ln -sf libnccl.so.2 %s/libnccl.so", folder, folder));
  build("nccl", "-shared -DSHOWN -DVERSION='\"%s\"' -Wl,-soname,libnccl.so.2 -o %s/libnccl.so.2",
        version, folder);
}

void write_file(const char *name, const char *text) {
  char path[PATH_MAX];
  expect_done(run("mkdir -p \"$(dirname '%s')\"", name));
  snprintf(path, sizeof path, "%s/%s", sandbox(), name);
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  fputs(text, file);
  cr_assert_eq(fclose(file), 0);
}

struct result check(const char *environment, const char *words) {
  return run("%s nccl-join check %s", environment, words);
}

struct result check_json(const char *environment, const char *words) {
  struct result result = run("%s nccl-join check --json %s", environment, words);
  cr_expect(is_json(result.out), "not JSON: %s", result.out);
  return result;
}

void expect_answer(const char *environment, const char *words, int status, const char *text) {
  struct result result = check_json(environment, words);
  cr_expect_eq(result.status, status, "'%s %s' has status %d, not %d: %s%s", environment, words,
               result.status, status, result.out, result.err);
  cr_expect_not_null(strstr(result.out, text), "'%s %s': no '%s' in %s%s", environment, words, text,
                     result.out, result.err);
}

/* Of the machine's own Python, whose release is not always the folder's: that is a link then. */
void make_environment(void) {
  expect_done(
      run("real=$(python3 -c 'import sys; print(sys.executable)') && mkdir -p venv/bin "
          "venv/lib/python3.11/site-packages && ln -s \"$real\" venv/bin/python3 && ln -s python3 "
          "venv/bin/python && printf 'home = %%s\\ninclude-system-site-packages = false\\n' "
          "\"$(dirname \"$real\")\" >venv/pyvenv.cfg && release=$(venv/bin/python -c 'import sys; "
          "print(\"%%d.%%d\" %% sys.version_info[:2])') && { [ \"$release\" = 3.11 ] || ln -s "
          "python3.11 \"venv/lib/python$release\"; }"));
}

#define PACKAGES "venv/lib/python3.11/site-packages"

void add_package(const char *name, const char *module, const char *requires) {
  char path[512], text[2048], copy[1024] = "";
  snprintf(path, sizeof path, PACKAGES "/%s/__init__.py", name);
  write_file(path, "");
  if (module != NULL)
    snprintf(copy, sizeof copy, "cp %s " PACKAGES "/%s/_C.cpython-311-x86_64-linux-gnu.so", module,
             name);
  expect_done(run(":; %s", copy));
  snprintf(path, sizeof path, PACKAGES "/%s-1.0.dist-info/METADATA", name);
  snprintf(text, sizeof text, "Metadata-Version: 2.1\nName: %s\n%s\nRequires-Dist: no-header\n",
           name, requires);
  write_file(path, text);
  snprintf(path, sizeof path, PACKAGES "/%s-1.0.dist-info/RECORD", name);
  snprintf(text, sizeof text, "%s/__init__.py,sha256=x,0\n%s%s%s", name, module != NULL ? name : "",
           module != NULL ? "/_C.cpython-311-x86_64-linux-gnu.so,sha256=x,1\n" : "", "");
  write_file(path, text);
}

void make_packages(void) {
  make_environment();
  build_nccl("venv/lib/python3.11/site-packages/nvidia/nccl/lib", "2.27.3");
  build("user", "-DLIBRARY -shared -o frame.so -Lvenv/lib/python3.11/site-packages/nvidia/nccl/lib "
                "-lnccl");
  run("echo 'int plain;' >plain.c; gcc -shared -o plain.so plain.c");
  add_package("frame", "frame.so", "");
  add_package("plain", "plain.so", "");
  add_package("pure", NULL, "");
}
