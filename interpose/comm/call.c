/* Calls as data (call.h): the one place that knows both the members of units and NCCL's signatures.
 */
#include "interpose/comm/call.h"

#include "interpose/comm/operators.h"
#include "interpose/nccl/real.h"

static bool has_root(int kind) {
  return kind == MEMBER_BROADCAST || kind == MEMBER_REDUCE || kind == MEMBER_GATHER ||
         kind == MEMBER_SCATTER;
}

static bool reduces(int kind) {
  return kind == MEMBER_ALLREDUCE || kind == MEMBER_REDUCE || kind == MEMBER_REDUCESCATTER;
}

bool call_member(const struct call *call, const struct communicator *comm, struct member *member) {
  if (call->kind == MEMBER_SPLIT) {
    *member = (struct member){
        .comm = comm->tag, .root = ROOT_NONE, .reduction = REDUCTION_NONE, .kind = MEMBER_SPLIT};
    return true;
  }
  if (call->count == 0 || call->kind >= CALL_SEND)
    return false;
  /* Wrong on this rank alone: NCCL returns ncclInvalidArgument here, and the others must not take
   * it for a unit. Datatypes are numbered without gaps; a library may know more of them than this
   * one was built with. */
  if ((unsigned)call->datatype > UINT8_MAX || call->reduction < 0)
    return false;
  if (has_root(call->kind) && (call->root < 0 || call->root >= comm->nranks))
    return false;
  *member = (struct member){
      .count = call->count,
      .comm = comm->tag,
      .root = has_root(call->kind) ? call->root : ROOT_NONE,
      .reduction = REDUCTION_NONE,
      .kind = (uint8_t)call->kind,
      .datatype = (uint8_t)call->datatype,
  };
  if (reduces(call->kind))
    member->reduction =
        call->reduction < ncclNumOps ? (uint16_t)call->reduction : (uint16_t)REDUCTION_PREMULSUM;
  return true;
}

static __attribute__((noinline)) ncclResult_t issue_other(const struct call *call) {
  const struct call c = *call;
  switch (c.kind) {
  case MEMBER_ALLREDUCE:
    return real.AllReduce(c.send, c.receive, c.count, c.datatype, (ncclRedOp_t)c.reduction,
                          c.handle, c.stream);
  case MEMBER_BROADCAST:
    return real.Broadcast(c.send, c.receive, c.count, c.datatype, c.root, c.handle, c.stream);
  case MEMBER_REDUCE:
    return real.Reduce(c.send, c.receive, c.count, c.datatype, (ncclRedOp_t)c.reduction, c.root,
                       c.handle, c.stream);
  case MEMBER_ALLGATHER:
    return real.AllGather(c.send, c.receive, c.count, c.datatype, c.handle, c.stream);
  case MEMBER_REDUCESCATTER:
    return real.ReduceScatter(c.send, c.receive, c.count, c.datatype, (ncclRedOp_t)c.reduction,
                              c.handle, c.stream);
  case MEMBER_ALLTOALL:
    return real.AlltoAll(c.send, c.receive, c.count, c.datatype, c.handle, c.stream);
  case MEMBER_GATHER:
    return real.Gather(c.send, c.receive, c.count, c.datatype, c.root, c.handle, c.stream);
  case MEMBER_SCATTER:
    return real.Scatter(c.send, c.receive, c.count, c.datatype, c.root, c.handle, c.stream);
  case MEMBER_SPLIT:
    return real.CommSplit(c.handle, c.root, c.reduction, c.receive, (ncclConfig_t *)c.send);
  case CALL_SEND:
    return real.Send(c.send, c.count, c.datatype, c.root, c.handle, c.stream);
  case CALL_RECV:
    return real.Recv(c.receive, c.count, c.datatype, c.root, c.handle, c.stream);
  case CALL_DESTROY_OPERATOR:
    operators_remove(c.handle, (ncclRedOp_t)c.reduction);
    return real.RedOpDestroy((ncclRedOp_t)c.reduction, c.handle);
  default:
    return ncclInternalError;
  }
}

/* The kind that there is most of goes past the table of jumps. */
ncclResult_t call_issue(const struct call *call) {
  if (call->kind != MEMBER_ALLREDUCE)
    return issue_other(call);
  return real.AllReduce(call->send, call->receive, call->count, call->datatype,
                        (ncclRedOp_t)call->reduction, call->handle, call->stream);
}
