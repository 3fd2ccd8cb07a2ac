/* A program that makes a communicator and then ends in the way its first argument names, with the
 * status that its second argument names. "none" as third argument: makes no communicator.
 */
#include <err.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

/* Came with 2.28: the installed nccl.h may be older. */
ncclResult_t ncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);

static int status;

static void at_exit(void) {
  say("atexit");
}
static void at_quick_exit_too(void) {
  say("at_quick_exit");
}
__attribute__((destructor)) static void destructor(void) {
  say("destructor");
}
static void exit_at_exit(void) {
  exit(status);
}
static void exit_in_handler(int number) {
  (void)number;
  exit(status);
}

static void *end_thread(void *unused) {
  exit(status);
  return unused;
}

static void *end_thread_well(void *unused) {
  exit(0);
  return unused;
}

static int by_main_return(void) {
  return status;
}
static int by_exit(void) {
  exit(status);
}
static int by_quick_exit(void) {
  quick_exit(status);
}
static int by_errx(void) {
  errx(status, "the end");
}
static int by_underscore_exit(void) {
  _exit(status);
}
static int by_Exit(void) {
  _Exit(status);
}
static int by_abort(void) {
  abort();
}
static int by_kill(void) {
  return raise(SIGKILL);
}

static int by_exit_at_exit(void) {
  atexit(exit_at_exit);
  return 0;
}

static int by_thread(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, end_thread, NULL);
  pthread_join(thread, NULL);
  return 97;
}

static int by_pthread_exit(void) {
  pthread_exit(NULL);
}

/* Begins to end the process with success, and returns once leave_process of the double has begun.
 */
static pthread_t begin_to_leave(void) {
  pthread_t thread;
  int leaving[2];
  char byte;
  if (pipe(leaving) != 0 || dup2(leaving[1], LEAVING_FD) < 0)
    _exit(98);
  pthread_create(&thread, NULL, end_thread_well, NULL);
  (void)!read(leaving[0], &byte, 1);
  return thread;
}

/* The second one comes while the first is leaving. */
static int by_two_threads(void) {
  pthread_t second;
  (void)begin_to_leave();
  pthread_create(&second, NULL, end_thread, NULL);
  pause();
  return 97;
}

/* A thread ends the process, and is cancelled while it is at it. */
static int by_cancelled_thread(void) {
  pthread_cancel(begin_to_leave());
  exit(0);
}

static int by_signal(void) {
  signal(SIGUSR1, exit_in_handler);
  raise(SIGUSR1);
  return 97;
}

/* The double of the handlers raises the signal. */
static int by_signal_in_call(void) {
  signal(SIGUSR1, exit_in_handler);
  setenv("RAISE", "1", 1);
  ncclGroupEnd();
  return 97;
}

static int wait_for(pid_t child) {
  int how;
  waitpid(child, &how, 0);
  say("child %d", WIFEXITED(how) ? WEXITSTATUS(how) : -1);
  return status;
}

static int by_fork(void) {
  pid_t child = fork();
  if (child == 0) {
    ncclGroupStart();
    ncclAlltoAll(NULL, NULL, 1, ncclFloat, NULL, NULL);
    exit(5);
  }
  return wait_for(child);
}

static int by_fork_return(void) {
  pid_t child = fork();
  return child == 0 ? 5 : wait_for(child);
}

/* Runs no fork handlers. */
static int by_bare_fork(void) {
  pid_t child = (pid_t)syscall(SYS_fork);
  if (child == 0)
    exit(5);
  return wait_for(child);
}

static int by_vfork(void) {
  pid_t child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
    _exit(1);
  }
  return wait_for(child);
}

static int by_spawn(void) {
  extern char **environ;
  char *arguments[] = {"sh", "-c", "/bin/true; /bin/sh -c 'exit 5'", NULL};
  pid_t child;
  posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ);
  return wait_for(child);
}

/* A rank forked by a launcher that has no communicator is a process like any other. */
static int by_fork_before(void) {
  pid_t child = fork();
  if (child == 0) {
    ncclCommInitAll(NULL, 0, NULL);
    exit(5);
  }
  return wait_for(child);
}

#define WAY(name)                                                                                  \
  { #name, by_##name }

static const struct {
  const char *name;
  int (*end)(void);
} ways[] = {
    WAY(main_return),      WAY(exit),      WAY(quick_exit),     WAY(errx),
    WAY(underscore_exit),  WAY(Exit),      WAY(abort),          WAY(kill),
    WAY(exit_at_exit),     WAY(thread),    WAY(pthread_exit),   WAY(two_threads),
    WAY(cancelled_thread), WAY(signal),    WAY(signal_in_call), WAY(fork),
    WAY(fork_return),      WAY(bare_fork), WAY(vfork),          WAY(spawn),
    WAY(fork_before),
};

int main(int argc, char **argv) {
  if (argc < 3)
    return 98;
  atexit(at_exit);
  at_quick_exit(at_quick_exit_too);
  status = atoi(argv[2]);
  if (argc == 3)
    ncclCommInitAll(NULL, 0, NULL);
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    if (strcmp(ways[i].name, argv[1]) == 0)
      return ways[i].end();
  }
  return 99;
}
