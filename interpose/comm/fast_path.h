/* The fast path: a call that is what every rank expects now is published and goes on to the real
 * function, with no call, lock, allocation or system call in between. Everything else about it has
 * been done before, or is put off until something unusual happens (core/team/team.h, foreseen).
 *
 * Entered by the wrappers of collectives (wrappers.c) before anything else.
 */
#ifndef NCCL_JOIN_INTERPOSE_FAST_PATH_H
#define NCCL_JOIN_INTERPOSE_FAST_PATH_H

#include <stdint.h>

#include <nccl.h>

#include "core/team/team.h"
#include "interpose/comm/communicator.h"
#include "interpose/nccl/api.h"
#include "interpose/self/guard.h"
#include "interpose/places/places.h"

enum fast_path {
  FAST_PATH_NOT,     /* take the long way: nothing has changed */
  FAST_PATH_AGREED,  /* published: issue it */
  FAST_PATH_AWAITED, /* the same, and fast_path_tell is to be called first */
};

/* A communicator that this thread has used, and its seat (endpoint.h) there. Stale entries do no
 * harm: neither structure is ever freed, a communicator that is gone is not joined, and a seat
 * counts only as long as the endpoint's `plain` names it. */
struct fast_path_communicator {
  struct communicator *comm; /* NULL: none */
  struct seat *seat;
};
#define FAST_PATH_COMMUNICATORS 8u /* a power of two; programs use one to four in turn */
GUARD_STATE _Thread_local struct fast_path_communicator
    fast_path_communicators[FAST_PATH_COMMUNICATORS];

/* The wrapper of a call on the fast path has no frame for calls: its arguments stay in their
 * registers. */
#define FAST_PATH_INLINE inline __attribute__((always_inline))

/* Handles are addresses of large structures, often equally far apart. */
static inline struct fast_path_communicator *fast_path_place(ncclComm_t handle) {
  uint32_t mixed = (uint32_t)((uintptr_t)handle >> 4) * UINT32_C(0x9e3779b9);
  return &fast_path_communicators[mixed / (UINT32_MAX / FAST_PATH_COMMUNICATORS + 1)];
}

/* To be called after the long way: the thread's next call of this communicator may take the fast
 * path. */
void fast_path_remember(struct communicator *comm);

/* This thread takes the long way from here on: it is that of a forked child. */
void fast_path_forget(void);

/* After FAST_PATH_AWAITED, once. */
void fast_path_tell(ncclComm_t handle);

/* Keeps the communicator at hand that the thread has called last. */
static FAST_PATH_INLINE void fast_path_turn_to(ncclComm_t handle) {
  const struct fast_path_communicator *known = fast_path_place(handle);
  if (known->comm != NULL && known->comm->handle == handle)
    guard_thread.fast_path = (struct guard_fast_path){handle, known->comm, known->seat};
}

/* Whether nobody but the calling thread is using the communicator, so that it may commit;
 * endpoint_end_commit ends that. Otherwise take the long way. */
static FAST_PATH_INLINE bool fast_path_begin(ncclComm_t handle, struct communicator **comm,
                                             struct seat **seat, struct team **team) {
  if (__builtin_expect(guard_thread.fast_path.handle != handle, false)) {
    fast_path_turn_to(handle);
    if (guard_thread.fast_path.handle != handle)
      return false;
  }
  *comm = guard_thread.fast_path.comm;
  *seat = guard_thread.fast_path.seat;
  if (atomic_load_explicit(&(*comm)->state, memory_order_relaxed) != COMM_JOINED)
    return false;
  struct endpoint *end = (*comm)->end;
  if (!endpoint_begin_commit(end, *seat))
    return false;
  *team = end->team;
  return true;
}

/* For a thread that guard_is_open. Arguments are compared as they are passed, so what NCCL would
 * refuse is never taken for what is expected; operators of the user's take the long way. An
 * expected unit of several members has kind MEMBER_NONE in `single`, so it matches no call. placed:
 * the call stands at places_current; otherwise at an unknown place. That is read late, where there
 * is a register for it. */
static FAST_PATH_INLINE enum fast_path fast_path_commit(enum member_kind kind, size_t count,
                                                        ncclDataType_t datatype, int reduction,
                                                        int root, ncclComm_t handle, bool placed) {
  struct communicator *comm;
  struct seat *seat;
  struct team *team;
  if (!fast_path_begin(handle, &comm, &seat, &team))
    return FAST_PATH_NOT;
  const struct member *member = &(*team->expected)->single;
  bool agreed = member->count == count && member->comm == comm->tag && member->root == root &&
                member->reduction == reduction && member->kind == kind &&
                member->datatype == (unsigned)datatype &&
                member->number == (placed ? places_current() : 0) && !team_must_attend(team) &&
                team_commit_expected(team);
  if (agreed && team_is_awaited(team))
    return FAST_PATH_AWAITED;
  endpoint_end_commit(seat);
  return agreed ? FAST_PATH_AGREED : FAST_PATH_NOT;
}

/* fast_path_commit by the name of the function: fast_path_AllReduce(sendbuff, ..., placed). Not
 * called for a collective that elects its root: that may have joined. */
#define FAST_PATH_FUNCTION(with, KIND, NAME, ROOT, REDUCTION, ...)                                 \
  static FAST_PATH_INLINE enum fast_path fast_path_##NAME API_PARAMETERS(                          \
      ROOT, REDUCTION, API_STREAM, bool placed) {                                                  \
    (void)sendbuff, (void)recvbuff, (void)stream;                                                  \
    return fast_path_commit(MEMBER_##KIND, count, datatype,                                        \
                            COLLECTIVE_IF_##REDUCTION(op, REDUCTION_NONE),                         \
                            COLLECTIVE_IF_##ROOT(root, ROOT_NONE), comm, placed);                  \
  }
NCCL_COLLECTIVES(FAST_PATH_FUNCTION, )
#undef FAST_PATH_FUNCTION

#endif
