/* Counting by single steps, which the benchmarks' figures stand on: what is counted is exact. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/steps.h"

TestSuite(steps, .timeout = 300);

static struct steps_watched *watched; /* shared with the child */
static struct steps_taken taken;

/* Runs each function between marks, in a child that is followed. */
static int take(void (*const *functions)(void), unsigned nfunctions) {
  watched = mmap(NULL, sizeof *watched, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(watched, MAP_FAILED);
  pid_t child = fork();
  if (child == 0) {
    steps_allow();
    steps_watch(watched);
    for (unsigned i = 0; i < nfunctions; i++) {
      steps_begin();
      functions[i]();
      steps_end();
    }
    _exit(0);
  }
  return steps_take(child, watched, &taken);
}

static void do_nothing(void) {}

static void count_to(unsigned limit) {
  for (volatile unsigned n = 0; n < limit;)
    n = n + 1;
}
static void count_to_1000(void) {
  count_to(1000);
}
static void count_to_2000(void) {
  count_to(2000);
}
static void count_to_3000(void) {
  count_to(3000);
}

static void call_the_kernel(void) {
  for (int i = 0; i < 5; i++)
    syscall(SYS_getppid);
}

static void allocate(void) {
  for (int i = 0; i < 3; i++) {
    void *volatile memory = malloc(16);
    free(memory);
  }
}

static void lock(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}

static _Atomic unsigned shared;
static void add_and_exchange(void) {
  atomic_fetch_add(&shared, 2); /* lock add, or lock xadd */
  atomic_store(&shared, 7);     /* xchg, which has no prefix */
  atomic_store_explicit(&shared, 3, memory_order_release);
}

Test(steps, instructions_are_counted_to_the_last) {
  void (*const functions[])(void) = {count_to_1000, count_to_2000, count_to_3000};
  cr_assert_eq(take(functions, 3), 0);
  cr_assert_eq(taken.nregions, 3);
  uint64_t one = taken.regions[0].instructions, two = taken.regions[1].instructions;
  uint64_t three = taken.regions[2].instructions;
  cr_expect_eq(two - one, three - two);
  cr_expect_geq(two - one, 3000); /* load, add, store */
  cr_expect_eq((two - one) % 1000, 0);
}

Test(steps, system_calls_allocations_and_mutexes_are_counted) {
  void (*const functions[])(void) = {do_nothing, call_the_kernel, allocate, lock};
  cr_assert_eq(take(functions, 4), 0);
  cr_assert_eq(taken.nregions, 4);
  const struct steps *nothing = &taken.regions[0];
  cr_expect_eq(taken.regions[1].system_calls - nothing->system_calls, 5);
  cr_expect_eq(taken.regions[2].allocations, 6);
  cr_expect_eq(taken.regions[3].mutexes, 1);
  cr_expect_eq(nothing->allocations + nothing->mutexes, 0);
}

Test(steps, locked_instructions_are_counted) {
  if (!steps_knows_locked())
    cr_skip_test("not on this processor");
  void (*const functions[])(void) = {do_nothing, add_and_exchange};
  cr_assert_eq(take(functions, 2), 0);
  cr_expect_eq(taken.regions[1].locked - taken.regions[0].locked, 2);
}

static void end_with_5(void) {
  _exit(5);
}

Test(steps, the_status_of_the_child_is_told) {
  void (*const functions[])(void) = {end_with_5};
  int status = take(functions, 1);
  cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 5);
}

Test(steps, all_system_calls_of_a_child_are_counted) {
  long calls[2];
  for (int i = 0; i < 2; i++) {
    pid_t child = fork();
    if (child == 0) {
      steps_allow();
      raise(SIGTRAP); /* where exec would stop it */
      for (int n = 0; n < 10 * i; n++)
        syscall(SYS_getppid);
      _exit(0);
    }
    calls[i] = steps_count_system_calls(child);
  }
  cr_expect_eq(calls[1], calls[0] + 10);
}
