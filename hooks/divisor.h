/* What averages divide by once a rank has joined (NCCL_JOIN_DIVISOR): pure rules.
 *
 * A joined rank contributes 0, so a sum over all ranks is that over the active ones, and an average
 * divides it by all. To divide by the active ones, every rank, joined or not, issues the member
 * with another operator: PreMulSum, which multiplies each contribution before it is summed. No
 * kernel, and no pass over the data beyond what ncclAvg does itself. NCCL wants the same kind of
 * operator from all ranks; the scalar is local to each.
 *
 *   - avg of floats: PreMulSum by 1/active, rounded as NCCL rounds what it multiplies with for
 *     ncclAvg: the result is that of a communicator of the active ranks.
 *   - avg of integers: NCCL divides the sum, towards zero, by the size of the communicator, and by
 *     nothing else. A multiplication by an integer cannot do that. Refused: neither issued nor
 *     shadowed; as long as all ranks are active it is an average as ever.
 *   - with DIVISOR_ACTIVE_SUM also sum and PreMulSum of floats in which each rank contributes
 *     `least` elements or more: by all/active (PreMulSum: its own scalar times that). A program
 *     that divides by all ranks before it sums, as PyTorch's DistributedDataParallel does, gets
 *     its average over the active ones. Smaller sums and integers are counters, metrics and
 *     bitmaps, and are left alone.
 *
 * What a plug-in sends in the place of a 0 (nccl_join_hook.h) is added as it is.
 *
 * Which of these applies follows from the member and from whether any rank has joined: a joined
 * rank knows that of itself, so only active ranks have to wait for who else is.
 */
#ifndef NCCL_JOIN_HOOKS_DIVISOR_H
#define NCCL_JOIN_HOOKS_DIVISOR_H

#include <stdint.h>

#include "core/settings/settings.h"
#include "core/unit/unit.h"

struct divisor_rule {
  enum divisor_policy policy;
  uint64_t least; /* elements that a rank contributes to a sum that is scaled */
};

enum divisor_action {
  DIVISOR_KEEP,   /* its own operator is right */
  DIVISOR_SCALE,  /* PreMulSum by divisor_factor */
  DIVISOR_REFUSE, /* cannot be divided by the active ranks */
};

/* What becomes of a member, on a communicator of nranks ranks, if some of them have joined. If none
 * has, DIVISOR_KEEP is right for all. */
enum divisor_action divisor_action(const struct divisor_rule *rule, const struct member *member,
                                   uint32_t nranks);

/* What to multiply with: an avg's contributions; those of a sum; the scalar of a PreMulSum. active:
 * 1 to nranks. */
double divisor_factor(const struct member *member, uint32_t nranks, uint32_t active);

#endif
