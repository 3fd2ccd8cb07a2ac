/* Where in a program a call stands: the same id for the same way to it in all processes, and
 * another for any other way. parts/standing.c and standing.cc stand somewhere, built in many ways;
 * parts/placed.c compares each id with what the compiler's unwinder says.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/workshop.h"

/* Builds them, once for all tests, which may run at the same time. */
static void build(void) {
  struct outcome outcome = workshop_run(
      "flock $W/standing.lock sh -c 'test -e $W/standing/built || {"
      "  tests/interpose/parts/standing.sh $W/standing && touch $W/standing/built; }'");
  cr_assert_eq(outcome.status, 0, "%s", outcome.output);
}

/* Each program twice, with its addresses elsewhere; what they say must be equal. */
static void expect_everywhere(const char *programs, const char *words) {
  char command[1024];
  build();
  snprintf(command, sizeof command,
           "for program in $W/standing/%s; do $program %s >$W/$$.1 && $program %s >$W/$$.2 && "
           "test -s $W/$$.1 && cmp $W/$$.1 $W/$$.2 || { echo $program; cat $W/$$.1; }; done",
           programs, words, words);
  workshop_expect(command, 0, "");
}

Test(places, of_callers_behind_wrappers_and_pointers, .timeout = 300) {
  expect_everywhere("standing-[gc]*", "wrapper disorder pointer loop rounds");
}

Test(places, in_frames_of_any_size, .timeout = 300) {
  expect_everywhere("standing-[gc]*", "alloca aligned deep");
}

Test(places, where_control_jumps, .timeout = 300) {
  expect_everywhere("standing-[gc]*", "longjmp handler context");
}

Test(places, in_threads_and_children, .timeout = 300) {
  expect_everywhere("standing-[gc]*", "threads child");
}

Test(places, in_templates_coroutines_and_handlers_of_exceptions, .timeout = 300) {
  expect_everywhere("standing-c++*", "");
}

Test(places, without_tables_or_with_a_frame_pointer_that_is_none, .timeout = 300) {
  expect_everywhere("standing-[gc]*", "generated garbage");
}

/* With frames of constant size, and with frames found by their frame pointers. */
Test(places, of_a_loop_are_found_without_a_search, .timeout = 300) {
  build();
  workshop_expect("for how in O2,-fomit-frame-pointer O2,-fno-omit-frame-pointer O0; do"
                  "  FRAMES_ARE_SIMPLE=1 $W/standing/standing-gcc-$how loop rounds >$W/$$.out || {"
                  "    echo $how; cat $W/$$.out; }; done",
                  0, "");
}

Test(places, in_a_library_that_is_closed_and_opened_again, .timeout = 300) {
  build();
  workshop_expect("FILE=$W/standing/libcall.so $W/standing/standing-gcc-O2 closed >$W/$$.out || "
                  "cat $W/$$.out",
                  0, "");
}

/* That of the thread that waits, if it is known. The same for threads of other libraries where
 * there is Python. The program's own thread has its own, but not where there is a
 * Python that cannot be read. */
Test(places, in_threads_of_an_engine, .timeout = 300) {
  build();
  workshop_expect("for file in torch_cpu pool; do for with in A=1 DOUBLE_PYTHON=7 "
                  "'DOUBLE_PYTHON=7 DOUBLE_WAITING=9' DOUBLE_UNREADABLE=1; do"
                  "  env $with FILE=$W/standing/lib$file.so $W/standing/standing-gcc-O2 engine "
                  ">$W/$$.out || cat $W/$$.out; done; done",
                  0, "");
}

/* Behind the place of the thread that waits: the loop around the backward pass is there. Where that
 * is not known, nothing is. */
Test(places, in_what_a_thread_of_an_engine_calls_back, .timeout = 300) {
  build();
  workshop_expect("for with in DOUBLE_PYTHON=7 'DOUBLE_PYTHON=7 DOUBLE_WAITING=9'; do"
                  "  env $with FILE=$W/standing/libtorch_cpu.so $W/standing/standing-gcc-O2 hook; "
                  "done | grep -v ^hook",
                  0,
                  "an unknown place\n"
                  "9 7 0 train.py:41 in the loop of train.py:38\n");
}

Test(places, of_native_frames_within_python, .timeout = 300) {
  build();
  workshop_expect("for with in DOUBLE_PYTHON=7 'DOUBLE_PYTHON=7 DOUBLE_CONTAINED=1'; do"
                  "  env $with $W/standing/standing-gcc-O2 told >$W/$$.out || cat $W/$$.out; done",
                  0, "");
}

Test(places, that_are_described, .timeout = 300) {
  build();
  workshop_expect(
      "cd $W/standing; for with in A=1 'DOUBLE_PYTHON=7 DOUBLE_CONTAINED=1'; do"
      "  env FILE=./libcall.so $with ./standing-gcc-O2 description | grep -v ^description | "
      "  sed 's/[a-z_+]*0x[0-9a-f]*/N/g'; done",
      0,
      "call loop call call loop call call loop call N < N < N (standing-gcc-O2), in a loop\n"
      "N < ... < N < N < N < N < N (standing-gcc-O2), in a loop\n"
      "an unknown place\n"
      "N < N (libcall.so) < N < N < N (standing-gcc-O2), in a loop\n"
      "loop call train.py:41 in the loop of train.py:38\n"
      "train.py:41 in the loop of train.py:38\n"
      "an unknown place\n"
      "train.py:41 in the loop of train.py:38\n");
}

/* By the numbers that a message has, addr2line finds the lines of the calls. */
Test(places, in_a_message_are_what_addr2line_takes, .timeout = 300) {
  build();
  workshop_expect(
      "cd $W/standing; for how in O0 O2; do"
      "  numbers=$(./standing-gcc-$how description | sed -n 's/ (.*//; s/+//g; s/< [.]*//g; 2p');"
      "  addr2line -e standing-gcc-$how $numbers | sed 's/ (.*//; s/:/ /' | "
      "  while read -r file line; do sed -n \"${line}s/^ *//p\" \"$file\"; done | uniq; done",
      0,
      "uint32_t id = stand();\n"
      "uint32_t id = depth == 0 ? describe_here(place) : describe_behind(depth - 1, place);\n"
      "puts(stand_text(describe_behind(5, &place), text, sizeof(text)));\n"
      "words[word].act();\n"
      "uint32_t id = stand();\n"
      "uint32_t id = depth == 0 ? describe_here(place) : describe_behind(depth - 1, place);\n"
      "puts(stand_text(describe_behind(5, &place), text, sizeof(text)));\n"
      "words[word].act();\n");
}

/* clang makes one jump of two. */
Test(places, of_functions_that_have_ended_in_a_tail_call, .timeout = 300) {
  build();
  workshop_expect("for program in $W/standing/standing-gcc-O[23]*; do"
                  "  $program tails | grep -v ^tails | grep -v '^3 more, 0 more'; done;"
                  "for program in $W/standing/standing-clang-O[23]; do test ! -x $program ||"
                  "  $program tails | grep -v ^tails | grep -v '^3 more'; done; true",
                  0, "");
}
