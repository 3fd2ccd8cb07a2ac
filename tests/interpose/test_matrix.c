/* Every way to come to NCCL, in front of the loopback and of the real NCCL (which without a GPU
 * makes no communicator), in programs built in several ways: each call is caught, or it is said
 * that it was not.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/workshop.h"

#define COMMAND 2048

/* How programs are built, and what has to come before everything else in them. */
static const struct build {
  const char *name, *options;
  const char *runtime; /* NULL: nothing */
} builds[] = {
    {"unoptimised", "-O0", NULL},
    {"optimised", "-O2", NULL},
    {"address", "-O1 -fsanitize=address", "libasan.so"},
    {"thread", "-O1 -fsanitize=thread", "libtsan.so"},
};

static const struct nccl {
  const char *name, *folder;
  const char *answer; /* to the creation of a communicator */
} loopback = {"the loopback", "$B/loopback", "id 0, communicator 0\n"},
  real = {"the real NCCL", "$L", "id 0, communicator 1\n"};

/* What is to be said of a way. */
enum verdict { CAUGHT, BYPASSED };

/* $D: the folder of the programs. */
static const struct way {
  const char *name, *command;
  enum verdict verdict;
  bool carries_nccl;      /* the loopback is part of it */
  bool sanitizer_refuses; /* RTLD_DEEPBIND, whoever is in front */
} ways[] = {
    {"linked", "$D/linked", CAUGHT, false, false},
    {"bound at start", "LD_BIND_NOW=1 $D/linked", CAUGHT, false, false},
    {"opened for itself", "$D/looking local libnccl.so.2", CAUGHT, false, false},
    {"opened by its path", "$D/looking local $F/libnccl.so.2", CAUGHT, false, false},
    {"opened for all", "$D/looking global libnccl.so.2", CAUGHT, false, false},
    {"opened with RTLD_DEEPBIND", "$D/looking deepbind libnccl.so.2", CAUGHT, false, true},
    {"plug-in", "$D/host plugin $D/plugin.so", CAUGHT, false, false},
    {"plug-in with RTLD_DEEPBIND", "$D/host deep $D/plugin.so", CAUGHT, false, true},
    {"inside a library", "$D/host plugin $D/exported.so", CAUGHT, true, false},
    {"hidden in a library", "$D/host plugin $D/hidden.so", BYPASSED, true, false},
    {"in a library that binds to itself", "$D/host plugin $D/symbolic.so", BYPASSED, true, false},
};

static void expect_in(const struct outcome *outcome, const char *what, const char *cell) {
  cr_expect_not_null(strstr(outcome->output, what), "%s: it does not say '%s' but:\n%s", cell, what,
                     outcome->output);
}

static const char *runtime_of(const struct build *build, char *text) {
  snprintf(text, 64, build->runtime == NULL ? "" : "$(gcc -print-file-name=%s)", build->runtime);
  return text;
}

static void try_cell(const struct build *build, const struct nccl *nccl, const struct way *way) {
  char command[COMMAND], cell[256], runtime[64];
  snprintf(cell, sizeof cell, "%s, %s, %s", way->name, nccl->name, build->name);
  snprintf(command, sizeof command,
           "D=$W/%s; F=%s; s=%s; P=$B/lib/libnccl-join.so; env LD_PRELOAD=\"$s $P\" "
           "LD_LIBRARY_PATH=$F NCCL_JOIN_DEBUG=INFO NCCL_PROFILER_PLUGIN=$P "
           "ASAN_OPTIONS=detect_leaks=0 %s",
           build->name, nccl->folder, runtime_of(build, runtime), way->command);
  struct outcome outcome = workshop_run(command);
  if (way->sanitizer_refuses && build->runtime != NULL) {
    expect_in(&outcome, "incompatible with sanitizer runtime", cell);
    return;
  }
  cr_expect_eq(outcome.status, 0, "%s: status %d\n%s", cell, outcome.status, outcome.output);
  expect_in(&outcome, nccl->answer, cell);
  bool front = strstr(outcome.output, "NCCL-JOIN INFO in front of NCCL 2.") != NULL;
  bool bypass = strstr(outcome.output, "NCCL-JOIN WARN join is off: this process makes NCCL "
                                       "communicators that bypass nccl-join") != NULL;
  cr_expect_eq(front, way->verdict == CAUGHT, "%s: %s\n%s", cell,
               front ? "caught, and was not to be" : "not caught", outcome.output);
  cr_expect_eq(bypass, way->verdict == BYPASSED, "%s: %s\n%s", cell,
               bypass ? "called a bypass" : "a bypass, not said", outcome.output);
}

/* There is no NCCL to be linked statically here but the loopback. */
static void try_build(const struct build *build) {
  if (!workshop_has_product() || workshop_run("test -e $B/loopback/libnccl.so.2").status != 0)
    cr_skip("no libnccl-join.so or no loopback in the build folder");
  char command[COMMAND];
  snprintf(command, sizeof command, "tests/interpose/parts/reach.sh $W/%s %s", build->name,
           build->options);
  struct outcome built = workshop_run(command);
  cr_assert_eq(built.status, 0, "%s", built.output);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    try_cell(build, &loopback, &ways[i]);
    if (workshop_has_nccl() && !ways[i].carries_nccl)
      try_cell(build, &real, &ways[i]);
  }
}

Test(matrix, programs_without_optimisation) {
  try_build(&builds[0]);
}
Test(matrix, programs_with_optimisation) {
  try_build(&builds[1]);
}
Test(matrix, programs_with_the_address_sanitizer) {
  try_build(&builds[2]);
}
Test(matrix, programs_with_the_thread_sanitizer) {
  try_build(&builds[3]);
}

/* The interpreter is as it is; a sanitizer's library can be in front of it all the same. */
Test(matrix, python) {
  if (!workshop_has_product() || workshop_run("python3 -c 'import ctypes'").status != 0)
    cr_skip("no libnccl-join.so in the build folder, or no python3");
  static const char script[] =
      "import ctypes\n"
      "class Id(ctypes.Structure): _fields_ = [('bytes', ctypes.c_char * 128)]\n"
      "nccl = ctypes.CDLL('libnccl.so.2')\n"
      "id, comm = Id(), ctypes.c_void_p()\n"
      "got = nccl.ncclGetUniqueId(ctypes.byref(id))\n"
      "made = nccl.ncclCommInitRank(ctypes.byref(comm), 1, id, 0)\n"
      "print(f'id {got}, communicator {made}')\n";
  char command[COMMAND];
  snprintf(command, sizeof command, "cat >$W/reach.py <<'END'\n%sEND\n", script);
  workshop_expect(command, 0, "");
  const struct way ways_of_python[] = {
      {"ctypes", "python3 $W/reach.py", CAUGHT, false, false},
      {"ctypes of the system", "/usr/bin/python3 $W/reach.py", CAUGHT, false, false},
  };
  int tried = 0;
  for (size_t i = 1; i < sizeof builds / sizeof builds[0]; i++) {
    for (size_t j = 0; j < 2; j++) {
      char runtime[64];
      snprintf(command, sizeof command, "LD_PRELOAD=%s %.*s -c pass",
               runtime_of(&builds[i], runtime), (int)strcspn(ways_of_python[j].command, " "),
               ways_of_python[j].command);
      if (workshop_run(command).status != 0)
        continue; /* not even alone, or not there */
      tried++;
      try_cell(&builds[i], &loopback, &ways_of_python[j]);
      if (workshop_has_nccl())
        try_cell(&builds[i], &real, &ways_of_python[j]);
    }
  }
  cr_assert_gt(tried, 0, "no Python ran");
}

/* As the dynamic linker itself tells it. */
Test(matrix, a_linked_program_is_bound_to_us) {
  if (!workshop_has_nccl() || !workshop_has_product())
    cr_skip("no libnccl-join.so in the build folder, or no real NCCL");
  workshop_expect(
      "env $P LD_LIBRARY_PATH=$L LD_DEBUG=bindings $W/linked GroupStart GroupEnd 2>&1 | sed -n "
      "'s,.*binding file .*/linked .* to .*/\\([^/ ]*\\) .*symbol `\\(ncclGroup[^ ]*\\)'\"'.*,\\1 "
      "\\2,p\"",
      0, "libnccl-join.so ncclGroupStart\nlibnccl-join.so ncclGroupEnd\n");
}

/* What opens libraries that are named when it runs cannot be told from its file. */
Test(matrix, nccl_join_check_tells_beforehand_what_is_caught) {
  if (!workshop_has_product() || workshop_run("test -e $B/loopback/libnccl.so.2").status != 0)
    cr_skip("no libnccl-join.so or no loopback in the build folder");
  struct outcome built = workshop_run("tests/interpose/parts/reach.sh $W/check -O2");
  cr_assert_eq(built.status, 0, "%s", built.output);
  static const struct {
    const char *file;
    int status;
  } answers[] = {{"linked", 0},    {"looking", 0},     {"plugin.so", 0}, {"exported.so", 0},
                 {"hidden.so", 1}, {"symbolic.so", 1}, {"host", 2}};
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    char command[COMMAND];
    snprintf(command, sizeof command,
             "env -u LD_PRELOAD LD_LIBRARY_PATH=$B/loopback $B/tools/nccl-join-check $W/check/%s "
             ">/dev/null",
             answers[i].file);
    workshop_expect(command, answers[i].status, "");
  }
}
