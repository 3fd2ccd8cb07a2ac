/* A collective that no NCCL has (nccl.c), and nccl-join only where it is built with row.inc. */
#ifndef TESTS_ADDED_TOTAL_H
#define TESTS_ADDED_TOTAL_H

#include <nccl.h>

/* As ncclReduce. */
ncclResult_t ncclTotal(const void *send, void *receive, size_t count, ncclDataType_t datatype,
                       ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);

#endif
