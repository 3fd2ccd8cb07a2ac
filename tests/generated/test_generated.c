/* A fixed part of the programs made at random, and the tests of what makes and judges them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *setting(const char *name, const char *otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text != '\0' ? text : otherwise;
}

/* Runs a script of this folder; what it says is shown if it fails. */
static void check_script(const char *script, const char *options) {
  char command[512];
  if (system("python3 -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 8))'") != 0)
    cr_skip("no python3");
  snprintf(command, sizeof command, "python3 tests/generated/%s %s %s 2>&1", script,
           setting("JOIN_TEST_BUILD", "build"), options);
  FILE *output = popen(command, "r");
  cr_assert(output != NULL);
  char *text = calloc(1, 1 << 20);
  size_t size = fread(text, 1, (1 << 20) - 1, output);
  text[size] = '\0';
  int status = pclose(output);
  cr_expect(status == 0, "%s: status %d\n%s", command, WEXITSTATUS(status), text);
  free(text);
}

/* Each class of programs comes up in as many seeds as there are classes. GENERATED_EXPECT=shall
 * asks of them what is to hold, else what does. */
static void check_programs(const char *kind, int programs) {
  char options[128];
  snprintf(options, sizeof options, "--kind %s --programs %d --asserted --shrink 2 --jobs 2 %s",
           kind, programs, strcmp(setting("GENERATED_EXPECT", ""), "shall") == 0 ? "" : "--today");
  check_script("programs.py", options);
}

Test(generated, c_programs) {
  check_programs("c", 60);
}

Test(generated, python_programs) {
  check_programs("python", 30);
}

Test(generated, c_programs_of_loops_that_look_alike) {
  check_programs("alike", 40);
}

/* Ranks make a round of a loop outside of it, or go round two loops for one, and so on. */
Test(generated, even_c_programs_whose_ranks_come_to_the_same_in_other_ways) {
  check_programs("ways", 60);
}

/* Two models of one function, remainders, phases, a leader. */
Test(generated, programs_that_train_in_other_ways) {
  check_programs("training", 40);
}

/* One pass over the data, or loops of which each is gone through once. */
Test(generated, programs_without_a_loop_over_epochs) {
  check_programs("passes", 40);
}

/* Several models by one line. */
Test(generated, programs_whose_loops_alone_tell_what_they_do) {
  check_programs("one_line", 16);
}

/* The same programs with their ranks on two machines; where those cannot be made, that is said. */
Test(generated, programs_over_machines) {
  char agent[256];
  snprintf(agent, sizeof agent, "%s/lib/nccl-join-agent", setting("JOIN_TEST_BUILD", "build"));
  if (access(agent, X_OK) != 0 || system("unshare --mount true 2>/dev/null") != 0)
    cr_skip("no machines can be made here, or there is no agent");
  check_script("programs.py", "--kind c --programs 60 --asserted --shrink 0 --jobs 2 --machines 2");
  check_script("programs.py",
               "--kind python --programs 16 --asserted --shrink 0 --jobs 2 --machines 3");
}

static void check_seeds(const char *kind, const int *seeds, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char options[64];
    snprintf(options, sizeof options, "--kind %s --first %d --programs 1", kind, seeds[i]);
    check_script("programs.py", options);
  }
}

/* A call behind a loop counted as a copy of one in it, where an error's way out of the loop leads
 * where it does; and of two branches one as a copy of the other, where a number was a register's in
 * one of them. */
Test(generated, c_programs_of_calls_that_are_no_copies) {
  check_seeds("c", (int[]){114546, 201426, 108514, 114850, 117202}, 5);
}

/* Two branches of one condition, which counted as copies of one call; at -O0 and -O1. */
Test(generated, c_programs_of_two_models_in_two_branches) {
  check_seeds("training", (int[]){1225, 725, 2265, 710}, 4);
}

/* Even ones, at -O3: of a loop with `if (epoch <= r) log();` in it the compiler makes two. */
Test(generated, even_c_programs_of_a_loop_that_a_compiler_makes_two_of) {
  check_seeds("optimised", (int[]){10004, 11430, 12018}, 3);
}

/* Even ones, of whose calls without arguments a compiler has made copies. */
Test(generated, even_c_programs_of_copies_of_calls_without_arguments) {
  check_seeds("no_arguments", (int[]){10312, 11110, 12657}, 3);
}

/* Even ones, in which gcc copies the begin of a loop, or the last round, to where it knows
 * something of it. */
Test(generated, even_c_programs_of_rounds_that_begin_or_end_elsewhere) {
  check_seeds("no_arguments", (int[]){610828, 610555, 611317, 611471}, 4);
  check_seeds("optimised", (int[]){600037, 601306}, 2);
}

/* Even ones and an uneven one, in which clang puts the first round of a loop in front of it. */
Test(generated, cpp_programs_of_a_first_round_in_front_of_its_loop) {
  check_seeds("cpp", (int[]){600991, 601231, 600534}, 3);
}

/* Of a loop of epochs whose first one is asked for in front; a frame that a tail call has left out;
 * and conditions of each rank's own steps. */
Test(generated, programs_whose_points_have_an_order_or_are_told) {
  check_seeds("c", (int[]){401025, 406955}, 2);
  check_seeds("python", (int[]){404936}, 1);
  check_seeds("alike", (int[]){611290}, 1);
}

/* Without data a rank comes to another branch than the others: they are told, where the counter's
 * remainder decides, and where a compiler keeps it in a register that calls do not keep. */
Test(generated, c_programs_of_branches_that_a_counter_decides) {
  check_seeds("alike", (int[]){1408, 3751, 3832}, 3);
}

/* Ranks that have no batch of the validation set in some epoch, and others in another one: they
 * meet, or are told. Once a rank had had none, those that had went first, whatever others had
 * before it. */
Test(generated, programs_of_evaluations_without_batches) {
  check_seeds("c", (int[]){6000011, 6008267}, 2);
  check_seeds("python", (int[]){6001595, 6002027, 6001739, 6004187}, 4);
}

/* A rank knows two places apart that are one to the others: what it does not take for its own is
 * told. */
Test(generated, even_c_programs_of_two_loops_that_others_make_one_of) {
  check_seeds("ways", (int[]){516, 379, 1307}, 3);
}

/* Left into others that look like them: they may go wrong, but not without a word. Of the seeds one
 * in 24 is one of them; none of these waits for ever, which would take its time. */
Test(generated, rings_and_pipelines) {
  check_script("programs.py", "--class rings,pipelines --kind c --first 376 --programs 60 "
                              "--shrink 2 --jobs 2 --today");
  check_script("programs.py", "--class rings,pipelines --kind python --first 380 --programs 10 "
                              "--shrink 2 --jobs 2 --today");
}

/* In parts, which run beside each other. */
Test(generated, what_is_broken_on_purpose_is_found_0) {
  check_script("test_harness.py", "0 3");
}
Test(generated, what_is_broken_on_purpose_is_found_1) {
  check_script("test_harness.py", "1 3");
}
Test(generated, what_is_broken_on_purpose_is_found_2) {
  check_script("test_harness.py", "2 3");
}
