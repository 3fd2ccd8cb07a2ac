/* The API: collectives, point to point, groups, reductions of one's own. */
#include "report.h"
#include "enqueue.h"
#include "group.h"

API_EXPORT ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                                       ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                       cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_ALLREDUCE,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = ROOT_NONE,
                                    .stream = stream},
                 (int)op);
}
API_ALIAS(AllReduce);

API_EXPORT ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                                       ncclDataType_t datatype, int root, ncclComm_t comm,
                                       cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_BROADCAST,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = root,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(Broadcast);

API_EXPORT ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root,
                                   ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buff, buff, count, datatype, root, comm, stream);
}
API_ALIAS(Bcast);

API_EXPORT ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count,
                                    ncclDataType_t datatype, ncclRedOp_t op, int root,
                                    ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_REDUCE,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = root,
                                    .stream = stream},
                 (int)op);
}
API_ALIAS(Reduce);

API_EXPORT ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                           cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_REDUCESCATTER,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = recvcount,
                                    .datatype = datatype,
                                    .root = ROOT_NONE,
                                    .stream = stream},
                 (int)op);
}
API_ALIAS(ReduceScatter);

API_EXPORT ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                                       ncclDataType_t datatype, ncclComm_t comm,
                                       cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_ALLGATHER,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = sendcount,
                                    .datatype = datatype,
                                    .root = ROOT_NONE,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(AllGather);

API_EXPORT ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count,
                                      ncclDataType_t datatype, ncclComm_t comm,
                                      cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_ALLTOALL,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = ROOT_NONE,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(AlltoAll);

API_EXPORT ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count,
                                    ncclDataType_t datatype, int root, ncclComm_t comm,
                                    cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_GATHER,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = root,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(Gather);

API_EXPORT ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count,
                                     ncclDataType_t datatype, int root, ncclComm_t comm,
                                     cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_SCATTER,
                                    .send = sendbuff,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = root,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(Scatter);

API_EXPORT ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype,
                                  int peer, ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_SEND,
                                    .send = sendbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = peer,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(Send);

API_EXPORT ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                                  ncclComm_t comm, cudaStream_t stream) {
  return enqueue(comm,
                 (struct operation){.kind = OPERATION_RECV,
                                    .recv = recvbuff,
                                    .count = count,
                                    .datatype = datatype,
                                    .root = peer,
                                    .stream = stream},
                 ENQUEUE_NO_REDUCTION);
}
API_ALIAS(Recv);

/* nccl.h declares these two without a parameter list. */
API_EXPORT ncclResult_t pncclGroupStart(void);
API_EXPORT ncclResult_t pncclGroupEnd(void);

ncclResult_t pncclGroupStart(void) {
  group_start();
  return ncclSuccess;
}
API_ALIAS(GroupStart);

ncclResult_t pncclGroupEnd(void) {
  return group_end(NULL);
}
API_ALIAS(GroupEnd);

API_EXPORT ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *simInfo) {
  return group_end(simInfo);
}
API_ALIAS(GroupSimulateEnd);

API_EXPORT ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                                  ncclDataType_t datatype,
                                                  ncclScalarResidence_t residence,
                                                  ncclComm_t comm) {
  ncclResult_t result = communicator_check(comm, "ncclRedOpCreatePreMulSum");
  if (result == ncclSuccess)
    result = communicator_ensure_ready(comm);
  return result == ncclSuccess ? user_reduction_create(comm, op, scalar, datatype, residence)
                               : result;
}
API_ALIAS(RedOpCreatePreMulSum);

API_EXPORT ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return user_reduction_destroy(comm, op);
}
API_ALIAS(RedOpDestroy);
