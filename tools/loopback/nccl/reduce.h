/* Reductions of NCCL, on host memory.
 *
 * How they are computed, so that results repeat bit for bit and a test can say what they must be:
 *   - contributions are combined in rank order, 0 first;
 *   - integers wrap around, in the width of their type; float32 and float64 in their own type;
 *     float16, bfloat16 and the 8-bit formats in float32, rounded to the type once, at the end
 *     (NCCL rounds after every addition, in an order that depends on its algorithm);
 *   - PreMulSum multiplies each contribution in its type (16- and 8-bit formats: in float32,
 *     rounded to the type), as NCCL does, before it leaves its rank;
 *   - ncclAvg is PreMulSum by 1/n, itself rounded to the type, for floats; for integers the wrapped
 *     sum divided by n, towards zero (enqueue.cc, hostToDevRedOp);
 *   - max and min of floats ignore NaN where there is a number, and -0 is less than +0.
 */
#ifndef LOOPBACK_NCCL_REDUCE_H
#define LOOPBACK_NCCL_REDUCE_H

#include <nccl.h>
#include <stdint.h>

/* What a reduction handle stands for. Part of a unit's descriptor; the scalar of PREMULSUM is not.
 */
enum reduction {
  REDUCTION_NONE, /* kinds that do not reduce */
  REDUCTION_SUM,
  REDUCTION_PROD,
  REDUCTION_MAX,
  REDUCTION_MIN,
  REDUCTION_AVG,
  REDUCTION_PREMULSUM,
};

/* One element of any datatype, in its first bytes. */
union scalar {
  uint64_t bits;
  unsigned char bytes[8];
};

const char *reduction_name(enum reduction reduction);

/* ncclSum to ncclAvg. */
enum reduction reduction_of_builtin(ncclRedOp_t operation);

/* The factor of ncclAvg over nranks for a float datatype. */
union scalar reduction_average_factor(ncclDataType_t datatype, int nranks);

/* output[i] = input[i] * factor. output may be input. */
void reduction_premultiply(ncclDataType_t datatype, const void *input, union scalar factor,
                           void *output, size_t count);

/* output[i] = inputs[0][i] op inputs[1][i] ... ; REDUCTION_AVG divides an integer sum by ninputs,
 * and is the same as REDUCTION_SUM for floats (their contributions come premultiplied). output
 * overlaps no input. */
void reduction_combine(enum reduction reduction, ncclDataType_t datatype, const void *const *inputs,
                       int ninputs, void *output, size_t count);

#endif
