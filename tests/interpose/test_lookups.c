/* Programs that open NCCL and look its functions up (lookups.h), and what others notice of that. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/workshop.h"

#define SEEK(how, file) "env $J $W/seeker --" how " $W/" file " "
#define NCCL "fake/libnccl.so.2"

static const char both[] = "join ncclAllReduce\nreal ncclAllReduce\n";

Test(lookups, in_a_library_opened_in_any_way) {
  workshop_expect(SEEK("local", NCCL) "AllReduce", 0, both);
  workshop_expect(SEEK("global", NCCL) "AllReduce", 0, both);
  workshop_expect(SEEK("noload", NCCL) "AllReduce", 0, both);
  workshop_expect(SEEK("deepbind", NCCL) "AllReduce", 0, both);
  workshop_expect("env $J LD_LIBRARY_PATH=$W/fake $W/seeker --local libnccl.so.2 AllReduce", 0,
                  both);
}

Test(lookups, everywhere) {
  workshop_expect(SEEK("default", NCCL) "AllReduce", 0, both);
  workshop_expect(SEEK("program", NCCL) "AllReduce", 0, both);
}

Test(lookups, with_a_version) {
  workshop_expect(SEEK("versioned", "versioned/libnccl.so.2") "AllReduce", 0, both);
  workshop_expect(SEEK("versioned", "versioned/libnccl.so.2") "has:ncclNonsense 2>/dev/null", 0,
                  "ncclNonsense: missing\n");
}

Test(lookups, under_another_name_than_libnccl) {
  workshop_expect(SEEK("local", "other/libother.so") "AllReduce", 0,
                  "join ncclAllReduce\nother ncclAllReduce\n");
}

Test(lookups, through_a_library_that_needs_nccl) {
  workshop_expect(SEEK("local", "plugin.so") "AllReduce", 0, both);
}

Test(lookups, functions_that_call_themselves_are_counted_once) {
  workshop_expect(SEEK("local", NCCL) "Bcast", 0,
                  "join ncclBcast\nreal ncclBcast\nreal ncclBroadcast\n");
}

/* The line of a process that has made no call is another test's. */
#define HAS "2>/dev/null has:ncclAllReduce has:ncclCommShrink has:ncclNonsense has:ncclGetVersion"

Test(lookups, what_the_nccl_has_is_there) {
  workshop_expect(SEEK("local", NCCL) HAS, 0,
                  "ncclAllReduce: there\nncclCommShrink: there\nncclNonsense: "
                  "missing\nncclGetVersion: there\n");
}

Test(lookups, what_the_nccl_lacks_stays_missing) {
  const char *hows[] = {"local", "global", "default", "program"};
  for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
    char command[256];
    snprintf(command, sizeof command, SEEK("%s", "old/libnccl.so.2") HAS, hows[i]);
    workshop_expect(command, 0,
                    "ncclAllReduce: there\nncclCommShrink: missing\nncclNonsense: missing\n"
                    "ncclGetVersion: there\n");
  }
}

Test(lookups, without_nccl_everything_is_missing) {
  workshop_expect(SEEK("default", "libbehind.so") HAS, 0,
                  "ncclAllReduce: missing\nncclCommShrink: missing\nncclNonsense: missing\n"
                  "ncclGetVersion: missing\n");
  workshop_expect(SEEK("program", "libbehind.so") "has:ncclAllReduce", 0,
                  "ncclAllReduce: missing\n");
}

Test(lookups, a_tool_that_wraps_a_few_functions_is_not_taken_for_nccl) {
  workshop_expect(SEEK("local", "profiler.so") "AllReduce", 0, "profiler ncclAllReduce\n");
}

Test(lookups, the_nccl_stays_when_the_program_closes_it) {
  workshop_expect(SEEK("local", NCCL) "CommInitAll close | tail -n 2", 0,
                  "leave 0\nreal ncclGroupStart\n");
}

Test(lookups, switched_off_every_call_goes_straight_through) {
  workshop_expect("env NCCL_JOIN=0 " SEEK("local", NCCL) "AllReduce Bcast", 0,
                  "real ncclAllReduce\nreal ncclBcast\nreal ncclBroadcast\n");
}

static void expect_of_python(const char *script, const char *output) {
  if (workshop_run("python3 -c 'import ctypes'").status != 0)
    cr_skip("no python3");
  char command[1024];
  snprintf(command, sizeof command, "env $J python3 -c \"%s\"", script);
  workshop_expect(command, 0, output);
}

Test(lookups, by_ctypes) {
  expect_of_python("import ctypes\n"
                   "nccl = ctypes.CDLL('$W/old/libnccl.so.2')\n"
                   "nccl.ncclAllReduce()\n"
                   "print(hasattr(nccl, 'ncclCommWindowRegister'))\n",
                   "join ncclAllReduce\nreal ncclAllReduce\nFalse\n");
}

Test(lookups, by_ctypes_in_a_program_without_nccl) {
  expect_of_python("import ctypes\nprint(hasattr(ctypes.CDLL(None), 'ncclAllReduce'))\n",
                   "False\n");
}

Test(lookups, by_cffi) {
  if (workshop_run("python3 -c 'import cffi'").status != 0)
    cr_skip("no cffi");
  expect_of_python("import cffi\n"
                   "ffi = cffi.FFI()\n"
                   "ffi.cdef('int ncclGroupStart(void);')\n"
                   "ffi.dlopen('$W/fake/libnccl.so.2').ncclGroupStart()\n",
                   "join ncclGroupStart\nreal ncclGroupStart\n");
}

/* ---- weak references ---- */

#define WEAK(all, shrink)                                                                          \
  "AllReduce " all "\nCommShrink " shrink "\nCommShrink in a table " shrink "\n"

Test(weak, what_the_nccl_lacks_stays_missing) {
  const char *programs[] = {"weak", "weak_now"};
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
    char command[256];
    snprintf(command, sizeof command, "env $J LD_LIBRARY_PATH=$W/old $W/%s | tail -n +3",
             programs[i]);
    workshop_expect(command, 0, WEAK("there", "missing"));
    snprintf(command, sizeof command, "env $J $W/%s | tail -n +3", programs[i]);
    workshop_expect(command, 0, WEAK("there", "there"));
  }
  workshop_expect("env $J LD_BIND_NOW=1 LD_LIBRARY_PATH=$W/old $W/weak | tail -n +3", 0,
                  WEAK("there", "missing"));
}

Test(weak, without_nccl_everything_is_missing) {
  workshop_expect("env $J $W/weak_alone", 0, WEAK("missing", "missing"));
}

Test(weak, what_is_there_is_caught) {
  workshop_expect("env $J LD_LIBRARY_PATH=$W/old $W/weak | head -n 2", 0, both);
}

/* ---- several libraries ---- */

/* What maker.c makes of one library, called directly or looked up. */
#define MADE(function, word) "join nccl" function "\n" word " nccl" function "\n"
#define MAKER(word)                                                                                \
  MADE("GetUniqueId", word)                                                                        \
  MADE("CommInitRank", word)                                                                       \
  MADE("AllReduce", word)                                                                          \
  MADE("Bcast", word)                                                                              \
  word " ncclBroadcast\n" MADE("CommSplit", word) MADE("ReduceScatter", word)                      \
      MADE("CommDestroy", word)
#define LEAVE                                                                                      \
  "leave 0\nreal ncclGroupStart\n"                                                                 \
  "other ncclGroupStart\n"

Test(libraries, each_plugin_reaches_its_own) {
  workshop_expect("env $J $W/host --open $W/maker.so x --open $W/other_maker.so x", 0,
                  MAKER("real") MAKER("other") LEAVE);
  workshop_expect("env $J $W/host --open $W/other_maker.so x --open $W/maker.so x | tail -n +16", 0,
                  MAKER("real") "leave 0\nother ncclGroupStart\nreal ncclGroupStart\n");
}

Test(libraries, the_program_reaches_its_own_whatever_was_looked_up_before) {
  workshop_expect("env $J $W/linked --open $W/other_maker.so x AllReduce 2>&1 | head -n 15", 0,
                  MAKER("other"));
}

Test(libraries, each_look_up_reaches_its_own) {
  workshop_expect(
      SEEK("local", NCCL) "AllReduce --local $W/other/libother.so AllReduce Bcast "
                          "--local $W/" NCCL " AllReduce",
      0,
      "join ncclAllReduce\nreal ncclAllReduce\njoin ncclAllReduce\nother ncclAllReduce\n"
      "join ncclBcast\nother ncclBcast\nother ncclBroadcast\n"
      "join ncclAllReduce\nreal ncclAllReduce\n");
}

Test(libraries, switched_off_each_call_reaches_its_own) {
#define PASSED(word)                                                                               \
  word " ncclGetUniqueId\n" word " ncclCommInitRank\n" word " ncclAllReduce\n" word                \
       " ncclBcast\n" word " ncclBroadcast\n" word " ncclCommSplit\n" word                         \
       " ncclReduceScatter\n" word " ncclCommDestroy\n"
  workshop_expect("env NCCL_JOIN=0 $J $W/host --open $W/maker.so x --open $W/other_maker.so x", 0,
                  PASSED("real") PASSED("other"));
}

Test(libraries, groups_are_begun_and_ended_in_all) {
  workshop_expect(SEEK("local", NCCL) "AllReduce --local $W/other/libother.so GroupStart GroupEnd",
                  0,
                  "join ncclAllReduce\nreal ncclAllReduce\n"
                  "join ncclGroupStart\nreal ncclGroupStart\nother ncclGroupStart\n"
                  "join ncclGroupEnd\nreal ncclGroupEnd\nother ncclGroupEnd\n");
}

Test(libraries, a_group_that_is_older_than_a_library_is_not_ended_there) {
  workshop_expect(SEEK("local", NCCL) "GroupStart AllReduce --local $W/other/libother.so "
                                      "AllReduce --local $W/" NCCL " GroupEnd",
                  0,
                  "join ncclGroupStart\nreal ncclGroupStart\njoin ncclAllReduce\nreal "
                  "ncclAllReduce\njoin ncclAllReduce\nother ncclAllReduce\n"
                  "join ncclGroupEnd\nreal ncclGroupEnd\n");
}

Test(libraries, one_that_calls_another_is_acted_on_once) {
  const char expected[] = "join ncclCommSplit\nfront ncclCommSplit\nreal ncclCommSplit\n"
                          "join ncclBcast\nfront ncclBcast\nreal ncclBcast\nreal ncclBroadcast\n";
  workshop_expect("env BEHIND=$W/" NCCL " " SEEK("local", "front.so") "CommSplit Bcast", 0,
                  expected);
  /* Known before: the other way round the first library of the process would be called. */
  workshop_expect("env BEHIND=$W/" NCCL " " SEEK("local", NCCL) "AllReduce --local $W/front.so "
                                                                "CommSplit Bcast | tail -n +3",
                  0, expected);
}

Test(libraries, one_too_many_is_said_and_left_alone) {
  struct outcome outcome = workshop_run(
      "cd $W; for i in 1 2 3 4 5; do cp other/libother.so other/lib$i.so; done; env $J ./seeker "
      "--local other/lib1.so AllReduce --local other/lib2.so AllReduce --local other/lib3.so "
      "AllReduce --local other/lib4.so AllReduce --local other/lib5.so AllReduce");
  cr_assert_not_null(strstr(outcome.output, "more than 4 NCCL libraries"), "%s", outcome.output);
  const char *after = outcome.output;
  for (int i = 0; i < 4; i++) {
    after = strstr(after, "join ncclAllReduce\nother ncclAllReduce\n");
    cr_assert_not_null(after, "%d: %s", i, outcome.output);
    after += 5;
  }
  cr_assert_null(strstr(after, "join nccl"), "%s", outcome.output);
}

/* ---- RTLD_DEEPBIND ---- */

Test(deepbind, a_plugin_is_caught_all_the_same) {
  workshop_expect("env $J $W/host --deep $W/plugin.so AllReduce", 0, both);
  workshop_expect("cd $W && env $J LD_LIBRARY_PATH=$W ./host --deep plugin.so AllReduce", 0, both);
}

Test(deepbind, a_plugin_that_brings_one_along_is_caught) {
  workshop_expect("env $J $W/host --deep $W/only/outer.so AllReduce", 0, both);
}

/* The linker's own message, whatever we have looked at. */
Test(deepbind, files_that_are_no_libraries_are_left_to_the_linker) {
  const char *files[] = {"$W/exports.map", "$W", "$W/cut", "$W/spoilt"};
  workshop_run("head -c 100 $W/plugin.so >$W/cut; p=$W/plugin.so; (head -c 16 $p; head -c 600 "
               "/dev/zero | tr '\\0' '\\377'; tail -c +617 $p) >$W/spoilt");
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    char command[256];
    snprintf(command, sizeof command, "$W/host --deep %s", files[i]);
    struct outcome bare = workshop_run(command);
    cr_assert_eq(bare.status, 98, "%s: %s", command, bare.output);
    snprintf(command, sizeof command, "env $J $W/host --deep %s", files[i]);
    workshop_expect(command, bare.status, bare.output);
  }
}

/* ---- what others notice ---- */

/* inner.c, built as each kind of program is; `run` is what is in front of the program. */
static void expect_of_inner(const char *flags, const char *preload) {
  char command[2048];
  snprintf(
      command, sizeof command,
      "f='%s'; i=tests/interpose/parts/inner.c; d=$(mktemp -d -p $W); c=\"gcc -w -D_GNU_SOURCE "
      "-I. $f\"; s=%s; "
      "$c -fPIC -shared -o $d/libinner.so $i -Wl,--no-as-needed $W/libbehind.so "
      "-Wl,--enable-new-dtags,-rpath,$W/only -Wl,-rpath,$W && "
      "$c -rdynamic -DPROGRAM -o $d/program $i -L$d -linner $W/libbehind.so -Wl,-rpath,$d "
      "-Wl,-rpath,$W || exit 77;"
      "for how in next open deepbind; do for p in '' $W/double.so; do echo $how;"
      " LD_PRELOAD=\"$s $p\" $d/program $how; done; done",
      flags, preload);
  struct outcome outcome = workshop_run(command);
  if (outcome.status == 77)
    cr_skip("cannot be built with %s", flags);
#define NEXT "next\nnext behind\nversioned next behind\n"
  cr_assert_str_eq(outcome.output,
                   NEXT NEXT "open\nowner program\nopen\nowner program\n"
                             "deepbind\nowner library\ndeepbind\nowner library\n",
                   "%s: %s", flags, outcome.output);
}

Test(others, find_their_next_and_their_runpath_at_every_optimisation) {
  const char *flags[] = {
      "-O0", "-O1", "-O2", "-Os", "-Og -fno-optimize-sibling-calls", "-O2 -fstack-protector-all"};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
    expect_of_inner(flags[i], "''");
}

/* ---- under sanitizers and valgrind ---- */

static void under(const char *sanitizer, const char *library) {
  char command[2048];
  snprintf(command, sizeof command,
           "s=$(gcc -print-file-name=%s.so); test -e \"$s\" || exit 77;"
           "gcc -w -D_GNU_SOURCE -fsanitize=%s -DLOOKED_UP -I. $(sed -n "
           "'s/^\\(NCCL\\|CUDA13\\)_INCLUDE = /-isystem /p' .deps/paths.mk) -o $W/seeker_%s "
           "tests/interpose/parts/seeker.c tests/interpose/parts/client.c || exit 77;"
           "for how in local global default; do env LD_PRELOAD=\"$s:$W/double.so\" "
           "ASAN_OPTIONS=detect_leaks=0 $W/seeker_%s --$how $W/" NCCL " AllReduce; done",
           library, sanitizer, sanitizer, sanitizer);
  struct outcome outcome = workshop_run(command);
  if (outcome.status == 77)
    cr_skip("no %s", library);
  char expected[512] = "";
  for (int i = 0; i < 3; i++)
    workshop_append(expected, sizeof expected, both);
  cr_assert_str_eq(outcome.output, expected, "%s", outcome.output);
}

Test(lookups, by_a_program_under_the_address_sanitizer) {
  under("address", "libasan");
}
Test(lookups, by_a_program_under_the_thread_sanitizer) {
  under("thread", "libtsan");
}

Test(lookups, by_a_program_under_valgrind, .timeout = 300) {
  if (workshop_run("valgrind --version").status != 0)
    cr_skip("no valgrind");
  workshop_expect("env $J valgrind -q --error-exitcode=66 $W/seeker --local $W/" NCCL
                  " AllReduce --default $W/" NCCL " has:ncclNonsense",
                  0, "join ncclAllReduce\nreal ncclAllReduce\nncclNonsense: missing\n");
}
