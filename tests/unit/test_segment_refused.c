/* Segments (core/transport/plane_shm.h) that a rank cannot come to: what others have there is not
 * its own, or /dev/shm is not as it should be. Each is refused with its reason. */
#include "core/transport/segment_view.h"
#include "core/transport/plane_shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/transport/segment.h"
#include "tests/unit/segment_stage.h"

static const struct introduction nobody = {0};

TestSuite(segment_refused, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

static void assert_refused(struct segment *segment, const char *because) {
  cr_assert_null(segment);
  cr_assert_not_null(strstr(stage_reason, because), "reason: '%s', expected '%s'", stage_reason,
                     because);
  cr_assert_lt(strlen(stage_reason), ATTACHMENT_REASON_SIZE - 1, "cut off: %s", stage_reason);
}

Test(segment_refused, a_slot_is_taken_once) {
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

Test(segment_refused, ranks_agree_on_the_number_of_slots) {
  struct segment *segment = attach(3, 1, 0);
  assert_refused(attach(4, 2, 0), "has 3 slots, this rank wants 4");
  segment_detach(segment);
  pid_t pid = start_staying(3);
  assert_refused(attach(4, 2, 0), "has 3 slots, this rank wants 4");
  cr_assert(exists(stage_path));
  kill_and_reap(pid);
}

Test(segment_refused, arguments_are_checked) {
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

Test(segment_refused, another_version_is_refused) {
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

Test(segment_refused, ranks_hear_of_one_with_another_version) {
  struct segment *segment = attach(2, 0, 0);
  char reason[ATTACHMENT_REASON_SIZE], expected[ATTACHMENT_REASON_SIZE];
  cr_assert_not(segment_stranger(segment, reason));
  uint32_t version = PLANE_VERSION + 1;
  damage(offsetof(struct segment_header, version), &version, sizeof(version));
  cr_assert_eq(finish(start(come_to_another_version, 1)), 0);
  cr_assert_null(segment_view_open(stage_path, reason));
  cr_assert(strstr(reason, "another version of nccl-join (plane version "), "%s", reason);
  cr_assert(segment_stranger(segment, reason));
  snprintf(expected, sizeof(expected), "rank 1's nccl-join has plane version %u, this one's has %u",
           PLANE_VERSION, PLANE_VERSION);
  cr_assert_eq(strncmp(reason, expected, strlen(expected)), 0, "%s", reason);
  segment_detach(segment);
}

Test(segment_refused, a_living_file_of_another_kind_is_refused) {
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

Test(segment_refused, a_file_that_others_may_open_is_refused) {
  pid_t pid = start_staying(2);
  cr_assert_eq(chmod(stage_path, 0640), 0);
  assert_refused(attach(2, 1, 0), "its mode must be 0600");
  kill_and_reap(pid);
}

Test(segment_refused, a_file_of_another_user_is_refused) {
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

Test(segment_refused, what_is_not_a_file_is_refused) {
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

Test(segment_refused, a_missing_folder_is_an_error) {
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

Test(segment_refused, a_full_file_system_is_an_error) {
  mount_folder("size=128k");
  assert_refused(attach(64, 0, 0), "MiB are needed for 64 ranks; make it larger (docker run "
                                   "--shm-size, or mount -o remount,size=...)");
  char said[80];
  snprintf(said, sizeof(said), " is full: 0.1 of 0.1 MiB are free, up to %.1f MiB are needed",
           (double)segment_bytes(64) / (1 << 20));
  cr_assert_not_null(strstr(stage_reason, said), "no '%s' in: %s", said, stage_reason);
  cr_assert(!exists(stage_path), "left a name behind");
  unmount_folder();
}

Test(segment_refused, a_file_system_that_is_full_for_one_more_rank_is_an_error) {
  mount_folder("size=384k");
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

Test(segment_refused, a_read_only_folder_is_an_error) {
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

Test(segment_refused, a_folder_without_permission_is_an_error) {
  if (geteuid() != 0)
    cr_skip_test("only root can become somebody else");
  cr_assert_eq(finish(start(attach_as_other_user, 0)), 0);
}

Test(segment_refused, a_limit_on_file_sizes_is_an_error) {
  struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 100000;
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_refused(attach(2, 0, 0), "raise it (ulimit -f)");
  cr_assert(!exists(stage_path));
}
