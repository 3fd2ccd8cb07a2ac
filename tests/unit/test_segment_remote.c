/* A segment as the agent of a machine has it: slots of ranks that are elsewhere
 * (core/transport/segment_remote.h). */
#include "core/transport/segment_remote.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/transport/segment.h"
#include "tests/unit/segment_stage.h"

enum { SLOTS = 4 };

TestSuite(segment_remote, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

static struct introduction introduction_of(uint32_t slot) {
  return (struct introduction){.identity = 200 + slot};
}

/* The agent's process: takes slots 2 and 3, lets go of 3 when it is told to, and stays. */
static int agent(uint32_t unused) {
  struct segment_remote *remote = segment_remote_open(stage_name, SLOTS, stage_reason);
  (void)unused;
  if (remote == NULL)
    return EXIT_REFUSED;
  if (!segment_remote_is_local(remote, 0) || segment_remote_is_local(remote, 2) ||
      !segment_remote_is_alive(remote, 0))
    return 1;
  for (uint32_t slot = 2; slot < SLOTS; slot++) {
    struct introduction introduction = introduction_of(slot);
    if (!segment_remote_take(remote, slot, "elsewhere", &introduction, stage_reason))
      return 2;
    if (segment_remote_take(remote, slot, "elsewhere", &introduction, stage_reason))
      return 3; /* twice */
  }
  segment_remote_complete(remote);
  atomic_store(&stage->arrived, 1);
  await(&stage->go, 1);
  segment_remote_end(remote, 3, (uint32_t)END_SIGNAL << 16 | SIGKILL);
  atomic_store(&stage->arrived, 2);
  await(&stage->go, 2);
  segment_remote_close(remote);
  return 0;
}

static struct segment *attach_two(struct segment *other[1]) {
  struct segment *mine = attach(SLOTS, 0, SLOTS);
  cr_assert_not_null(mine, "%s", stage_reason);
  other[0] = attach(SLOTS, 1, SLOTS);
  cr_assert_not_null(other[0], "%s", stage_reason);
  return mine;
}

static void expect_taken(struct segment *mine) {
  struct introduction introduction;
  cr_assert_eq(segment_attached(mine), SLOTS);
  cr_assert(segment_introduction(mine, 3, &introduction));
  cr_assert_eq(introduction.identity, 203);
  cr_assert_not(exists(stage_path), "all have come: nobody needs the name");
}

Test(segment_remote, ranks_of_other_machines_look_as_if_they_were_here) {
  struct segment *other[1], *mine = attach_two(other);
  pid_t pid = start(agent, 0);
  await(&stage->arrived, 1);
  expect_taken(mine);
  struct plane *plane = whole_plane(mine, 0, SLOTS);
  cr_assert_not_null(plane);
  for (uint32_t rank = 0; rank < SLOTS; rank++)
    cr_expect(plane->alive(plane, rank), "rank %u", rank);
  cr_expect_null(plane->machine(plane, 1));
  cr_expect_str_eq(plane->machine(plane, 2), "elsewhere");
  atomic_store(&stage->go, 1);
  await(&stage->arrived, 2);
  cr_expect(plane->alive(plane, 2));
  cr_expect_not(plane->alive(plane, 3));
  struct plane_fate fate = plane->fate(plane, 3);
  cr_expect(fate.how == END_SIGNAL && fate.number == SIGKILL);
  atomic_store(&stage->go, 2);
  cr_assert_eq(finish(pid), 0);
  segment_detach(other[0]);
  segment_detach(mine);
}

Test(segment_remote, all_of_them_end_with_the_agent) {
  struct segment *other[1], *mine = attach_two(other);
  pid_t pid = start(agent, 0);
  await(&stage->arrived, 1);
  struct plane *plane = whole_plane(mine, 0, SLOTS);
  kill_and_reap(pid);
  cr_expect(plane->alive(plane, 1));
  cr_expect_not(plane->alive(plane, 2));
  cr_expect_not(plane->alive(plane, 3));
  segment_detach(other[0]);
  segment_detach(mine);
}

static int open_only(uint32_t unused) {
  (void)unused;
  return segment_remote_open(stage_name, SLOTS, stage_reason) == NULL ? EXIT_REFUSED : 0;
}

Test(segment_remote, without_ranks_there_is_none) {
  cr_assert_eq(finish(start(open_only, 0)), EXIT_REFUSED);
  cr_assert_not(exists(stage_path), "nothing is left behind");
}

Test(segment_remote, of_another_size_it_is_refused) {
  struct segment *mine = attach(SLOTS + 1, 0, SLOTS + 1);
  cr_assert_not_null(mine);
  cr_assert_eq(finish(start(open_only, 0)), EXIT_REFUSED);
  cr_assert(exists(stage_path), "it is the ranks' still");
  segment_detach(mine);
}

static int wait_a_moment(uint32_t unused) {
  (void)unused;
  static _Atomic uint32_t bell;
  struct segment *mine = attach(SLOTS, 0, SLOTS);
  segment_reach_beyond(mine->map, &(struct attachment_beyond){.bell = &bell});
  struct plane *plane = whole_plane(mine, 0, 1);
  plane->ring(plane);
  if (atomic_load(&bell) != 1)
    return 1;
  plane->wait(plane, plane->team != NULL ? atomic_load(&plane->team->bell) : 0, 1);
  return atomic_load(&bell) == 2 ? 0 : 2;
}

Test(segment_remote, whoever_rings_or_begins_to_wait_rings_the_agent) {
  cr_assert_eq(finish(start(wait_a_moment, 0)), 0);
}

/* Times are the test's own, in milliseconds. */
static int look_at_an_agent(uint32_t unused) {
  static _Atomic uint32_t bell, turns = 7;
  struct segment *mine = attach(SLOTS, 0, SLOTS);
  struct segment_map *map = mine->map;
  (void)unused;
  if (segment_beyond_is_still(map, 1))
    return 1; /* all are here */
  segment_reach_beyond(
      mine->map, &(struct attachment_beyond){.bell = &bell, .turns = &turns, .silence_ms = 1000});
  uint64_t now = (uint64_t)segment_now() / 1000000 + 1;
  if (segment_beyond_is_still(map, now) || segment_beyond_is_still(map, now + 500) ||
      segment_beyond_is_still(map, now + 999))
    return 2; /* too early */
  if (!segment_beyond_is_still(map, now + 1000) || !segment_beyond_is_still(map, now + 1100))
    return 3;
  atomic_fetch_add(&turns, 1);
  if (segment_beyond_is_still(map, now + 1200))
    return 4; /* it has gone on */
  if (segment_beyond_is_still(map, now + 900000))
    return 5; /* this process may have stood still as well */
  return segment_beyond_is_still(map, now + 900500) ? 0 : 6;
}

Test(segment_remote, an_agent_without_turns_is_still_after_its_time) {
  cr_assert_eq(finish(start(look_at_an_agent, 0)), 0);
}

/* A rank of this machine, whose agent has slots 2 and 3 and no turn. */
Test(segment_remote, ranks_elsewhere_are_dead_while_the_agent_is_still) {
  static _Atomic uint32_t bell, turns;
  struct segment *other[1], *mine = attach_two(other);
  pid_t pid = start(agent, 0);
  await(&stage->arrived, 1);
  segment_reach_beyond(
      mine->map, &(struct attachment_beyond){.bell = &bell, .turns = &turns, .silence_ms = 20});
  struct plane *plane = whole_plane(mine, 0, SLOTS);
  while (plane->alive(plane, 2))
    usleep(1000);
  cr_expect(plane->stopped(plane, 2) && !plane->stopped(plane, 1));
  cr_expect(plane->alive(plane, 1));
  kill_and_reap(pid);
  segment_detach(other[0]);
  segment_detach(mine);
}
