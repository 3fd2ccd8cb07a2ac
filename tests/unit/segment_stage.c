/* The stage of segment_stage.h. */
#include "tests/unit/segment_stage.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct stage *stage;
char stage_name[ATTACHMENT_NAME_SIZE], stage_path[SEGMENT_PATH_SIZE];
char stage_reason[ATTACHMENT_REASON_SIZE];
char stage_folder[] = SEGMENT_FOLDER "/nccl-join-test-XXXXXX";

/* All handles of this process, so that what a child leaves to the kernel is no leak. */
static struct segment *volatile handles[64];
static unsigned nhandles;

void stage_move(const char *folder) {
  segment_folder = folder;
  snprintf(stage_path, sizeof(stage_path), "%s/nccl-join-%u-%s", folder, (unsigned)geteuid(),
           stage_name);
}

void stage_set_up(void) {
  uint8_t random[16];
  cr_assert_eq(getrandom(random, sizeof(random), 0), (ssize_t)sizeof(random));
  for (size_t i = 0; i < sizeof(random); i++)
    snprintf(stage_name + 2 * i, 3, "%02x", random[i]);
  cr_assert_not_null(mkdtemp(stage_folder));
  stage_move(stage_folder);
  stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(stage, MAP_FAILED);
}

void stage_tear_down(void) {
  char command[128];
  unlink(stage_path);
  snprintf(command, sizeof(command), "rm -rf '%s'", stage_folder);
  cr_assert(rmdir(stage_folder) == 0 || system(command) == 0);
}

struct segment *attach(uint32_t slots, uint32_t slot, uint32_t expected) {
  struct introduction me = {
      .identity = 100 + slot, .key = -(int32_t)slot, .ncomms = 1, .comms = {7}};
  struct segment *segment = segment_attach(stage_name, slots, slot, expected, &me, stage_reason);
  handles[nhandles++ % 64] = segment;
  return segment;
}

struct plane *whole_plane(struct segment *segment, uint32_t slot, uint32_t slots) {
  uint32_t slot_of[PLANE_RANKS_MAX];
  for (uint32_t i = 0; i < slots; i++)
    slot_of[i] = i;
  return segment_plane(segment, slot, slots, slot_of);
}

#ifdef COVERAGE
void __gcov_dump(void);
#endif

pid_t start(int (*body)(uint32_t), uint32_t argument) {
  pid_t pid = fork();
  cr_assert_geq(pid, 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the test fail */
    int status = body(argument);
#ifdef COVERAGE
    __gcov_dump(); /* what _exit does not do */
#endif
    _exit(status);
  }
  return pid;
}

int finish(pid_t pid) {
  int status;
  cr_assert_eq(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  cr_assert_eq(finish(pid), -SIGKILL);
}

static int stay(uint32_t slots) {
  if (attach(slots, 0, 0) == NULL)
    return EXIT_REFUSED;
  atomic_fetch_add(&stage->arrived, 1);
  for (;;)
    pause();
}

pid_t start_staying(uint32_t slots) {
  pid_t pid = start(stay, slots);
  await(&stage->arrived, 1);
  return pid;
}

void nap(unsigned milliseconds) {
  nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000L}, NULL);
}

unsigned milliseconds_since(int64_t start_time) {
  return (unsigned)((segment_now() - start_time) / 1000000);
}

void await(_Atomic uint32_t *word, uint32_t value) {
  for (int i = 0; atomic_load(word) < value; i++, nap(1))
    if (i == 60000)
      _exit(EXIT_ALONE);
}

bool exists(const char *file) {
  struct stat status;
  return lstat(file, &status) == 0;
}

void damage(off_t offset, const void *bytes, size_t count) {
  pid_t pid = fork();
  if (pid == 0) {
    int fd = open(stage_path, O_WRONLY);
    _exit(fd < 0 || pwrite(fd, bytes, count, offset) != (ssize_t)count);
  }
  cr_assert_eq(finish(pid), 0);
}
