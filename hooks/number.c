/* Floating point formats as one table, and the two conversions (number.h). */
#include "hooks/number.h"

#include <assert.h>
#include <math.h>

#include "hooks/contribution.h"

/* A sign bit, an exponent, a fraction. IEEE 754 formats keep the highest exponent for infinity (a
 * fraction of 0) and NaN; E4M3 has numbers there too, all but the one with a fraction of ones. */
struct format {
  uint8_t exponent, fraction; /* bits; 0: not a format of floating point */
  bool has_infinity;
};
static const struct format formats[DATATYPES] = {
    [DATATYPE_FLOAT16] = {5, 10, true},    [DATATYPE_FLOAT32] = {8, 23, true},
    [DATATYPE_FLOAT64] = {11, 52, true},   [DATATYPE_BFLOAT16] = {8, 7, true},
    [DATATYPE_FLOAT8E4M3] = {4, 3, false}, [DATATYPE_FLOAT8E5M2] = {5, 2, true},
};

bool number_is_float(uint8_t datatype) {
  return datatype < DATATYPES && formats[datatype].exponent != 0;
}

static uint64_t number_ones(unsigned bits) {
  return (UINT64_C(1) << bits) - 1;
}

static int number_bias(const struct format *format) {
  return (int)number_ones(format->exponent - 1u);
}

/* All of the exponent and the fraction. */
static uint64_t not_a_number(const struct format *format) {
  return number_ones(format->exponent + format->fraction + 0u);
}

static uint64_t number_largest(const struct format *format) {
  uint64_t infinity = number_ones(format->exponent) << format->fraction;
  return format->has_infinity ? infinity : not_a_number(format) - 1;
}

/* A finite number that is not negative, to the nearest. The codes of such numbers are in their
 * order, so a fraction that rounds up to the next exponent is right by itself. */
static uint64_t magnitude_bits(const struct format *format, double magnitude) {
  int exponent, least = 1 - number_bias(format);
  bool is_zero = frexp(magnitude, &exponent) == 0;
  exponent = is_zero || exponent - 1 < least ? least : exponent - 1;
  double units = ldexp(magnitude, format->fraction - exponent);
  uint64_t whole = (uint64_t)units;
  double rest = units - (double)whole;
  whole += rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
  uint64_t bits = whole + ((uint64_t)(exponent - least) << format->fraction);
  return bits < number_largest(format) ? bits : number_largest(format);
}

uint64_t number_bits(uint8_t datatype, double value) {
  assert(number_is_float(datatype));
  const struct format *format = &formats[datatype];
  uint64_t sign = (uint64_t)(signbit(value) != 0) << (format->exponent + format->fraction);
  if (datatype != DATATYPE_FLOAT64)
    value = (double)(float)value;
  if (isnan(value))
    return sign | not_a_number(format);
  if (isinf(value))
    return sign | number_largest(format);
  return sign | magnitude_bits(format, fabs(value));
}

double number_value(uint8_t datatype, uint64_t bits) {
  assert(number_is_float(datatype));
  const struct format *format = &formats[datatype];
  uint64_t fraction = bits & number_ones(format->fraction);
  uint64_t exponent = bits >> format->fraction & number_ones(format->exponent);
  double sign = bits >> (format->exponent + format->fraction) & 1 ? -1 : 1;
  bool highest = exponent == number_ones(format->exponent);
  if (highest && format->has_infinity)
    return fraction == 0 ? sign * INFINITY : NAN;
  if (highest && fraction == number_ones(format->fraction))
    return NAN;
  if (exponent != 0)
    fraction += UINT64_C(1) << format->fraction;
  int power = (exponent == 0 ? 1 : (int)exponent) - number_bias(format) - format->fraction;
  return sign * ldexp((double)fraction, power);
}
