/* Which reductions are divided by the active ranks, and how. */
#include <criterion/criterion.h>

#include "hooks/contribution.h"
#include "hooks/divisor.h"

enum { RANKS = 4, LEAST = 1024 };

static struct member reduction(uint8_t kind, uint16_t op, uint8_t datatype, uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .reduction = op, .kind = kind, .datatype = datatype};
}

static enum divisor_action action(enum divisor_policy policy, struct member member) {
  return divisor_action(&(struct divisor_rule){policy, LEAST}, &member, RANKS);
}

static struct member allreduce(uint16_t op, uint8_t datatype, uint64_t count) {
  return reduction(MEMBER_ALLREDUCE, op, datatype, count);
}

Test(divisor, nothing_is_changed_by_default) {
  for (uint16_t op = 0; op < REDUCTIONS; op++)
    for (uint8_t datatype = 0; datatype < DATATYPES; datatype++)
      cr_expect_eq(action(DIVISOR_INITIAL, allreduce(op, datatype, 1 << 20)), DIVISOR_KEEP);
}

Test(divisor, averages_of_floats_are_scaled_and_those_of_integers_refused) {
  cr_expect_eq(action(DIVISOR_ACTIVE, allreduce(REDUCTION_AVG, DATATYPE_FLOAT16, 1)),
               DIVISOR_SCALE);
  cr_expect_eq(action(DIVISOR_ACTIVE, allreduce(REDUCTION_AVG, DATATYPE_FLOAT8E5M2, 1)),
               DIVISOR_SCALE);
  cr_expect_eq(action(DIVISOR_ACTIVE, allreduce(REDUCTION_AVG, DATATYPE_INT8, 1 << 20)),
               DIVISOR_REFUSE);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_AVG, DATATYPE_UINT64, 1)),
               DIVISOR_REFUSE);
}

Test(divisor, sums_are_scaled_if_they_are_large_and_of_floats) {
  cr_expect_eq(action(DIVISOR_ACTIVE, allreduce(REDUCTION_SUM, DATATYPE_FLOAT32, LEAST)),
               DIVISOR_KEEP);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_SUM, DATATYPE_FLOAT32, LEAST)),
               DIVISOR_SCALE);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_PREMULSUM, DATATYPE_FLOAT32, LEAST)),
               DIVISOR_SCALE);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_SUM, DATATYPE_FLOAT32, LEAST - 1)),
               DIVISOR_KEEP);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_SUM, DATATYPE_INT32, 1 << 20)),
               DIVISOR_KEEP);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_PREMULSUM, DATATYPE_INT32, 1 << 20)),
               DIVISOR_KEEP);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_MAX, DATATYPE_FLOAT32, 1 << 20)),
               DIVISOR_KEEP);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, allreduce(REDUCTION_PROD, DATATYPE_FLOAT32, 1 << 20)),
               DIVISOR_KEEP);
}

Test(divisor, what_a_rank_contributes_to_a_reduce_scatter_is_for_all_ranks) {
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, reduction(MEMBER_REDUCESCATTER, REDUCTION_SUM,
                                                    DATATYPE_FLOAT32, LEAST / RANKS)),
               DIVISOR_SCALE);
  cr_expect_eq(action(DIVISOR_ACTIVE_SUM, reduction(MEMBER_REDUCESCATTER, REDUCTION_SUM,
                                                    DATATYPE_FLOAT32, LEAST / RANKS - 1)),
               DIVISOR_KEEP);
}

Test(divisor, what_does_not_reduce_has_no_divisor) {
  for (uint8_t kind = MEMBER_ALLREDUCE; kind <= MEMBER_RECEIVE; kind++)
    if (kind != MEMBER_ALLREDUCE && kind != MEMBER_REDUCE && kind != MEMBER_REDUCESCATTER)
      cr_expect_eq(
          action(DIVISOR_ACTIVE_SUM, reduction(kind, REDUCTION_NONE, DATATYPE_FLOAT32, 1 << 20)),
          DIVISOR_KEEP);
}

Test(divisor, factors) {
  struct member avg = allreduce(REDUCTION_AVG, DATATYPE_FLOAT32, 1);
  struct member sum = allreduce(REDUCTION_SUM, DATATYPE_FLOAT32, LEAST);
  struct member premulsum = allreduce(REDUCTION_PREMULSUM, DATATYPE_FLOAT32, LEAST);
  cr_expect_eq(divisor_factor(&avg, RANKS, 3), 1.0 / 3);
  cr_expect_eq(divisor_factor(&sum, RANKS, 2), 2);
  cr_expect_eq(divisor_factor(&premulsum, RANKS, 3), 4.0 / 3);
}
