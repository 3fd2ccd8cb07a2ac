/* Records of threads (thread.h). */
#include "interpose/self/thread.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

_Thread_local const struct thread *thread_own;

static struct thread unknown; /* of threads for which there was no memory */
static _Atomic(struct thread *) threads;
static pthread_key_t end_key;
static pthread_once_t end_key_made = PTHREAD_ONCE_INIT;

static void at_thread_end(void *of) {
  struct thread *thread = of;
  atomic_store(&thread->ended, true);
  for (size_t i = 0; i < THREAD_KEEPERS && thread->at_end[i] != NULL; i++)
    thread->at_end[i]();
}

static void make_end_key(void) {
  pthread_key_create(&end_key, at_thread_end);
}

const struct thread *thread_register(void) {
  struct thread *thread = calloc(1, sizeof(*thread));
  pthread_once(&end_key_made, make_end_key);
  if (thread == NULL || pthread_setspecific(end_key, thread) != 0) {
    free(thread);
    return &unknown;
  }
  thread->id = (pid_t)syscall(SYS_gettid);
  thread->next = atomic_load(&threads);
  while (!atomic_compare_exchange_weak(&threads, &thread->next, thread))
    continue;
  thread_own = thread;
  return thread;
}

/* The key is set anew: a destructor of the program's may come here after ours has run. */
void thread_at_end(void (*release)(void)) {
  struct thread *thread = (struct thread *)(uintptr_t)thread_self();
  if (thread == &unknown)
    return;
  for (size_t i = 0; i < THREAD_KEEPERS; i++)
    if (thread->at_end[i] == NULL || thread->at_end[i] == release) {
      thread->at_end[i] = release;
      break;
    }
  pthread_setspecific(end_key, thread);
}

bool thread_has_ended(const struct thread *thread) {
  return thread != NULL && atomic_load(&thread->ended);
}

uint64_t thread_runs(const struct thread *thread) {
  char path[64], text[128];
  unsigned long long ran = 0, waited = 0, slices = 0;
  if (thread == NULL || thread->id == 0)
    return 0;
  snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)thread->id);
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return 0;
  ssize_t size = read(descriptor, text, sizeof(text) - 1);
  close(descriptor);
  text[size < 0 ? 0 : size] = '\0';
  return sscanf(text, "%llu %llu %llu", &ran, &waited, &slices) == 3 ? ran + slices : 0;
}
