/* Calls as data (call.h): the one place that knows both the members of units and NCCL's signatures.
 */
#include "interpose/comm/call.h"

#include "interpose/comm/operators.h"
#include "interpose/nccl/real.h"

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
  const struct kind_traits *traits = kind_traits((uint8_t)call->kind);
  bool rooted = traits->root != KIND_NO_ROOT;
  if (rooted && (call->root < 0 || call->root >= comm->nranks))
    return false;
  *member = (struct member){
      .count = call->count,
      .comm = comm->tag,
      .root = rooted ? call->root : ROOT_NONE,
      .reduction = REDUCTION_NONE,
      .kind = (uint8_t)call->kind,
      .datatype = (uint8_t)call->datatype,
  };
  if (traits->reduces)
    member->reduction =
        call->reduction < ncclNumOps ? (uint16_t)call->reduction : (uint16_t)REDUCTION_PREMULSUM;
  return true;
}

static __attribute__((noinline)) ncclResult_t issue_other(const struct call *call) {
  const struct call c = *call;
  switch (c.kind) {
#define ISSUE(with, KIND, NAME, ROOT, REDUCTION, ...)                                              \
  case MEMBER_##KIND:                                                                              \
    return real.NAME COLLECTIVE_FORM(ROOT, REDUCTION, c.send, c.receive, c.count, c.datatype,      \
                                     (ncclRedOp_t)c.reduction, c.root, c.handle, c.stream);
    NCCL_COLLECTIVES(ISSUE, )
#undef ISSUE
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
