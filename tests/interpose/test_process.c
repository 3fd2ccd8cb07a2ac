/* What a process notices of the preload object without using NCCL: nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/workshop.h"

Test(process, main_gets_what_it_would_get) {
  const char expected[] = "one\ntwo words\nend 1 environment 1\noutermost frame _start\n";
  workshop_expect("$W/arguments one 'two words'", 0, expected);
  workshop_expect("env $J $W/arguments one 'two words'", 0, expected);
  workshop_expect("env $J $W/arguments_fixed one 'two words'", 0, expected);
}

Test(process, a_shell_and_its_children_are_silent) {
  workshop_expect("env $J sh -c 'true; (exit 0); ls / >/dev/null; sh -c true'", 0, "");
  workshop_expect("env $J sh -c 'exit 7'", 7, "");
}

Test(process, the_product_is_as_silent) {
  if (!workshop_has_product())
    cr_skip("no libnccl-join.so in the build folder");
  workshop_expect("env $P sh -c 'true; (exit 0); ls / >/dev/null; sh -c true; exit 7'", 7, "");
  workshop_expect("env $P $W/arguments one 'two words'", 0,
                  "one\ntwo words\nend 1 environment 1\noutermost frame _start\n");
}

Test(process, a_cpp_program_leaves_before_its_static_objects_go) {
  if (workshop_run("g++ --version").status != 0)
    cr_skip("no g++");
  workshop_expect("g++ -o $W/statics tests/interpose/parts/statics.cc -L$W/fake -l:libnccl.so.2 "
                  "-Wl,-rpath,$W/fake && (env $J QUIET=1 $W/statics; echo status $?) | "
                  "grep -v '^real '",
                  0, "leave 3\nstatic object gone\nstatus 3\n");
  workshop_expect("(env $J QUIET=1 $W/statics throw; echo status $?) 2>/dev/null | "
                  "grep -v '^real '",
                  0, "status 134\n");
}

/* Sanitizers want to come first in the search order; gcc's are shared libraries. */
static void under(const char *sanitizer, const char *library) {
  char command[2048];
  snprintf(
      command, sizeof command,
      "s=$(gcc -print-file-name=%s.so); test -e \"$s\" || exit 77;"
      "gcc -w -D_GNU_SOURCE -fsanitize=%s -I. $(sed -n 's/^\\(NCCL\\|CUDA13\\)_INCLUDE = /-isystem "
      "/p' .deps/paths.mk)"
      " -o $W/endings_%s tests/interpose/parts/endings.c -L$W/fake -l:libnccl.so.2 "
      "-Wl,-rpath,$W/fake "
      "|| exit 77;"
      "for way in 'main_return 3' 'exit 3' 'errx 3' 'thread 3'; do"
      " env $J QUIET=1 LD_PRELOAD=\"$s:$W/double.so\" $W/endings_%s $way | grep -v '^real '; done",
      library, sanitizer, sanitizer, sanitizer);
  struct outcome outcome = workshop_run(command);
  if (outcome.status == 77)
    cr_skip("no %s", library);
  const char ending[] = "leave 3\natexit\ndestructor\n";
  char expected[1024] = "";
  for (int i = 0; i < 4; i++) {
    workshop_append(expected, sizeof expected, i == 2 ? "endings_" : "");
    workshop_append(expected, sizeof expected, i == 2 ? sanitizer : "");
    workshop_append(expected, sizeof expected, i == 2 ? ": the end\n" : "");
    workshop_append(expected, sizeof expected, ending);
  }
  cr_assert_str_eq(outcome.output, expected, "%s", outcome.output);
}

Test(process, a_program_under_the_address_sanitizer) {
  under("address", "libasan");
}
Test(process, a_program_under_the_thread_sanitizer) {
  under("thread", "libtsan");
}

Test(process, a_program_under_valgrind, .timeout = 300) {
  if (workshop_run("valgrind --version").status != 0)
    cr_skip("no valgrind");
  workshop_expect("env QUIET=1 valgrind -q --error-exitcode=66 --trace-children=no env true; "
                  "for way in 'main_return 3' 'exit 3' 'errx 3'; do (env $J QUIET=1 valgrind -q "
                  "--error-exitcode=66 $W/endings $way;"
                  "echo status $?) | grep -v '^real '; done",
                  0,
                  "leave 3\natexit\ndestructor\nstatus 3\nleave 3\natexit\ndestructor\nstatus 3\n"
                  "endings: the end\nleave 3\natexit\ndestructor\nstatus 3\n");
}
