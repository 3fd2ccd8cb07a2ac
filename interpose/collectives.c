/* The program's collectives and point to point calls: from NCCL's signatures to struct call, and
 * the hot path.
 */
#include "interpose/answer.h"
#include "interpose/call.h"
#include "interpose/group.h"
#include "interpose/guard.h"
#include "interpose/handlers.h"
#include "interpose/real.h"
#include "interpose/roots.h"

/* In its turn, to the real call. */
static ncclResult_t issue_in_turn(struct call *call, struct communicator *comm,
                                  const struct member *member) {
  struct wish wish = {.end = comm->end, .unit = {member, 1}};
  answer(&wish, 1);
  if (wish.result != ncclSuccess)
    return wish.result;
  if (call->kind == MEMBER_BROADCAST && !roots_apply(call, wish.index))
    return ncclRemoteError;
  ncclResult_t result = call_issue(call);
  return wish.notice != ncclSuccess ? wish.notice : result;
}

/* Everything but a commit with nothing to see to. */
static ncclResult_t issue_slowly(struct call call, struct communicator *comm,
                                 const struct member *member) {
  struct endpoint *end = comm->end;
  endpoint_enter(end);
  atomic_store(&end->user, endpoint_this_thread());
  ncclResult_t result = issue_in_turn(&call, comm, member);
  endpoint_exit(end);
  return result;
}

/* Any call that is not a commit with nothing to see to. */
static ncclResult_t issue(const struct call *call) {
  if (group_is_open())
    return call->handle == NULL && group_open_real() == ncclSuccess ? call_issue(call)
                                                                    : group_hold(call);
  struct communicator *comm = communicator_find(call->handle);
  struct member member;
  if (comm == NULL || !call_member(call, comm, &member))
    return call_issue(call);
  return issue_slowly(*call, comm, &member);
}

/* The hot path. Whether the call is what every rank expects now; then it has been agreed on and is
 * to be issued. Compared as they are passed, so arguments that NCCL would refuse are not expected
 * either; an operator of the user's takes the long way. */
static inline bool commits(enum member_kind kind, size_t count, ncclDataType_t datatype,
                           int reduction, int root, ncclComm_t handle) {
  const struct communicator *comm = communicator_find_recent(handle);
  if (group_is_open() || comm == NULL)
    return false;
  struct seat *seat = endpoint_begin_commit(comm->end);
  if (seat == NULL)
    return false;
  struct team *team = comm->end->team;
  const struct known_unit *expected = team->expected;
  const struct member *member = &expected->single;
  bool agreed = expected->nmembers == 1 && member->count == count && member->comm == comm->tag &&
                member->root == root && member->reduction == reduction && member->kind == kind &&
                member->datatype == (unsigned)datatype && !team_must_attend(team) &&
                team_commit_expected(team);
  endpoint_end_commit(seat);
  return agreed;
}

ncclResult_t join_AllReduce(const void *sendbuff, void *recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            cudaStream_t stream) {
  if (commits(MEMBER_ALLREDUCE, count, datatype, op, ROOT_NONE, comm))
    return real.AllReduce(sendbuff, recvbuff, count, datatype, op, comm, stream);
  return issue(&(struct call){.kind = MEMBER_ALLREDUCE,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .reduction = op,
                              .handle = comm,
                              .root = ROOT_NONE,
                              .stream = stream});
}

ncclResult_t join_Broadcast(const void *sendbuff, void *recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  return issue(&(struct call){.kind = MEMBER_BROADCAST,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .root = root,
                              .handle = comm,
                              .stream = stream});
}

/* The same collective, in place. */
ncclResult_t join_Bcast(void *buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return join_Broadcast(buff, buff, count, datatype, root, comm, stream);
}

ncclResult_t join_Reduce(const void *sendbuff, void *recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         cudaStream_t stream) {
  if (commits(MEMBER_REDUCE, count, datatype, op, root, comm))
    return real.Reduce(sendbuff, recvbuff, count, datatype, op, root, comm, stream);
  return issue(&(struct call){.kind = MEMBER_REDUCE,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .reduction = op,
                              .root = root,
                              .handle = comm,
                              .stream = stream});
}

ncclResult_t join_AllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  if (commits(MEMBER_ALLGATHER, sendcount, datatype, REDUCTION_NONE, ROOT_NONE, comm))
    return real.AllGather(sendbuff, recvbuff, sendcount, datatype, comm, stream);
  return issue(&(struct call){.kind = MEMBER_ALLGATHER,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = sendcount,
                              .datatype = datatype,
                              .handle = comm,
                              .root = ROOT_NONE,
                              .stream = stream});
}

ncclResult_t join_ReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                cudaStream_t stream) {
  if (commits(MEMBER_REDUCESCATTER, recvcount, datatype, op, ROOT_NONE, comm))
    return real.ReduceScatter(sendbuff, recvbuff, recvcount, datatype, op, comm, stream);
  return issue(&(struct call){.kind = MEMBER_REDUCESCATTER,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = recvcount,
                              .datatype = datatype,
                              .reduction = op,
                              .handle = comm,
                              .root = ROOT_NONE,
                              .stream = stream});
}

ncclResult_t join_AlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  if (commits(MEMBER_ALLTOALL, count, datatype, REDUCTION_NONE, ROOT_NONE, comm))
    return real.AlltoAll(sendbuff, recvbuff, count, datatype, comm, stream);
  return issue(&(struct call){.kind = MEMBER_ALLTOALL,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .handle = comm,
                              .root = ROOT_NONE,
                              .stream = stream});
}

ncclResult_t join_Gather(const void *sendbuff, void *recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  if (commits(MEMBER_GATHER, count, datatype, REDUCTION_NONE, root, comm))
    return real.Gather(sendbuff, recvbuff, count, datatype, root, comm, stream);
  return issue(&(struct call){.kind = MEMBER_GATHER,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .root = root,
                              .handle = comm,
                              .stream = stream});
}

ncclResult_t join_Scatter(const void *sendbuff, void *recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  if (commits(MEMBER_SCATTER, count, datatype, REDUCTION_NONE, root, comm))
    return real.Scatter(sendbuff, recvbuff, count, datatype, root, comm, stream);
  return issue(&(struct call){.kind = MEMBER_SCATTER,
                              .send = sendbuff,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .root = root,
                              .handle = comm,
                              .stream = stream});
}

ncclResult_t join_Send(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return issue(&(struct call){.kind = CALL_SEND,
                              .send = sendbuff,
                              .count = count,
                              .datatype = datatype,
                              .root = peer,
                              .handle = comm,
                              .stream = stream});
}

ncclResult_t join_Recv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, cudaStream_t stream) {
  return issue(&(struct call){.kind = CALL_RECV,
                              .receive = recvbuff,
                              .count = count,
                              .datatype = datatype,
                              .root = peer,
                              .handle = comm,
                              .stream = stream});
}

/* A handle's number says that it is an operator of the user's: call_member needs no more. */
ncclResult_t join_RedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm) {
  return real.RedOpCreatePreMulSum(op, scalar, datatype, residence, comm);
}

/* NCCL copies an operator at the call that uses it, so a program may destroy it before its group
 * ends: held-back calls go first. */
ncclResult_t join_RedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  if (group_is_open())
    return group_hold(&(struct call){
        .kind = CALL_DESTROY_OPERATOR, .reduction = op, .handle = comm, .root = ROOT_NONE});
  return real.RedOpDestroy(op, comm);
}
