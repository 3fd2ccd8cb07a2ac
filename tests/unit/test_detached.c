/* Threads that nobody waits for (core/thread/detached.h). */
#include "core/thread/detached.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static sigset_t there;
static _Atomic bool has_run;

static void *look_at_signals(void *argument) {
  (void)pthread_sigmask(SIG_SETMASK, NULL, &there);
  atomic_store(&has_run, argument == &has_run);
  return NULL;
}

Test(detached, no_signal_is_handled_there_and_the_starter_keeps_its_own_mask) {
  sigset_t here;
  cr_assert(detached_start(look_at_signals, &has_run));
  for (int i = 0; i < 60000 && !atomic_load(&has_run); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  cr_assert(atomic_load(&has_run));
  cr_expect(sigismember(&there, SIGTERM) == 1 && sigismember(&there, SIGUSR1) == 1);
  (void)pthread_sigmask(SIG_SETMASK, NULL, &here);
  cr_expect_eq(sigismember(&here, SIGTERM), 0);
}
