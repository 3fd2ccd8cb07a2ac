/* Starting the agent (agent_start.h).
 *
 * The new process shares this one's memory until it has become the agent, as with vfork(2), so
 * nothing of a large process is copied and no handler of pthread_atfork runs. It sends no signal
 * when it ends (clone(2): no number of a signal in the flags), and is waited for at once: the agent
 * goes on as its child.
 */
#include "interpose/comm/agent_start.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES 65536
#define FILES_MAX 65536 /* closed one by one where the kernel cannot close a range */
#ifndef SYS_close_range
#define SYS_close_range 436 /* on every processor, since Linux 5.9 */
#endif

/* ThreadSanitizer takes any clone(2) for a fork: what it knows of this thread would be the new
 * process's, too. */
#ifdef __SANITIZE_THREAD__
enum { SHARED = 0 };
#else
enum { SHARED = CLONE_VM | CLONE_VFORK };
#endif

struct start {
  const char *file;
  char **words, **environment;
  int error; /* of what failed in the new process */
};

/* In the new process. Only system calls. */
static int become_agent(void *argument) {
  struct start *start = argument;
  struct sigaction standard;
  sigset_t none;
  memset(&standard, 0, sizeof(standard));
  standard.sa_handler = SIG_DFL;
  for (int number = 1; number < 65; number++)
    (void)sigaction(number, &standard, NULL);
  (void)sigemptyset(&none);
  (void)setsid();
  if (syscall(SYS_close_range, 3, ~0U, 0) != 0)
    for (int file = 3; file < FILES_MAX; file++)
      close(file);
  (void)sigprocmask(SIG_SETMASK, &none, NULL);
  execve(start->file, start->words, start->environment);
  start->error = errno;
  syscall(SYS_exit_group, 127); /* not by the name for which nccl-join stands in */
  return 127;
}

/* This process's, but for what loads nccl-join. */
static char **make_environment(void) {
  size_t count = 0, kept = 0;
  while (environ[count] != NULL)
    count++;
  char **copy = calloc(count + 1, sizeof(*copy));
  for (size_t i = 0; copy != NULL && i < count; i++)
    if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 &&
        strncmp(environ[i], "NCCL_PROFILER_PLUGIN=", 21) != 0)
      copy[kept++] = environ[i];
  return copy;
}

bool agent_start(const char *file, const char *argument) {
  char name[] = "nccl-join-agent";
  char *words[] = {name, (char *)(uintptr_t)argument, NULL};
  struct start start = {.file = file, .words = words, .environment = make_environment()};
  sigset_t all, before;
  int status = 0;
  char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (start.environment == NULL || stack == MAP_FAILED) {
    free(start.environment);
    errno = ENOMEM;
    return false;
  }
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_t child = clone(become_agent, stack + STACK_BYTES, SHARED, &start);
  int error = child < 0 ? errno : start.error;
  if (child > 0)
    while (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
      ;
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  munmap(stack, STACK_BYTES);
  free(start.environment);
  if (error == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
    error = EIO;
  errno = error;
  return error == 0;
}
