/* The scalars of the program's PreMulSum operators, which NCCL does not give back: to make others
 * of them (divisors.h). Kept only where NCCL_JOIN_DIVISOR asks for it. Any thread.
 */
#ifndef NCCL_JOIN_INTERPOSE_OPERATORS_H
#define NCCL_JOIN_INTERPOSE_OPERATORS_H

#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

/* An operator has been made. residence: where the scalar is; one in device memory is only known to
 * be there. */
void operators_add(ncclComm_t comm, ncclRedOp_t number, const void *scalar, ncclDataType_t datatype,
                   ncclScalarResidence_t residence);

/* It is gone. Its number may be used again. */
void operators_remove(ncclComm_t comm, ncclRedOp_t number);

/* All of a communicator are gone. */
void operators_forget(ncclComm_t comm);

/* The scalar, as bits in the low bytes; false if the host does not know it. */
bool operators_scalar(ncclComm_t comm, ncclRedOp_t number, uint64_t *bits);

#endif
