/* What is done to data on its way: a reduction with its argument, as a work item of NCCL has it. */
#ifndef TESTS_NCCL_REDUCER_H
#define TESTS_NCCL_REDUCER_H

#include "tools/loopback/nccl/reduce.h"
#include "tests/nccl/function.h"

#include <stdbool.h>
#include <stddef.h>

struct reducer {
  ncclDataType_t datatype;
  size_t element; /* bytes */
  enum reduction reduction;
  bool premultiplied; /* what comes from the program's buffer is multiplied by factor first */
  union scalar factor;
  uint64_t divisor; /* of the end result; 0: none */
  bool divides_signed;
};

/* argument: as NCCL's host side has coded it. For min and max of integers a mask: they are compared
 * after an exclusive or with it. For SumPostDiv the divisor shifted by one, and a sign bit. */
struct reducer reducer_make(enum device_reduction reduction, ncclDataType_t datatype,
                            uint64_t argument);

/* outputs[...] = inputs[0] op inputs[1] ..., count elements. own: inputs[0] is from the program's
 * buffer; last: it is the end result. An output may be an input. */
void reducer_apply(const struct reducer *reducer, const char *const *inputs, int ninputs, bool own,
                   char *const *outputs, int noutputs, size_t count, bool last);

#endif
