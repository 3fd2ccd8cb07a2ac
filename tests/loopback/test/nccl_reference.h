/* Reductions once more, the plain way: one element at a time, from the definition in reduce.h. For
 * comparison with the loopback NCCL's. */
#ifndef TEST_NCCL_REFERENCE_H
#define TEST_NCCL_REFERENCE_H

#include "tools/loopback/nccl/reduce.h"

#include <stddef.h>

/* A value of the datatype for element i of rank: any bits for integers, small numbers for floats.
 */
void reference_fill(ncclDataType_t datatype, void *memory, size_t count, int rank, unsigned seed);

/* One element of output from the same element of each input. factors[rank] is rank's for
 * REDUCTION_PREMULSUM. */
void reference_reduce(enum reduction reduction, ncclDataType_t datatype, const void *const *inputs,
                      int ninputs, const double *factors, void *output, size_t count);

/* factor as one element of the datatype. */
union scalar reference_scalar(ncclDataType_t datatype, double factor);

#endif
