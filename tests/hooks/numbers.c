/* Small integers in every datatype (numbers.h). */
#include "tests/hooks/numbers.h"

#include <stdlib.h>
#include <string.h>

const struct numbers_format numbers_formats[DATATYPES] = {
    {1, 0, 0, true},   {1, 0, 0, false}, {4, 0, 0, true},  {4, 0, 0, false},
    {8, 0, 0, true},   {8, 0, 0, false}, {2, 5, 10, true}, {4, 8, 23, true},
    {8, 11, 52, true}, {2, 8, 7, true},  {1, 4, 3, true},  {1, 5, 2, true},
};

uint64_t numbers_encode(int datatype, int number) {
  unsigned width = numbers_formats[datatype].size * 8u;
  uint64_t mask = ~UINT64_C(0) >> (64 - width);
  if (numbers_formats[datatype].exponent_bits == 0)
    return (uint64_t)number & mask;
  if (number == 0)
    return 0;
  unsigned magnitude = (unsigned)abs(number);
  int log = 31 - __builtin_clz(magnitude);
  int mantissa_bits = numbers_formats[datatype].mantissa_bits;
  uint64_t bias = (UINT64_C(1) << (numbers_formats[datatype].exponent_bits - 1)) - 1;
  uint64_t fraction = magnitude ^ 1u << log;
  fraction =
      log <= mantissa_bits ? fraction << (mantissa_bits - log) : fraction >> (log - mantissa_bits);
  uint64_t sign = number < 0 ? UINT64_C(1) << (width - 1) : 0;
  return sign | (bias + (uint64_t)log) << mantissa_bits | fraction;
}

int numbers_at(int datatype, size_t i) {
  static const int numbers[] = {2, 12, 4, 8, 6};
  int number = numbers[i % 5];
  return numbers_formats[datatype].is_signed && i % 3 == 0 ? -number : number;
}

void numbers_store(void *to, int datatype, size_t i, int number) {
  uint64_t bits = numbers_encode(datatype, number);
  memcpy((char *)to + i * numbers_formats[datatype].size, &bits, numbers_formats[datatype].size);
}
