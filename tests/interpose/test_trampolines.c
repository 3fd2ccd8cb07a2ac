/* Being told of calls of functions that nobody has known before (trampolines.h, imports.h), with
 * what they are given and what they return as if nobody had been told.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/workshop.h"

#define BUT_NCCL "2>&1 | grep -v 'nccl'"

/* Runs a program of stepper.c; `under`: words in front of it. */
static struct outcome watch(const char *names, const char *under, const char *program,
                            const char *words) {
  char command[1024];
  snprintf(command, sizeof command, "env QUIET=1 WATCH=%s $J %s $W/%s %s " BUT_NCCL, names, under,
           program, words);
  return workshop_run(command);
}

static void expect(const char *names, const char *program, const char *words, const char *output) {
  struct outcome outcome = watch(names, "", program, words);
  cr_assert_str_eq(outcome.output, output, "%s %s: %s", program, words, outcome.output);
}

static int lines_with(const char *text, const char *what) {
  int count = 0;
  while ((text = strstr(text, what)) != NULL)
    count++, text++;
  return count;
}

/* All but that of vectors, which not every processor has. */
#define ALL                                                                                        \
  "step_integers,step_doubles,step_float,step_long_double,step_complex,step_large,step_variadic,"  \
  "step_variadic_integers,step_errno,_Z7step_cci,step_again,step_chosen,step_versioned,MPI_Step,"  \
  "step_vector"

#define TOLD(versioned)                                                                            \
  "called step_integers\n285\n"                                                                    \
  "called step_doubles\n770\n"                                                                     \
  "called step_float\n4.75\n"                                                                      \
  "called step_long_double\n0.125\n"                                                               \
  "called step_complex\n-3 4\n"                                                                    \
  "called step_large\n3 5 2 8\n"                                                                   \
  "called step_variadic\n385\n"                                                                    \
  "called step_variadic_integers\n204\n"                                                           \
  "called step_errno\nkept given\n"                                                                \
  "called _Z7step_cci\n2\n"                                                                        \
  "called step_again\ncalled step_again\ncalled step_again\ncalled step_again\n6\n"                \
  "called step_chosen\n40\n"                                                                       \
  "called step_versioned\n" versioned "\n"                                                         \
  "called MPI_Step\n9\n"

static void expect_all(const char *program, const char *words, const char *told) {
  struct outcome outcome = watch(ALL, "", program, words);
  size_t length = strlen(told);
  cr_assert(strncmp(outcome.output, told, length) == 0, "%s: %s", program, outcome.output);
  bool vectors = strcmp(outcome.output + length, "called step_vector\n1 64\nleave 0\n") == 0;
  cr_assert(vectors || strcmp(outcome.output + length, "leave 0\n") == 0, "%s: %s", program,
            outcome.output);
}

Test(trampolines, arguments_and_results_of_every_kind_however_the_program_is_linked) {
  const char *programs[] = {"stepper", "stepper_now", "stepper_direct"};
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    expect_all(programs[i], "make steps", TOLD("7"));
}

Test(trampolines, version_that_the_program_asks_for) {
  expect_all("stepper_fixed", "make steps", TOLD("6"));
}

Test(trampolines, what_has_been_bound_before_is_found_as_well) {
  struct outcome outcome = watch("step_cc,_Z7step_cci", "", "stepper", "steps make steps");
  cr_assert_eq(lines_with(outcome.output, "called _Z7step_cci\n2\n"), 1, "%s", outcome.output);
}

Test(trampolines, library_that_is_opened_later) {
  const char *libraries[] = {"stepping.so", "stepping_now.so"};
  for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
    char words[128];
    snprintf(words, sizeof words, "make open $W/%s", libraries[i]);
    expect_all("stepless", words, TOLD("7"));
  }
}

Test(trampolines, library_that_is_closed_and_opened_again) {
  struct outcome outcome =
      watch("step_integers", "", "stepless",
            "make open $W/stepping.so reopen $W/stepping_now.so reopen $W/stepping.so close end");
  cr_assert_eq(lines_with(outcome.output, "called step_integers\n285\n"), 3, "%s", outcome.output);
  cr_assert_eq(lines_with(outcome.output, "leave 0\n"), 1, "%s", outcome.output);
}

Test(trampolines, two_objects_that_call_the_same) {
  struct outcome outcome = watch("step_integers", "", "stepper",
                                 "make steps open $W/stepping.so steps open $W/stepping_now.so");
  cr_assert_eq(lines_with(outcome.output, "called step_integers\n285\n"), 4, "%s", outcome.output);
}

Test(trampolines, taken_away_nobody_is_told) {
  const char *programs[] = {"stepper", "stepper_now", "stepper_fixed", "stepper_direct"};
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
    struct outcome outcome =
        watch(ALL, "", programs[i], "make steps end steps open $W/stepping.so");
    const char *second = strstr(strstr(outcome.output, "285\n") + 1, "285\n");
    cr_assert(second != NULL && lines_with(second, "285\n") == 2, "%s", outcome.output);
    cr_assert_eq(lines_with(outcome.output, "called step_integers\n"), 1, "%s", outcome.output);
    cr_assert_eq(lines_with(second, "called"), 0, "%s", outcome.output);
  }
}

Test(trampolines, taken_away_references_are_what_they_were) {
  const char *programs[] = {"stepper", "stepper_now", "stepper_direct"};
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    expect("step_integers", programs[i], "whose make whose end whose",
           "libsteps.so\ndouble.so\nlibsteps.so\nleave 0\n");
}

/* Its own stub is the function's address for all, and is what its reference begins with. */
Test(trampolines, program_at_a_fixed_address_that_takes_the_address) {
  expect("step_cc,_Z7step_cci", "stepper_fixed", "make point call",
         "called _Z7step_cci\n5\nleave 0\n");
  struct outcome outcome =
      watch("_Z7step_cci", "", "stepper_fixed", "make open $W/stepping.so open $W/stepping_now.so");
  cr_assert_eq(lines_with(outcome.output, "called _Z7step_cci\n2\n"), 2, "%s", outcome.output);
}

Test(trampolines, before_the_first_communicator_nothing_is_changed) {
  expect("step_cc,_Z7step_cci", "stepper", "look _Z7step_cci call make call", "5\n5\nleave 0\n");
}

Test(trampolines, functions_that_are_looked_up) {
  expect("_Z7step_cci", "stepper", "make look _Z7step_cci call end call",
         "called _Z7step_cci\n5\n5\nleave 0\n");
}

/* By ctypes, say: once looked up it stays so, and that may be long before. */
Test(trampolines, functions_of_mpi_that_are_looked_up_before_as_well) {
  expect("MPI_Step", "stepper", "look MPI_Step make call", "called MPI_Step\n7\nleave 0\n");
}

Test(trampolines, what_a_library_calls_of_its_own_can_be_left_alone) {
  expect("MPI_Step,MPI_Outer", "stepper", "make look MPI_Outer call",
         "called MPI_Outer\n14\nleave 0\n");
}

/* It is told where it happens: nothing may be placed afterwards. */
Test(trampolines, more_functions_than_there_are_trampolines) {
  struct outcome outcome =
      workshop_run("mkdir $W/many; for i in $(seq 129); do cp $W/libsteps.so $W/many/$i.so; done;"
                   "for n in 128 129; do env QUIET=1 WATCH=step_integers $J $W/stepless make"
                   "  $(for i in $(seq $n); do echo keep $W/many/$i.so; done) 2>&1 | grep -c 'more "
                   "than 128'; done;"
                   "rm -r $W/many");
  cr_assert_str_eq(outcome.output, "0\n1\n", "%s", outcome.output);
}

Test(trampolines, look_ups_of_others_find_what_they_did) {
  expect("step_cc", "stepper", "make look _Z7step_cci call look MPI_Step call", "5\n7\nleave 0\n");
}

Test(trampolines, with_read_only_references_that_are_read_only_again) {
  struct outcome outcome =
      watch("step_integers", "", "stepper_now", "make steps open $W/stepping_now.so maps");
  cr_assert_eq(lines_with(outcome.output, "called step_integers\n285\n"), 2, "%s", outcome.output);
  cr_assert_eq(lines_with(outcome.output, "writable\n"), 0, "%s", outcome.output);
  cr_assert_eq(lines_with(outcome.output, "sealed\n"), 1, "%s", outcome.output);
}

Test(trampolines, under_valgrind, .timeout = 300) {
  if (workshop_run("valgrind --version").status != 0)
    cr_skip("no valgrind");
  struct outcome outcome =
      watch(ALL, "valgrind -q --error-exitcode=66", "stepper", "make steps end");
  size_t length = strlen(TOLD("7"));
  cr_assert(strncmp(outcome.output, TOLD("7"), length) == 0, "%s", outcome.output);
}
