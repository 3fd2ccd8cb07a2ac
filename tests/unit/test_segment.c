/* Segments (core/transport/plane_shm.h): coming together under a name, and what ranks that have
 * died leave there. What is refused: test_segment_refused.c. */
#include "core/transport/plane_shm.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/transport/segment.h"
#include "tests/unit/segment_stage.h"

#define RACERS 40

static const struct introduction nobody = {0};

TestSuite(segment, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

/* ---- Coming together ---- */

static int see_all_marks(uint32_t slot) {
  enum { SLOTS = 4 };
  struct segment *segment = attach(SLOTS, slot, SLOTS);
  if (segment == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->arrived, SLOTS);
  if (segment_attached(segment) != SLOTS)
    return 1;
  for (uint32_t i = 0; i < SLOTS; i++) {
    struct introduction other;
    if (!segment_introduction(segment, i, &other) || other.identity != 100 + i ||
        other.key != -(int32_t)i || other.ncomms != 1 || other.comms[0] != 7)
      return 2;
  }
  return 0;
}

Test(segment, every_rank_sees_the_marks_of_all) {
  pid_t pids[4];
  for (uint32_t i = 0; i < 4; i++)
    pids[i] = start(see_all_marks, i);
  for (uint32_t i = 0; i < 4; i++)
    cr_expect_eq(finish(pids[i]), 0);
  cr_assert(!exists(stage_path));
}

Test(segment, a_slot_that_is_not_taken_has_no_mark) {
  struct introduction other;
  struct segment *segment = attach(3, 1, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_assert_eq(segment_attached(segment), 1);
  cr_assert(!segment_introduction(segment, 0, &other));
  cr_assert(segment_introduction(segment, 1, &other));
  cr_assert(!segment_introduction(segment, 3, &other));
  cr_assert(!segment_introduction(segment, UINT32_MAX, &other));
  segment_detach(segment);
}

Test(segment, slots_of_one_process_share_one_mapping) {
  struct segment *segments[3];
  struct plane *planes[3];
  for (uint32_t i = 0; i < 3; i++) {
    segments[i] = attach(3, i, 3);
    cr_assert_not_null(segments[i], "%s", stage_reason);
    cr_assert_eq(exists(stage_path), i < 2, "the name goes with the last who comes");
  }
  cr_assert_eq(segments[0]->map, segments[2]->map);
  for (uint32_t i = 0; i < 3; i++) {
    cr_assert_eq(segment_attached(segments[i]), 3);
    planes[i] = whole_plane(segments[i], i, 3);
    for (uint32_t rank = 0; rank < 3; rank++)
      cr_assert(planes[i]->alive(planes[i], rank));
  }
  segment_detach(segments[1]);
  struct plane *plane = planes[0];
  cr_assert(plane->alive(plane, 0));
  cr_assert(!plane->alive(plane, 1));
  cr_assert(plane->alive(plane, 2));
  cr_assert(!plane->alive(plane, 3));
  segment_detach(segments[0]);
  segment_detach(segments[2]);
}

Test(segment, the_file_is_private) {
  struct stat status;
  umask(0);
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_assert_eq(stat(stage_path, &status), 0);
  cr_assert_eq(status.st_mode & 07777, 0600);
  cr_assert_eq(fcntl(segment->map->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  segment_detach(segment);
}

Test(segment, memory_is_taken_for_attached_slots_only) {
  struct stat status;
  struct segment *segment = attach(PLANE_RANKS_MAX, 4000, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_assert_eq(stat(stage_path, &status), 0);
  cr_assert_eq((size_t)status.st_size, segment_bytes(PLANE_RANKS_MAX));
  cr_assert_geq((size_t)status.st_blocks * 512,
                segment_log_offset(PLANE_RANKS_MAX, 0) + sizeof(struct plane_log));
  cr_assert_lt((size_t)status.st_blocks * 512,
               segment_log_offset(PLANE_RANKS_MAX, 0) + 2 * sizeof(struct plane_log));
  segment_detach(segment);
}

Test(segment, the_name_is_unlinked_by_hand) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert(exists(stage_path));
  segment_unlink(segment);
  cr_assert(!exists(stage_path));
  struct segment *next = attach(2, 0, 0); /* another segment: the name is gone */
  cr_assert_not_null(next, "%s", stage_reason);
  cr_assert_neq(next->map, segment->map);
  segment_unlink(segment);
  cr_assert(exists(stage_path), "unlinked a name that is another segment's");
  segment_detach(segment);
  cr_assert(exists(stage_path), "unlinked a name that is another segment's");
  segment_detach(next);
}

Test(segment, a_name_removed_by_others_is_not_taken_for_ours) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_eq(unlink(stage_path), 0);
  pid_t pid = start_staying(2); /* has created a segment of its own */
  segment_unlink(segment);
  cr_assert(exists(stage_path));
  segment_detach(segment);
  cr_assert(exists(stage_path));
  kill_and_reap(pid);
}

Test(segment, who_leaves_last_takes_the_name_along) {
  struct segment *first = attach(3, 0, 0), *second = attach(3, 1, 0);
  segment_detach(first);
  cr_assert(exists(stage_path));
  segment_detach(second);
  cr_assert(!exists(stage_path));

  pid_t pid = start_staying(3);
  segment_detach(attach(3, 1, 0));
  cr_assert(exists(stage_path), "somebody is still in it");
  kill_and_reap(pid);
}

static int race(uint32_t slot) {
  await(&stage->go, 1);
  struct segment *segment = attach(RACERS, slot, RACERS);
  if (segment == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->unlinked, segment->map->unlinked);
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->arrived, RACERS);
  bool all = segment_attached(segment) == RACERS;
  struct plane *plane = whole_plane(segment, slot, RACERS);
  atomic_fetch_add(&plane->team->attention, 1);
  for (uint32_t rank = 0; rank < RACERS; rank++)
    all = all && plane->alive(plane, rank);
  atomic_fetch_add(&stage->seen, 1);
  await(&stage->seen, RACERS);
  all = all && atomic_load(&plane->team->attention) == RACERS;
  segment_detach(segment);
  return !all;
}

static void assert_race_is_won(void) {
  pid_t pids[RACERS];
  *stage = (struct stage){0};
  for (uint32_t i = 0; i < RACERS; i++)
    pids[i] = start(race, i);
  atomic_store(&stage->go, 1);
  for (uint32_t i = 0; i < RACERS; i++)
    cr_assert_eq(finish(pids[i]), 0);
  cr_assert_eq(stage->unlinked, 1, "exactly one is the last");
  cr_assert(!exists(stage_path));
}

Test(segment, forty_ranks_race_to_create) {
  for (int round = 0; round < 5; round++)
    assert_race_is_won();
}

Test(segment, forty_ranks_race_to_replace_a_dead_segment) {
  for (int round = 0; round < 5; round++) {
    atomic_store(&stage->arrived, 0);
    kill_and_reap(start_staying(7));
    cr_assert(exists(stage_path));
    assert_race_is_won();
  }
}

static void *attach_in_thread(void *argument) {
  char why[ATTACHMENT_REASON_SIZE];
  uint32_t slot = *(uint32_t *)argument;
  struct segment *segment = segment_attach(stage_name, 8, slot, 0, &nobody, why);
  if (segment == NULL)
    return argument;
  bool all = false;
  for (int i = 0; i < 60000 && !all; i++, nap(1))
    all = segment_attached(segment) == 8;
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->arrived, 8);
  struct plane *plane = whole_plane(segment, slot, 8);
  plane->ring(plane);
  all = all && plane->alive(plane, slot);
  segment_unlink(segment);
  segment_detach(segment);
  return all ? NULL : argument;
}

Test(segment, threads_attach_and_leave_at_the_same_time) {
  pthread_t threads[8];
  uint32_t slots[8];
  void *result;
  for (uint32_t i = 0; i < 8; i++) {
    slots[i] = i;
    cr_assert_eq(pthread_create(&threads[i], NULL, attach_in_thread, &slots[i]), 0);
  }
  for (uint32_t i = 0; i < 8; i++) {
    pthread_join(threads[i], &result);
    cr_expect_null(result);
  }
  cr_assert(!exists(stage_path));
}

/* ---- Dead segments ---- */

Test(segment, a_dead_jobs_segment_is_replaced) {
  struct introduction other;
  kill_and_reap(start_staying(5));
  cr_assert(exists(stage_path));
  struct segment *segment = attach(2, 1, 0); /* another number of slots, too */
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_assert_eq(segment_attached(segment), 1);
  cr_assert(!segment_introduction(segment, 0, &other));
  segment_detach(segment);
}

Test(segment, a_dead_file_of_any_kind_is_replaced) {
  int fd = open(stage_path, O_CREAT | O_RDWR, 0600);
  cr_assert_eq(write(fd, "anything", 8), 8);
  close(fd);
  struct segment *segment = attach(2, 1, 2);
  cr_assert_not_null(segment, "%s", stage_reason);
  segment_detach(segment);
}

Test(segment, an_empty_file_is_laid_out) {
  close(open(stage_path, O_CREAT | O_RDWR, 0600));
  struct segment *segment = attach(2, 1, 2);
  cr_assert_not_null(segment, "%s", stage_reason);
  segment_detach(segment);
}

/* Holds the gate of a file that it has only begun to lay out, then dies. */
static int die_at_the_gate(uint32_t milliseconds) {
  int fd = open(stage_path, O_CREAT | O_RDWR, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_start = SEGMENT_GATE, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) != 0 || ftruncate(fd, 10000) != 0)
    return 1;
  atomic_fetch_add(&stage->arrived, 1);
  nap(milliseconds);
  kill(getpid(), SIGKILL);
  return 1;
}

Test(segment, a_death_while_laying_out_is_survived) {
  pid_t pid = start(die_at_the_gate, 100);
  await(&stage->arrived, 1);
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_assert_eq(segment_attached(segment), 1);
  segment_detach(segment);
  cr_assert_eq(finish(pid), -SIGKILL);
}

/* Holds the gate of a new file until somebody waits there, then removes the name. */
static int unlink_at_the_gate(uint32_t milliseconds) {
  int fd = open(stage_path, O_CREAT | O_RDWR, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_start = SEGMENT_GATE, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) != 0)
    return 1;
  atomic_fetch_add(&stage->arrived, 1);
  nap(milliseconds);
  return unlink(stage_path) != 0;
}

Test(segment, who_waited_at_the_gate_of_a_removed_file_goes_to_the_next) {
  struct stat status;
  pid_t pid = start(unlink_at_the_gate, 100);
  await(&stage->arrived, 1);
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_assert_eq(stat(stage_path, &status), 0);
  cr_assert_eq(status.st_ino, segment->map->inode);
  cr_assert_eq(finish(pid), 0);
  segment_detach(segment);
}

/* Another one leaves at the same time, and has seen that this one has not yet. */
static int leave_slowly(uint32_t milliseconds) {
  int fd = open(stage_path, O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_start = SEGMENT_GATE, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) != 0)
    return 1;
  atomic_fetch_add(&stage->arrived, 1);
  nap(milliseconds);
  return 0;
}

Test(segment, of_two_that_leave_together_the_last_one_takes_the_name_away) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  pid_t pid = start(leave_slowly, 20);
  await(&stage->arrived, 1);
  segment_detach(segment);
  cr_assert(!exists(stage_path));
  cr_assert_eq(finish(pid), 0);
}
