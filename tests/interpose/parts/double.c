/* In the place of the handlers: each says "join ncclX" and calls the real function. With QUIET set
 * they only call.
 *
 * leave_process says "leave STATUS", then does what LEAVE asks for: "one" (the process is to end
 * with status 1), "sleep" (and says "left"), or "exit".
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/plane_shm.h"
#include "interpose/capture_doors.h"
#include "interpose/handlers.h"
#include "interpose/hot.h"
#include "interpose/leave.h"
#include "interpose/process.h"
#include "interpose/real.h"
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
    return watch(#name, real.name arguments);                                                      \
  }
#define DOUBLE_HOT(name, parameters, arguments)                                                    \
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

/* What programs may say. */
#define DOUBLE_WORD(name)                                                                          \
  __attribute__((visibility("default"))) void name(void);                                          \
  void name(void) {}
JOIN_API(DOUBLE_WORD)

/* Nothing has been remembered, so nothing is hot. */
_Thread_local struct hot_communicator hot_communicators[HOT_COMMUNICATORS];
void hot_tell(ncclComm_t comm) {
  (void)comm;
  note("tell", "");
}
void hot_forget(void) {}

void join_unfit(ncclComm_t comm, const char *function) {
  (void)comm;
  note("unfit", function);
}

void saw_CommGetAsyncError(ncclResult_t result, ncclComm_t comm, ncclResult_t *asyncError) {
  (void)result, (void)comm, (void)asyncError;
  note("saw", "ncclCommGetAsyncError");
}

void capture_began(void) {
  note("capture", "begins");
}
void capture_ended(void) {
  note("capture", "ends");
}

int leave_process(int status) {
  say("leave %d", status);
  ncclGroupStart();
  if (has("LEAVE", "exit"))
    exit(77);
  if (has("LEAVE", "sleep")) {
    usleep(400000);
    say("left");
  }
  return has("LEAVE", "one") ? 1 : status;
}

void segment_forget_all(void) {
  note("forget", "segments");
}
