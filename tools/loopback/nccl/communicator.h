/* The communicator: what an ncclComm_t points to.
 *
 * Graphs. Each launch of a graph performs the units captured in it, on the launch's stream. Other
 * units are ordered with them only if they are on the same stream. A captured unit lives as long as
 * the handle.
 *
 * Threads. Issuing calls (operations, group ends, split, finalize, destroy) come from one thread at
 * a time, as NCCL demands; the fields they use need no lock. Workers of streams run units; they
 * touch what is marked so. ncclCommAbort, ncclCommRevoke and ncclCommGetAsyncError may come from
 * any thread at any time; what they touch is atomic or behind lock.
 */
#ifndef LOOPBACK_NCCL_COMMUNICATOR_H
#define LOOPBACK_NCCL_COMMUNICATOR_H

#include "reduce.h"
#include "segment.h"

#include <cuda.h>
#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct group_work;
struct registration;

/* A reduction made by ncclRedOpCreatePreMulSum. */
struct user_reduction {
  bool used;
  ncclDataType_t datatype;
  union scalar factor;
  const void *factor_pointer; /* device memory; NULL: factor holds the value */
};

struct ncclComm {
  uint64_t magic; /* COMMUNICATOR_MAGIC while the handle is valid */
  int rank, nranks, device;
  CUcontext context;
  ncclConfig_t config;
  uint64_t hash; /* equal on all ranks, different for every communicator */
  uint64_t team; /* equal for communicators of the same processes and devices in the same order, and
                    this rank */
  struct segment segment;
  _Atomic bool open; /* segment may be used */

  _Atomic int async_result; /* ncclResult_t */
  _Atomic bool aborted;
  _Atomic uint64_t epoch; /* units issued in an earlier one are cancelled */
  bool revoked, finalized, destroyed;
  struct group_work *_Atomic work; /* the group a nonblocking communicator is busy with */

  pthread_mutex_t lock; /* guards pending, running and references */
  pthread_cond_t idle;
  int pending;    /* units launched and not yet done */
  int running;    /* threads inside: executing a unit, or launching one */
  int references; /* the handle, and every unit */

  /* the issuing thread's */
  bool connected;
  uint64_t children; /* splits and shrinks so far */
  bool ordered;      /* order has been recorded, after a unit on last_stream */
  CUstream last_stream;
  CUevent order, fork; /* after the last unit; between the streams of one unit */
  struct user_reduction *reductions;
  int nreductions;
  struct unit *captured; /* in graphs, by next_captured */

  /* the executing worker's: units of a communicator run one after the other */
  uint64_t step;
  uint64_t collective_units, p2p_units; /* performed */
  uint64_t agendas;                     /* host-side agreements: the thread that runs them */

  struct registration *registrations; /* any thread's, with the lock of registration.c */

  struct ncclComm *next_free;
};

#define COMMUNICATOR_MAGIC UINT64_C(0x6c6f6f706e63636c)

/* A communicator that nobody has joined yet: hash, rank, device and context are set by
 * communicator_join. Handles are used again, last first, as NCCL's are by malloc; their memory is
 * never returned, so that a stale handle is noticed. NULL if there is no memory. */
struct ncclComm *communicator_allocate(void);

/* Meets the other ranks. Blocks until all came. Runs with the communicator's device current.
 * ncclInternalError: aborted; ncclRemoteError: a rank died or was refused. */
ncclResult_t communicator_join(struct ncclComm *comm, uint64_t hash, int nranks, int rank);

/* ncclInvalidArgument for NULL, a stale handle, or something else; call names the API function in
 * the message. */
ncclResult_t communicator_check(const struct ncclComm *comm, const char *call);

/* Whether the communicator may be used: ncclInvalidArgument while it is busy with a nonblocking
 * call, otherwise its asynchronous error (init.cc, ncclCommEnsureReady). */
ncclResult_t communicator_ensure_ready(struct ncclComm *comm);

/* Remembers an error for ncclCommGetAsyncError; the first one stays. Any thread. */
void communicator_fail(struct ncclComm *comm, ncclResult_t error);

/* Waits until no unit is pending. */
void communicator_drain(struct ncclComm *comm);

/* Cancels what is pending and whoever waits; returns at once. Any thread. */
void communicator_signal(struct ncclComm *comm);

/* The same, and returns once no thread is inside. Any thread that is not inside itself. */
void communicator_cancel(struct ncclComm *comm);

/* Ends the handle: peers see that this rank left, and the memory goes once the last pending unit is
 * through. With LOOPBACK_DESTROY=meet, unless aborted, waits until all ranks have destroyed theirs.
 */
void communicator_leave(struct ncclComm *comm, bool aborted);

/* A thread is inside between these: communicator_cancel waits for it. */
void communicator_enter(struct ncclComm *comm);
void communicator_exit(struct ncclComm *comm);

/* A unit exists between these, and keeps the memory. */
void communicator_hold(struct ncclComm *comm);
void communicator_release(struct ncclComm *comm);

/* A unit is on a stream between these. */
void communicator_unit_launched(struct ncclComm *comm);
void communicator_unit_done(struct ncclComm *comm);

/* Whether a unit issued in epoch may still be performed. */
bool communicator_is_alive(struct ncclComm *comm, uint64_t epoch);

#endif
