/* How ranks' processes have ended, or that one stands still (core/transport/segment_end.c): what
 * the kernel says of them. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>

#include "core/transport/segment_view.h"
#include "tests/unit/segment_stage.h"

TestSuite(segment_end, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

static struct segment *segment;
static struct plane *plane;

/* This process is rank 1 beside rank 0, which is there already. */
static void join_rank_0(void) {
  segment = attach(2, 1, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  plane = whole_plane(segment, 1, 2);
  cr_assert_not_null(plane);
}

/* Until the process has changed to a state, which is left for its parent to be asked for. */
static void await_state(pid_t pid, int state) {
  siginfo_t info;
  cr_assert_eq(waitid(P_PID, (id_t)pid, &info, state | WNOWAIT), 0);
}

/* What is known of rank 0, which has ended. */
static void expect_fate(enum plane_end how, int number) {
  cr_assert_not(plane->alive(plane, 0));
  struct plane_fate fate = plane->fate(plane, 0);
  cr_assert_eq(fate.how, how);
  if (how != END_UNKNOWN)
    cr_assert_eq(fate.number, number, "%d", fate.number);
}

Test(segment_end, of_who_lives_nothing_is_known) {
  pid_t pid = start_staying(2);
  join_rank_0();
  cr_assert(plane->alive(plane, 0));
  cr_assert_eq(plane->fate(plane, 0).how, END_UNKNOWN);
  kill_and_reap(pid);
  segment_detach(segment);
}

Test(segment_end, a_signal_is_told) {
  pid_t pid = start_staying(2);
  join_rank_0();
  kill(pid, SIGUSR1);
  await_state(pid, WEXITED);
  expect_fate(END_SIGNAL, SIGUSR1);
  cr_assert_eq(finish(pid), -SIGUSR1);
  expect_fate(END_SIGNAL, SIGUSR1);
  segment_detach(segment);
}

static int end_when_told(uint32_t status) {
  if (attach(2, 0, 0) == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->go, 1);
  return (int)status;
}

Test(segment_end, a_status_is_told) {
  pid_t pid = start(end_when_told, 7);
  await(&stage->arrived, 1);
  join_rank_0();
  atomic_store(&stage->go, 1);
  await_state(pid, WEXITED);
  expect_fate(END_STATUS, 7);
  cr_assert_eq(finish(pid), 7);
  segment_detach(segment);
}

Test(segment_end, what_its_parent_has_waited_for_is_not_known_any_more) {
  pid_t pid = start_staying(2);
  join_rank_0();
  kill_and_reap(pid);
  expect_fate(END_UNKNOWN, 0);
  segment_detach(segment);
}

/* By its number, which means nothing here. */
Test(segment_end, of_another_space_of_processes_nothing_is_known) {
  pid_t pid = start_staying(2);
  join_rank_0();
  segment_slot(segment->map, 0)->pid_space++;
  kill(pid, SIGUSR1);
  await_state(pid, WEXITED);
  expect_fate(END_UNKNOWN, 0);
  cr_assert_eq(finish(pid), -SIGUSR1);
  segment_detach(segment);
}

Test(segment_end, who_is_stopped_is_seen_to_be) {
  pid_t pid = start_staying(2);
  join_rank_0();
  cr_assert_not(plane->stopped(plane, 0));
  kill(pid, SIGSTOP);
  await_state(pid, WSTOPPED);
  cr_assert(plane->stopped(plane, 0));
  cr_assert(plane->alive(plane, 0));
  kill(pid, SIGCONT);
  await_state(pid, WCONTINUED);
  cr_assert_not(plane->stopped(plane, 0));
  kill_and_reap(pid);
  segment_detach(segment);
}

/* ---- from outside ---- */

Test(segment_end, a_tool_sees_who_is_there_and_who_has_ended) {
  struct segment_seen seen;
  pid_t pid = start_staying(3);
  segment = attach(3, 1, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  struct segment_view *view = segment_view_open(stage_path, stage_reason);
  cr_assert_not_null(view, "%s", stage_reason);
  cr_assert_eq(segment_view_slots(view), 3);
  cr_assert(segment_view_slot(view, 0, &seen));
  cr_assert(seen.alive && !seen.stopped && seen.pid == pid && seen.mark.identity == 100);
  cr_assert_not(segment_view_slot(view, 2, &seen), "nobody has come");
  kill(pid, SIGUSR1);
  await_state(pid, WEXITED);
  cr_assert(segment_view_slot(view, 0, &seen));
  cr_assert(!seen.alive && seen.fate.how == END_SIGNAL && seen.fate.number == SIGUSR1);
  cr_assert_eq(finish(pid), -SIGUSR1);
  segment_view_close(view);
  segment_detach(segment);
}
