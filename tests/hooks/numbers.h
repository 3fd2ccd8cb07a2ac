/* Numbers that every datatype has: small integers, as their bits. */
#ifndef TESTS_HOOKS_NUMBERS_H
#define TESTS_HOOKS_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/unit/unit.h"

struct numbers_format {
  uint8_t size, exponent_bits, mantissa_bits; /* no exponent: an integer */
  bool is_signed;
};
extern const struct numbers_format numbers_formats[DATATYPES];

/* The bits of a number of a datatype. */
uint64_t numbers_encode(int datatype, int number);

/* Element i of what the active rank sends: even, both signs where the datatype has them; a power of
 * two times 1 or 1.5. */
int numbers_at(int datatype, size_t i);

/* Writes the number into element i. */
void numbers_store(void *to, int datatype, size_t i, int number);

#endif
