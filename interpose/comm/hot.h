/* The hot path: a call that is what every rank expects now is published and goes on to the real
 * function, with no call, lock, allocation or system call in between. Everything else about it has
 * been done before, or is put off until something unusual happens (core/team/team.h, foreseen).
 *
 * Entered by the wrappers of collectives (wrappers.c) before anything else.
 */
#ifndef NCCL_JOIN_INTERPOSE_HOT_H
#define NCCL_JOIN_INTERPOSE_HOT_H

#include <stdint.h>

#include <nccl.h>

#include "core/team/team.h"
#include "interpose/comm/communicator.h"
#include "interpose/nccl/api.h"
#include "interpose/self/guard.h"
#include "interpose/places/places.h"

enum hot {
  HOT_NOT,     /* take the long way: nothing has changed */
  HOT_AGREED,  /* published: issue it */
  HOT_AWAITED, /* the same, and hot_tell is to be called first */
};

/* A communicator that this thread has used, and its seat (endpoint.h) there. Stale entries do no
 * harm: neither structure is ever freed, a communicator that is gone is not joined, and of a seat
 * only that counts that `plain` of the endpoint still names it. */
struct hot_communicator {
  struct communicator *comm; /* NULL: none */
  struct seat *seat;
};
#define HOT_COMMUNICATORS 8u /* a power of two; programs use one to four in turn */
GUARD_STATE _Thread_local struct hot_communicator hot_communicators[HOT_COMMUNICATORS];

/* The wrapper of a hot call has no frame for calls: its arguments stay in their registers. */
#define HOT_INLINE inline __attribute__((always_inline))

/* Handles are addresses of large structures, often equally far apart. */
static inline struct hot_communicator *hot_place(ncclComm_t handle) {
  uint32_t mixed = (uint32_t)((uintptr_t)handle >> 4) * UINT32_C(0x9e3779b9);
  return &hot_communicators[mixed / (UINT32_MAX / HOT_COMMUNICATORS + 1)];
}

/* To be called after the long way: the thread's next call of this communicator may be hot. */
void hot_remember(struct communicator *comm);

/* This thread takes the long way from here on: it is that of a forked child. */
void hot_forget(void);

/* After HOT_AWAITED, once. */
void hot_tell(ncclComm_t handle);

/* Keeps the communicator at hand that the thread has called last. */
static HOT_INLINE void hot_turn_to(ncclComm_t handle) {
  const struct hot_communicator *hot = hot_place(handle);
  if (hot->comm != NULL && hot->comm->handle == handle)
    guard_thread.hot = (struct guard_hot){handle, hot->comm, hot->seat};
}

/* Whether nobody but the calling thread is using the communicator, so that it may commit;
 * endpoint_end_commit ends that. Otherwise take the long way. */
static HOT_INLINE bool hot_begin(ncclComm_t handle, struct communicator **comm, struct seat **seat,
                                 struct team **team) {
  if (__builtin_expect(guard_thread.hot.handle != handle, false)) {
    hot_turn_to(handle);
    if (guard_thread.hot.handle != handle)
      return false;
  }
  *comm = guard_thread.hot.comm;
  *seat = guard_thread.hot.seat;
  if (atomic_load_explicit(&(*comm)->state, memory_order_relaxed) != COMM_JOINED)
    return false;
  struct endpoint *end = (*comm)->end;
  if (!endpoint_begin_commit(end, *seat))
    return false;
  *team = end->team;
  return true;
}

/* For a thread that guard_is_open. Compared as the arguments are passed, so what NCCL would refuse
 * is never taken for what is expected; operators of the user's take the long way. What is not a
 * single collective has no kind there. placed: it stands at places_current, otherwise
 * at an unknown place; read late, where there is a register for it. */
static HOT_INLINE enum hot hot_commit(enum member_kind kind, size_t count, ncclDataType_t datatype,
                                      int reduction, int root, ncclComm_t handle, bool placed) {
  struct communicator *comm;
  struct seat *seat;
  struct team *team;
  if (!hot_begin(handle, &comm, &seat, &team))
    return HOT_NOT;
  const struct member *member = &(*team->expected)->single;
  bool agreed = member->count == count && member->comm == comm->tag && member->root == root &&
                member->reduction == reduction && member->kind == kind &&
                member->datatype == (unsigned)datatype &&
                member->number == (placed ? places_current() : 0) && !team_must_attend(team) &&
                team_commit_expected(team);
  if (agreed && team_is_awaited(team))
    return HOT_AWAITED;
  endpoint_end_commit(seat);
  return agreed ? HOT_AGREED : HOT_NOT;
}

/* hot_commit by the name of the function: hot_AllReduce(sendbuff, ..., placed). Not called for a
 * collective that elects its root: that may have joined. */
#define HOT_FUNCTION(with, KIND, NAME, ROOT, REDUCTION, ...)                                       \
  static HOT_INLINE enum hot hot_##NAME API_PARAMETERS(ROOT, REDUCTION, API_STREAM, bool placed) { \
    (void)sendbuff, (void)recvbuff, (void)stream;                                                  \
    return hot_commit(MEMBER_##KIND, count, datatype,                                              \
                      COLLECTIVE_IF_##REDUCTION(op, REDUCTION_NONE),                               \
                      COLLECTIVE_IF_##ROOT(root, ROOT_NONE), comm, placed);                        \
  }
NCCL_COLLECTIVES(HOT_FUNCTION, )
#undef HOT_FUNCTION

#endif
