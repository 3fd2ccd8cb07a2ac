/* The small floating point formats against their definition, at every value and every point where
 * rounding changes. */
#include "tools/loopback/nccl/datatype.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* A format by its definition, not by the code under test. */
struct format {
  const char *name;
  int exponent_bits, mantissa_bits;
  bool ieee; /* the largest exponent means infinity or NaN; otherwise only its largest mantissa, NaN
              */
  bool saturates;
};

static const struct format formats[] = {
    {"float16", 5, 10, true, false},
    {"bfloat16", 8, 7, true, false},
    {"float8e4m3", 4, 3, false, true},
    {"float8e5m2", 5, 2, true, true},
};

static float decode(int format, uint32_t code) {
  switch (format) {
  case 0:
    return float16_decode((uint16_t)code);
  case 1:
    return bfloat16_decode((uint16_t)code);
  case 2:
    return float8e4m3_decode((uint8_t)code);
  default:
    return float8e5m2_decode((uint8_t)code);
  }
}

static uint32_t encode(int format, float value) {
  switch (format) {
  case 0:
    return float16_encode(value);
  case 1:
    return bfloat16_encode(value);
  case 2:
    return float8e4m3_encode(value);
  default:
    return float8e5m2_encode(value);
  }
}

static uint32_t sign_bit(const struct format *format) {
  return 1u << (format->exponent_bits + format->mantissa_bits);
}

/* The definition: sign, exponent, mantissa. */
static double defined_value(const struct format *format, uint32_t code) {
  double sign = code & sign_bit(format) ? -1 : 1;
  uint32_t magnitude = code & (sign_bit(format) - 1);
  int exponent = (int)(magnitude >> format->mantissa_bits);
  int mantissa = (int)(magnitude & ((1u << format->mantissa_bits) - 1));
  int bias = (1 << (format->exponent_bits - 1)) - 1;
  int largest_exponent = (1 << format->exponent_bits) - 1;
  if (exponent == largest_exponent && format->ieee)
    return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == largest_exponent && mantissa == (1 << format->mantissa_bits) - 1)
    return NAN;
  if (exponent == 0)
    return sign * ldexp(mantissa, 1 - bias - format->mantissa_bits);
  return sign *
         ldexp((1 << format->mantissa_bits) + mantissa, exponent - bias - format->mantissa_bits);
}

static uint32_t largest_code(const struct format *format) {
  uint32_t code = sign_bit(format) - 1;
  while (!isfinite(defined_value(format, code)))
    code--;
  return code;
}

/* Nearest value, ties to the even code, by search. */
static uint32_t defined_code(const struct format *format, float value) {
  uint32_t largest = largest_code(format);
  uint32_t sign = signbit(value) ? sign_bit(format) : 0;
  double magnitude = fabs((double)value);
  double most = defined_value(format, largest);
  double step = most - defined_value(format, largest - 1);
  if (magnitude >= most + step / 2)
    return sign | (format->saturates ? largest : largest + 1);
  if (magnitude > most)
    return sign | largest;
  uint32_t low = 0, high = largest;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (defined_value(format, middle) <= magnitude)
      low = middle;
    else
      high = middle;
  }
  double below = magnitude - defined_value(format, low),
         above = defined_value(format, high) - magnitude;
  if (below == above)
    return sign | (low % 2 == 0 ? low : high);
  return sign | (below < above ? low : high);
}

static void check_code(int format, float value) {
  uint32_t wanted = defined_code(&formats[format], value), got = encode(format, value);
  cr_assert_eq(got, wanted, "%s: %a became %x, wanted %x", formats[format].name, value, got,
               wanted);
}

Test(nccl_datatype, every_code_decodes_to_its_definition) {
  for (int format = 0; format < 4; format++)
    for (uint32_t code = 0; code < 2 * sign_bit(&formats[format]); code++) {
      double wanted = defined_value(&formats[format], code);
      float got = decode(format, code);
      if (isnan(wanted))
        cr_assert(isnan(got), "%s %x", formats[format].name, code);
      else
        cr_assert(got == wanted && !signbit(got) == !signbit(wanted), "%s %x: %a, wanted %a",
                  formats[format].name, code, got, wanted);
    }
}

/* Rounding is a step function: it is right everywhere if it is right on both sides of every step.
 */
Test(nccl_datatype, every_rounding_decision_is_to_nearest_even) {
  for (int format = 0; format < 4; format++)
    for (uint32_t code = 0; code < largest_code(&formats[format]); code++) {
      float value = (float)defined_value(&formats[format], code);
      float next = (float)defined_value(&formats[format], code + 1);
      float middle = (float)(((double)value + next) / 2);
      const float points[] = {value,  nextafterf(value, INFINITY),  nextafterf(middle, 0),
                              middle, nextafterf(middle, INFINITY), nextafterf(next, 0)};
      for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        check_code(format, points[i]);
        check_code(format, -points[i]);
      }
    }
}

Test(nccl_datatype, random_floats_round_as_defined) {
  srandom(1);
  for (int format = 0; format < 4; format++)
    for (int i = 0; i < 300000; i++) {
      uint32_t bits = (uint32_t)random() << 16 ^ (uint32_t)random();
      float value;
      __builtin_memcpy(&value, &bits, sizeof value);
      if (isfinite(value))
        check_code(format, value);
    }
}

Test(nccl_datatype, what_is_too_large_overflows_or_saturates) {
  const uint32_t wanted[4] = {0x7c00, 0x7f80, 0x7e, 0x7b};
  const uint32_t nan[4] = {0x7fff, 0x7fff, 0x7f, 0x7e};
  for (int format = 0; format < 4; format++) {
    cr_assert_eq(encode(format, INFINITY), wanted[format]);
    cr_assert_eq(encode(format, -INFINITY), sign_bit(&formats[format]) | wanted[format]);
    cr_assert_eq(encode(format, NAN), nan[format]);
    check_code(format, FLT_MAX);
    check_code(format, FLT_MIN);
    check_code(format, FLT_TRUE_MIN);
    check_code(format, 0.0f);
    check_code(format, -0.0f);
  }
}

Test(nccl_datatype, sizes_are_nccls) {
  const size_t sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  for (int type = 0; type < ncclNumTypes; type++)
    cr_assert_eq(datatype_size((ncclDataType_t)type), sizes[type]);
  cr_assert_eq(datatype_size(ncclNumTypes), 0);
  cr_assert_eq(datatype_size((ncclDataType_t)-1), 0);
}
