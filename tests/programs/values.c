/* Datatypes in one table; floating-point formats that C lacks are described by the bits of their
 * parts. */
#include "tests/programs/values.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum form { FORM_SIGNED, FORM_UNSIGNED, FORM_FLOAT };

static const struct datatype {
  const char *name;
  size_t size;
  enum form form;
  int exponent_bits, mantissa_bits; /* FORM_FLOAT */
} datatypes[] = {
    [ncclInt8] = {"int8", 1, FORM_SIGNED, 0, 0},
    [ncclUint8] = {"uint8", 1, FORM_UNSIGNED, 0, 0},
    [ncclInt32] = {"int32", 4, FORM_SIGNED, 0, 0},
    [ncclUint32] = {"uint32", 4, FORM_UNSIGNED, 0, 0},
    [ncclInt64] = {"int64", 8, FORM_SIGNED, 0, 0},
    [ncclUint64] = {"uint64", 8, FORM_UNSIGNED, 0, 0},
    [ncclFloat16] = {"float16", 2, FORM_FLOAT, 5, 10},
    [ncclFloat32] = {"float32", 4, FORM_FLOAT, 8, 23},
    [ncclFloat64] = {"float64", 8, FORM_FLOAT, 11, 52},
    [ncclBfloat16] = {"bfloat16", 2, FORM_FLOAT, 8, 7},
#if VALUES_DATATYPES >= 12
    [ncclFloat8e4m3] = {"float8e4m3", 1, FORM_FLOAT, 4, 3},
    [ncclFloat8e5m2] = {"float8e5m2", 1, FORM_FLOAT, 5, 2},
#endif
};

const char *datatype_name(ncclDataType_t datatype) {
  return datatypes[datatype].name;
}

size_t datatype_size(ncclDataType_t datatype) {
  return datatypes[datatype].size;
}

bool datatype_is_signed(ncclDataType_t datatype) {
  return datatypes[datatype].form != FORM_UNSIGNED;
}

bool datatype_is_integer(ncclDataType_t datatype) {
  return datatypes[datatype].form != FORM_FLOAT;
}

/* A normal number or zero as sign, exponent and mantissa. */
static uint64_t float_bits(const struct datatype *type, double value) {
  uint64_t sign = signbit(value) ? UINT64_C(1) << (type->exponent_bits + type->mantissa_bits) : 0;
  if (value == 0)
    return sign;
  int exponent;
  double mantissa = frexp(fabs(value), &exponent) * 2 - 1; /* 0 to 1, below the leading bit */
  int bias = (1 << (type->exponent_bits - 1)) - 1;
  return sign | (uint64_t)(exponent - 1 + bias) << type->mantissa_bits |
         (uint64_t)ldexp(mantissa, type->mantissa_bits);
}

static double float_value(const struct datatype *type, uint64_t bits) {
  uint64_t mantissa = bits & ((UINT64_C(1) << type->mantissa_bits) - 1);
  int exponent = (int)(bits >> type->mantissa_bits) & ((1 << type->exponent_bits) - 1);
  int bias = (1 << (type->exponent_bits - 1)) - 1;
  double sign = bits >> (type->exponent_bits + type->mantissa_bits) & 1 ? -1 : 1;
  /* float8e4m3 has no infinity and uses the last exponent for numbers too. */
  bool last = exponent == (1 << type->exponent_bits) - 1;
  if (last && (type->exponent_bits != 4 || mantissa == 7))
    return mantissa == 0 ? sign * (double)INFINITY : (double)NAN;
  if (exponent == 0)
    return sign * ldexp((double)mantissa, 1 - bias - type->mantissa_bits);
  return sign * ldexp((double)(mantissa | UINT64_C(1) << type->mantissa_bits),
                      exponent - bias - type->mantissa_bits);
}

void value_store(ncclDataType_t datatype, void *buffer, size_t index, double value) {
  const struct datatype *type = &datatypes[datatype];
  if (datatype == ncclFloat64) {
    memcpy((char *)buffer + index * sizeof value, &value, sizeof value);
    return;
  }
  float single = (float)value;
  if (datatype == ncclFloat32 && (double)single == value) { /* as below, in a part of the time */
    memcpy((char *)buffer + index * sizeof single, &single, sizeof single);
    return;
  }
  uint64_t bits = type->form == FORM_FLOAT ? float_bits(type, value) : (uint64_t)(int64_t)value;
  memcpy((char *)buffer + index * type->size, &bits,
         type->size); /* little-endian, as NCCL's hosts are */
}

double value_load(ncclDataType_t datatype, const void *buffer, size_t index) {
  const struct datatype *type = &datatypes[datatype];
  if (datatype == ncclFloat64) {
    double number;
    memcpy(&number, (const char *)buffer + index * sizeof number, sizeof number);
    return number;
  }
  if (datatype == ncclFloat32) {
    float single;
    memcpy(&single, (const char *)buffer + index * sizeof single, sizeof single);
    return (double)single;
  }
  uint64_t bits = 0;
  memcpy(&bits, (const char *)buffer + index * type->size, type->size);
  if (type->form == FORM_FLOAT)
    return float_value(type, bits);
  if (type->form == FORM_UNSIGNED)
    return (double)bits;
  int unused = 64 - 8 * (int)type->size;
  return (double)((int64_t)(bits << unused) >> unused);
}
