/* The plain reductions. Integers are computed in 64 bits and cut, small floats in float. */
#include "tests/loopback/test/nccl_reference.h"

#include "tests/loopback/test/nccl_fixture.h"
#include "tools/loopback/nccl/datatype.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* One element, widened. */
struct wide {
  uint64_t integer; /* sign-extended */
  float small;      /* all floats but float64 */
  double large;
};

static bool is_signed(ncclDataType_t datatype) {
  return datatype == ncclInt64 || datatype == ncclInt8 || datatype == ncclInt32;
}

static struct wide load(ncclDataType_t datatype, const void *element) {
  struct wide wide = {0, 0, 0};
  uint16_t code16;
  uint8_t code8;
  if (datatype == ncclFloat32) { /* first: most elements are of these two */
    memcpy(&wide.small, element, 4);
    return wide;
  }
  if (datatype == ncclInt64) {
    memcpy(&wide.integer, element, 8);
    return wide;
  }
  memcpy(&code8, element, 1);
  if (datatype_size(datatype) >= 2)
    memcpy(&code16, element, 2);
  else
    code16 = code8;
  if (!datatype_is_float(datatype)) {
    size_t size = datatype_size(datatype);
    memcpy(&wide.integer, element, size);
    int unused = 64 - 8 * (int)size;
    if (is_signed(datatype))
      wide.integer = (uint64_t)((int64_t)(wide.integer << unused) >> unused);
  } else if (datatype == ncclFloat64) {
    memcpy(&wide.large, element, 8);
  } else if (datatype == ncclFloat16) {
    wide.small = float16_decode(code16);
  } else if (datatype == ncclBfloat16) {
    wide.small = bfloat16_decode(code16);
  } else {
    wide.small = datatype == ncclFloat8e4m3 ? float8e4m3_decode(code8) : float8e5m2_decode(code8);
  }
  return wide;
}

static void store(ncclDataType_t datatype, struct wide wide, void *element) {
  uint16_t code16;
  uint8_t code8;
  if (datatype == ncclFloat32) {
    memcpy(element, &wide.small, 4);
  } else if (!datatype_is_float(datatype)) {
    memcpy(element, &wide.integer, datatype_size(datatype));
  } else if (datatype == ncclFloat64) {
    memcpy(element, &wide.large, 8);
  } else if (datatype == ncclFloat16 || datatype == ncclBfloat16) {
    code16 = datatype == ncclFloat16 ? float16_encode(wide.small) : bfloat16_encode(wide.small);
    memcpy(element, &code16, 2);
  } else {
    code8 =
        datatype == ncclFloat8e4m3 ? float8e4m3_encode(wide.small) : float8e5m2_encode(wide.small);
    memcpy(element, &code8, 1);
  }
}

union scalar reference_scalar(ncclDataType_t datatype, double factor) {
  union scalar scalar = {.bits = 0};
  store(datatype, (struct wide){(uint64_t)(int64_t)factor, (float)factor, factor}, scalar.bytes);
  return scalar;
}

static bool less(ncclDataType_t datatype, struct wide a, struct wide b) {
  if (datatype == ncclFloat64)
    return a.large < b.large;
  if (datatype_is_float(datatype))
    return a.small < b.small;
  return is_signed(datatype) ? (int64_t)a.integer < (int64_t)b.integer : a.integer < b.integer;
}

static struct wide combine(enum reduction reduction, ncclDataType_t datatype, struct wide a,
                           struct wide b) {
  switch (reduction) {
  case REDUCTION_PROD:
    return (struct wide){a.integer * b.integer, a.small * b.small, a.large * b.large};
  case REDUCTION_MAX:
    return less(datatype, a, b) ? b : a;
  case REDUCTION_MIN:
    return less(datatype, b, a) ? b : a;
  case REDUCTION_NONE:
  case REDUCTION_SUM:
  case REDUCTION_AVG:
  case REDUCTION_PREMULSUM:
    break;
  }
  return (struct wide){a.integer + b.integer, a.small + b.small, a.large + b.large};
}

/* value * factor, rounded to the datatype, as it leaves its rank. */
static struct wide premultiply(ncclDataType_t datatype, struct wide value, struct wide factor) {
  union scalar product = {.bits = 0};
  store(datatype,
        (struct wide){value.integer * factor.integer, value.small * factor.small,
                      value.large * factor.large},
        product.bytes);
  return load(datatype, product.bytes);
}

static struct wide divide(ncclDataType_t datatype, struct wide sum, int divisor) {
  union scalar cut = {.bits = 0};
  store(datatype, sum, cut.bytes); /* the sum wraps in its type before it is divided */
  sum = load(datatype, cut.bytes);
  sum.integer = is_signed(datatype) ? (uint64_t)((int64_t)sum.integer / divisor)
                                    : sum.integer / (uint64_t)divisor;
  return sum;
}

void reference_reduce(enum reduction reduction, ncclDataType_t datatype, const void *const *inputs,
                      int ninputs, const double *factors, void *output, size_t count) {
  size_t size = datatype_size(datatype);
  bool average_of_floats = reduction == REDUCTION_AVG && datatype_is_float(datatype);
  bool has_factors = average_of_floats || reduction == REDUCTION_PREMULSUM;
  struct wide factor[RANKS_MAX]; /* as the datatype has them */
  for (int rank = 0; rank < ninputs && has_factors; rank++) {
    union scalar scalar =
        reference_scalar(datatype, average_of_floats ? 1.0 / ninputs : factors[rank]);
    factor[rank] = load(datatype, scalar.bytes);
  }
  for (size_t i = 0; i < count; i++) {
    struct wide total = {0, 0, 0};
    for (int rank = 0; rank < ninputs; rank++) {
      struct wide value = load(datatype, (const char *)inputs[rank] + i * size);
      if (has_factors)
        value = premultiply(datatype, value, factor[rank]);
      total = rank == 0 ? value : combine(reduction, datatype, total, value);
    }
    if (reduction == REDUCTION_AVG && !average_of_floats)
      total = divide(datatype, total, ninputs);
    store(datatype, total, (char *)output + i * size);
  }
}

void reference_fill(ncclDataType_t datatype, void *memory, size_t count, int rank, unsigned seed) {
  size_t size = datatype_size(datatype);
  for (size_t i = 0; i < count; i++) {
    uint64_t random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) +
                      (uint64_t)(rank + 1) * UINT64_C(0xbf58476d1ce4e5b9) + seed;
    random ^= random >> 29;
    random *= UINT64_C(0x94d049bb133111eb);
    random ^= random >> 32;
    double number = (double)(int)(random % 129 - 64) / 16;
    store(datatype, (struct wide){random, (float)number, number}, (char *)memory + i * size);
  }
}
