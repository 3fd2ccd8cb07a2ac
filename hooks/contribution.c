/* The elements that change nothing, as one table over the datatypes, and what each kind reads and
 * writes.
 */
#include "hooks/contribution.h"

/* Elements as bits. Formats: two's complement; IEEE 754 binary16, binary32, binary64; bfloat16, the
 * upper half of binary32; OCP 8-bit floating point ("OFP8", revision 1.0). lowest and highest are
 * infinities where the format has them. */
static const struct {
  uint8_t size;
  uint64_t one, lowest, highest;
} elements[DATATYPES] = {
    [DATATYPE_INT8] = {1, 1, 0x80, 0x7f},
    [DATATYPE_UINT8] = {1, 1, 0, 0xff},
    [DATATYPE_INT32] = {4, 1, 0x80000000, 0x7fffffff},
    [DATATYPE_UINT32] = {4, 1, 0, 0xffffffff},
    [DATATYPE_INT64] = {8, 1, 0x8000000000000000, 0x7fffffffffffffff},
    [DATATYPE_UINT64] = {8, 1, 0, 0xffffffffffffffff},
    [DATATYPE_FLOAT16] = {2, 0x3c00, 0xfc00, 0x7c00},
    [DATATYPE_FLOAT32] = {4, 0x3f800000, 0xff800000, 0x7f800000},
    [DATATYPE_FLOAT64] = {8, 0x3ff0000000000000, 0xfff0000000000000, 0x7ff0000000000000},
    [DATATYPE_BFLOAT16] = {2, 0x3f80, 0xff80, 0x7f80},
    [DATATYPE_FLOAT8E4M3] = {1, 0x38, 0xfe, 0x7e},
    [DATATYPE_FLOAT8E5M2] = {1, 0x3c, 0xfc, 0x7c},
};

struct fill contribution_one(uint8_t datatype) {
  if (datatype >= DATATYPES)
    return (struct fill){0, 0};
  return (struct fill){elements[datatype].size, elements[datatype].one};
}

struct fill contribution_fill(const struct member *member) {
  struct fill fill = {0, 0};
  if (member->datatype >= DATATYPES)
    return fill;
  fill.size = elements[member->datatype].size;
  switch (member->reduction) {
  case REDUCTION_SUM:
  case REDUCTION_AVG:
  case REDUCTION_PREMULSUM:
  case REDUCTION_NONE:
    break;
  case REDUCTION_PROD:
    fill.bits = elements[member->datatype].one;
    break;
  case REDUCTION_MAX:
    fill.bits = elements[member->datatype].lowest;
    break;
  case REDUCTION_MIN:
    fill.bits = elements[member->datatype].highest;
    break;
  default:
    fill.size = 0;
  }
  return fill;
}

uint64_t contribution_pattern(struct fill fill) {
  uint64_t pattern = fill.bits;
  for (unsigned bits = fill.size * 8u; bits != 0 && bits < 64; bits *= 2)
    pattern |= pattern << bits;
  return pattern;
}

static uint64_t for_each_rank(uint64_t count, uint32_t nranks) {
  uint64_t product = 0;
  return __builtin_mul_overflow(count, (uint64_t)nranks, &product) ? UINT64_MAX : product;
}

static bool is_root(const struct member *member, uint32_t rank) {
  return member->root >= 0 && (uint32_t)member->root == rank;
}

uint64_t contribution_send_count(const struct member *member, uint32_t rank, uint32_t nranks) {
  switch ((enum member_kind)member->kind) {
  case MEMBER_ALLREDUCE:
  case MEMBER_REDUCE:
  case MEMBER_ALLGATHER:
  case MEMBER_GATHER:
  case MEMBER_SEND:
    return member->count;
  case MEMBER_RECEIVE:
  case MEMBER_SPLIT:
    return 0;
  case MEMBER_BROADCAST:
  case MEMBER_STATE:
    return is_root(member, rank) ? member->count : 0;
  case MEMBER_REDUCESCATTER:
  case MEMBER_ALLTOALL:
    return for_each_rank(member->count, nranks);
  case MEMBER_SCATTER:
    return is_root(member, rank) ? for_each_rank(member->count, nranks) : 0;
  case MEMBER_MARK:
    return 0;
  }
  return 0;
}

uint64_t contribution_recv_count(const struct member *member, uint32_t rank, uint32_t nranks) {
  switch ((enum member_kind)member->kind) {
  case MEMBER_ALLREDUCE:
  case MEMBER_BROADCAST:
  case MEMBER_STATE:
  case MEMBER_REDUCESCATTER:
  case MEMBER_SCATTER:
  case MEMBER_RECEIVE:
    return member->count;
  case MEMBER_SEND:
  case MEMBER_MARK:
  case MEMBER_SPLIT:
    return 0;
  case MEMBER_REDUCE:
    return is_root(member, rank) ? member->count : 0;
  case MEMBER_ALLGATHER:
  case MEMBER_ALLTOALL:
    return for_each_rank(member->count, nranks);
  case MEMBER_GATHER:
    return is_root(member, rank) ? for_each_rank(member->count, nranks) : 0;
  }
  return 0;
}

bool contribution_gathers(struct unit unit, uint32_t comm) {
  const struct member *first = NULL;
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    if (member->kind != MEMBER_BROADCAST || member->comm != comm)
      continue;
    if (first != NULL && member->root != first->root)
      return true;
    first = member;
  }
  return false;
}

bool contribution_is_lossy(struct unit unit, uint32_t place, uint32_t rank) {
  const struct member *member = &unit.members[place];
  switch ((enum member_kind)member->kind) {
  case MEMBER_ALLREDUCE:
  case MEMBER_REDUCE:
  case MEMBER_REDUCESCATTER:
  case MEMBER_STATE:
  case MEMBER_RECEIVE:
  case MEMBER_MARK:
  case MEMBER_SPLIT:
    return false;
  case MEMBER_ALLGATHER:
  case MEMBER_ALLTOALL:
    return true;
  case MEMBER_SEND:
    return member->count > 0;
  case MEMBER_GATHER:
    return !is_root(member, rank);
  case MEMBER_SCATTER:
    return is_root(member, rank);
  case MEMBER_BROADCAST:
    return is_root(member, rank) && contribution_gathers(unit, member->comm);
  }
  return false;
}

enum lossy_kind contribution_lossy_kind(uint8_t kind) {
  switch ((enum member_kind)kind) {
  case MEMBER_ALLREDUCE:
  case MEMBER_REDUCE:
  case MEMBER_REDUCESCATTER:
  case MEMBER_STATE:
  case MEMBER_MARK:
  case MEMBER_SPLIT:
    break;
  case MEMBER_ALLGATHER:
  case MEMBER_BROADCAST: /* contribution_gathers */
    return LOSSY_ALLGATHER;
  case MEMBER_ALLTOALL:
    return LOSSY_ALLTOALL;
  case MEMBER_GATHER:
    return LOSSY_GATHER;
  case MEMBER_SCATTER:
    return LOSSY_SCATTER;
  case MEMBER_SEND:
  case MEMBER_RECEIVE:
    return LOSSY_SEND;
  }
  return LOSSY_KINDS;
}
