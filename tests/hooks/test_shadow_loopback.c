/* Shadows against the loopback CUDA and NCCL (exchange.h), in every collective, datatype and
 * reduction. */
#include <criterion/criterion.h>

#include "hooks/alias.h"
#include "hooks/contribution.h"
#include "tests/hooks/exchange.h"

#define COUNT 1000

TestSuite(loopback, .init = exchange_open);

static struct member make(enum member_kind kind, int datatype, uint16_t reduction, int root) {
  return (struct member){.count = COUNT,
                         .root = root,
                         .reduction = reduction,
                         .kind = (uint8_t)kind,
                         .datatype = (uint8_t)datatype};
}

static void every_datatype_and_reduction(enum member_kind kind, int root) {
  static const uint16_t reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                        REDUCTION_MIN, REDUCTION_AVG,  REDUCTION_PREMULSUM};
  enum { N = DATATYPES * 6 };
  struct member members[N];
  struct exchange exchanges[N];
  for (int i = 0; i < N; i++) {
    members[i] = make(kind, i / 6, reductions[i % 6], root);
    exchanges[i] = (struct exchange){&members[i], 1, 0};
  }
  exchange_run(exchanges, N, false);
}

Test(loopback, an_active_rank_gets_its_own_data_from_every_allreduce) {
  every_datatype_and_reduction(MEMBER_ALLREDUCE, ROOT_NONE);
}

Test(loopback, an_active_rank_gets_its_own_data_from_every_reduce) {
  every_datatype_and_reduction(MEMBER_REDUCE, 0);
}

Test(loopback, an_active_rank_gets_its_own_data_from_every_reducescatter) {
  every_datatype_and_reduction(MEMBER_REDUCESCATTER, ROOT_NONE);
}

Test(loopback, kinds_that_do_not_reduce_bring_zeros_from_the_joined_rank) {
  static const enum member_kind kinds[] = {MEMBER_ALLGATHER, MEMBER_ALLTOALL, MEMBER_GATHER,
                                           MEMBER_SCATTER};
  struct member members[4];
  struct exchange exchanges[4];
  for (int i = 0; i < 4; i++) {
    bool rooted = kinds[i] == MEMBER_GATHER || kinds[i] == MEMBER_SCATTER;
    members[i] = make(kinds[i], DATATYPE_FLOAT32, REDUCTION_NONE, rooted ? 0 : ROOT_NONE);
    exchanges[i] = (struct exchange){&members[i], 1, 0};
  }
  exchange_run(exchanges, 4, false);
}

Test(loopback, a_broadcast_whose_root_has_joined_comes_from_the_root_elected_instead) {
  struct member member = make(MEMBER_BROADCAST, DATATYPE_INT32, REDUCTION_NONE, 1);
  struct exchange exchange = {&member, 1, 0};
  exchange_run(&exchange, 1, false);
}

Test(loopback, a_group_is_matched_by_a_group) {
  struct member members[] = {
      make(MEMBER_ALLREDUCE, DATATYPE_FLOAT32, REDUCTION_SUM, ROOT_NONE),
      make(MEMBER_ALLREDUCE, DATATYPE_BFLOAT16, REDUCTION_PREMULSUM, ROOT_NONE),
      make(MEMBER_BROADCAST, DATATYPE_INT64, REDUCTION_NONE, 0),
      make(MEMBER_REDUCESCATTER, DATATYPE_FLOAT16, REDUCTION_MAX, ROOT_NONE),
      make(MEMBER_ALLREDUCE, DATATYPE_INT64, REDUCTION_PROD, ROOT_NONE),
      make(MEMBER_ALLREDUCE, DATATYPE_FLOAT64, REDUCTION_PREMULSUM, ROOT_NONE),
  };
  struct exchange exchange = {members, 6, 0};
  struct exchange again[] = {exchange, exchange, exchange};
  exchange_run(again, 3, false);
}

Test(loopback, growing_units_stay_correct_while_earlier_ones_are_under_way) {
  enum { N = 24 };
  struct member members[N];
  struct exchange exchanges[N];
  for (int i = 0; i < N; i++) {
    members[i] = make(MEMBER_ALLREDUCE, i % 2 ? DATATYPE_FLOAT64 : DATATYPE_INT64,
                      i % 2 ? REDUCTION_MIN : REDUCTION_PROD, ROOT_NONE);
    members[i].count = (uint64_t)(i + 1) * 7001;
    exchanges[i] = (struct exchange){&members[i], 1, 0};
  }
  exchange_run(exchanges, N, false);
}

static struct member large(enum member_kind kind, int datatype, uint16_t reduction, int root) {
  struct member member = make(kind, datatype, reduction, root);
  member.count = 1500001;
  return member;
}

Test(loopback, aliases_give_the_same_results_from_two_blocks) {
  struct member members[] = {large(MEMBER_ALLREDUCE, DATATYPE_FLOAT64, REDUCTION_SUM, ROOT_NONE),
                             large(MEMBER_ALLREDUCE, DATATYPE_INT32, REDUCTION_SUM, ROOT_NONE)};
  struct exchange exchanges[] = {{members, 2, 0}, {members, 1, 0}, {members + 1, 1, 0}};
  exchange_most_held = 2 * ALIAS_BLOCK;
  exchange_run(exchanges, 3, false);
}

Test(loopback, aliases_give_the_same_results_in_every_collective) {
  struct member members[] = {
      large(MEMBER_ALLREDUCE, DATATYPE_INT64, REDUCTION_MIN, ROOT_NONE),
      large(MEMBER_ALLREDUCE, DATATYPE_BFLOAT16, REDUCTION_PROD, ROOT_NONE),
      large(MEMBER_REDUCE, DATATYPE_FLOAT32, REDUCTION_MAX, 0),
      large(MEMBER_REDUCESCATTER, DATATYPE_FLOAT32, REDUCTION_SUM, ROOT_NONE),
      large(MEMBER_BROADCAST, DATATYPE_FLOAT32, REDUCTION_NONE, 0),
      large(MEMBER_ALLGATHER, DATATYPE_FLOAT32, REDUCTION_NONE, ROOT_NONE),
      large(MEMBER_ALLTOALL, DATATYPE_FLOAT32, REDUCTION_NONE, ROOT_NONE),
      large(MEMBER_GATHER, DATATYPE_FLOAT32, REDUCTION_NONE, 0),
      large(MEMBER_SCATTER, DATATYPE_FLOAT32, REDUCTION_NONE, 0),
  };
  enum { N = sizeof members / sizeof *members };
  struct exchange exchanges[N];
  for (int i = 0; i < N; i++)
    exchanges[i] = (struct exchange){&members[i], 1, 0};
  exchange_most_held =
      32 * ALIAS_BLOCK; /* a block for each fill, and for each time that the area grew */
  exchange_run(exchanges, N, false);
}

Test(loopback, nonblocking_communicators_are_shadowed_too) {
  struct member members[] = {
      make(MEMBER_ALLREDUCE, DATATYPE_FLOAT32, REDUCTION_SUM, ROOT_NONE),
      make(MEMBER_ALLREDUCE, DATATYPE_FLOAT32, REDUCTION_PREMULSUM, ROOT_NONE),
      make(MEMBER_ALLREDUCE, DATATYPE_INT32, REDUCTION_MAX, ROOT_NONE),
  };
  struct exchange exchanges[] = {{members, 1, 0}, {members + 1, 1, 0}, {members, 3, 0}};
  exchange_run(exchanges, 3, true);
}
