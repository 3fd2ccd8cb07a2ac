/* Collectives with a configuration for the one call, NCCL 2.31: ncclAllReduceConfig and its like.
 *
 * Without one they are the plain collectives, as nccl.h says. One must be the same on all ranks,
 * and a joined rank does not have that of its peers' call: what it issued without it could run
 * another algorithm than theirs. So the communicator cannot be shadowed from the first one on.
 */
#include "interpose/calls/handlers.h"
#include "interpose/nccl/real.h"

#define CONFIGURED(name, parameters, plain, configured)                                            \
  ncclResult_t join_##name##Config parameters {                                                    \
    if (config == NULL && real_has(REAL_##name##Config))                                           \
      return join_##name plain;                                                                    \
    join_unfit(comm, "nccl" #name "Config");                                                       \
    return real.name##Config configured;                                                           \
  }

CONFIGURED(AllReduce,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, count, datatype, op, comm, stream),
           (sendbuff, recvbuff, count, datatype, op, comm, stream, config))

CONFIGURED(Broadcast,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, count, datatype, root, comm, stream),
           (sendbuff, recvbuff, count, datatype, root, comm, stream, config))

CONFIGURED(Reduce,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t *config),
           (sendbuff, recvbuff, count, datatype, op, root, comm, stream),
           (sendbuff, recvbuff, count, datatype, op, root, comm, stream, config))

CONFIGURED(AllGather,
           (const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, sendcount, datatype, comm, stream),
           (sendbuff, recvbuff, sendcount, datatype, comm, stream, config))

CONFIGURED(ReduceScatter,
           (const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, recvcount, datatype, op, comm, stream),
           (sendbuff, recvbuff, recvcount, datatype, op, comm, stream, config))

CONFIGURED(AlltoAll,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, count, datatype, comm, stream),
           (sendbuff, recvbuff, count, datatype, comm, stream, config))

CONFIGURED(Gather,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, count, datatype, root, comm, stream),
           (sendbuff, recvbuff, count, datatype, root, comm, stream, config))

CONFIGURED(Scatter,
           (const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t *config),
           (sendbuff, recvbuff, count, datatype, root, comm, stream),
           (sendbuff, recvbuff, count, datatype, root, comm, stream, config))
