/* Contributions: the fill of every datatype and reduction changes nothing, checked against a plain
 * reading of each format; counts and losses of every kind. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "hooks/contribution.h"
#include "hooks/number.h"

static const struct {
  const char *name;
  unsigned size;
  bool is_float, is_signed;
  int exponent_bits, mantissa_bits;
  bool has_infinity;
} formats[DATATYPES] = {
    [DATATYPE_INT8] = {"int8", 1, false, true, 0, 0, false},
    [DATATYPE_UINT8] = {"uint8", 1, false, false, 0, 0, false},
    [DATATYPE_INT32] = {"int32", 4, false, true, 0, 0, false},
    [DATATYPE_UINT32] = {"uint32", 4, false, false, 0, 0, false},
    [DATATYPE_INT64] = {"int64", 8, false, true, 0, 0, false},
    [DATATYPE_UINT64] = {"uint64", 8, false, false, 0, 0, false},
    [DATATYPE_FLOAT16] = {"float16", 2, true, true, 5, 10, true},
    [DATATYPE_FLOAT32] = {"float32", 4, true, true, 8, 23, true},
    [DATATYPE_FLOAT64] = {"float64", 8, true, true, 11, 52, true},
    [DATATYPE_BFLOAT16] = {"bfloat16", 2, true, true, 8, 7, true},
    [DATATYPE_FLOAT8E4M3] = {"float8e4m3", 1, true, true, 4, 3, false},
    [DATATYPE_FLOAT8E5M2] = {"float8e5m2", 1, true, true, 5, 2, true},
};

/* A floating point number read off its bits, exactly: all formats fit into a double. */
static double read_float(int datatype, uint64_t bits) {
  int mantissa_bits = formats[datatype].mantissa_bits;
  int exponent_bits = formats[datatype].exponent_bits;
  uint64_t mantissa = bits & ((UINT64_C(1) << mantissa_bits) - 1);
  int exponent = (int)(bits >> mantissa_bits & ((UINT64_C(1) << exponent_bits) - 1));
  int top = (1 << exponent_bits) - 1;
  double sign = bits >> (mantissa_bits + exponent_bits) & 1 ? -1.0 : 1.0;
  if (exponent == top && formats[datatype].has_infinity)
    return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
  if (exponent == top && mantissa == (UINT64_C(1) << mantissa_bits) - 1)
    return (double)NAN;
  int bias = top / 2;
  double significand = (double)mantissa;
  if (exponent == 0)
    return sign * ldexp(significand, 1 - bias - mantissa_bits);
  return sign * ldexp(significand + ldexp(1, mantissa_bits), exponent - bias - mantissa_bits);
}

__extension__ typedef __int128 integer; /* holds every int64 and uint64 */

static integer read_integer(int datatype, uint64_t bits) {
  unsigned width = formats[datatype].size * 8;
  if (formats[datatype].is_signed && bits >> (width - 1) & 1)
    return (integer)bits - ((integer)1 << width);
  return (integer)bits;
}

static const uint16_t reductions[] = {REDUCTION_SUM, REDUCTION_PROD, REDUCTION_MAX,
                                      REDUCTION_MIN, REDUCTION_AVG,  REDUCTION_PREMULSUM};
#define NREDUCTIONS (sizeof reductions / sizeof *reductions)

/* An average, and a PreMulSum, is a sum with a factor on each contribution: the fill must stay 0
 * under any. */
static bool changes_nothing(int datatype, uint16_t reduction, uint64_t fill, uint64_t other) {
  if (formats[datatype].is_float) {
    double a = read_float(datatype, fill);
    double x = read_float(datatype, other);
    switch (reduction) {
    case REDUCTION_PROD:
      return a * x == x;
    case REDUCTION_MAX:
      return (a > x ? a : x) == x;
    case REDUCTION_MIN:
      return (a < x ? a : x) == x;
    default:
      return a * 3 + x == x && a / 3 + x == x;
    }
  }
  integer a = read_integer(datatype, fill);
  integer x = read_integer(datatype, other);
  switch (reduction) {
  case REDUCTION_PROD:
    return a * x == x;
  case REDUCTION_MAX:
    return (a > x ? a : x) == x;
  case REDUCTION_MIN:
    return (a < x ? a : x) == x;
  default:
    return a * 3 + x == x && a / 3 + x == x;
  }
}

static struct member with(int datatype, uint16_t reduction) {
  return (struct member){.count = 1,
                         .root = ROOT_NONE,
                         .kind = MEMBER_ALLREDUCE,
                         .datatype = (uint8_t)datatype,
                         .reduction = reduction};
}

static void expect_neutral(int datatype, uint16_t reduction, uint64_t x) {
  struct member member = with(datatype, reduction);
  struct fill fill = contribution_fill(&member);
  if (formats[datatype].is_float && isnan(read_float(datatype, x)))
    return;
  cr_expect(changes_nothing(datatype, reduction, fill.bits, x), "%s, reduction %u, element %#llx",
            formats[datatype].name, reduction, (unsigned long long)x);
}

/* A datatype without a row here, or in hooks/number.c, is all zero to the compiler. */
Test(contribution, each_datatype_is_a_number_as_it_is_read_here) {
  for (int datatype = 0; datatype < DATATYPES; datatype++) {
    cr_assert_not_null(formats[datatype].name, "%d", datatype);
    cr_expect_eq(number_is_float((uint8_t)datatype), formats[datatype].is_float, "%s",
                 formats[datatype].name);
  }
}

Test(contribution, fill_changes_no_element_of_the_small_types) {
  for (int datatype = 0; datatype < DATATYPES; datatype++)
    if (formats[datatype].size <= 2)
      for (size_t r = 0; r < NREDUCTIONS; r++)
        for (uint64_t x = 0; x < UINT64_C(1) << formats[datatype].size * 8; x++)
          expect_neutral(datatype, reductions[r], x);
}

/* Both signs of the largest, the smallest, infinity and one, every single bit, and 100000 others.
 */
Test(contribution, fill_changes_no_sampled_element_of_the_large_types) {
  for (int datatype = 0; datatype < DATATYPES; datatype++) {
    unsigned width = formats[datatype].size * 8;
    if (width <= 16)
      continue;
    uint64_t mask = ~UINT64_C(0) >> (64 - width);
    for (size_t r = 0; r < NREDUCTIONS; r++) {
      for (unsigned bit = 0; bit < width; bit++) {
        uint64_t power = UINT64_C(1) << bit;
        const uint64_t edges[] = {power, power - 1, ~power & mask, (~power + 1) & mask};
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
          expect_neutral(datatype, reductions[r], edges[i]);
      }
      struct member lowest = with(datatype, REDUCTION_MAX);
      struct member highest = with(datatype, REDUCTION_MIN);
      expect_neutral(datatype, reductions[r], contribution_fill(&lowest).bits);
      expect_neutral(datatype, reductions[r], contribution_fill(&highest).bits);
      uint64_t x = 1;
      for (int i = 0; i < 100000; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        expect_neutral(datatype, reductions[r], (x ^ x >> 32) & mask);
      }
    }
  }
}

Test(contribution, fill_has_the_size_of_the_datatype_and_nothing_above_it) {
  for (int datatype = 0; datatype < DATATYPES; datatype++)
    for (size_t r = 0; r < NREDUCTIONS; r++) {
      struct member member = with(datatype, reductions[r]);
      struct fill fill = contribution_fill(&member);
      cr_expect_eq(fill.size, formats[datatype].size);
      cr_expect(fill.size == 8 || fill.bits >> fill.size * 8 == 0);
    }
}

Test(contribution, one_is_one_in_every_format) {
  for (int datatype = 0; datatype < DATATYPES; datatype++) {
    struct fill one = contribution_one((uint8_t)datatype);
    cr_expect_eq(one.size, formats[datatype].size);
    if (formats[datatype].is_float)
      cr_expect_eq(read_float(datatype, one.bits), 1.0);
    else
      cr_expect(read_integer(datatype, one.bits) == 1);
  }
}

Test(contribution, bool_as_uint8_max_gets_false) {
  struct member member = with(DATATYPE_UINT8, REDUCTION_MAX);
  cr_expect_eq(contribution_fill(&member).bits, 0);
}

Test(contribution, float8_without_infinity_gets_its_largest_numbers) {
  struct member member = with(DATATYPE_FLOAT8E4M3, REDUCTION_MAX);
  cr_expect_eq(read_float(DATATYPE_FLOAT8E4M3, contribution_fill(&member).bits), -448.0);
  member.reduction = REDUCTION_MIN;
  cr_expect_eq(read_float(DATATYPE_FLOAT8E4M3, contribution_fill(&member).bits), 448.0);
}

Test(contribution, kinds_that_do_not_reduce_get_zeros) {
  for (int datatype = 0; datatype < DATATYPES; datatype++) {
    struct member member = with(datatype, REDUCTION_NONE);
    member.kind = MEMBER_ALLGATHER;
    struct fill fill = contribution_fill(&member);
    cr_expect_eq(fill.size, formats[datatype].size);
    cr_expect_eq(fill.bits, 0);
  }
}

Test(contribution, what_is_not_known_has_no_size) {
  struct member type = with(DATATYPES, REDUCTION_SUM);
  struct member reduction = with(DATATYPE_INT8, REDUCTIONS);
  cr_expect_eq(contribution_fill(&type).size, 0);
  cr_expect_eq(contribution_fill(&reduction).size, 0);
  cr_expect_eq(contribution_one(DATATYPES).size, 0);
  cr_expect_eq(contribution_one(255).size, 0);
}

Test(contribution, pattern_repeats_the_element_over_eight_bytes) {
  cr_expect_eq(contribution_pattern((struct fill){1, 0x7e}), 0x7e7e7e7e7e7e7e7e);
  cr_expect_eq(contribution_pattern((struct fill){2, 0x3c00}), 0x3c003c003c003c00);
  cr_expect_eq(contribution_pattern((struct fill){4, 1}), 0x0000000100000001);
  cr_expect_eq(contribution_pattern((struct fill){8, 1}), 1);
  cr_expect_eq(contribution_pattern((struct fill){2, 0}), 0);
  cr_expect_eq(contribution_pattern((struct fill){0, 0}), 0);
}

/* NCCL's header, 2.28: what each kind reads and writes, for count 10 in a communicator of 4 with
 * root 2. */
static const struct {
  enum member_kind kind;
  uint64_t send_root, send_other, recv_root, recv_other;
  bool lossy_root, lossy_other;
} kinds[] = {
    {MEMBER_ALLREDUCE, 10, 10, 10, 10, false, false},
    {MEMBER_BROADCAST, 10, 0, 10, 10, false, false},
    {MEMBER_REDUCE, 10, 10, 10, 0, false, false},
    {MEMBER_ALLGATHER, 10, 10, 40, 40, true, true},
    {MEMBER_REDUCESCATTER, 40, 40, 10, 10, false, false},
    {MEMBER_ALLTOALL, 40, 40, 40, 40, true, true},
    {MEMBER_GATHER, 10, 10, 40, 0, false, true},
    {MEMBER_SCATTER, 40, 0, 10, 10, true, false},
    {MEMBER_SEND, 10, 10, 0, 0, true, true},
    {MEMBER_RECEIVE, 0, 0, 10, 10, false, false},
    {MEMBER_STATE, 10, 0, 10, 10, false, false},
    {MEMBER_MARK, 0, 0, 0, 0, false, false},
    {MEMBER_SPLIT, 0, 0, 0, 0, false, false},
    {MEMBER_EXCHANGE, 0, 0, 0, 0, false, false},
};

Test(contribution, counts_and_losses_of_every_kind) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    bool rooted =
        kinds[i].send_root != kinds[i].send_other || kinds[i].recv_root != kinds[i].recv_other;
    struct member member = {
        .count = 10, .root = rooted ? 2 : ROOT_NONE, .kind = (uint8_t)kinds[i].kind};
    for (uint32_t rank = 0; rank < 4; rank++) {
      bool root = rank == 2;
      cr_expect_eq(contribution_send_count(&member, rank, 4),
                   root ? kinds[i].send_root : kinds[i].send_other, "kind %d rank %u", member.kind,
                   rank);
      cr_expect_eq(contribution_recv_count(&member, rank, 4),
                   root ? kinds[i].recv_root : kinds[i].recv_other, "kind %d rank %u", member.kind,
                   rank);
      cr_expect_eq(contribution_is_lossy((struct unit){&member, 1}, 0, rank),
                   root ? kinds[i].lossy_root : kinds[i].lossy_other, "kind %d rank %u",
                   member.kind, rank);
    }
  }
}

static struct member broadcast(int root, uint32_t comm) {
  return (struct member){.count = 10, .comm = comm, .root = root, .kind = MEMBER_BROADCAST};
}

/* How PyTorch gathers parts of different sizes. */
Test(contribution, broadcasts_of_several_roots_in_one_unit_gather) {
  struct member sum = {.count = 10, .comm = 7, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE};
  struct member members[] = {broadcast(0, 7), sum, broadcast(2, 7), broadcast(0, 9),
                             broadcast(0, 9)};
  struct unit unit = {members, 5};
  cr_expect(contribution_gathers(unit, 7));
  cr_expect_not(contribution_gathers(unit, 9), "one root");
  cr_expect_not(contribution_gathers((struct unit){members, 2}, 7), "one broadcast");
  for (uint32_t place = 0; place < 5; place++)
    for (uint32_t rank = 0; rank < 3; rank++)
      cr_expect_eq(contribution_is_lossy(unit, place, rank),
                   (place == 0 && rank == 0) || (place == 2 && rank == 2), "%u %u", place, rank);
}

Test(contribution, nothing_is_lost_of_a_send_of_no_elements) {
  struct member send = {.count = 0, .root = 1, .kind = MEMBER_SEND};
  cr_expect_not(contribution_is_lossy((struct unit){&send, 1}, 0, 0));
}

Test(contribution, every_kind_that_can_lose_something_has_a_policy) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    bool lossy = kinds[i].lossy_root || kinds[i].lossy_other || kinds[i].kind == MEMBER_BROADCAST ||
                 kinds[i].kind == MEMBER_RECEIVE;
    cr_expect_eq(contribution_lossy_kind((uint8_t)kinds[i].kind) != LOSSY_KINDS, lossy, "kind %d",
                 kinds[i].kind);
  }
  cr_expect_eq(contribution_lossy_kind(0), LOSSY_KINDS);
}

Test(contribution, a_count_that_does_not_fit_is_no_small_number) {
  struct member member = {.count = UINT64_MAX / 2, .root = ROOT_NONE, .kind = MEMBER_ALLGATHER};
  cr_expect_eq(contribution_recv_count(&member, 0, 4), UINT64_MAX);
}
