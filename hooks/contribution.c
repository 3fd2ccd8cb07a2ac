/* The elements that change nothing, as one table over the datatypes, and what each kind reads and
 * writes.
 */
#include "hooks/contribution.h"

/* Elements as bits. Formats: two's complement; IEEE 754 binary16, binary32, binary64; bfloat16, the
 * upper half of binary32; OCP 8-bit floating point ("OFP8", revision 1.0). lowest and highest are
 * infinities where the format has them. */
static const struct {
  uint64_t one, lowest, highest;
} elements[] = {
    [DATATYPE_INT8] = {1, 0x80, 0x7f},
    [DATATYPE_UINT8] = {1, 0, 0xff},
    [DATATYPE_INT32] = {1, 0x80000000, 0x7fffffff},
    [DATATYPE_UINT32] = {1, 0, 0xffffffff},
    [DATATYPE_INT64] = {1, 0x8000000000000000, 0x7fffffffffffffff},
    [DATATYPE_UINT64] = {1, 0, 0xffffffffffffffff},
    [DATATYPE_FLOAT16] = {0x3c00, 0xfc00, 0x7c00},
    [DATATYPE_FLOAT32] = {0x3f800000, 0xff800000, 0x7f800000},
    [DATATYPE_FLOAT64] = {0x3ff0000000000000, 0xfff0000000000000, 0x7ff0000000000000},
    [DATATYPE_BFLOAT16] = {0x3f80, 0xff80, 0x7f80},
    [DATATYPE_FLOAT8E4M3] = {0x38, 0xfe, 0x7e},
    [DATATYPE_FLOAT8E5M2] = {0x3c, 0xfc, 0x7c},
};
_Static_assert(sizeof elements / sizeof *elements == DATATYPES, "a row for each datatype");

struct fill contribution_one(uint8_t datatype) {
  if (datatype >= DATATYPES)
    return (struct fill){0, 0};
  return (struct fill){(uint8_t)datatype_size(datatype), elements[datatype].one};
}

struct fill contribution_fill(const struct member *member) {
  struct fill fill = {0, 0};
  if (member->datatype >= DATATYPES)
    return fill;
  fill.size = (uint8_t)datatype_size(member->datatype);
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

/* Elements of a buffer that the rank uses. */
static uint64_t contribution_amount(enum kind_amount amount, const struct member *member,
                                    uint32_t rank, uint32_t nranks) {
  switch (amount) {
  case KIND_NOTHING:
    break;
  case KIND_ONE:
    return member->count;
  case KIND_ALL:
    return for_each_rank(member->count, nranks);
  case KIND_ROOT_ONE:
    return is_root(member, rank) ? member->count : 0;
  case KIND_ROOT_ALL:
    return is_root(member, rank) ? for_each_rank(member->count, nranks) : 0;
  }
  return 0;
}

uint64_t contribution_send_count(const struct member *member, uint32_t rank, uint32_t nranks) {
  return contribution_amount(kind_traits(member->kind)->sends, member, rank, nranks);
}

uint64_t contribution_recv_count(const struct member *member, uint32_t rank, uint32_t nranks) {
  return contribution_amount(kind_traits(member->kind)->receives, member, rank, nranks);
}

bool contribution_gathers(struct unit unit, uint32_t comm) {
  const struct member *first = NULL;
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    if (!member_elects_root(member->kind) || member->comm != comm)
      continue;
    if (first != NULL && member->root != first->root)
      return true;
    first = member;
  }
  return false;
}

static bool is_on_root_alone(enum kind_amount amount) {
  return amount == KIND_ROOT_ONE || amount == KIND_ROOT_ALL;
}

/* Whether another rank receives what this one sends. */
static bool is_heard(const struct member *member, uint32_t rank) {
  const struct kind_traits *traits = kind_traits(member->kind);
  if (is_on_root_alone(traits->sends))
    return is_root(member, rank);
  if (is_on_root_alone(traits->receives))
    return !is_root(member, rank);
  return traits->sends != KIND_NOTHING;
}

bool contribution_is_lossy(struct unit unit, uint32_t position, uint32_t rank) {
  const struct member *member = &unit.members[position];
  if (contribution_lossy_kind(member->kind) == LOSSY_KINDS || member->count == 0)
    return false;
  if (member_elects_root(member->kind) && !contribution_gathers(unit, member->comm))
    return false;
  return is_heard(member, rank);
}

enum lossy_kind contribution_lossy_kind(uint8_t kind) {
#define LOSSY_NEVER LOSSY_KINDS
#define LOSSY_ROW(with, KIND, NAME, ROOT, REDUCTION, TEXT, SINCE, CONFIG, SENDS, RECEIVES,         \
                  IN_PLACE, LOSSY)                                                                 \
  [MEMBER_##KIND] = LOSSY_##LOSSY,
  static const enum lossy_kind lossy[MEMBER_KINDS] = {
      [MEMBER_NONE] = LOSSY_NEVER,     [MEMBER_SEND] = LOSSY_SEND,   [MEMBER_RECEIVE] = LOSSY_SEND,
      [MEMBER_SPLIT] = LOSSY_NEVER,    [MEMBER_STATE] = LOSSY_NEVER, [MEMBER_MARK] = LOSSY_NEVER,
      [MEMBER_EXCHANGE] = LOSSY_NEVER, NCCL_COLLECTIVES(LOSSY_ROW, )};
  return kind < MEMBER_KINDS ? lossy[kind] : LOSSY_NEVER;
}
