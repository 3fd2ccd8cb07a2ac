/* Names of device functions, taken apart. */
#include "tests/nccl/function.h"

#include <string.h>

struct word {
  const char *text;
  int value;
};

static const struct word kinds[] = {
    {"SendRecv", FUNCTION_SEND_RECV},   {"AllGatherV", FUNCTION_ALL_GATHER_V},
    {"AllGather", FUNCTION_ALL_GATHER}, {"AllReduce", FUNCTION_ALL_REDUCE},
    {"Broadcast", FUNCTION_BROADCAST},  {"ReduceScatter", FUNCTION_REDUCE_SCATTER},
    {"Reduce", FUNCTION_REDUCE}};
static const struct word reductions[] = {{"Sum", DEVICE_SUM},
                                         {"Prod", DEVICE_PROD},
                                         {"MinMax", DEVICE_MIN_MAX},
                                         {"PreMulSum", DEVICE_PRE_MUL_SUM},
                                         {"SumPostDiv", DEVICE_SUM_POST_DIV}};
static const struct word datatypes[] = {
    {"i8", ncclInt8},       {"i32", ncclInt32},         {"i64", ncclInt64},
    {"u8", ncclUint8},      {"u32", ncclUint32},        {"u64", ncclUint64},
    {"f16", ncclFloat16},   {"f32", ncclFloat32},       {"f64", ncclFloat64},
    {"bf16", ncclBfloat16}, {"f8e4m3", ncclFloat8e4m3}, {"f8e5m2", ncclFloat8e5m2},
};
static const struct word algorithms[] = {{"RING", ALGORITHM_RING}, {"TREE", ALGORITHM_TREE}};
static const struct word protocols[] = {
    {"LL", PROTOCOL_LL}, {"LL128", PROTOCOL_LL128}, {"SIMPLE", PROTOCOL_SIMPLE}};

#define LOOK(table, text, length) look(table, sizeof table / sizeof *table, text, length)

static int look(const struct word *table, size_t size, const char *text, size_t length) {
  for (size_t i = 0; i < size; i++)
    if (strlen(table[i].text) == length && memcmp(table[i].text, text, length) == 0)
      return table[i].value;
  return -1;
}

static bool parse_datatype(const char *word, size_t length, ncclDataType_t *datatype) {
  int found = LOOK(datatypes, word, length);
  if (found >= 0)
    *datatype = (ncclDataType_t)found;
  return found >= 0;
}

/* The next word of a name, up to the next underscore. */
static const char *next(const char **rest, const char *end, size_t *length) {
  const char *word = *rest;
  const char *stop = memchr(word, '_', (size_t)(end - word));
  if (stop == NULL)
    stop = end;
  *length = (size_t)(stop - word);
  *rest = stop < end ? stop + 1 : end;
  return word;
}

bool function_parse(const char *symbol, struct function *function) {
  static const char prefix[] = "ncclDevFunc_";
  const char *rest = symbol != NULL ? strstr(symbol, prefix) : NULL;
  if (rest == NULL)
    return false;
  rest += sizeof prefix - 1;
  const char *end = rest + strlen(rest);
  if (end > rest && end[-1] == 'v') /* no parameters, as C++ mangles it */
    end--;
  size_t length;
  const char *word = next(&rest, end, &length);
  int kind = LOOK(kinds, word, length), reduction = DEVICE_SUM;
  *function = (struct function){.datatype = ncclInt8, .protocol = PROTOCOL_SIMPLE};
  if (kind < 0)
    return false;
  function->kind = (enum function_kind)kind;
  if (kind == FUNCTION_SEND_RECV)
    return true;
  if (kind == FUNCTION_ALL_REDUCE || kind == FUNCTION_REDUCE || kind == FUNCTION_REDUCE_SCATTER) {
    word = next(&rest, end, &length);
    reduction = LOOK(reductions, word, length);
    word = next(&rest, end, &length);
    if (reduction < 0 || !parse_datatype(word, length, &function->datatype))
      return false;
  }
  word = next(&rest, end, &length);
  int algorithm = LOOK(algorithms, word, length);
  word = next(&rest, end, &length);
  int protocol = LOOK(protocols, word, length);
  function->reduction = (enum device_reduction)reduction;
  function->algorithm = (enum function_algorithm)algorithm;
  function->protocol = (enum function_protocol)protocol;
  return algorithm >= 0 && protocol >= 0;
}

bool function_of_kernel(const char *symbol, struct function *function) {
  if (symbol == NULL || strstr(symbol, "ncclDevKernel_") == NULL)
    return false;
  bool ring = strstr(symbol, "_RING") != NULL, e4m3 = strstr(symbol, "_f8e4m3_") != NULL;
  function->algorithm = ring ? ALGORITHM_RING : ALGORITHM_TREE;
  function->datatype = e4m3 ? ncclFloat8e4m3 : ncclFloat8e5m2;
  return (ring || strstr(symbol, "_TREE") != NULL) && (e4m3 || strstr(symbol, "_f8e5m2_") != NULL);
}
