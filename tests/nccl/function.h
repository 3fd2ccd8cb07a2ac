/* What a device function of NCCL computes. Its name says it all:
 * ncclDevFunc_AllReduce_Sum_f32_RING_LL, and the library has a table of these names. */
#ifndef TESTS_NCCL_FUNCTION_H
#define TESTS_NCCL_FUNCTION_H

#include <nccl.h>
#include <stdbool.h>
#include <stdint.h>

enum function_kind {
  FUNCTION_SEND_RECV,
  FUNCTION_ALL_GATHER,
  FUNCTION_ALL_GATHER_V,
  FUNCTION_ALL_REDUCE,
  FUNCTION_BROADCAST,
  FUNCTION_REDUCE,
  FUNCTION_REDUCE_SCATTER,
};

enum function_algorithm { ALGORITHM_RING, ALGORITHM_TREE };
enum function_protocol { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE }; /* NCCL's order */

enum device_reduction {
  DEVICE_SUM,
  DEVICE_PROD,
  DEVICE_MIN_MAX,
  DEVICE_PRE_MUL_SUM,
  DEVICE_SUM_POST_DIV
};

struct function {
  enum function_kind kind;
  enum device_reduction reduction;
  ncclDataType_t datatype; /* ncclInt8 where nothing is reduced; see reducer_make for integers */
  enum function_algorithm algorithm;
  enum function_protocol protocol;
};

/* Reads "ncclDevFunc_..." out of a mangled name; false if it is none that is emulated. */
bool function_parse(const char *symbol, struct function *function);

/* Takes the datatype and the algorithm out of the mangled name of a kernel of 8-bit floats; false
 * if it is none. */
bool function_of_kernel(const char *symbol, struct function *function);

#endif
