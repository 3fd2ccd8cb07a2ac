/* Looking at the ranks of a running job from outside: what each of them is doing, told from the
 * memory that they share and from marks of mark_calls.so.
 */
#ifndef TESTS_FAULTS_WATCH_H
#define TESTS_FAULTS_WATCH_H

#include <stddef.h>

#include "tests/join/run.h"

enum state {
  STATE_STARTING,  /* has not attached yet */
  STATE_CREATING,  /* has attached: in the real ncclCommInitRank, or before its first collective */
  STATE_RUNNING,   /* in its program, or just passing */
  STATE_IN_CALL,   /* inside NCCL's own ncclAllReduce, for itself */
  STATE_IN_FLIGHT, /* in its program; what it has issued, some other rank has yet to issue */
  STATE_PARKED,    /* in a call that has not settled, having shadowed nothing since */
  STATE_JOINED,    /* the same, after shadows, or issuing one */
  STATE_LEAVING,   /* parked in LEAVE, whether it has shadowed or not */
  STATE_ENDING,    /* done: in the real ncclCommDestroy, in exit handlers */
  STATE_GONE,      /* the process has ended */
  STATES
};

const char *state_name(enum state state);

struct watch;

/* What to add to a launch's environment: the marks of this watch, and calls that take up to some
 * microseconds longer. The text is the watch's. */
struct watch *watch_create(int nranks, int slower_us);
const char *watch_environment(const struct watch *watch);

/* From here on the ranks of this job are meant; each. */
void watch_begin(struct watch *watch, const struct running *running);

enum state watch_state(struct watch *watch, int rank);

/* Memory of the job's segment, once there is one: NULL before. Writable, for those who mean harm.
 */
unsigned char *watch_memory(struct watch *watch, size_t *bytes);

void watch_free(struct watch *watch);

#endif
