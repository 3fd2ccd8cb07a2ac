/* In the place of the handlers: each says "join ncclX" and calls the real function. With QUIET set
 * they only call.
 *
 * WATCH names functions, separated by commas: from the first communicator on, calls of them (of
 * those that begin with MPI_, only from outside of the library that has them) say "called NAME",
 * and spoil every register that may be spoilt. ncclCommDestroy ends that.
 *
 * leave_process says "leave STATUS", then does what LEAVE asks for: "one" (the process is to end
 * with status 1), "sleep" or "long" (writes to LEAVING_FD, sleeps, and says "left"), or "exit".
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/transport/attachment.h"
#include "interpose/comm/captures.h"
#include "interpose/exits/exit_points.h"
#include "interpose/calls/handlers.h"
#include "interpose/calls/rounds.h"
#include "interpose/comm/fast_path.h"
#include "interpose/comm/machines.h"
#include "interpose/exits/leave.h"
#include "interpose/exits/process.h"
#include "interpose/nccl/real.h"
#include "interpose/elf/trampolines.h"
#include "tests/interpose/parts/say.h"

static int has(const char *variable, const char *value) {
  const char *set = getenv(variable);
  return set != NULL && strcmp(set, value) == 0;
}

static void note(const char *word, const char *function) {
  if (getenv("QUIET") == NULL)
    say("%s %s", word, function);
}

/* What some functions do besides, to test the frame around them. */
static void act(const char *name) {
  if (strcmp(name, "Reduce") == 0) {
    ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, NULL, NULL);
  } else if (strcmp(name, "GroupEnd") == 0 && getenv("RAISE") != NULL) {
    raise(SIGUSR1);
  } else if (strcmp(name, "GetUniqueId") == 0 && getenv("DESCRIBE") != NULL) {
    char text[1024];
    say("%s", real_describe(text, sizeof text));
    say("%s", real_describe(text, 10));
    say("CommShrink %d, CommGrow %d", real_has(REAL_CommShrink), real_has(REAL_CommGrow));
  }
}

/* ---- functions that are watched ---- */

static struct import_name watched[32];

static void spoil_registers(void) {
#if defined(__x86_64__)
  __asm__ volatile("pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2;"
                   "pxor %%xmm3, %%xmm3; pxor %%xmm4, %%xmm4; pxor %%xmm5, %%xmm5;"
                   "pxor %%xmm6, %%xmm6; pxor %%xmm7, %%xmm7"
                   :
                   :
                   : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "rax", "rcx",
                     "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
  /* Not by __builtin_cpu_supports, which brings a constructor with it. */
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_AVX) && (c & bit_OSXSAVE))
    __asm__ volatile("vzeroall"
                     :
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
                       "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#elif defined(__aarch64__)
  __asm__ volatile("movi v0.16b, #0; movi v1.16b, #0; movi v2.16b, #0; movi v3.16b, #0;"
                   "movi v4.16b, #0; movi v5.16b, #0; movi v6.16b, #0; movi v7.16b, #0"
                   :
                   :
                   : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x0", "x1", "x2", "x3", "x4",
                     "x5", "x6", "x7", "x8", "x9", "x10", "x16", "x17");
#endif
}

static void called(const struct trampoline_call *call) {
  errno = EDOM;
  say("called %s", watched[call->name].name);
  spoil_registers();
}

void exit_points_choose(void) {
  static char names[512];
  size_t count = 0;
  if (getenv("WATCH") == NULL || *names != '\0')
    return;
  strncpy(names, getenv("WATCH"), sizeof names - 1);
  for (char *name = strtok(names, ","); name != NULL && count < 32; name = strtok(NULL, ",")) {
    watched[count].name = name;
    watched[count++].outside = strncmp(name, "MPI_", 4) == 0;
  }
  trampolines_choose(watched, count, called);
}

static void watch_calls(const char *function) {
  if (strncmp(function, "CommInit", 8) == 0) {
    exit_points_choose();
    trampolines_place();
  } else if (strcmp(function, "CommDestroy") == 0) {
    trampolines_remove();
  }
}

/* A communicator was made: as the handlers do, and twice, as for a second one. */
static ncclResult_t watch(const char *name, ncclResult_t result) {
  if (strncmp(name, "CommInit", 8) == 0 && result == ncclSuccess) {
    process_watch_fork();
    process_watch_fork();
    process_watch_exit();
    process_watch_exit();
  }
  return result;
}

#define DOUBLE(since, name, parameters, arguments, handling)                                       \
  DOUBLE_##handling(name, parameters, arguments)
#define DOUBLE_HANDLED(name, parameters, arguments)                                                \
  ncclResult_t join_##name parameters {                                                            \
    note("join", "nccl" #name);                                                                    \
    act(#name);                                                                                    \
    watch_calls(#name);                                                                            \
    return watch(#name, real.name arguments);                                                      \
  }
#define DOUBLE_FAST(name, parameters, arguments)                                                   \
  DOUBLE_HANDLED(name, parameters, arguments)                                                      \
  ncclResult_t hold_##name parameters {                                                            \
    return join_##name arguments;                                                                  \
  }
#define DOUBLE_UNFIT(name, parameters, arguments)
#define DOUBLE_OBSERVED(name, parameters, arguments)
#define DOUBLE_CREATES DOUBLE_HANDLED
#define DOUBLE_GROUPS DOUBLE_HANDLED
#define DOUBLE_SPLITS DOUBLE_HANDLED
#define DOUBLE_CALLED(name, parameters, arguments)
#define DOUBLE_ASKED DOUBLE_CALLED
NCCL_API(DOUBLE)

/* A process that vanishes. */
bool leave_is_over(void) {
  return getenv("LOOP_IS_OVER") != NULL;
}

/* What programs may say. */
#define DOUBLE_WORD(name)                                                                          \
  __attribute__((visibility("default"))) void name(void);                                          \
  void name(void) {}
JOIN_API(DOUBLE_WORD)

/* Nothing has been remembered, so nothing takes the fast path. */
_Thread_local struct fast_path_communicator fast_path_communicators[FAST_PATH_COMMUNICATORS];
void fast_path_tell(ncclComm_t comm) {
  (void)comm;
  note("tell", "");
}
void fast_path_forget(void) {}
void machines_end(void) {}

void join_unfit(ncclComm_t comm, const char *function) {
  (void)comm;
  note("unfit", function);
}

void saw_CommGetAsyncError(ncclResult_t result, ncclComm_t comm, ncclResult_t *asyncError) {
  (void)result, (void)comm, (void)asyncError;
  note("saw", "ncclCommGetAsyncError");
}

void saw_CommRegister(ncclResult_t result, ncclComm_t comm, void *buff, size_t size,
                      void **handle) {
  (void)result, (void)comm, (void)buff, (void)size, (void)handle;
  note("saw", "ncclCommRegister");
}

void saw_CommDeregister(ncclResult_t result, ncclComm_t comm, void *handle) {
  (void)result, (void)comm, (void)handle;
  note("saw", "ncclCommDeregister");
}

void captures_began(void) {
  note("capture", "begins");
}
void captures_ended(void) {
  note("capture", "ends");
}

int leave_process(int status) {
  say("leave %d", status);
  ncclGroupStart();
  if (has("LEAVE", "exit"))
    exit(77);
  if (has("LEAVE", "sleep") || has("LEAVE", "long")) {
    char here = 1;
    (void)!write(LEAVING_FD, &here, 1);
    usleep(has("LEAVE", "long") ? 100000000 : 400000);
    say("left");
  }
  return has("LEAVE", "one") ? 1 : status;
}

bool rounds_are_due(ncclComm_t handle) {
  (void)handle;
  return false;
}

void attachment_say_end(int status) {
  (void)status;
}

void attachment_forget_all(void) {
  note("forget", "attachments");
}
