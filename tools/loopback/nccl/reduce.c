/* Reductions. Elements are widened to the type they are computed in, block by block, folded in rank
 * order, and narrowed at the end. */
#include "reduce.h"

#include "datatype.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define BLOCK_ELEMENTS 512 /* a block of the widest type stays in the first-level cache */

const char *reduction_name(enum reduction reduction) {
  switch (reduction) {
  case REDUCTION_NONE:
    return "none";
  case REDUCTION_SUM:
    return "sum";
  case REDUCTION_PROD:
    return "prod";
  case REDUCTION_MAX:
    return "max";
  case REDUCTION_MIN:
    return "min";
  case REDUCTION_AVG:
    return "avg";
  case REDUCTION_PREMULSUM:
    return "premulsum";
  }
  return "unknown";
}

enum reduction reduction_of_builtin(ncclRedOp_t operation) {
  static const enum reduction builtin[] = {[ncclSum] = REDUCTION_SUM,
                                           [ncclProd] = REDUCTION_PROD,
                                           [ncclMax] = REDUCTION_MAX,
                                           [ncclMin] = REDUCTION_MIN,
                                           [ncclAvg] = REDUCTION_AVG};
  return builtin[operation];
}

/* What each reduction does to two elements; SUM also serves averages and premultiplied sums. U is
 * the unsigned type in which T wraps, at least 32 bits wide, where C would otherwise promote to a
 * signed type. */
#define FOLD(T, name, SUM, PROD, MAX, MIN)                                                         \
  static void fold_##name(enum reduction reduction, T *restrict total, const T *restrict input,    \
                          size_t count) {                                                          \
    switch (reduction) {                                                                           \
    case REDUCTION_PROD:                                                                           \
      for (size_t i = 0; i < count; i++)                                                           \
        total[i] = PROD(total[i], input[i]);                                                       \
      break;                                                                                       \
    case REDUCTION_MAX:                                                                            \
      for (size_t i = 0; i < count; i++)                                                           \
        total[i] = MAX(total[i], input[i]);                                                        \
      break;                                                                                       \
    case REDUCTION_MIN:                                                                            \
      for (size_t i = 0; i < count; i++)                                                           \
        total[i] = MIN(total[i], input[i]);                                                        \
      break;                                                                                       \
    case REDUCTION_NONE:                                                                           \
    case REDUCTION_SUM:                                                                            \
    case REDUCTION_AVG:                                                                            \
    case REDUCTION_PREMULSUM:                                                                      \
      for (size_t i = 0; i < count; i++)                                                           \
        total[i] = SUM(total[i], input[i]);                                                        \
      break;                                                                                       \
    }                                                                                              \
  }

#define WRAP_SUM32(a, b) (__typeof__(a))((uint32_t)(a) + (uint32_t)(b))
#define WRAP_PROD32(a, b) (__typeof__(a))((uint32_t)(a) * (uint32_t)(b))
#define WRAP_SUM64(a, b) (__typeof__(a))((uint64_t)(a) + (uint64_t)(b))
#define WRAP_PROD64(a, b) (__typeof__(a))((uint64_t)(a) * (uint64_t)(b))
#define GREATER(a, b) ((b) > (a) ? (b) : (a))
#define LESSER(a, b) ((b) < (a) ? (b) : (a))
#define FLOAT_SUM(a, b) ((a) + (b))
#define FLOAT_PROD(a, b) ((a) * (b))

/* fmax and fmin leave the order of the two zeros open. */
static inline double greater_number(double a, double b) {
  if (isnan(a) || isnan(b))
    return isnan(a) ? b : a;
  if (a == b)
    return signbit(a) ? b : a;
  return b > a ? b : a;
}

static inline double lesser_number(double a, double b) {
  if (isnan(a) || isnan(b))
    return isnan(a) ? b : a;
  if (a == b)
    return signbit(a) ? a : b;
  return b < a ? b : a;
}

#define FLOAT_MAX(a, b) (__typeof__(a))greater_number(a, b)
#define FLOAT_MIN(a, b) (__typeof__(a))lesser_number(a, b)

FOLD(int8_t, int8, WRAP_SUM32, WRAP_PROD32, GREATER, LESSER)
FOLD(uint8_t, uint8, WRAP_SUM32, WRAP_PROD32, GREATER, LESSER)
FOLD(int32_t, int32, WRAP_SUM32, WRAP_PROD32, GREATER, LESSER)
FOLD(uint32_t, uint32, WRAP_SUM32, WRAP_PROD32, GREATER, LESSER)
FOLD(int64_t, int64, WRAP_SUM64, WRAP_PROD64, GREATER, LESSER)
FOLD(uint64_t, uint64, WRAP_SUM64, WRAP_PROD64, GREATER, LESSER)
FOLD(float, float32, FLOAT_SUM, FLOAT_PROD, FLOAT_MAX, FLOAT_MIN)
FOLD(double, float64, FLOAT_SUM, FLOAT_PROD, FLOAT_MAX, FLOAT_MIN)

/* A block in the type that reductions are computed in. */
union block {
  int8_t int8[BLOCK_ELEMENTS];
  uint8_t uint8[BLOCK_ELEMENTS];
  int32_t int32[BLOCK_ELEMENTS];
  uint32_t uint32[BLOCK_ELEMENTS];
  int64_t int64[BLOCK_ELEMENTS];
  uint64_t uint64[BLOCK_ELEMENTS];
  float float32[BLOCK_ELEMENTS];
  double float64[BLOCK_ELEMENTS];
};

#define DECODE(T, decode)                                                                          \
  for (size_t i = 0; i < count; i++) {                                                             \
    T code;                                                                                        \
    memcpy(&code, bytes + i * sizeof code, sizeof code);                                           \
    block->float32[i] = decode(code);                                                              \
  }                                                                                                \
  break

#define ENCODE(T, encode)                                                                          \
  for (size_t i = 0; i < count; i++) {                                                             \
    T code = encode(block->float32[i]);                                                            \
    memcpy(bytes + i * sizeof code, &code, sizeof code);                                           \
  }                                                                                                \
  break

/* memcpy, because user buffers need not be aligned to their element: NCCL accepts any address. */
static void block_load(ncclDataType_t datatype, union block *block, const unsigned char *bytes,
                       size_t count) {
  switch (datatype) {
  case ncclFloat16:
    DECODE(uint16_t, float16_decode);
  case ncclBfloat16:
    DECODE(uint16_t, bfloat16_decode);
  case ncclFloat8e4m3:
    DECODE(uint8_t, float8e4m3_decode);
  case ncclFloat8e5m2:
    DECODE(uint8_t, float8e5m2_decode);
  case ncclInt8:
  case ncclUint8:
  case ncclInt32:
  case ncclUint32:
  case ncclInt64:
  case ncclUint64:
  case ncclFloat32:
  case ncclFloat64:
  case ncclNumTypes:
    memcpy(block, bytes, count * datatype_size(datatype));
    break;
  }
}

static void block_store(ncclDataType_t datatype, const union block *block, unsigned char *bytes,
                        size_t count) {
  switch (datatype) {
  case ncclFloat16:
    ENCODE(uint16_t, float16_encode);
  case ncclBfloat16:
    ENCODE(uint16_t, bfloat16_encode);
  case ncclFloat8e4m3:
    ENCODE(uint8_t, float8e4m3_encode);
  case ncclFloat8e5m2:
    ENCODE(uint8_t, float8e5m2_encode);
  case ncclInt8:
  case ncclUint8:
  case ncclInt32:
  case ncclUint32:
  case ncclInt64:
  case ncclUint64:
  case ncclFloat32:
  case ncclFloat64:
  case ncclNumTypes:
    memcpy(bytes, block, count * datatype_size(datatype));
    break;
  }
}

#define EACH_TYPE(datatype, INTEGER, FLOATING)                                                     \
  switch (datatype) {                                                                              \
  case ncclInt8:                                                                                   \
    INTEGER(int8, uint32_t);                                                                       \
    break;                                                                                         \
  case ncclUint8:                                                                                  \
    INTEGER(uint8, uint32_t);                                                                      \
    break;                                                                                         \
  case ncclInt32:                                                                                  \
    INTEGER(int32, uint32_t);                                                                      \
    break;                                                                                         \
  case ncclUint32:                                                                                 \
    INTEGER(uint32, uint32_t);                                                                     \
    break;                                                                                         \
  case ncclInt64:                                                                                  \
    INTEGER(int64, uint64_t);                                                                      \
    break;                                                                                         \
  case ncclUint64:                                                                                 \
    INTEGER(uint64, uint64_t);                                                                     \
    break;                                                                                         \
  case ncclFloat64:                                                                                \
    FLOATING(float64);                                                                             \
    break;                                                                                         \
  case ncclFloat16:                                                                                \
  case ncclFloat32:                                                                                \
  case ncclBfloat16:                                                                               \
  case ncclFloat8e4m3:                                                                             \
  case ncclFloat8e5m2:                                                                             \
    FLOATING(float32);                                                                             \
    break;                                                                                         \
  case ncclNumTypes:                                                                               \
    break;                                                                                         \
  }

static void block_fold(enum reduction reduction, ncclDataType_t datatype, union block *total,
                       const union block *input, size_t count) {
#define INTEGER(field, U) fold_##field(reduction, total->field, input->field, count)
#define FLOATING(field) fold_##field(reduction, total->field, input->field, count)
  EACH_TYPE(datatype, INTEGER, FLOATING)
#undef INTEGER
#undef FLOATING
}

static void block_scale(ncclDataType_t datatype, union block *block, const union block *factor,
                        size_t count) {
#define INTEGER(field, U)                                                                          \
  for (size_t i = 0; i < count; i++)                                                               \
  block->field[i] = (__typeof__(block->field[i]))((U)block->field[i] * (U)factor->field[0])
#define FLOATING(field)                                                                            \
  for (size_t i = 0; i < count; i++)                                                               \
  block->field[i] *= factor->field[0]
  EACH_TYPE(datatype, INTEGER, FLOATING)
#undef INTEGER
#undef FLOATING
}

/* Towards zero. Floats are left alone: their contributions came premultiplied. */
static void block_divide(ncclDataType_t datatype, union block *block, int divisor, size_t count) {
#define INTEGER(field, U)                                                                          \
  for (size_t i = 0; i < count; i++)                                                               \
  block->field[i] = (__typeof__(block->field[i]))(block->field[i] / (wide_##U)divisor)
#define FLOATING(field) (void)0
  typedef int64_t wide_uint32_t; /* holds every value of the types of at most 32 bits */
  typedef int64_t wide_uint64_t;
  if (datatype == ncclUint64) {
    for (size_t i = 0; i < count; i++)
      block->uint64[i] /= (uint64_t)divisor;
    return;
  }
  EACH_TYPE(datatype, INTEGER, FLOATING)
#undef INTEGER
#undef FLOATING
}

union scalar reduction_average_factor(ncclDataType_t datatype, int nranks) {
  assert(datatype_is_float(datatype));
  union block block;
  union scalar factor = {.bits = 0};
  if (datatype == ncclFloat64)
    block.float64[0] = 1.0 / nranks;
  else
    block.float32[0] = (float)(1.0 / nranks);
  block_store(datatype, &block, factor.bytes, 1);
  return factor;
}

void reduction_premultiply(ncclDataType_t datatype, const void *input, union scalar factor,
                           void *output, size_t count) {
  size_t size = datatype_size(datatype);
  union block block, wide_factor;
  block_load(datatype, &wide_factor, factor.bytes, 1);
  for (size_t done = 0; done < count; done += BLOCK_ELEMENTS) {
    size_t part = count - done < BLOCK_ELEMENTS ? count - done : BLOCK_ELEMENTS;
    block_load(datatype, &block, (const unsigned char *)input + done * size, part);
    block_scale(datatype, &block, &wide_factor, part);
    block_store(datatype, &block, (unsigned char *)output + done * size, part);
  }
}

void reduction_combine(enum reduction reduction, ncclDataType_t datatype, const void *const *inputs,
                       int ninputs, void *output, size_t count) {
  size_t size = datatype_size(datatype);
  union block total, block;
  for (size_t done = 0; done < count; done += BLOCK_ELEMENTS) {
    size_t part = count - done < BLOCK_ELEMENTS ? count - done : BLOCK_ELEMENTS;
    block_load(datatype, &total, (const unsigned char *)inputs[0] + done * size, part);
    for (int rank = 1; rank < ninputs; rank++) {
      block_load(datatype, &block, (const unsigned char *)inputs[rank] + done * size, part);
      block_fold(reduction, datatype, &total, &block, part);
    }
    if (reduction == REDUCTION_AVG)
      block_divide(datatype, &total, ninputs, part);
    block_store(datatype, &total, (unsigned char *)output + done * size, part);
  }
}
