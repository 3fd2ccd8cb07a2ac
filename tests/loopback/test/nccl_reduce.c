/* Reductions on plain memory, against the reference. */
#include "tools/loopback/nccl/datatype.h"
#include "tools/loopback/nccl/reduce.h"
#include "tests/loopback/test/nccl_reference.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 1500 /* two blocks and a part */

static const enum reduction reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                            REDUCTION_MIN, REDUCTION_AVG,  REDUCTION_PREMULSUM};

/* What ranks do: premultiply, combine. */
static void reduce(enum reduction reduction, ncclDataType_t datatype, void **inputs, int ninputs,
                   const double *factors, void *output, size_t count) {
  for (int rank = 0; rank < ninputs; rank++) {
    if (reduction == REDUCTION_PREMULSUM)
      reduction_premultiply(datatype, inputs[rank], reference_scalar(datatype, factors[rank]),
                            inputs[rank], count);
    if (reduction == REDUCTION_AVG && datatype_is_float(datatype))
      reduction_premultiply(datatype, inputs[rank], reduction_average_factor(datatype, ninputs),
                            inputs[rank], count);
  }
  reduction_combine(reduction, datatype, (const void *const *)inputs, ninputs, output, count);
}

Test(nccl_reduce, every_datatype_and_reduction_is_the_plain_one) {
  static const double factors[8] = {2, -3, 0.5, 1, 7, -1, 3, 0.25};
  char *inputs[8];
  char *output = malloc(COUNT * 8 + 1), *wanted = malloc(COUNT * 8);
  for (int rank = 0; rank < 8; rank++)
    inputs[rank] = malloc(COUNT * 8 + 1);
  for (int type = 0; type < ncclNumTypes; type++)
    for (size_t r = 0; r < sizeof reductions / sizeof reductions[0]; r++)
      for (int nranks = 1; nranks <= 8; nranks++) {
        size_t bytes = COUNT * datatype_size((ncclDataType_t)type);
        void *places[8];
        for (int rank = 0; rank < nranks; rank++) {
          places[rank] = inputs[rank] + 1; /* no alignment */
          reference_fill((ncclDataType_t)type, places[rank], COUNT, rank, (unsigned)nranks);
        }
        reference_reduce(reductions[r], (ncclDataType_t)type, (const void *const *)places, nranks,
                         factors, wanted, COUNT);
        reduce(reductions[r], (ncclDataType_t)type, places, nranks, factors, output + 1, COUNT);
        cr_assert_eq(memcmp(output + 1, wanted, bytes), 0, "%s of %s over %d",
                     reduction_name(reductions[r]), datatype_name((ncclDataType_t)type), nranks);
      }
  for (int rank = 0; rank < 8; rank++)
    free(inputs[rank]);
  free(output);
  free(wanted);
}

/* Every pair of the one-byte types. */
Test(nccl_reduce, every_pair_of_bytes) {
  static const ncclDataType_t types[] = {ncclInt8, ncclUint8, ncclFloat8e4m3, ncclFloat8e5m2};
  unsigned char first[256], second[256], output[256], wanted[256];
  const void *inputs[2] = {first, second};
  for (size_t t = 0; t < 4; t++)
    for (size_t r = 0; r < 4; r++) /* those that are the same for integers and floats */
      for (int a = 0; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
          first[b] = (unsigned char)a;
          second[b] = (unsigned char)b;
        }
        reference_reduce(reductions[r], types[t], inputs, 2, NULL, wanted, 256);
        reduction_combine(reductions[r], types[t], inputs, 2, output, 256);
        for (int b = 0; b < 256; b++) {
          bool special = t >= 2 && r >= 2 &&
                         ((a & 0x7f) >= 0x7c || (b & 0x7f) >= 0x7c || ((a | b) & 0x7f) == 0);
          cr_assert(special || output[b] == wanted[b], "%s of %s: %x, %x gave %x, wanted %x",
                    reduction_name(reductions[r]), datatype_name(types[t]), a, b, output[b],
                    wanted[b]);
        }
      }
}

Test(nccl_reduce, integer_average_wraps_and_goes_towards_zero) {
  const int8_t a[4] = {-7, 127, -128, 5}, b[4] = {0, 1, -128, -6};
  const int8_t wanted[4] = {-3, -64, 0, 0};
  const void *inputs[2] = {a, b};
  int8_t output[4];
  reduction_combine(REDUCTION_AVG, ncclInt8, inputs, 2, output, 4);
  cr_assert_eq(memcmp(output, wanted, sizeof wanted), 0);
  const uint64_t c = UINT64_MAX, d = UINT64_MAX;
  const void *large[2] = {&c, &d};
  uint64_t average;
  reduction_combine(REDUCTION_AVG, ncclUint64, large, 2, &average, 1);
  cr_assert_eq(average, UINT64_MAX / 2); /* (2^65 - 2) wraps to 2^64 - 2 */
}

Test(nccl_reduce, extremes_ignore_nan_and_order_the_zeros) {
  const float a[4] = {NAN, 1, -0.0f, 0.0f}, b[4] = {2, NAN, 0.0f, -0.0f};
  const void *inputs[2] = {a, b};
  float most[4], least[4];
  reduction_combine(REDUCTION_MAX, ncclFloat32, inputs, 2, most, 4);
  reduction_combine(REDUCTION_MIN, ncclFloat32, inputs, 2, least, 4);
  cr_assert(most[0] == 2 && most[1] == 1 && !signbit(most[2]) && !signbit(most[3]));
  cr_assert(least[0] == 2 && least[1] == 1 && signbit(least[2]) && signbit(least[3]));
}

Test(nccl_reduce, small_floats_are_rounded_once) {
  /* 2048 + 1 + 1 in float16: rounding after every addition would stay at 2048. */
  const uint16_t large = float16_encode(2048), one = float16_encode(1);
  const void *inputs[3] = {&large, &one, &one};
  uint16_t output;
  reduction_combine(REDUCTION_SUM, ncclFloat16, inputs, 3, &output, 1);
  cr_assert_eq(float16_decode(output), 2050.0f);
}

Test(nccl_reduce, floats_are_added_in_rank_order) {
  const float values[3] = {1e8f, 1.0f, -1e8f};
  const void *up[3] = {&values[0], &values[1], &values[2]},
             *down[3] = {&values[0], &values[2], &values[1]};
  float output;
  reduction_combine(REDUCTION_SUM, ncclFloat32, up, 3, &output, 1);
  cr_assert_eq(output, (1e8f + 1.0f) - 1e8f);
  reduction_combine(REDUCTION_SUM, ncclFloat32, down, 3, &output, 1);
  cr_assert_eq(output, 1.0f);
}
