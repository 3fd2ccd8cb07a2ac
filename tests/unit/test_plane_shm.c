/* The plane over a segment (core/transport/plane_shm.h): finding out who has died, forked children,
 * ranks and slots, and waking each other. */
#include "core/transport/plane_shm.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/transport/logs.h"
#include "core/transport/segment.h"
#include "tests/unit/segment_stage.h"

TestSuite(plane_shm, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

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
  cr_assert_not_null(segment, "%s", stage_reason);
  struct plane *plane = whole_plane(segment, 1, 2);
  cr_assert(plane->alive(plane, 0));
  cr_assert(plane->alive(plane, 1));
  int64_t begin = segment_now();
  kill(pid, SIGKILL);
  while (plane->alive(plane, 0) && milliseconds_since(begin) < 60000)
    ;
  unsigned took = milliseconds_since(begin);
  cr_assert_lt(took, 60000, "not noticed while its child lives");
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
  for (int i = 0; i < 60000 && plane->alive(plane, 0); i++)
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
    dup2(open("/dev/null", O_RDWR), fd); /* the child's own file has the number now */
    inert = inert && plane->alive(plane, 0) && segment->map->fd == -1;
    segment_unlink(segment);
    segment_detach(segment);
    segment_forget_all();
    _exit(inert && fcntl(fd, F_GETFD) != -1 ? 0 : 1);
  }
  cr_assert_eq(finish(pid), 0);
  cr_assert_eq(atomic_load(&plane->logs[0]->head), 5);
  cr_assert_eq(plane_bell(plane), 0);
  cr_assert(exists(stage_path));
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
  if ((uintptr_t)plane->logs[rank] % 64 != 0 || (uintptr_t)plane->team % 64 != 0 ||
      (unsigned char *)plane->logs[0] != segment->map->base + segment_log_offset(3, 2))
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

Test(plane_shm, the_dead_are_known_by_rank) {
  pid_t pid = start_staying(2);
  struct segment *segment = attach(2, 1, 2);
  struct plane *plane = segment_plane(segment, 0, 2, (uint32_t[]){1, 0});
  cr_assert(plane->alive(plane, 0) && plane->alive(plane, 1));
  kill_and_reap(pid);
  cr_assert(plane->alive(plane, 0) && !plane->alive(plane, 1));
  segment_detach(segment);
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
  struct introduction other;
  struct segment_slot nonsense;
  memset(&nonsense, 0xff, sizeof(nonsense));
  nonsense.ready = 1;
  damage(SEGMENT_HEADER_BYTES + sizeof(struct segment_slot), &nonsense, sizeof(nonsense));
  cr_assert(segment_introduction(segment, 1, &other));
  cr_assert_eq(other.ncomms, INTRODUCTION_COMMS_MAX);
  nonsense.ready = 2;
  damage(SEGMENT_HEADER_BYTES + sizeof(struct segment_slot), &nonsense, sizeof(nonsense));
  cr_assert(!segment_introduction(segment, 1, &other));
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
  plane->wait(plane, seen, 100000);
  return plane_bell(plane) != seen && milliseconds_since(begin) < 60000 ? 0 : 1;
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
  plane->wait(plane, 0, 100000);
  cr_assert_lt(milliseconds_since(begin), 60000);
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

  begin = segment_now();
  plane->wait(plane, plane_bell(plane), 0);
  plane->wait(plane, plane_bell(plane) + 1, 100000);
  cr_expect_lt(milliseconds_since(begin), 60000, "at once if the bell has been rung");

  begin = segment_now();
  sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
  struct itimerval again = {.it_interval = {.tv_usec = 50000}, .it_value = {.tv_usec = 50000}};
  setitimer(ITIMER_REAL, &again, NULL);
  plane->wait(plane, plane_bell(plane), 100000);
  cr_expect_lt(milliseconds_since(begin), 60000, "at a signal");
  segment_detach(segment);
}

Test(plane_shm, a_nap_ends_at_its_time_and_leaves_the_timer_slack_as_it_was) {
  struct segment *segment = attach(1, 0, 1);
  struct plane *plane = whole_plane(segment, 0, 1);
  prctl(PR_SET_TIMERSLACK, 12345UL);
  int64_t begin = segment_now();
  plane->nap(plane, plane_bell(plane), (uint64_t)begin + 20000000);
  cr_expect_geq(segment_now() - begin, 20000000);
  cr_expect_eq(prctl(PR_GET_TIMERSLACK), 12345);

  begin = segment_now();
  plane->nap(plane, plane_bell(plane), (uint64_t)begin - 1);
  plane->nap(plane, plane_bell(plane) + 1, (uint64_t)begin + INT64_C(100000000000));
  plane->pause(plane);
  cr_expect_lt(milliseconds_since(begin), 60000,
               "at once if it is over, or the bell has been rung");

  pthread_t thread;
  cr_assert_eq(pthread_create(&thread, NULL, ring_later, plane), 0);
  plane->nap(plane, plane_bell(plane), (uint64_t)begin + INT64_C(100000000000));
  cr_expect_lt(milliseconds_since(begin), 60000, "when it is rung");
  pthread_join(thread, NULL);
  segment_detach(segment);
}
