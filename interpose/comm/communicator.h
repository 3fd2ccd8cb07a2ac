/* The communicators of this process, and the teams they belong to.
 *
 * A communicator goes through three states:
 *   arriving        before its real ncclCommInit…: the rank has attached
 *   pending         the real one exists
 *   joined or off   from its first use on. Off means passed through untouched: some rank has no
 *                   nccl-join, or is on another machine and was not found, there is no shared
 *                   memory, or it has one rank only
 * All ranks decide alike, because they read the same introductions.
 *
 * Communicators with exactly the same ranks share one endpoint, this process's end of their team.
 *
 * Creation and destruction take a lock; looking one up takes none.
 */
#ifndef NCCL_JOIN_INTERPOSE_COMMUNICATOR_H
#define NCCL_JOIN_INTERPOSE_COMMUNICATOR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

#include "core/machines/board.h"
#include "core/transport/attachment.h"
#include "interpose/comm/endpoint.h"

enum comm_state { COMM_PENDING, COMM_JOINED, COMM_OFF };

/* A Broadcast that a communicator has had. */
struct broadcast_from {
  uint64_t after; /* its index plus one; 0: there has been none */
  int root;       /* as the program gave it */
};

struct communicator {
  ncclComm_t handle;
  struct endpoint *end;            /* if it has ever joined */
  uint32_t tag;                    /* of the name; not 0 */
  char name[ATTACHMENT_NAME_SIZE]; /* equal on all ranks, and for no other communicator */
  int rank, nranks, device;
  _Atomic(enum comm_state) state;
  struct registered *_Atomic registered; /* registered.c; NULL: nothing */
  _Atomic bool to_compare; /* its creation did not wait for its ranks: alike.h is to be asked yet */
  _Atomic bool refused;    /* they differ: every call is ncclInvalidUsage */
  const char *unfit; /* the function that made its collectives impossible to shadow, or NULL */
  _Atomic bool told_unequal; /* that a send and its receive are not of one size (report_unequal) */
  _Atomic bool left;         /* its LEAVE has settled: finalized, destroyed or about to be */
  const struct thread *creator;        /* the thread that made it */
  _Atomic(const struct thread *) user; /* that last used it, by the long way. NULL: none yet */
  uint64_t
      driver; /* equal for communicators made in one call or group: one thread drives them all */
  uint32_t children;       /* splits so far */
  uint32_t marks_made;     /* what its driver has said for it, and it has yet to say itself */
  _Atomic uint32_t states; /* buffers registered so far */
  uint32_t *team_rank_of;  /* by rank in the communicator; if joined */
  /* The last Broadcast, the last from another root than that, and the last whose root had joined
   * (roots.h). */
  struct broadcast_from last_broadcast, other_broadcast, replaced_broadcast;
  uint64_t refused_after; /* index plus one of the last unit with sharded broadcasts, or 0 */
  struct attachment *attachment;
  uint32_t slot, slots;
  _Atomic bool to_meet; /* likewise, machines.h */
  bool has_job;         /* as of its arrival */
  struct rendezvous job;
  char unmet[BOARD_REASON_SIZE];       /* why ranks of other machines are not found, or "" */
  struct late *late;                   /* likewise: while it is pending */
  _Atomic(struct communicator *) next; /* of the process; followed without a lock */
  _Atomic(struct communicator *) next_in_team;
};

/* The communicator behind a handle, or NULL if it is not one that joins. At its first use puts it
 * into its team, or turns it off ("activates" it), and waits for its creation if that is still in
 * progress, NCCL_JOIN_TIMEOUT at most. Lock-free but for that. */
struct communicator *communicator_find(ncclComm_t handle);

/* The same, but does not wait for a creation that is still in progress: NULL then. For leaving. */
struct communicator *communicator_find_ready(ncclComm_t handle);

/* The same, without activating it and including those that are off. */
struct communicator *communicator_known(ncclComm_t handle);

/* ---- creation ---- */

/* A rank about to enter the creation of a communicator. */
struct arrival {
  struct attachment *attachment; /* NULL: join will be off */
  bool to_compare;               /* the slots are the ranks: alike.h is to be asked */
  bool refused;                  /* another version of nccl-join than its peers': not to be used */
  const struct library *library; /* that makes it */
  char name[ATTACHMENT_NAME_SIZE];
  uint32_t slot, slots;
  int device;
  bool has_job; /* how ranks of other machines are to be found */
  bool met;     /* and they have been looked for */
  struct rendezvous job;
  char unmet[BOARD_REASON_SIZE]; /* why they are not found, or "" */
  struct late *late;             /* who looks for ranks that do not come (late.h); or NULL */
};

/* Attaches this rank under a name made of `seed` (size bytes that are equal on all ranks, and of no
 * other communicator). slots, slot and expected: as for attachment_make. key: ncclCommSplit's,
 * otherwise 0. device: CUDA's number, or -1. Never fails: without an attachment, join is off for
 * the communicator. */
void communicator_arrive(struct arrival *arrival, const void *seed, size_t size, uint32_t slots,
                         uint32_t slot, uint32_t expected, int key, int device);

/* The creation failed. */
void communicator_depart(struct arrival *arrival);

/* The creation of a communicator has succeeded: its ranks on other machines are looked for
 * (machines.h). If they may have been found there, and not here, the arrival is refused. */
void communicator_meet(struct arrival *arrival, ncclComm_t handle);

/* What the program's call is to return for a creation that has ended with `result`. If the ranks
 * run different versions of nccl-join, or have set it differently (alike.h), that is
 * ncclInvalidUsage: it is logged, and the communicator is aborted. A creation may have failed
 * because other ranks have found that out sooner. */
ncclResult_t communicator_created(struct arrival *arrival, ncclComm_t *handle, ncclResult_t result);

/* Whether the ranks of a communicator differ so that every call of it is ncclInvalidUsage. For one
 * that did not block, and whose creation has ended. To be asked where communicator_find returns
 * NULL. */
bool communicator_is_refused(ncclComm_t handle);

/* The real communicator exists (its creation may still be in progress, if it does not block).
 * driver: see above. */
void communicator_add(const struct arrival *arrival, ncclComm_t handle, uint64_t driver);

/* A number for `driver`, new each time. */
uint64_t communicator_new_driver(void);

/* The communicator is gone, or about to be. With the last one of a team its endpoint ends: `how` is
 * what its rank is to the others from then on, unless that has failed before. */
void communicator_remove(struct communicator *comm, enum rank_state how);

/* A real communicator that was on the device has been destroyed. If the process has no other there,
 * frees the memory of the device's shadows. While it has one, work that is under way may wait for a
 * peer, and to free memory waits for that work. */
void communicator_free_shadows(int device);

/* For lines of the log. */
static inline struct log_subject communicator_subject(const struct communicator *comm) {
  return (struct log_subject){
      .comm = comm->handle, .rank = comm->rank, .nranks = comm->nranks, .tag = comm->tag};
}

/* By a rank of the team: its rank in the communicator, which must have joined its team. */
int communicator_rank_of(const struct communicator *comm, uint32_t team_rank);

/* The device of the calling thread, or -1. */
int communicator_current_device(void);

/* Activates all pending communicators whose creation is complete. Returns the first endpoint of the
 * process. */
struct endpoint *communicator_endpoints(void);

/* The same, for a thread that goes along the list while others may destroy communicators: until
 * communicator_release_endpoints nothing of an endpoint that ends is freed. They nest. */
struct endpoint *communicator_hold_endpoints(void);
void communicator_release_endpoints(void);

/* As communicator_hold_endpoints, but activates nothing: for who looks at a communicator that it
 * knows. */
void communicator_hold(void);

/* An endpoint without a communicator (gathering.h) begins and ends to be one of this process.
 * False: no memory. */
bool communicator_list_endpoint(struct endpoint *end);
void communicator_end_endpoint(struct endpoint *end, enum rank_state how);

/* From here on no thread commits without entering an endpoint (`plain`, endpoint.h), until it has
 * been through endpoint_exit again. Waits for threads that are committing. */
void communicator_end_plain(void);

/* All communicators of the process in order of creation, by `next`. Of those that another thread
 * makes or ends meanwhile, any may be among them. */
struct communicator *communicator_first(void);

#endif
