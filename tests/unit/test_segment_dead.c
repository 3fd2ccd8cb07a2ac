/* Segments that dead jobs have left under names of their own: who makes the next segment removes
 * them, and nothing else. */
#include "core/transport/plane_shm.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/transport/segment.h"
#include "tests/unit/segment_stage.h"

static char first_path[SEGMENT_PATH_SIZE];

/* Another job's name from here on. */
static void take_another_name(void) {
  strcpy(first_path, stage_path);
  stage_name[0] = stage_name[0] == 'f' ? '0' : 'f';
  stage_move(stage_folder);
}

TestSuite(segment_dead, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

static struct segment *make_the_next(void) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  return segment;
}

Test(segment_dead, of_a_job_that_was_killed_is_removed_by_the_next) {
  kill_and_reap(start_staying(3));
  cr_assert(exists(stage_path));
  take_another_name();
  struct segment *segment = make_the_next();
  cr_assert(!exists(first_path));
  cr_assert(exists(stage_path));
  segment_detach(segment);
}

Test(segment_dead, without_content_is_removed) {
  close(open(stage_path, O_CREAT | O_RDWR, 0600));
  take_another_name();
  segment_detach(make_the_next());
  cr_assert(!exists(first_path));
}

/* Its ranks can still meet there. */
Test(segment_dead, with_a_living_rank_is_not) {
  pid_t pid = start_staying(3);
  take_another_name();
  struct segment *segment = make_the_next();
  cr_assert(exists(first_path));
  kill_and_reap(pid);
  segment_detach(segment);
}

/* Nor is one at whose gate somebody stands. */
static int stand_at_the_gate(uint32_t unused) {
  (void)unused;
  int fd = open(stage_path, O_CREAT | O_RDWR, 0600);
  struct flock lock = {.l_type = F_WRLCK, .l_start = SEGMENT_GATE, .l_len = 1};
  if (fcntl(fd, F_SETLK, &lock) != 0)
    return 1;
  atomic_fetch_add(&stage->arrived, 1);
  for (;;)
    pause();
}

Test(segment_dead, that_is_being_laid_out_is_not) {
  pid_t pid = start(stand_at_the_gate, 0);
  await(&stage->arrived, 1);
  take_another_name();
  segment_detach(make_the_next());
  cr_assert(exists(first_path));
  kill_and_reap(pid);
}

static int see_slot_0_held(uint32_t unused) {
  (void)unused;
  int fd = open(stage_path, O_RDWR);
  struct flock lock = {.l_type = F_WRLCK, .l_start = 0, .l_len = 1};
  return fd < 0 || fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK;
}

/* Looking for the dead must not release the locks of the living that looks. */
Test(segment_dead, looking_for_them_keeps_the_own_lock) {
  struct segment *segment = make_the_next();
  cr_assert(exists(stage_path));
  cr_assert_eq(finish(start(see_slot_0_held, 0)), 0);
  segment_detach(segment);
}

static void write_file(const char *name, mode_t mode) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", stage_folder, name);
  int fd = open(path, O_CREAT | O_RDWR, 0600);
  cr_assert(fd >= 0 && write(fd, "x", 1) == 1 && fchmod(fd, mode) == 0);
  close(fd);
}

static bool has_file(const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", stage_folder, name);
  return exists(path);
}

/* What only looks like one, or belongs to somebody else. */
Test(segment_dead, files_of_others_stay) {
  char name[4][96], digits[] = "0123456789abcdef0123456789abcdef";
  unsigned user = geteuid();
  snprintf(name[0], sizeof(name[0]), "nccl-join-%u-%s", user + 1, digits);
  snprintf(name[1], sizeof(name[1]), "nccl-join-%u-%s0", user, digits);
  snprintf(name[2], sizeof(name[2]), "another-%u-%s", user, digits);
  snprintf(name[3], sizeof(name[3]), "nccl-join-%u-%s", user, digits);
  for (int i = 0; i < 3; i++)
    write_file(name[i], 0600);
  write_file(name[3], 0644); /* not made by nccl-join */
  segment_detach(make_the_next());
  for (int i = 0; i < 4; i++)
    cr_expect(has_file(name[i]), "%s is gone", name[i]);
  if (geteuid() != 0)
    return;
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%s/%s", stage_folder, name[3]);
  cr_assert_eq(chmod(path, 0600), 0);
  cr_assert_eq(chown(path, 65534, 65534), 0);
  take_another_name();
  pid_t pid = start_staying(2); /* a process that has not looked yet */
  cr_expect(has_file(name[3]), "a file of another user is gone");
  kill_and_reap(pid);
}

/* Ranks of several jobs start at once, each of which may come upon files of the others that have
 * just been created. */
enum { JOBS = 8, RANKS = 4 };

static int race(uint32_t number) {
  stage_name[0] = "0123456789abcdef"[number / RANKS];
  stage_move(stage_folder);
  atomic_fetch_add(&stage->arrived, 1);
  await(&stage->arrived, JOBS * RANKS);
  struct segment *segment = attach(RANKS, number % RANKS, RANKS);
  if (segment == NULL)
    return EXIT_REFUSED;
  for (int i = 0; segment_attached(segment) < RANKS; i++, nap(1))
    if (i == 60000)
      return EXIT_ALONE;
  return 0;
}

Test(segment_dead, jobs_that_start_at_once_do_not_part_each_others_ranks) {
  pid_t pids[JOBS * RANKS];
  for (uint32_t i = 0; i < JOBS * RANKS; i++)
    pids[i] = start(race, i);
  for (uint32_t i = 0; i < JOBS * RANKS; i++)
    cr_expect_eq(finish(pids[i]), 0, "rank %u of job %u", i % RANKS, i / RANKS);
}
