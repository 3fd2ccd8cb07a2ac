/* The program's collectives and point to point calls: from NCCL's signatures to struct call, and
 * the long way of those that do not take the fast path (fast_path.h).
 */
#include "interpose/comm/call.h"
#include "interpose/calls/capture.h"
#include "interpose/data/divisors.h"
#include "interpose/calls/group.h"
#include "interpose/self/guard.h"
#include "interpose/calls/handlers.h"
#include "interpose/calls/issue.h"
#include "interpose/comm/fast_path.h"
#include "interpose/comm/operators.h"
#include "interpose/places/places.h"
#include "interpose/calls/point_to_point.h"
#include "interpose/calls/rounds.h"
#include "interpose/nccl/real.h"

static ncclResult_t issue_slowly(struct call call, struct communicator *comm,
                                 const struct member *member) {
  return capture_takes(&call, comm, true) ? call_issue(&call) : issue_alone(&call, comm, member);
}

static ncclResult_t issue_post(const struct call *call) {
  enum fate fate = FATE_UNDECIDED;
  ncclResult_t notice = point_to_point_post(call, 1, &fate, places_here(), false);
  if (fate == FATE_REFUSED)
    return notice;
  ncclResult_t result = call_issue(call);
  return notice != ncclSuccess ? notice : result;
}

/* What is expected, but not as far as the fast path looks. */
static bool collectives_commits(struct communicator *comm, struct unit unit) {
  struct seat *seat;
  struct team *team;
  if (!fast_path_begin(comm->handle, &comm, &seat, &team))
    return false;
  bool agreed = !team_must_attend(team) && team_commit(team, unit);
  endpoint_end_commit(seat);
  return agreed;
}

static ncclResult_t collectives_issue(const struct call *call) {
  struct communicator *comm = communicator_find(call->handle);
  struct member member;
  if (comm != NULL && capture_takes(call, comm, false))
    return call_issue(call);
  if (comm != NULL && (call->kind == CALL_SEND || call->kind == CALL_RECV))
    return issue_post(call);
  if (comm == NULL && communicator_is_refused(call->handle))
    return ncclInvalidUsage;
  if (comm == NULL || !call_member(call, comm, &member))
    return call_issue(call);
  /* That of the others has been found before: wrappers.c. */
  bool slow = member_elects_root(member.kind);
  call_stands_at(&member, slow ? places_here() : places_current());
  if (!slow && !rounds_are_due(call->handle) &&
      collectives_commits(comm, (struct unit){&member, 1}))
    return call_issue(call);
  return issue_slowly(*call, comm, &member);
}

static __attribute__((noinline)) ncclResult_t collectives_hold(const struct call *call) {
  if (group_is_full() && !group_grow())
    return ncclSystemError;
  *group_hold() = *call;
  group_calls.long_way |= call->kind >= CALL_SEND || member_elects_root((uint8_t)call->kind);
  return ncclSuccess;
}

/* NCCL refuses a call without a communicator at once, in a group too. */
static ncclResult_t issue_or_hold(const struct call *call) {
  if (!group_is_open())
    return collectives_issue(call);
  if (call->handle != NULL)
    return collectives_hold(call);
  return group_open_real() == ncclSuccess ? call_issue(call) : ncclInternalError;
}

/* From the arguments of one function to struct call. hold_<name> writes it straight to where it is
 * held back: that, too, is on the fast path. */
#define CALL(name, parameters, arguments, ...)                                                     \
  ncclResult_t join_##name parameters {                                                            \
    return issue_or_hold(&(struct call)__VA_ARGS__);                                               \
  }                                                                                                \
  ncclResult_t hold_##name parameters;                                                             \
  ncclResult_t hold_##name parameters {                                                            \
    if (group_is_full())                                                                           \
      return join_##name arguments;                                                                \
    *group_hold() = (struct call)__VA_ARGS__;                                                      \
    return ncclSuccess;                                                                            \
  }

#define CALL_COLLECTIVE(with, KIND, NAME, ROOT, REDUCTION, ...)                                    \
  CALL(NAME, API_PARAMETERS(ROOT, REDUCTION, API_STREAM), API_ARGUMENTS(ROOT, REDUCTION, stream),  \
       {.kind = MEMBER_##KIND,                                                                     \
        .send = sendbuff,                                                                          \
        .receive = recvbuff,                                                                       \
        .count = count,                                                                            \
        .datatype = datatype,                                                                      \
        .reduction = COLLECTIVE_IF_##REDUCTION(op, NO_OPERATOR),                                   \
        .handle = comm,                                                                            \
        .root = COLLECTIVE_IF_##ROOT(root, ROOT_NONE),                                             \
        .stream = stream})
NCCL_COLLECTIVES(CALL_COLLECTIVE, )

/* ncclBroadcast in place. */
ncclResult_t join_Bcast(void *buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return join_Broadcast(buff, buff, count, datatype, root, comm, stream);
}

CALL(Send,
     (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
      cudaStream_t stream),
     (sendbuff, count, datatype, peer, comm, stream),
     {.kind = CALL_SEND,
      .send = sendbuff,
      .receive = NULL,
      .count = count,
      .datatype = datatype,
      .reduction = NO_OPERATOR,
      .handle = comm,
      .root = peer,
      .stream = stream})

CALL(Recv,
     (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
      cudaStream_t stream),
     (recvbuff, count, datatype, peer, comm, stream),
     {.kind = CALL_RECV,
      .send = NULL,
      .receive = recvbuff,
      .count = count,
      .datatype = datatype,
      .reduction = NO_OPERATOR,
      .handle = comm,
      .root = peer,
      .stream = stream})

/* A handle's number says that it is an operator of the user's: call_member needs no more. */
ncclResult_t join_RedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  ncclResult_t result = real.RedOpCreatePreMulSum(op, scalar, datatype, residence, comm);
  if (result == ncclSuccess && divisors_are_on())
    operators_add(comm, *op, scalar, datatype, residence);
  return result;
}

/* NCCL copies an operator at the call that uses it, so a program may destroy it before its group
 * ends: held-back calls go first. */
ncclResult_t join_RedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (group_is_open())
    return issue_or_hold(&(struct call){
        .kind = CALL_DESTROY_OPERATOR, .reduction = op, .handle = comm, .root = ROOT_NONE});
  operators_remove(comm, op);
  return real.RedOpDestroy(op, comm);
}
