/* Issuing shadows: collectives that a joined rank makes only to match its peers. That of a split
 * asks for no communicator (NCCL_SPLIT_NOCOLOR), and needs no memory.
 *
 * A shadow unit has the real one's form (the same members in the same order in one group, since
 * NCCL sorts and fuses a group's members), but sends contribution.h's fills and receives into
 * memory that nobody looks at. It runs on a stream of ours, from device memory of ours. Nothing of
 * that exists before the first shadow of a device.
 *
 * Send buffers: one for each fill pattern in use, filled once and then only ever read. All members
 * and units share them.
 *
 * Receive area: cut into one piece for each member of a unit, and used again by the next unit; the
 * stream keeps them apart. Members of one unit must not share a piece although nobody reads the
 * results: NCCL itself does. The root of a tree all-reduce passes on what it has written to its
 * receive buffer (device/all_reduce.h, runTreeUpDown: directSendFromOutput), what is received
 * directly is passed on from there (device/prims_simple.h), and the members of a group run side by
 * side in one kernel.
 *
 * Aliases (shadow_alias): the neutral value is the same everywhere, and of the results nothing is
 * read, so a buffer need not be memory of its own all along. One small block, seen over and over,
 * does for each send buffer, and one for the receive area: two blocks for a unit, however large its
 * buckets. That parts of a receive buffer are the same memory is right only where NCCL does not
 * read from it what it has written there before. It did where ranks of one process reach each
 * other's memory directly, until NCCL 2.24 (NCCL_DIRECT_READ and _WRITE in prims_simple.h); later
 * releases do so only with buffers that the program has registered (ipcRegFlag and netRegFlag
 * there), and those of shadows are never aliases. The tree with directSendFromOutput is built with
 * CUDA 11.2 and 11.3 only (all_reduce.h).
 *
 * Registered buffers (ncclCommRegister): where the peers' are, so are the shadow's, in memory of
 * the same kind (registrable.h), in place where theirs are, and never aliases. NCCL decides by
 * that, on each rank for itself, whether data goes the direct way (coll_reg.cc, sendrecv_reg.cc),
 * and for some collectives which algorithm runs (enqueue.cc, NCCL_CTA_POLICY_EFFICIENCY, tuner
 * plug-ins). All else that it decides by is in the unit or in the communicator. Without registered
 * buffers in place or not is the same to it, and the memory's kind and alignment always are:
 * kernels look at the alignment of their own rank's buffers only (common_kernel.h). What is
 * received in place is written over what is sent: such a buffer is laid down anew for each unit.
 *
 * Growing: a buffer that has become too small is kept until shadow_destroy, because enqueued work
 * may use it, and waiting for that while peers wait for us might be for ever. Since buffers at
 * least double, those kept add up to no more than those in use. Only when the device is out of
 * memory are they given back earlier, after the stream has passed.
 *
 * Threads: one at a time for each struct shadow, serialised with all other NCCL calls on that
 * device (NCCL forbids two threads launching on one device). No NCCL group may be open on the
 * calling thread. NCCL calls itself through the PLT, so whoever stands in front of NCCL marks the
 * thread as inside NCCL first. The functions leave the calling thread's CUDA context and capture
 * mode as they were.
 */
#ifndef NCCL_JOIN_HOOKS_SHADOW_H
#define NCCL_JOIN_HOOKS_SHADOW_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/unit/unit.h"
#include "hooks/cuda_driver.h"

/* NCCL's own functions, of the library that the communicators belong to. The caller fills it by
 * looking the symbols up. Declared here, not taken from nccl.h, so that an nccl.h without the newer
 * ones will do. */
struct nccl_calls {
  /* The collectives; NULL of one that this NCCL lacks. */
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration
#define NCCL_CALL(with, KIND, NAME, ROOT, REDUCTION, ...)                                          \
  ncclResult_t(*NAME) COLLECTIVE_FORM(ROOT, REDUCTION, const void *send, void *recv, size_t count, \
                                      ncclDataType_t datatype, ncclRedOp_t reduction, int root,    \
                                      ncclComm_t comm, cudaStream_t stream);
  NCCL_COLLECTIVES(NCCL_CALL, )
#undef NCCL_CALL
  // NOLINTEND(bugprone-macro-parentheses)
  ncclResult_t (*Send)(const void *send, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream);
  ncclResult_t (*Recv)(void *recv, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
                       cudaStream_t stream);
  ncclResult_t (*CommSplit)(ncclComm_t comm, int color, int key, ncclComm_t *child,
                            ncclConfig_t *config);
  ncclResult_t (*GroupStart)(void);
  ncclResult_t (*GroupEnd)(void);
  ncclResult_t (*RedOpCreatePreMulSum)(ncclRedOp_t *reduction, void *scalar,
                                       ncclDataType_t datatype, ncclScalarResidence_t residence,
                                       ncclComm_t comm);
  ncclResult_t (*RedOpDestroy)(ncclRedOp_t reduction, ncclComm_t comm);
  ncclResult_t (*CommGetAsyncError)(ncclComm_t comm, ncclResult_t *error);
  /* NCCL 2.19 and later; NULL before. */
  ncclResult_t (*CommRegister)(ncclComm_t comm, void *buffer, size_t size, void **handle);
  ncclResult_t (*CommDeregister)(ncclComm_t comm, void *handle);
};

/* How long a wait may last. Waits end at whichever comes first. */
struct shadow_limit {
  uint64_t until_ns;              /* on CLOCK_MONOTONIC; UINT64_MAX: no deadline */
  bool (*give_up)(void *context); /* asked every millisecond or more often, from the waiting thread;
                                     NULL: never */
  void *context;
};

struct shadow;

/* One member of a unit as seen from this rank. */
struct shadow_member {
  /* Of the device that comm is on; one thread with several devices has several. */
  struct shadow *shadow;
  ncclComm_t comm;
  int rank, nranks; /* in comm */
  /* To use in place of member.root: a Broadcast's may have been re-elected, and a peer is known by
   * its rank in the team. Ignored for kinds without a root. */
  int root;
  /* NULL: the fill. Else device memory to send instead, large enough; the caller keeps it until the
   * shadow is done. */
  const void *send;
  void *receive; /* NULL: where nobody looks. Else device memory to receive into, likewise */
  /* How the buffers look on the ranks that issue the unit (core/unit/look.h). Buffers that the
   * caller gives are left as they are. */
  look_t look;
};

/* The shadows of one device: retains its primary context and makes a non-blocking stream with the
 * highest priority, because active ranks wait for what runs there. No device memory yet. device:
 * CUDA's number (ncclCommCuDevice). Call at the first shadow, not before. cuda must outlive it.
 * NULL with a reason. */
struct shadow *shadow_create(const struct cuda_driver *cuda, int device, char *reason);

/* Buffers of more than a block (alias.h) are to be aliases from now on; without effect where the
 * driver or the device cannot. Only for an NCCL of SHADOW_ALIAS_NCCL or later. */
#define SHADOW_ALIAS_NCCL 22403
void shadow_alias(struct shadow *shadow);

/* Allocates and fills what the unit needs, which shadow_issue does by itself; call it ahead of
 * need. It may wait (for the stream, at most limit) only if the device is out of memory. */
ncclResult_t shadow_prepare(struct unit unit, const struct shadow_member *members,
                            const struct shadow_limit *limit, char *reason);

/* Goes through what shadow_issue does before it calls NCCL, for a unit that is likely to come: its
 * buffers are there then, and what the processor needs to know of the way is in its caches. Calls
 * no collective. Neither waits nor complains. */
void shadow_rehearse(const struct nccl_calls *nccl, struct unit unit,
                     const struct shadow_member *members);

/* Gives every member of a unit that is about to be issued, all on one device, a send buffer of its
 * own (members[i].send, where it is NULL), filled with what it would send anyway. Who has something
 * better to say writes it there, by work on shadow_stream. They hold until the unit has been
 * issued. Waits as shadow_prepare does. */
ncclResult_t shadow_lend(struct unit unit, struct shadow_member *members,
                         const struct shadow_limit *limit, char *reason);

/* Bytes that a member reads from its send buffer on this rank; 0: none. */
size_t shadow_send_bytes(const struct member *member, const struct shadow_member *here);

/* What the shadows run on. */
cudaStream_t shadow_stream(const struct shadow *shadow);

/* Issues a unit as a shadow: members[i] belongs to unit.members[i]. A unit of one member is issued
 * without a group, which NCCL launches just like a group of one (it wraps each call in a group of
 * its own: enqueue.cc, ncclEnqueueCheck). A thread that is several ranks (one for each of its
 * devices) passes all their members as one unit of nranks times the members, and so gets the one
 * group that NCCL demands of it.
 *
 * Waits for communicators that are still ncclInProgress, before and after (only non-blocking ones
 * ever are), at most limit. Returns when the collectives are enqueued:
 *   ncclSuccess
 *   ncclInProgress          the limit came first; the reason says whether the unit is issued
 *   ncclInvalidUsage        the library has no such collective, the datatype or reduction is not
 *                           known, or the unit is LEAVE: nothing has been issued
 *   ncclUnhandledCudaError  no memory (the reason names bytes, device and unit) or another CUDA
 *                           error: nothing has been issued
 *   any other               NCCL's own, from the function that the reason names
 * Whatever happens, operators are destroyed, the group is closed and the context restored. */
ncclResult_t shadow_issue(const struct nccl_calls *nccl, struct unit unit,
                          const struct shadow_member *members, const struct shadow_limit *limit,
                          char *reason);

/* Whether so many shadows are under way that CUDA might make the thread that issues another one
 * wait until one of them is done (its launch queues hold about a thousand kernels), and so keep it
 * from answering anybody. Costs two CUDA calls while it is. */
bool shadow_is_full(struct shadow *shadow);

/* Waits until everything that this process has given the device so far is done, the program's own
 * work included: ncclSuccess; ncclInProgress if the limit came first; ncclUnhandledCudaError. With
 * a reason. Only where all ranks have issued all that may be waited for. */
ncclResult_t shadow_synchronise_device(struct shadow *shadow, const struct shadow_limit *limit,
                                       char *reason);

/* Waits until all that was issued here is done on the device: ncclSuccess; ncclInProgress if the
 * limit came first; ncclUnhandledCudaError with a reason. A driver that is shutting down (the
 * process ends) counts as done. */
ncclResult_t shadow_wait(struct shadow *shadow, const struct shadow_limit *limit, char *reason);

/* Waits until a stream of the program's on the device has passed, or the limit has come (false).
 * The stream is not being captured. */
bool shadow_wait_stream(struct shadow *shadow, cudaStream_t stream,
                        const struct shadow_limit *limit);

/* Ends it, when its communicators are gone or are about to go. Its memory is kept for the device's
 * next shadows: to free memory waits for all that the device has been given (cuMemFree), and that
 * may wait for a peer that waits for this rank. If its stream does not get done within the limit,
 * device memory and stream are left to the driver. The shadow is gone in any case. NULL is fine. */
void shadow_destroy(struct shadow *shadow, const struct shadow_limit *limit);

/* Gives back what is kept of the device's shadows that are gone. Waits for the device: call it when
 * nothing there waits for a peer. Any thread. */
void shadow_free_kept(int device);

/* A communicator that units have been issued on is about to be destroyed, with all that is
 * registered with it, and will not be called any more. Does not wait. */
void shadow_forget(struct shadow *shadow, ncclComm_t comm);

/* Bytes of device memory held now, for messages; of an alias those of its block. */
size_t shadow_bytes(const struct shadow *shadow);

#endif
