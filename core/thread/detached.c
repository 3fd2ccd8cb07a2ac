/* Threads that nobody waits for (detached.h). */
#include "core/thread/detached.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

bool detached_start(void *(*function)(void *), void *argument) {
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_t thread;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  (void)pthread_attr_init(&attributes);
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  bool started = pthread_create(&thread, &attributes, function, argument) == 0;
  (void)pthread_attr_destroy(&attributes);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}
