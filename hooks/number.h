/* Single numbers in NCCL's floating point datatypes: for the scalars of operators. Pure.
 */
#ifndef NCCL_JOIN_HOOKS_NUMBER_H
#define NCCL_JOIN_HOOKS_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the datatype (enum datatype, unit.h) is one of floating point. */
bool number_is_float(uint8_t datatype);

/* The number nearest to `value`, to even where two are, as bits in the low bytes. Formats of 16 and
 * 8 bits are rounded from float32, as NCCL's scalars are (enqueue.cc, hostToDevRedOp), so that 1/n
 * is what ncclAvg multiplies with over n ranks. What is too large becomes infinity, or the largest
 * number where the format has no infinity. datatype: one of floating point. */
uint64_t number_bits(uint8_t datatype, double value);

/* The number that these bits are; exact. */
double number_value(uint8_t datatype, uint64_t bits);

#endif
