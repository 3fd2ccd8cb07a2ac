/* Datatype tables and the small floating point formats. One encoder and one decoder serve all four
 * formats; a format is its parameters. */
#include "datatype.h"

#include <math.h>
#include <string.h>

static const struct {
  const char *name;
  size_t size;
  bool floating;
} datatypes[ncclNumTypes] = {
    [ncclInt8] = {"int8", 1, false},
    [ncclUint8] = {"uint8", 1, false},
    [ncclInt32] = {"int32", 4, false},
    [ncclUint32] = {"uint32", 4, false},
    [ncclInt64] = {"int64", 8, false},
    [ncclUint64] = {"uint64", 8, false},
    [ncclFloat16] = {"float16", 2, true},
    [ncclFloat32] = {"float32", 4, true},
    [ncclFloat64] = {"float64", 8, true},
    [ncclBfloat16] = {"bfloat16", 2, true},
    [ncclFloat8e4m3] = {"float8e4m3", 1, true},
    [ncclFloat8e5m2] = {"float8e5m2", 1, true},
};

bool datatype_is_valid(ncclDataType_t datatype) {
  return (int)datatype >= 0 && (int)datatype < ncclNumTypes;
}

size_t datatype_size(ncclDataType_t datatype) {
  return datatype_is_valid(datatype) ? datatypes[datatype].size : 0;
}

const char *datatype_name(ncclDataType_t datatype) {
  return datatype_is_valid(datatype) ? datatypes[datatype].name : "unknown";
}

bool datatype_is_float(ncclDataType_t datatype) {
  return datatype_is_valid(datatype) && datatypes[datatype].floating;
}

/* A binary floating point format of at most 16 bits. */
struct format {
  int mantissa_bits;
  int bias;
  uint32_t sign;     /* the sign bit */
  uint32_t largest;  /* code of the largest finite value */
  uint32_t overflow; /* code of what lies beyond it: infinity, or the largest */
  uint32_t nan;
  bool has_infinity; /* all exponent bits set means infinity or NaN, as in IEEE 754 */
};

static const struct format float16 = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7fff, true};
static const struct format bfloat16 = {7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7fff, true};
static const struct format float8e4m3 = {3, 7, 0x80, 0x7e, 0x7e, 0x7f, false};
static const struct format float8e5m2 = {2, 15, 0x80, 0x7b, 0x7b, 0x7e, true};

#define FLOAT32_MANTISSA_BITS 23
#define FLOAT32_BIAS 127

static inline uint32_t format_encode(const struct format *format, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint32_t sign = bits >> 31 ? format->sign : 0;
  uint32_t exponent_field = bits >> FLOAT32_MANTISSA_BITS & 0xff;
  uint32_t significand = bits & ((1u << FLOAT32_MANTISSA_BITS) - 1);
  if (exponent_field == 0xff)
    return significand != 0 ? format->nan : sign | format->overflow;

  int exponent = exponent_field == 0 ? 1 - FLOAT32_BIAS : (int)exponent_field - FLOAT32_BIAS;
  if (exponent_field != 0)
    significand |= 1u << FLOAT32_MANTISSA_BITS;

  int smallest_exponent = 1 - format->bias;
  int shift = FLOAT32_MANTISSA_BITS - format->mantissa_bits;
  uint32_t field = 1;
  if (exponent < smallest_exponent)
    shift += smallest_exponent - exponent;
  else
    field = (uint32_t)(exponent - smallest_exponent) + 1;
  if (shift > FLOAT32_MANTISSA_BITS + 2)
    return sign; /* less than half of the smallest value */

  uint32_t kept = significand >> shift;
  uint32_t rest = significand & ((1u << shift) - 1);
  uint32_t half = 1u << (shift - 1);
  kept += rest > half || (rest == half && (kept & 1));
  /* The implicit bit of kept is worth one exponent step, so a carry out of the mantissa needs no
   * special case. */
  uint32_t code = ((field - 1) << format->mantissa_bits) + kept;
  return sign | (code > format->largest ? format->overflow : code);
}

static inline float format_decode(const struct format *format, uint32_t code) {
  float sign = code & format->sign ? -1.0f : 1.0f;
  uint32_t magnitude = code & (format->sign - 1);
  uint32_t mantissa = magnitude & ((1u << format->mantissa_bits) - 1);
  int field = (int)(magnitude >> format->mantissa_bits);
  if (magnitude > format->largest)
    return format->has_infinity && mantissa == 0 ? sign * INFINITY : NAN;
  if (field == 0)
    return sign * ldexpf((float)mantissa, 1 - format->bias - format->mantissa_bits);
  uint32_t bits = (uint32_t)(field - format->bias + FLOAT32_BIAS) << FLOAT32_MANTISSA_BITS |
                  mantissa << (FLOAT32_MANTISSA_BITS - format->mantissa_bits);
  float value;
  memcpy(&value, &bits, sizeof value);
  return sign * value;
}

float float16_decode(uint16_t bits) {
  return format_decode(&float16, bits);
}

uint16_t float16_encode(float value) {
  return (uint16_t)format_encode(&float16, value);
}

float bfloat16_decode(uint16_t bits) {
  return format_decode(&bfloat16, bits);
}

uint16_t bfloat16_encode(float value) {
  return (uint16_t)format_encode(&bfloat16, value);
}

float float8e4m3_decode(uint8_t bits) {
  return format_decode(&float8e4m3, bits);
}

uint8_t float8e4m3_encode(float value) {
  return (uint8_t)format_encode(&float8e4m3, value);
}

float float8e5m2_decode(uint8_t bits) {
  return format_decode(&float8e5m2, bits);
}

uint8_t float8e5m2_encode(float value) {
  return (uint8_t)format_encode(&float8e5m2, value);
}
