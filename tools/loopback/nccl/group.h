/* Groups: what ncclGroupStart and ncclGroupEnd bracket, and what every call is in by itself.
 *
 * As in NCCL (group.cc) the state is the thread's: a depth, the first error, which sticks until the
 * outermost end, and what has been collected: operations, by communicator, and jobs (creating,
 * splitting, finalizing, destroying communicators ...). The outermost end runs the jobs, then
 * connects the communicators used for the first time, then launches one unit per communicator. A
 * group on nonblocking communicators does this on a thread of its own; the call returns
 * ncclInProgress.
 */
#ifndef LOOPBACK_NCCL_GROUP_H
#define LOOPBACK_NCCL_GROUP_H

#include "communicator.h"
#include "unit.h"

/* Something to do at the end of the group, perhaps on another thread. Embedded at the start of what
 * it needs. */
struct job {
  ncclResult_t (*run)(struct job *job);
  void (*drop)(struct job *job); /* frees the job, run or not */
  struct ncclComm *comm;         /* whose mode the group takes, and whose context is current */
  bool ends;     /* destroys comm: it counts as blocking, and comm is not touched afterwards */
  bool detached; /* on a thread of its own */
  pthread_t thread;
  ncclResult_t result;
  struct job *next;
};

void group_start(void);

/* simulation: NULL, or what ncclGroupSimulateEnd got; then nothing is launched. */
ncclResult_t group_end(ncclSimInfo_t *simulation);

/* Makes an error of a call inside a group the group's. Returns it. */
ncclResult_t group_error(ncclResult_t result);

/* Adds to the group of the calling thread, which must be in one. The job is the group's, also on
 * error. */
ncclResult_t group_add_job(struct job *job);
ncclResult_t group_add_operation(struct ncclComm *comm, const struct operation *operation);

/* Runs job at once, as NCCL does where a call without a group of its own comes outside of any. */
ncclResult_t group_run_alone(struct job *job);

bool group_is_open(void);

/* The background part of a nonblocking communicator's group has ended, or must end: waits for its
 * thread. */
void group_work_complete(struct ncclComm *comm);

#endif
