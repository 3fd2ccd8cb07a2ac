/* The plane of processes on one machine (core/plane_shm.h): coming together, finding out who has
 * died, waking each other, and what happens when /dev/shm is not as it should be. Ranks are forked
 * children, which answer by their exit status. */
#include "core/plane_shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/segment.h"

#define RACERS 40
#define EXIT_REFUSED 99 /* attach failed */
#define EXIT_ALONE 98   /* waited for others for a minute */

/* What the processes of a test share beside the segment. */
struct stage {
  _Atomic uint32_t arrived, go, seen, unlinked;
};
static struct stage *stage;
static char name[SEGMENT_NAME_SIZE], path[SEGMENT_PATH_SIZE], reason[SEGMENT_REASON_SIZE];
static const struct attachment nobody = {0};

static void set_up(void) {
  uint8_t random[16];
  cr_assert_eq(getrandom(random, sizeof(random), 0), (ssize_t)sizeof(random));
  for (size_t i = 0; i < sizeof(random); i++)
    snprintf(name + 2 * i, 3, "%02x", random[i]);
  snprintf(path, sizeof(path), "%s/nccl-join-%u-%s", segment_folder, (unsigned)geteuid(), name);
  stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(stage, MAP_FAILED);
}

static void tear_down(void) {
  unlink(path);
}

TestSuite(plane_shm, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- Helpers ---- */

/* The last handle, so that what a child leaves to the kernel is no leak. */
static struct segment *volatile latest;

static struct segment *attach(uint32_t slots, uint32_t slot, uint32_t expected) {
  struct attachment me = {.identity = 100 + slot, .key = -(int32_t)slot, .ncomms = 1, .comms = {7}};
  latest = segment_attach(name, slots, slot, expected, &me, reason);
  return latest;
}

static bool exists(const char *file) {
  struct stat status;
  return lstat(file, &status) == 0;
}

static pid_t start(int (*body)(uint32_t), uint32_t argument) {
  pid_t pid = fork();
  cr_assert_geq(pid, 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the test fail */
    _exit(body(argument));
  }
  return pid;
}

static int finish(pid_t pid) {
  int status;
  cr_assert_eq(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  cr_assert_eq(finish(pid), -SIGKILL);
}

static void nap(unsigned milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

/* Ends the process if the others do not come: a test that fails leaves none behind. */
static void await(_Atomic uint32_t *word, uint32_t value) {
  for (int i = 0; atomic_load(word) < value; i++, nap(1))
    if (i == 60000)
      _exit(EXIT_ALONE);
}

static unsigned milliseconds_since(int64_t start_time) {
  return (unsigned)((segment_now() - start_time) / 1000000);
}

/* A plane over all slots, rank by slot. */
static struct plane *whole_plane(struct segment *segment, uint32_t slot, uint32_t slots) {
  uint32_t slot_of[PLANE_RANKS_MAX];
  for (uint32_t i = 0; i < slots; i++)
    slot_of[i] = i;
  return segment_plane(segment, slot, slots, slot_of);
}

static void assert_refused(struct segment *segment, const char *because) {
  cr_assert_null(segment);
  cr_assert_not_null(strstr(reason, because), "reason: '%s', expected '%s'", reason, because);
  cr_assert_lt(strlen(reason), SEGMENT_REASON_SIZE - 1, "cut off: %s", reason);
}

/* Changes some bytes of the file; from another process, which spares this one's locks. */
static void damage(off_t offset, const void *bytes, size_t count) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(path, O_WRONLY);
    _exit(fd < 0 || pwrite(fd, bytes, count, offset) != (ssize_t)count);
  }
  cr_assert_eq(finish(pid), 0);
}

/* Attaches to slot 0 and stays until it is killed. */
static int stay(uint32_t slots) {
  if (attach(slots, 0, 0) == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  for (;;)
    pause();
}

static pid_t start_staying(uint32_t slots) {
  pid_t pid = start(stay, slots);
  await(&stage->arrived, 1);
  return pid;
}

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
    struct attachment other;
    if (!segment_attachment(segment, i, &other) || other.identity != 100 + i ||
        other.key != -(int32_t)i || other.ncomms != 1 || other.comms[0] != 7)
      return 2;
  }
  return 0;
}

Test(plane_shm, every_rank_sees_the_marks_of_all) {
  pid_t pids[4];
  for (uint32_t i = 0; i < 4; i++)
    pids[i] = start(see_all_marks, i);
  for (uint32_t i = 0; i < 4; i++)
    cr_expect_eq(finish(pids[i]), 0);
  cr_assert(!exists(path));
}

Test(plane_shm, a_slot_that_is_not_taken_has_no_mark) {
  struct attachment other;
  struct segment *segment = attach(3, 1, 0);
  cr_assert_not_null(segment, "%s", reason);
  cr_assert_eq(segment_attached(segment), 1);
  cr_assert(!segment_attachment(segment, 0, &other));
  cr_assert(segment_attachment(segment, 1, &other));
  cr_assert(!segment_attachment(segment, 3, &other));
  cr_assert(!segment_attachment(segment, UINT32_MAX, &other));
  segment_detach(segment);
}

Test(plane_shm, slots_of_one_process_share_one_mapping) {
  struct segment *segments[3];
  struct plane *planes[3];
  for (uint32_t i = 0; i < 3; i++) {
    segments[i] = attach(3, i, 3);
    cr_assert_not_null(segments[i], "%s", reason);
    cr_assert_eq(exists(path), i < 2, "the name goes with the last who comes");
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

Test(plane_shm, the_file_is_private) {
  struct stat status;
  umask(0);
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", reason);
  cr_assert_eq(stat(path, &status), 0);
  cr_assert_eq(status.st_mode & 07777, 0600);
  cr_assert_eq(fcntl(segment->map->fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  segment_detach(segment);
}

Test(plane_shm, memory_is_taken_for_attached_slots_only) {
  struct stat status;
  struct segment *segment = attach(PLANE_RANKS_MAX, 4000, 0);
  cr_assert_not_null(segment, "%s", reason);
  cr_assert_eq(stat(path, &status), 0);
  cr_assert_eq((size_t)status.st_size, segment_bytes(PLANE_RANKS_MAX));
  cr_assert_geq((size_t)status.st_blocks * 512,
                segment_log_offset(PLANE_RANKS_MAX, 0) + sizeof(struct plane_log));
  cr_assert_lt(status.st_blocks * 512, 2 << 20);
  segment_detach(segment);
}

Test(plane_shm, the_name_is_unlinked_by_hand) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert(exists(path));
  segment_unlink(segment);
  cr_assert(!exists(path));
  struct segment *next = attach(2, 0, 0); /* another segment: the name is gone */
  cr_assert_not_null(next, "%s", reason);
  cr_assert_neq(next->map, segment->map);
  segment_unlink(segment);
  cr_assert(exists(path), "unlinked a name that is another segment's");
  segment_detach(segment);
  cr_assert(exists(path), "unlinked a name that is another segment's");
  segment_detach(next);
}

Test(plane_shm, a_name_removed_by_others_is_not_taken_for_ours) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_eq(unlink(path), 0);
  pid_t pid = start_staying(2); /* has created a segment of its own */
  segment_unlink(segment);
  cr_assert(exists(path));
  segment_detach(segment);
  cr_assert(exists(path));
  kill_and_reap(pid);
}

Test(plane_shm, who_leaves_last_takes_the_name_along) {
  struct segment *first = attach(3, 0, 0), *second = attach(3, 1, 0);
  segment_detach(first);
  cr_assert(exists(path));
  segment_detach(second);
  cr_assert(!exists(path));

  pid_t pid = start_staying(3);
  segment_detach(attach(3, 1, 0));
  cr_assert(exists(path), "somebody is still in it");
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
  cr_assert(!exists(path));
}

Test(plane_shm, forty_ranks_race_to_create) {
  for (int round = 0; round < 5; round++)
    assert_race_is_won();
}

Test(plane_shm, forty_ranks_race_to_replace_a_dead_segment) {
  for (int round = 0; round < 5; round++) {
    atomic_store(&stage->arrived, 0);
    kill_and_reap(start_staying(7));
    cr_assert(exists(path));
    assert_race_is_won();
  }
}

static void *attach_in_thread(void *argument) {
  char why[SEGMENT_REASON_SIZE];
  uint32_t slot = *(uint32_t *)argument;
  struct segment *segment = segment_attach(name, 8, slot, 0, &nobody, why);
  if (segment == NULL)
    return argument;
  bool all = false;
  for (int i = 0; i < 5000 && !all; i++, nap(1))
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

Test(plane_shm, threads_attach_and_leave_at_the_same_time) {
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
  cr_assert(!exists(path));
}

/* ---- Refused ---- */

Test(plane_shm, a_slot_is_taken_once) {
  pid_t pid = start_staying(3);
  assert_refused(attach(3, 0, 0), "slot 0 of");
  struct segment *segment = attach(3, 1, 0);
  cr_assert_not_null(segment, "%s", reason);
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

Test(plane_shm, ranks_agree_on_the_number_of_slots) {
  struct segment *segment = attach(3, 1, 0);
  assert_refused(attach(4, 2, 0), "has 3 slots, this rank wants 4");
  segment_detach(segment);
  pid_t pid = start_staying(3);
  assert_refused(attach(4, 2, 0), "has 3 slots, this rank wants 4");
  cr_assert(exists(path));
  kill_and_reap(pid);
}

Test(plane_shm, arguments_are_checked) {
  struct attachment many = {.ncomms = SEGMENT_COMMS_MAX + 1};
  assert_refused(attach(0, 0, 0), "cannot attach");
  assert_refused(attach(PLANE_RANKS_MAX + 1, 0, 0), "cannot attach");
  assert_refused(attach(2, 2, 0), "cannot attach");
  assert_refused(attach(2, 0, 3), "cannot attach");
  assert_refused(segment_attach(name, 2, 0, 0, &many, reason), "cannot attach");
  assert_refused(segment_attach("../../../tmp/a-name-of-32-letters", 2, 0, 0, &nobody, reason),
                 "cannot attach");
  assert_refused(segment_attach("", 2, 0, 0, &nobody, reason), "cannot attach");
  cr_assert(!exists(path));
}

Test(plane_shm, another_version_is_refused) {
  pid_t pid = start_staying(2);
  uint32_t version = PLANE_VERSION + 1;
  damage(offsetof(struct segment_header, version), &version, sizeof(version));
  assert_refused(attach(2, 1, 0), "use the same nccl-join on all ranks");
  kill_and_reap(pid);
}

Test(plane_shm, a_living_file_of_another_kind_is_refused) {
  pid_t pid = start_staying(2);
  uint64_t bytes = 1;
  damage(offsetof(struct segment_header, bytes), &bytes, sizeof(bytes));
  assert_refused(attach(2, 1, 0), "instead of");
  bytes = segment_bytes(2);
  damage(offsetof(struct segment_header, bytes), &bytes, sizeof(bytes));
  cr_assert_eq(truncate(path, (off_t)bytes - 1), 0);
  assert_refused(attach(2, 1, 0), "instead of");
  damage(0, "anything", 8);
  assert_refused(attach(2, 1, 0), "is not a segment");
  cr_assert_eq(truncate(path, 0), 0);
  assert_refused(attach(2, 1, 0), "is not a segment");
  cr_assert(exists(path));
  kill_and_reap(pid);
}

Test(plane_shm, a_file_that_others_may_open_is_refused) {
  pid_t pid = start_staying(2);
  cr_assert_eq(chmod(path, 0640), 0);
  assert_refused(attach(2, 1, 0), "its mode must be 0600");
  kill_and_reap(pid);
}

Test(plane_shm, a_file_of_another_user_is_refused) {
  if (geteuid() != 0)
    cr_skip_test("only root can give a file away");
  segment_folder = "/dev"; /* where fs.protected_regular does not come first */
  snprintf(path, sizeof(path), "%s/nccl-join-0-%s", segment_folder, name);
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  cr_assert_eq(fchown(fd, 12345, 0), 0);
  close(fd);
  assert_refused(attach(2, 0, 0), "belongs to user 12345, not 0");
  cr_assert(exists(path));
  unlink(path);
  segment_folder = SEGMENT_FOLDER; /* here it does, where it is set */
  snprintf(path, sizeof(path), "%s/nccl-join-0-%s", segment_folder, name);
  fd = open(path, O_CREAT | O_RDWR, 0600);
  cr_assert_eq(fchown(fd, 12345, 0), 0);
  close(fd);
  assert_refused(attach(2, 0, 0), "user ");
}

Test(plane_shm, what_is_not_a_file_is_refused) {
  cr_assert_eq(symlink("/etc/passwd", path), 0);
  assert_refused(attach(2, 0, 0), "is a symbolic link");
  unlink(path);
  cr_assert_eq(mkfifo(path, 0600), 0);
  assert_refused(attach(2, 0, 0), "is not a file");
  unlink(path);
  cr_assert_eq(mkdir(path, 0700), 0);
  assert_refused(attach(2, 0, 0), "cannot use");
  rmdir(path);
}

Test(plane_shm, a_missing_folder_is_an_error) {
  segment_folder = "/dev/shm/there-is-no-such-folder";
  assert_refused(attach(2, 0, 0), "does not exist");
}

/* ---- Full and read-only ---- */

static char folder[] = "/tmp/plane-shm-XXXXXX";

/* A tmpfs of our own, seen by this process only. */
static void mount_folder(const char *options) {
  cr_assert_not_null(mkdtemp(folder));
  segment_folder = folder;
  snprintf(path, sizeof(path), "%s/nccl-join-%u-%s", folder, (unsigned)geteuid(), name);
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
  return attach(4, slot, 0) != NULL ? 0 : EXIT_REFUSED;
}

Test(plane_shm, a_full_file_system_is_an_error) {
  mount_folder("size=128k");
  assert_refused(attach(64, 0, 0), "MiB are needed for 64 ranks; make it larger (docker run "
                                   "--shm-size, or mount -o remount,size=...)");
  cr_assert_not_null(strstr(reason, " is full: up to "));
  cr_assert(!exists(path), "left a name behind");
  unmount_folder();
}

Test(plane_shm, a_file_system_that_is_full_for_one_more_rank_is_an_error) {
  mount_folder("size=256k");
  struct segment *segment = attach(4, 0, 0);
  cr_assert_not_null(segment, "%s", reason);
  assert_refused(attach(4, 1, 0), "is full");
  cr_assert(exists(path));
  cr_assert_eq(segment_attached(segment), 1);
  struct plane *plane = segment_plane(segment, 0, 1, (uint32_t[]){0});
  memset(plane->logs[0], 1, sizeof(*plane->logs[0])); /* no SIGBUS: all of it is there */
  cr_assert_eq(mount("", folder, "", MS_REMOUNT, "size=2m"), 0);
  cr_assert_eq(finish(start(attach_once, 1)), 0, "the slot stayed locked");
  segment_detach(segment);
  unmount_folder();
}

Test(plane_shm, a_read_only_folder_is_an_error) {
  mount_folder("ro");
  assert_refused(attach(2, 0, 0), "is read-only");
  unmount_folder();
}

static int attach_as_other_user(uint32_t slot) {
  if (setresgid(12345, 12345, 12345) != 0 || setresuid(12345, 12345, 12345) != 0)
    return 1;
  segment_folder = "/";
  return attach(2, slot, 0) != NULL || strstr(reason, "no permission to write in /") == NULL;
}

Test(plane_shm, a_folder_without_permission_is_an_error) {
  if (geteuid() != 0)
    cr_skip_test("only root can become somebody else");
  cr_assert_eq(finish(start(attach_as_other_user, 0)), 0);
}

Test(plane_shm, a_limit_on_file_sizes_is_an_error) {
  struct rlimit limit = {.rlim_cur = 100000, .rlim_max = RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = 100000;
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  assert_refused(attach(2, 0, 0), "raise it (ulimit -f)");
  cr_assert(!exists(path));
}

/* ---- Dead segments ---- */

Test(plane_shm, a_dead_jobs_segment_is_replaced) {
  struct attachment other;
  kill_and_reap(start_staying(5));
  cr_assert(exists(path));
  struct segment *segment = attach(2, 1, 0); /* another number of slots, too */
  cr_assert_not_null(segment, "%s", reason);
  cr_assert_eq(segment_attached(segment), 1);
  cr_assert(!segment_attachment(segment, 0, &other));
  segment_detach(segment);
}

Test(plane_shm, a_dead_file_of_any_kind_is_replaced) {
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  cr_assert_eq(write(fd, "anything", 8), 8);
  close(fd);
  struct segment *segment = attach(2, 1, 2);
  cr_assert_not_null(segment, "%s", reason);
  segment_detach(segment);
}

Test(plane_shm, an_empty_file_is_laid_out) {
  close(open(path, O_CREAT | O_RDWR, 0600));
  struct segment *segment = attach(2, 1, 2);
  cr_assert_not_null(segment, "%s", reason);
  segment_detach(segment);
}

/* Holds the gate of a file that it has only begun to lay out, then dies. */
static int die_at_the_gate(uint32_t milliseconds) {
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_start = SEGMENT_GATE, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) != 0 || ftruncate(fd, 10000) != 0)
    return 1;
  atomic_fetch_add(&stage->arrived, 1);
  nap(milliseconds);
  kill(getpid(), SIGKILL);
  return 1;
}

Test(plane_shm, a_death_while_laying_out_is_survived) {
  pid_t pid = start(die_at_the_gate, 100);
  await(&stage->arrived, 1);
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", reason);
  cr_assert_eq(segment_attached(segment), 1);
  segment_detach(segment);
  cr_assert_eq(finish(pid), -SIGKILL);
}

/* Holds the gate of a new file until somebody waits there, then removes the name. */
static int unlink_at_the_gate(uint32_t milliseconds) {
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_start = SEGMENT_GATE, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) != 0)
    return 1;
  atomic_fetch_add(&stage->arrived, 1);
  nap(milliseconds);
  return unlink(path) != 0;
}

Test(plane_shm, who_waited_at_the_gate_of_a_removed_file_goes_to_the_next) {
  struct stat status;
  pid_t pid = start(unlink_at_the_gate, 100);
  await(&stage->arrived, 1);
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", reason);
  cr_assert_eq(stat(path, &status), 0);
  cr_assert_eq(status.st_ino, segment->map->inode);
  cr_assert_eq(finish(pid), 0);
  segment_detach(segment);
}

/* ---- Death ---- */

static int stay_with_child(uint32_t slots) {
  struct segment *segment = attach(slots, 0, 0);
  if (segment == NULL)
    return EXIT_REFUSED;
  if (fork() == 0) { /* knows nothing of us: keeps the descriptor and the memory */
    atomic_fetch_add(&stage->arrived, 1);
    await(&stage->go, 1);
    _exit(0);
  }
  atomic_fetch_add(&stage->arrived, 1);
  for (;;)
    pause();
}

Test(plane_shm, a_killed_rank_is_noticed_although_its_child_lives_on) {
  pid_t pid = start(stay_with_child, 2);
  await(&stage->arrived, 2);
  struct segment *segment = attach(2, 1, 2);
  cr_assert_not_null(segment, "%s", reason);
  struct plane *plane = whole_plane(segment, 1, 2);
  cr_assert(plane->alive(plane, 0));
  cr_assert(plane->alive(plane, 1));
  int64_t begin = segment_now();
  kill(pid, SIGKILL);
  while (plane->alive(plane, 0) && milliseconds_since(begin) < 5000)
    ;
  unsigned took = milliseconds_since(begin);
  cr_assert_lt(took, 200, "noticed after %u ms", took);
  atomic_store(&stage->go, 1);
  cr_assert_eq(finish(pid), -SIGKILL);
  segment_detach(segment);
}

static int exec_sleep(uint32_t slots) {
  if (attach(slots, 0, 0) == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->go, 1);
  execlp("sleep", "sleep", "60", (char *)NULL);
  return 1;
}

Test(plane_shm, a_rank_that_becomes_another_program_is_gone) {
  pid_t pid = start(exec_sleep, 2);
  await(&stage->arrived, 1);
  struct segment *segment = attach(2, 1, 2);
  struct plane *plane = whole_plane(segment, 1, 2);
  cr_assert(plane->alive(plane, 0));
  atomic_store(&stage->go, 1);
  for (int i = 0; i < 5000 && plane->alive(plane, 0); i++)
    nap(1);
  cr_assert(!plane->alive(plane, 0));
  kill_and_reap(pid);
  segment_detach(segment);
}

static int detach_one(uint32_t slots) {
  struct segment *first = attach(slots, 0, 0), *second = attach(slots, 1, 0);
  if (first == NULL || second == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->go, 1);
  segment_detach(first);
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->go, 2);
  segment_detach(second);
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->go, 3);
  return 0;
}

Test(plane_shm, a_slot_let_go_looks_dead_to_the_others) {
  pid_t pid = start(detach_one, 3);
  await(&stage->arrived, 1);
  struct segment *segment = attach(3, 2, 3);
  struct plane *plane = whole_plane(segment, 2, 3);
  cr_assert(plane->alive(plane, 0) && plane->alive(plane, 1));
  atomic_store(&stage->go, 1);
  await(&stage->arrived, 2);
  cr_assert(!plane->alive(plane, 0) && plane->alive(plane, 1));
  atomic_store(&stage->go, 2);
  await(&stage->arrived, 3);
  cr_assert(!plane->alive(plane, 0) && !plane->alive(plane, 1));
  atomic_store(&stage->go, 3);
  cr_assert_eq(finish(pid), 0);
  segment_detach(segment);
}

/* ---- Forked children ---- */

/* Looks from outside whether slot 0 is held. */
static int is_slot_0_held(uint32_t slots) {
  struct segment *segment = attach(slots, 1, 0);
  if (segment == NULL)
    return EXIT_REFUSED;
  struct plane *plane = whole_plane(segment, 1, slots);
  int held = plane->alive(plane, 0);
  segment_detach(segment);
  return held;
}

Test(plane_shm, a_forked_child_forgets_without_harm) {
  struct segment *segment = attach(2, 0, 0);
  struct plane *plane = segment_plane(segment, 0, 1, (uint32_t[]){0});
  atomic_store(&plane->logs[0]->head, 5);
  int fd = segment->map->fd;
  pid_t pid = fork();
  if (pid == 0) {
    errno = 77;
    segment_forget_all();
    bool inert = errno == 77 && fcntl(fd, F_GETFD) == -1 && atomic_load(&plane->logs[0]->head) == 0;
    atomic_store(&plane->logs[0]->head, 6);
    plane->ring(plane);
    plane->wait(plane, 0, 1);
    inert = inert && plane->alive(plane, 0);
    segment_unlink(segment);
    segment_detach(segment);
    segment_forget_all();
    _exit(inert ? 0 : 1);
  }
  cr_assert_eq(finish(pid), 0);
  cr_assert_eq(atomic_load(&plane->logs[0]->head), 5);
  cr_assert_eq(plane_bell(plane), 0);
  cr_assert(exists(path));
  cr_assert_eq(finish(start(is_slot_0_held, 2)), 1, "the child took its parent's lock along");
  segment_detach(segment);
}

Test(plane_shm, forgetting_leaves_errno_alone) {
  struct segment *segment = attach(2, 0, 0);
  pid_t pid = fork();
  if (pid == 0) {
    close(segment->map->fd); /* so that closing fails */
    errno = 77;
    segment_forget_all();
    _exit(errno == 77 ? 0 : 1);
  }
  cr_assert_eq(finish(pid), 0);
  segment_detach(segment);
}

/* As is_slot_0_held, in a child that has inherited the parent's segment. */
static int forget_then_look(uint32_t slots) {
  segment_forget_all();
  return is_slot_0_held(slots);
}

Test(plane_shm, a_forked_child_may_attach_for_itself) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_eq(finish(start(forget_then_look, 2)), 1);
  cr_assert_eq(segment_attached(segment), 2);
  segment_detach(segment);
}

/* ---- Planes ---- */

/* Slot 0 is rank 1, slot 2 is rank 0, slot 1 is not in the team. */
static int write_own_and_read_other(uint32_t rank) {
  uint32_t slot_of[] = {2, 0}, other = 1 - rank;
  struct segment *segment = attach(3, slot_of[rank], 0);
  if (segment == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->arrived, 2);
  struct plane *plane = segment_plane(segment, rank, 2, slot_of);
  if (plane == NULL || plane->rank != rank || plane->nranks != 2)
    return 1;
  if ((uintptr_t)plane->logs[rank] % 64 != 0 || (uintptr_t)plane->team % 64 != 0)
    return 2;
  memset(plane->logs[rank], 0x50 + (int)rank, sizeof(struct plane_log));
  atomic_fetch_add(&stage->seen, 1);
  await(&stage->seen, 2);
  const unsigned char *bytes = (const unsigned char *)plane->logs[other];
  for (size_t i = 0; i < sizeof(struct plane_log); i++)
    if (bytes[i] != 0x50 + other)
      return 3;
  return atomic_load(&plane->team->attention) != 0 || plane_bell(plane) != 0 ? 4 : 0;
}

Test(plane_shm, ranks_map_to_slots) {
  pid_t pids[] = {start(write_own_and_read_other, 0), start(write_own_and_read_other, 1)};
  cr_expect_eq(finish(pids[0]), 0);
  cr_expect_eq(finish(pids[1]), 0);
}

Test(plane_shm, a_plane_of_wrong_slots_is_refused) {
  struct segment *segment = attach(3, 0, 0), *other = attach(3, 1, 0);
  cr_assert_null(segment_plane(segment, 0, 2, (uint32_t[]){0, 3}), "no such slot");
  cr_assert_null(segment_plane(segment, 0, 2, (uint32_t[]){0, 2}), "a slot not taken");
  cr_assert_null(segment_plane(segment, 0, 2, (uint32_t[]){1, 0}), "somebody else's slot");
  cr_assert_null(segment_plane(segment, 2, 2, (uint32_t[]){0, 1, 0}), "no such rank");
  cr_assert_null(segment_plane(segment, 0, 4, (uint32_t[]){0, 1, 0, 1}), "more ranks than slots");
  cr_assert_not_null(segment_plane(segment, 0, 2, (uint32_t[]){0, 1}));
  cr_assert_null(segment_plane(segment, 0, 2, (uint32_t[]){0, 1}), "one for each handle");
  segment_detach(segment);
  segment_detach(other);
}

Test(plane_shm, nonsense_in_the_segment_is_harmless) {
  struct segment *segment = attach(2, 0, 0);
  struct attachment other;
  struct segment_slot nonsense;
  memset(&nonsense, 0xff, sizeof(nonsense));
  nonsense.ready = 1;
  damage(SEGMENT_HEADER_BYTES + sizeof(struct segment_slot), &nonsense, sizeof(nonsense));
  cr_assert(segment_attachment(segment, 1, &other));
  cr_assert_eq(other.ncomms, SEGMENT_COMMS_MAX);
  nonsense.ready = 2;
  damage(SEGMENT_HEADER_BYTES + sizeof(struct segment_slot), &nonsense, sizeof(nonsense));
  cr_assert(!segment_attachment(segment, 1, &other));
  cr_assert_eq(segment_attached(segment), 1);
  memset(segment->map->base, 0xff, sizeof(struct segment_header));
  cr_assert_eq(segment_attached(segment), 1, "the header is not looked at any more");
  segment_detach(segment);
}

/* ---- Waiting ---- */

static int wait_for_bell(uint32_t slots) {
  struct segment *segment = attach(slots, 0, 0);
  if (segment == NULL)
    return EXIT_REFUSED;
  struct plane *plane = segment_plane(segment, 0, 1, (uint32_t[]){0});
  uint32_t seen = plane_bell(plane);
  int64_t begin = segment_now();
  atomic_fetch_add(&stage->arrived, 1);
  plane->wait(plane, seen, 10000);
  return plane_bell(plane) != seen && milliseconds_since(begin) < 5000 ? 0 : 1;
}

Test(plane_shm, the_bell_wakes_other_processes) {
  pid_t pid = start(wait_for_bell, 2);
  await(&stage->arrived, 1);
  struct segment *segment = attach(2, 1, 2);
  struct plane *plane = whole_plane(segment, 1, 2);
  nap(100); /* until it sleeps for certain */
  plane->ring(plane);
  cr_assert_eq(finish(pid), 0);
  segment_detach(segment);
}

static void *ring_later(void *argument) {
  struct plane *plane = argument;
  nap(50);
  plane->ring(plane);
  return NULL;
}

Test(plane_shm, the_bell_wakes_other_threads) {
  struct segment *segment = attach(1, 0, 1);
  struct plane *plane = whole_plane(segment, 0, 1);
  pthread_t thread;
  int64_t begin = segment_now();
  cr_assert_eq(pthread_create(&thread, NULL, ring_later, plane), 0);
  plane->wait(plane, 0, 10000);
  cr_assert_lt(milliseconds_since(begin), 5000);
  cr_assert_eq(plane_bell(plane), 1);
  pthread_join(thread, NULL);
  segment_detach(segment);
}

static void on_alarm(int number) {
  (void)number;
}

Test(plane_shm, a_wait_ends) {
  struct segment *segment = attach(1, 0, 1);
  struct plane *plane = whole_plane(segment, 0, 1);
  int64_t begin = segment_now();
  plane->wait(plane, plane_bell(plane), 60);
  cr_expect_geq(milliseconds_since(begin), 60, "when its time is over");
  cr_expect_lt(milliseconds_since(begin), 2000);

  begin = segment_now();
  plane->wait(plane, plane_bell(plane), 0);
  plane->wait(plane, plane_bell(plane) + 1, 10000);
  cr_expect_lt(milliseconds_since(begin), 2000, "at once if the bell has been rung");

  begin = segment_now();
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {.tv_usec = 50000}}, NULL);
  plane->wait(plane, plane_bell(plane), 10000);
  cr_expect_lt(milliseconds_since(begin), 5000, "at a signal");
  segment_detach(segment);
}
