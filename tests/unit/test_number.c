/* Numbers in NCCL's formats: every code there and back, and rounding to the nearest, checked
 * against the compiler's own conversions where it has the format, and against the neighbours where
 * not. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hooks/contribution.h"
#include "hooks/number.h"

#ifdef __FLT16_MAX__
__extension__ typedef _Float16 half;
#endif

static const uint8_t small[] = {DATATYPE_FLOAT16, DATATYPE_BFLOAT16, DATATYPE_FLOAT8E4M3,
                                DATATYPE_FLOAT8E5M2};

static unsigned codes(uint8_t datatype) {
  return 1u << (8 * contribution_one(datatype).size);
}

Test(number, one_is_what_a_shadow_multiplies_with) {
  for (int format = 0; format < DATATYPES; format++) {
    uint8_t datatype = (uint8_t)format;
    if (!number_is_float(datatype))
      continue;
    cr_expect_eq(number_bits(datatype, 1), contribution_one(datatype).bits, "%d", format);
    cr_expect_eq(number_value(datatype, contribution_one(datatype).bits), 1);
  }
}

Test(number, integers_are_not_floats) {
  cr_expect_not(number_is_float(DATATYPE_INT8));
  cr_expect_not(number_is_float(DATATYPE_UINT64));
  cr_expect_not(number_is_float(DATATYPES));
}

Test(number, every_code_comes_back) {
  for (unsigned f = 0; f < sizeof small; f++)
    for (unsigned bits = 0; bits < codes(small[f]); bits++) {
      double value = number_value(small[f], bits);
      if (!isnan(value))
        cr_assert_eq(number_bits(small[f], value), bits, "format %d, code %#x, %g", small[f], bits,
                     value);
    }
}

/* Between two neighbours: a little less or more than the middle goes to the nearer one, the middle
 * to the even one. */
Test(number, rounds_to_the_nearest_and_to_even) {
  for (unsigned f = 0; f < sizeof small; f++)
    for (unsigned bits = 0; bits + 1 < codes(small[f]) / 2; bits++) {
      double low = number_value(small[f], bits), high = number_value(small[f], bits + 1);
      if (!isfinite(low) || !isfinite(high))
        continue;
      double middle = low + (high - low) / 2, little = (high - low) / 64;
      cr_assert_eq(number_bits(small[f], middle), bits + bits % 2, "format %d, code %#x", small[f],
                   bits);
      cr_assert_eq(number_bits(small[f], middle - little), bits);
      cr_assert_eq(number_bits(small[f], middle + little), bits + 1);
      cr_assert_eq(number_value(small[f], number_bits(small[f], -middle)),
                   -number_value(small[f], bits + bits % 2));
    }
}

Test(number, what_is_too_large_is_infinity_or_the_largest) {
  cr_expect_eq(number_value(DATATYPE_FLOAT16, number_bits(DATATYPE_FLOAT16, 1e6)), INFINITY);
  cr_expect_eq(number_value(DATATYPE_BFLOAT16, number_bits(DATATYPE_BFLOAT16, -1e300)), -INFINITY);
  cr_expect_eq(number_value(DATATYPE_FLOAT32, number_bits(DATATYPE_FLOAT32, 1e300)), INFINITY);
  cr_expect_eq(number_value(DATATYPE_FLOAT8E4M3, number_bits(DATATYPE_FLOAT8E4M3, 1e6)), 448);
  cr_expect_eq(number_value(DATATYPE_FLOAT8E4M3, number_bits(DATATYPE_FLOAT8E4M3, INFINITY)), 448);
}

Test(number, not_a_number_stays_so) {
  for (unsigned f = 0; f < sizeof small; f++)
    cr_expect(isnan(number_value(small[f], number_bits(small[f], NAN))));
  cr_expect(isnan(number_value(DATATYPE_FLOAT64, number_bits(DATATYPE_FLOAT64, NAN))));
}

/* What ncclAvg over n ranks multiplies with: 1.0 / n, to float, to the format. */
Test(number, shares_are_those_of_the_compiler) {
  for (int n = 1; n <= 4096; n++) {
    float single = (float)(1.0 / n);
    double whole = 1.0 / n;
    uint32_t single_bits;
    uint64_t whole_bits;
    memcpy(&single_bits, &single, sizeof single);
    memcpy(&whole_bits, &whole, sizeof whole);
    cr_assert_eq(number_bits(DATATYPE_FLOAT32, 1.0 / n), single_bits, "1/%d", n);
    cr_assert_eq(number_bits(DATATYPE_FLOAT64, 1.0 / n), whole_bits, "1/%d", n);
    cr_assert_eq(number_value(DATATYPE_FLOAT64, whole_bits), whole);
#ifdef __FLT16_MAX__
    half share = (half)single;
    uint16_t half_bits;
    memcpy(&half_bits, &share, sizeof share);
    cr_assert_eq(number_bits(DATATYPE_FLOAT16, 1.0 / n), half_bits, "1/%d", n);
#endif
  }
}
