/* Segments (core/transport/plane_shm.h): coming together under a name, what is refused, what
 * happens when /dev/shm is not as it should be, and what dead jobs leave. */
#include "core/transport/plane_shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
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
  cr_assert_lt(status.st_blocks * 512, 3 << 20);
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

/* ---- Refused ---- */

static void assert_refused(struct segment *segment, const char *because) {
  cr_assert_null(segment);
  cr_assert_not_null(strstr(stage_reason, because), "reason: '%s', expected '%s'", stage_reason,
                     because);
  cr_assert_lt(strlen(stage_reason), ATTACHMENT_REASON_SIZE - 1, "cut off: %s", stage_reason);
}

Test(segment, a_slot_is_taken_once) {
  pid_t pid = start_staying(3);
  assert_refused(attach(3, 0, 0), "slot 0 of");
  struct segment *segment = attach(3, 1, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  assert_refused(attach(3, 1, 0), "is taken: do two ranks have the same number?");
  assert_refused(attach(3, 0, 0), "is taken: do two ranks have the same number?");
  cr_assert_eq(segment_attached(segment), 2);
  kill_and_reap(pid);
  assert_refused(attach(3, 0, 0), "was taken by a rank that has ended or left");
  struct segment *third = attach(3, 2, 0);
  segment_detach(segment);
  assert_refused(attach(3, 1, 0), "was taken by a rank that has ended or left");
  segment_detach(third);
}

Test(segment, ranks_agree_on_the_number_of_slots) {
  struct segment *segment = attach(3, 1, 0);
  assert_refused(attach(4, 2, 0), "has 3 slots, this rank wants 4");
  segment_detach(segment);
  pid_t pid = start_staying(3);
  assert_refused(attach(4, 2, 0), "has 3 slots, this rank wants 4");
  cr_assert(exists(stage_path));
  kill_and_reap(pid);
}

Test(segment, arguments_are_checked) {
  struct introduction many = {.ncomms = INTRODUCTION_COMMS_MAX + 1};
  assert_refused(attach(0, 0, 0), "cannot attach");
  assert_refused(attach(PLANE_RANKS_MAX + 1, 0, 0), "cannot attach");
  assert_refused(attach(2, 2, 0), "cannot attach");
  assert_refused(attach(2, 0, 3), "cannot attach");
  assert_refused(segment_attach(stage_name, 2, 0, 0, &many, stage_reason), "cannot attach");
  assert_refused(
      segment_attach("../../../tmp/a-name-of-32-letters", 2, 0, 0, &nobody, stage_reason),
      "cannot attach");
  assert_refused(segment_attach("", 2, 0, 0, &nobody, stage_reason), "cannot attach");
  cr_assert(!exists(stage_path));
}

Test(segment, another_version_is_refused) {
  pid_t pid = start_staying(2);
  uint32_t version = PLANE_VERSION + 1;
  damage(offsetof(struct segment_header, version), &version, sizeof(version));
  assert_refused(attach(2, 1, 0), "use the same nccl-join on all ranks");
  cr_assert_eq(errno, EPROTO);
  kill_and_reap(pid);
}

/* To this child the file is of another version, as it would be to a rank with another nccl-join. */
static int come_to_another_version(uint32_t slot) {
  segment_forget_all(); /* what it has of its parent */
  return attach(2, slot, 0) == NULL && errno == EPROTO ? 0 : 1;
}

Test(segment, ranks_hear_of_one_with_another_version) {
  struct segment *segment = attach(2, 0, 0);
  char reason[ATTACHMENT_REASON_SIZE], expected[ATTACHMENT_REASON_SIZE];
  cr_assert_not(segment_stranger(segment, reason));
  uint32_t version = PLANE_VERSION + 1;
  damage(offsetof(struct segment_header, version), &version, sizeof(version));
  cr_assert_eq(finish(start(come_to_another_version, 1)), 0);
  cr_assert(segment_stranger(segment, reason));
  snprintf(expected, sizeof(expected), "rank 1's nccl-join has plane version %u, this one's has %u",
           PLANE_VERSION, PLANE_VERSION);
  cr_assert_eq(strncmp(reason, expected, strlen(expected)), 0, "%s", reason);
  segment_detach(segment);
}

Test(segment, a_living_file_of_another_kind_is_refused) {
  pid_t pid = start_staying(2);
  uint64_t bytes = 1;
  damage(offsetof(struct segment_header, bytes), &bytes, sizeof(bytes));
  assert_refused(attach(2, 1, 0), "instead of");
  bytes = segment_bytes(2);
  damage(offsetof(struct segment_header, bytes), &bytes, sizeof(bytes));
  cr_assert_eq(truncate(stage_path, (off_t)bytes - 1), 0);
  assert_refused(attach(2, 1, 0), "instead of");
  damage(0, "anything", 8);
  assert_refused(attach(2, 1, 0), "is not a segment");
  cr_assert_eq(truncate(stage_path, 0), 0);
  assert_refused(attach(2, 1, 0), "is not a segment");
  cr_assert(exists(stage_path));
  kill_and_reap(pid);
}

Test(segment, a_file_that_others_may_open_is_refused) {
  pid_t pid = start_staying(2);
  cr_assert_eq(chmod(stage_path, 0640), 0);
  assert_refused(attach(2, 1, 0), "its mode must be 0600");
  kill_and_reap(pid);
}

Test(segment, a_file_of_another_user_is_refused) {
  if (geteuid() != 0)
    cr_skip_test("only root can give a file away");
  stage_move("/dev"); /* where fs.protected_regular does not come first */
  int fd = open(stage_path, O_CREAT | O_RDWR, 0600);
  cr_assert_eq(fchown(fd, 12345, 0), 0);
  close(fd);
  assert_refused(attach(2, 0, 0), "belongs to user 12345, not 0");
  cr_assert(exists(stage_path));
  unlink(stage_path);
  stage_move(SEGMENT_FOLDER); /* here it does, where it is set */
  fd = open(stage_path, O_CREAT | O_RDWR, 0600);
  cr_assert_eq(fchown(fd, 12345, 0), 0);
  close(fd);
  assert_refused(attach(2, 0, 0), "user ");
}

Test(segment, what_is_not_a_file_is_refused) {
  cr_assert_eq(symlink("/etc/passwd", stage_path), 0);
  assert_refused(attach(2, 0, 0), "is a symbolic link");
  unlink(stage_path);
  cr_assert_eq(mkfifo(stage_path, 0600), 0);
  assert_refused(attach(2, 0, 0), "is not a file");
  unlink(stage_path);
  cr_assert_eq(mkdir(stage_path, 0700), 0);
  assert_refused(attach(2, 0, 0), "cannot use");
  rmdir(stage_path);
}

Test(segment, a_missing_folder_is_an_error) {
  stage_move("/dev/shm/there-is-no-such-folder");
  assert_refused(attach(2, 0, 0), "does not exist");
}

/* ---- Full and read-only ---- */

static char folder[] = "/tmp/plane-shm-XXXXXX";

/* A tmpfs of our own, seen by this process only. */
static void mount_folder(const char *options) {
  cr_assert_not_null(mkdtemp(folder));
  stage_move(folder);
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
      mount("tmpfs", folder, "tmpfs", 0, options) != 0) {
    rmdir(folder);
    cr_skip_test("cannot mount a tmpfs: needs root");
  }
}

static void unmount_folder(void) {
  umount2(folder, MNT_DETACH);
  rmdir(folder);
}

static int attach_once(uint32_t slot) {
  segment_forget_all();
  return attach(4, slot, 0) != NULL ? 0 : EXIT_REFUSED;
}

Test(segment, a_full_file_system_is_an_error) {
  mount_folder("size=128k");
  assert_refused(attach(64, 0, 0), "MiB are needed for 64 ranks; make it larger (docker run "
                                   "--shm-size, or mount -o remount,size=...)");
  cr_assert_not_null(strstr(stage_reason, " is full: up to "));
  cr_assert(!exists(stage_path), "left a name behind");
  unmount_folder();
}

Test(segment, a_file_system_that_is_full_for_one_more_rank_is_an_error) {
  mount_folder("size=256k");
  struct segment *segment = attach(4, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  assert_refused(attach(4, 1, 0), "is full");
  cr_assert(exists(stage_path));
  cr_assert_eq(segment_attached(segment), 1);
  struct plane *plane = segment_plane(segment, 0, 1, (uint32_t[]){0});
  memset(plane->logs[0], 1, sizeof(*plane->logs[0])); /* no SIGBUS: all of it is there */
  cr_assert_eq(mount("", folder, "", MS_REMOUNT, "size=2m"), 0);
  cr_assert_eq(finish(start(attach_once, 1)), 0, "the slot stayed locked");
  segment_detach(segment);
  unmount_folder();
}

Test(segment, a_read_only_folder_is_an_error) {
  mount_folder("ro");
  assert_refused(attach(2, 0, 0), "is read-only");
  unmount_folder();
}

static int attach_as_other_user(uint32_t slot) {
  if (setresgid(12345, 12345, 12345) != 0 || setresuid(12345, 12345, 12345) != 0)
    return 1;
  stage_move("/");
  return attach(2, slot, 0) != NULL || strstr(stage_reason, "no permission to write in /") == NULL;
}

Test(segment, a_folder_without_permission_is_an_error) {
  if (geteuid() != 0)
    cr_skip_test("only root can become somebody else");
  cr_assert_eq(finish(start(attach_as_other_user, 0)), 0);
}

Test(segment, a_limit_on_file_sizes_is_an_error) {
  struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 100000;
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_refused(attach(2, 0, 0), "raise it (ulimit -f)");
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
