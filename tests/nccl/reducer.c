/* Reductions in blocks that fit into the first-level cache. */
#include "tests/nccl/reducer.h"

#include "tools/loopback/nccl/datatype.h"

#include <string.h>

enum { BLOCK = 4096 }; /* bytes */

static ncclDataType_t with_sign(ncclDataType_t datatype) {
  switch (datatype) {
  case ncclUint8:
    return ncclInt8;
  case ncclUint32:
    return ncclInt32;
  case ncclUint64:
    return ncclInt64;
  default:
    return datatype;
  }
}

/* Whether the mask turns the order of signed numbers into that of unsigned ones: its two ends
 * differ. */
static bool mask_is_of_signed(uint64_t mask, size_t element) {
  return (mask & 1) != (mask >> (8 * element - 1) & 1);
}

struct reducer reducer_make(enum device_reduction reduction, ncclDataType_t datatype,
                            uint64_t argument) {
  struct reducer reducer = {.datatype = datatype, .element = datatype_size(datatype)};
  switch (reduction) {
  case DEVICE_SUM:
    reducer.reduction = REDUCTION_SUM;
    break;
  case DEVICE_PROD:
    reducer.reduction = REDUCTION_PROD;
    break;
  case DEVICE_MIN_MAX:
    reducer.reduction = argument & 1 ? REDUCTION_MAX : REDUCTION_MIN;
    if (!datatype_is_float(datatype) && mask_is_of_signed(argument, reducer.element))
      reducer.datatype = with_sign(datatype);
    break;
  case DEVICE_PRE_MUL_SUM:
    reducer.reduction = REDUCTION_SUM;
    reducer.premultiplied = true;
    reducer.factor.bits = argument;
    break;
  case DEVICE_SUM_POST_DIV:
    reducer.reduction = REDUCTION_SUM;
    reducer.divisor = argument >> 1;
    reducer.divides_signed = argument & 1;
    break;
  }
  return reducer;
}

#define DIVIDE(T, S)                                                                               \
  for (size_t i = 0; i < count; i++) {                                                             \
    T value;                                                                                       \
    memcpy(&value, data + i * sizeof value, sizeof value);                                         \
    value = reducer->divides_signed ? (T)((S)value / (S)reducer->divisor)                          \
                                    : (T)(value / (T)reducer->divisor);                            \
    memcpy(data + i * sizeof value, &value, sizeof value);                                         \
  }                                                                                                \
  break

static void divide(const struct reducer *reducer, char *data, size_t count) {
  switch (reducer->element) {
  case 1:
    DIVIDE(uint8_t, int8_t);
  case 4:
    DIVIDE(uint32_t, int32_t);
  case 8:
    DIVIDE(uint64_t, int64_t);
  }
}

/* One block: from inputs to a buffer of our own. */
static void reduce_block(const struct reducer *reducer, const char *const *inputs, int ninputs,
                         bool own, char *result, size_t count, bool last) {
  char multiplied[BLOCK];
  const void *all[8];
  for (int i = 0; i < ninputs; i++)
    all[i] = inputs[i];
  if (own && reducer->premultiplied) {
    reduction_premultiply(reducer->datatype, inputs[0], reducer->factor, multiplied, count);
    all[0] = multiplied;
  }
  if (ninputs == 1)
    memcpy(result, all[0], count * reducer->element);
  else
    reduction_combine(reducer->reduction, reducer->datatype, all, ninputs, result, count);
  if (last && reducer->divisor != 0)
    divide(reducer, result, count);
}

void reducer_apply(const struct reducer *reducer, const char *const *inputs, int ninputs, bool own,
                   char *const *outputs, int noutputs, size_t count, bool last) {
  size_t size = count * reducer->element;
  if (ninputs == 1 && !(own && reducer->premultiplied) && !(last && reducer->divisor != 0)) {
    for (int i = 0; i < noutputs; i++)
      memmove(outputs[i], inputs[0], size);
    return;
  }
  char result[BLOCK];
  for (size_t done = 0; done < size; done += BLOCK) {
    size_t part = size - done < BLOCK ? size - done : BLOCK;
    const char *from[8];
    for (int i = 0; i < ninputs; i++)
      from[i] = inputs[i] + done;
    reduce_block(reducer, from, ninputs, own, result, part / reducer->element, last);
    for (int i = 0; i < noutputs; i++)
      memcpy(outputs[i] + done, result, part);
  }
}
