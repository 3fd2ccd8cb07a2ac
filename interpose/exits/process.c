/* The ways in which a process ends, and what a fork leaves behind (process.h). */
#include "interpose/exits/process.h"

#include <dlfcn.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/transport/attachment.h"
#include "interpose/elf/linker.h"
#include "interpose/elf/trampolines.h"
#include "interpose/nccl/bypass.h"
#include "interpose/self/guard.h"
#include "interpose/comm/fast_path.h"
#include "interpose/comm/machines.h"
#include "interpose/exits/leave.h"

#define EXPORTED __attribute__((visibility("default")))

/* ---- leaving, once ---- */

enum stage {
  STAGE_NOT_DUE, /* no communicator was made */
  STAGE_DUE,
  STAGE_LEAVING, /* leave_process runs */
  STAGE_LEFT,
};

static _Atomic uint32_t stage; /* futex word */
static _Atomic pid_t owner;    /* the process that is to leave; set before STAGE_DUE */
static _Atomic int left_with;  /* what leave_process returned; set before STAGE_LEFT */

typedef void any_function(void);

/* Asked for at each call, each of which happens once: nothing to keep. */
static any_function *libc_function(const char *name) {
  any_function *function;
  *(void **)&function = linker_dlsym(RTLD_NEXT, name); /* as dlsym(3) says it is to be done */
  return function;
}

static _Noreturn void libc_end(const char *name, int status) {
  void (*libc)(int) = (void (*)(int))libc_function(name);
  if (libc != NULL)
    libc(status);
  _exit(status); /* not reached: libc has these functions */
}

/* The backstop. Nothing is left to do where the end was seen coming. glibc's exit may be called by
 * a handler: it goes on with the remaining ones, and the new status. */
static void at_exit(int status, void *unused) {
  (void)unused;
  int other = process_leave(status);
  if (other != status)
    libc_end("exit", other);
}

void process_watch_exit(void) {
  if (atomic_load(&stage) != STAGE_NOT_DUE)
    return;
  atomic_store(&owner, getpid());
  uint32_t not_due = STAGE_NOT_DUE;
  if (atomic_compare_exchange_strong(&stage, &not_due, STAGE_DUE)) {
    on_exit(at_exit, NULL); /* can fail for lack of memory: then only ends inside libc go unseen */
  }
}

static void process_leave_for_good(int status) {
  /* For good: this thread ends the process. Cancelled now, it would hold up all that wait for it.
   */
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  guard_raise();
  atomic_store(&left_with, leave_process(status));
  machines_end();
  guard_lower();
  atomic_store(&stage, STAGE_LEFT);
  syscall(SYS_futex, &stage, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

int process_leave(int status) {
  /* The guard is raised in here already: exit inside leave_process, a hook or a signal handler over
   * an NCCL call. */
  if (guard_thread.depth > 0)
    return status;
  if (atomic_load(&stage) == STAGE_NOT_DUE) {
    bypass_check_at_exit();
    return status;
  }
  if (atomic_load(&owner) != getpid()) /* a forked child */
    return status;
  attachment_say_end(status);
  uint32_t due = STAGE_DUE;
  if (atomic_compare_exchange_strong(&stage, &due, STAGE_LEAVING)) {
    process_leave_for_good(status);
    return atomic_load(&left_with);
  }
  while (status == 0 && atomic_load(&stage) == STAGE_LEAVING)
    syscall(SYS_futex, &stage, FUTEX_WAIT_PRIVATE, STAGE_LEAVING, NULL, NULL, 0);
  return status == 0 && atomic_load(&stage) == STAGE_LEFT ? atomic_load(&left_with) : status;
}

/* ---- forking ---- */

static void in_forked_child(void) {
  guard_turn_off();
  trampolines_end();
  fast_path_forget();
  attachment_forget_all();
  log_disable();
}

void process_watch_fork(void) {
  static _Atomic bool watched;
  if (!atomic_exchange(&watched, true))
    pthread_atfork(NULL, NULL, in_forked_child);
}

/* ---- the ends ---- */

EXPORTED void exit(int status) {
  libc_end("exit", process_leave(status));
}
EXPORTED void quick_exit(int status) {
  libc_end("quick_exit", process_leave(status));
}

/* How Python's os._exit ends a process, and with it what multiprocessing has forked. May be called
 * in a child of vfork or in a signal handler, so what has nothing to say goes straight to the
 * kernel, as glibc does. */
EXPORTED void _exit(int status) {
  if (status == 0 && guard_thread.depth == 0 && atomic_load(&stage) == STAGE_DUE &&
      atomic_load(&owner) == getpid()) {
    guard_raise();
    bool over = leave_is_over();
    guard_lower();
    if (over)
      status = process_leave(status);
  }
  if (guard_thread.depth == 0 && atomic_load(&stage) != STAGE_NOT_DUE &&
      atomic_load(&owner) == getpid())
    attachment_say_end(status);
  for (;;)
    syscall(SYS_exit_group, status);
}
EXPORTED void _Exit(int status) {
  _exit(status);
}
