/* The ways a process ends (process.h): leave_process is called once, at the right moment, with the
 * right status, and the program notices nothing.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/interpose/workshop.h"

/* What NCCL is called for on the way in and out is silenced, but for what leave_process says. */
#define ENDINGS "env $J QUIET=1 $W/endings "
#define HIDE_NCCL " | grep -v '^real '"

/* Ends the program with the preload and without: the status and the output are the same, but for
 * the line of leave_process. `output` is what is said with it. */
static void expect(const char *way, int status, const char *output) {
  char command[512];
  snprintf(command, sizeof command, "(" ENDINGS "%s; echo status $?) 2>&1" HIDE_NCCL, way);
  char expected[1024];
  snprintf(expected, sizeof expected, "%sstatus %d\n", output, status);
  workshop_expect(command, 0, expected);

  char without[1024] = "";
  for (const char *line = output; *line != '\0'; line = strchr(line, '\n') + 1) {
    if (strncmp(line, "leave ", 6) != 0)
      strncat(without, line, (size_t)(strchr(line, '\n') + 1 - line));
  }
  snprintf(command, sizeof command, "($W/endings %s; echo status $?) 2>&1" HIDE_NCCL, way);
  snprintf(expected, sizeof expected, "%sstatus %d\n", without, status);
  workshop_expect(command, 0, expected);
}

Test(endings, return_from_main) {
  expect("main_return 3", 3, "leave 3\natexit\ndestructor\n");
}
Test(endings, exit) {
  expect("exit 4", 4, "leave 4\natexit\ndestructor\n");
}
Test(endings, exit_with_success) {
  expect("exit 0", 0, "leave 0\natexit\ndestructor\n");
}
Test(endings, exit_in_an_exit_handler) {
  expect("exit_at_exit 5", 5, "leave 0\natexit\ndestructor\n");
}
Test(endings, exit_in_a_thread) {
  expect("thread 6", 6, "leave 6\natexit\ndestructor\n");
}
Test(endings, quick_exit) {
  expect("quick_exit 7", 7, "leave 7\nat_quick_exit\n");
}
Test(endings, end_of_the_last_thread) {
  expect("pthread_exit 0", 0, "leave 0\natexit\ndestructor\n");
}
Test(endings, exit_inside_libc) {
  expect("errx 8", 8, "endings: the end\nleave 8\natexit\ndestructor\n");
}
Test(endings, exit_in_a_signal_handler) {
  expect("signal 9", 9, "leave 9\natexit\ndestructor\n");
}

Test(endings, underscore_exit_leaves_where_the_loop_is_over) {
  workshop_expect("(LOOP_IS_OVER=1 " ENDINGS "underscore_exit 0; echo status $?) 2>&1" HIDE_NCCL, 0,
                  "leave 0\nstatus 0\n");
}
Test(endings, underscore_exit_leaves_nowhere_else) {
  expect("underscore_exit 0", 0, "");
}
Test(endings, underscore_exit_with_a_failure_does_not_leave) {
  workshop_expect("(LOOP_IS_OVER=1 " ENDINGS "underscore_exit 3; echo status $?) 2>&1" HIDE_NCCL, 0,
                  "status 3\n");
}
Test(endings, underscore_exit_does_not_leave) {
  expect("underscore_exit 3", 3, "");
  expect("Exit 3", 3, "");
}

Test(endings, a_violent_end_does_not_leave) {
  workshop_expect("(" ENDINGS "abort 0; echo status $?) 2>/dev/null" HIDE_NCCL, 0, "status 134\n");
  workshop_expect("(" ENDINGS "kill 0; echo status $?) 2>/dev/null" HIDE_NCCL, 0, "status 137\n");
}

Test(endings, a_process_without_communicator_does_not_leave) {
  setenv("NCCL_JOIN_DEBUG", "ERROR", 1); /* not said that no call of NCCL was seen */
  expect("main_return 3 none", 3, "atexit\ndestructor\n");
  expect("exit 3 none", 3, "atexit\ndestructor\n");
  expect("quick_exit 3 none", 3, "at_quick_exit\n");
  expect("errx 3 none", 3, "endings: the end\natexit\ndestructor\n");
}

Test(endings, a_second_thread_that_ends_well_waits_for_the_first) {
  workshop_expect("env LEAVE=sleep " ENDINGS "two_threads 0" HIDE_NCCL, 0,
                  "leave 0\nleft\natexit\ndestructor\n");
}

Test(endings, a_second_thread_that_fails_does_not_wait) {
  workshop_expect("(env LEAVE=long " ENDINGS "two_threads 9; echo status $?)" HIDE_NCCL, 0,
                  "leave 0\natexit\ndestructor\nstatus 9\n");
}

Test(endings, a_thread_cancelled_while_it_leaves_leaves_all_the_same) {
  workshop_expect("env LEAVE=sleep " ENDINGS "cancelled_thread 0" HIDE_NCCL, 0,
                  "leave 0\nleft\natexit\ndestructor\n");
}

/* A rank that leaves where no rank may leave alone: whatever the way, the status is not success.
 */
static void expect_status_1(const char *way, const char *output) {
  char command[512], expected[512];
  snprintf(command, sizeof command, "(env LEAVE=one " ENDINGS "%s; echo status $?) 2>&1" HIDE_NCCL,
           way);
  snprintf(expected, sizeof expected, "%sstatus 1\n", output);
  workshop_expect(command, 0, expected);
}

Test(endings, leave_process_may_end_the_process_with_another_status) {
  expect_status_1("main_return 0", "leave 0\natexit\ndestructor\n");
  expect_status_1("exit 0", "leave 0\natexit\ndestructor\n");
  expect_status_1("thread 0", "leave 0\natexit\ndestructor\n");
  expect_status_1("quick_exit 0", "leave 0\nat_quick_exit\n");
}
Test(endings, so_it_may_where_only_an_exit_handler_sees_the_end) {
  expect_status_1("pthread_exit 0", "leave 0\natexit\ndestructor\n");
}

Test(endings, exit_inside_leave_process_ends_the_process) {
  workshop_expect("(env LEAVE=exit " ENDINGS "exit 3; echo status $?)" HIDE_NCCL, 0,
                  "leave 3\natexit\ndestructor\nstatus 77\n");
  workshop_expect("(env LEAVE=exit " ENDINGS "errx 3; echo status $?)" HIDE_NCCL, 0,
                  "endings: the end\nleave 3\natexit\ndestructor\nstatus 77\n");
}

Test(endings, a_signal_that_interrupts_a_call_and_exits_does_not_leave) {
  workshop_expect("(" ENDINGS "signal_in_call 9; echo status $?)" HIDE_NCCL, 0,
                  "atexit\ndestructor\nstatus 9\n");
}

Test(endings, calls_made_while_leaving_reach_nccl_and_no_handler) {
  workshop_expect(
      "env $J $W/endings exit 0", 0,
      "join ncclCommInitAll\nreal ncclCommInitAll\nreal ncclGetUniqueId\nreal ncclGroupStart\n"
      "real ncclGroupEnd\nleave 0\nreal ncclGroupStart\natexit\ndestructor\n");
}

Test(endings, a_forked_child_lets_go_and_reaches_no_handler) {
  workshop_expect("(env $J $W/endings fork 3; echo status $?)" HIDE_NCCL, 0,
                  "join ncclCommInitAll\nforget attachments\natexit\ndestructor\n"
                  "child 5\nleave 3\natexit\ndestructor\nstatus 3\n");
}

Test(endings, a_forked_child_writes_no_line) {
  /* A function that this NCCL lacks is worth a line, but not in a child. */
  workshop_expect("(LD_LIBRARY_PATH=$W/old " ENDINGS "fork 3; echo status $?)" HIDE_NCCL, 0,
                  "atexit\ndestructor\nchild 5\nleave 3\natexit\ndestructor\nstatus 3\n");
}

Test(endings, a_forked_child_that_returns_from_main_does_not_leave) {
  workshop_expect("(" ENDINGS "fork_return 3; echo status $?)" HIDE_NCCL, 0,
                  "atexit\ndestructor\nchild 5\nleave 3\natexit\ndestructor\nstatus 3\n");
}

Test(endings, a_child_that_ran_no_fork_handler_does_not_leave) {
  workshop_expect("(" ENDINGS "bare_fork 3; echo status $?)" HIDE_NCCL, 0,
                  "atexit\ndestructor\nchild 5\nleave 3\natexit\ndestructor\nstatus 3\n");
}

Test(endings, a_child_that_execs_is_silent) {
  expect("vfork 3", 3, "child 5\nleave 3\natexit\ndestructor\n");
  expect("spawn 3", 3, "child 5\nleave 3\natexit\ndestructor\n");
}

Test(endings, a_child_forked_before_any_communicator_is_a_process_of_its_own) {
  workshop_expect("(" ENDINGS "fork_before 3 none 2>/dev/null; echo status $?)" HIDE_NCCL, 0,
                  "leave 5\natexit\ndestructor\nchild 5\natexit\ndestructor\nstatus 3\n");
}

Test(endings, python_leaves_after_its_own_exit_handlers) {
  if (workshop_run("python3 -c 'import ctypes'").status != 0)
    cr_skip("no python3");
  workshop_expect("(env $J QUIET=1 python3 -c \"import atexit, ctypes, os, sys\n"
                  "ctypes.CDLL('$W/fake/libnccl.so.2')\n"
                  "ctypes.CDLL(None).ncclCommInitAll(None, 0, None)\n"
                  "atexit.register(lambda: os.write(1, b'python atexit\\n'))\n"
                  "sys.exit(3)\n\"; echo status $?)" HIDE_NCCL,
                  0, "python atexit\nleave 3\nstatus 3\n");
}
