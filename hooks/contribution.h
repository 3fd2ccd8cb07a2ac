/* What a joined rank contributes to one member of a unit: pure rules, no CUDA, no NCCL headers.
 *
 * Reductions get the element that changes nothing, everything else zeros (docs/usage.md has the
 * table). Identities hold for all values but these two, which IEEE 754 sums and NCCL's max and
 * min treat in their own way:
 *   - a sum over active ranks that is -0 comes out as +0 (the fill is +0, so that one zeroed buffer
 *     serves all types);
 *   - max and min of a single active rank's NaN may come out as the fill: NCCL takes the number
 *     where one side is NaN (reduce_kernel.h, FuncMinMax), with or without us as soon as two ranks
 *     take part.
 */
#ifndef NCCL_JOIN_HOOKS_CONTRIBUTION_H
#define NCCL_JOIN_HOOKS_CONTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "core/settings/settings.h"
#include "core/unit/unit.h"

/* ncclRedOp_t's numbers. member.reduction also knows REDUCTION_PREMULSUM and
 * REDUCTION_NONE. */
enum builtin_reduction {
  REDUCTION_SUM = 0,
  REDUCTION_PROD = 1,
  REDUCTION_MAX = 2,
  REDUCTION_MIN = 3,
  REDUCTION_AVG = 4,
  REDUCTIONS = 5,
};

/* One element, to be repeated over a whole send buffer. */
struct fill {
  uint8_t size;  /* bytes of the element: 1, 2, 4 or 8; 0 for a datatype or reduction that is not
                    known */
  uint64_t bits; /* its value in the low bytes, the rest 0 */
};

/* The element that a joined rank sends: sum, avg and PreMulSum 0; prod 1; max the lowest; min the
 * highest value (infinities where the format has them); kinds that do not reduce 0. */
struct fill contribution_fill(const struct member *member);

/* 1 in the datatype: prod's fill, and the scalar of a shadow's PreMulSum operator. size 0 if it is
 * not known. */
struct fill contribution_one(uint8_t datatype);

/* The element repeated to 8 bytes: fills of different sizes that look the same in memory have the
 * same pattern. */
uint64_t contribution_pattern(struct fill fill);

/* A MEMBER_STATE is a Broadcast; a MEMBER_MARK uses no buffer.
 *
 * Elements that NCCL reads from the send buffer, and may write to the receive buffer, of the given
 * rank of the communicator (nccl.h's comments, 2.28: count is per peer in AllGather, ReduceScatter,
 * AlltoAll, Gather and Scatter). 0: that buffer is not used on that rank. UINT64_MAX if the product
 * does not fit. rank 0 to nranks - 1; a root is member->root. */
uint64_t contribution_send_count(const struct member *member, uint32_t rank, uint32_t nranks);
uint64_t contribution_recv_count(const struct member *member, uint32_t rank, uint32_t nranks);

/* Whether the unit's Broadcasts on a communicator are an AllGather of parts of different sizes, as
 * PyTorch issues it: in one group, and from several roots (ProcessGroupNCCL.cpp, allgather). Then
 * none of them takes another root: each root has a part of its own. */
bool contribution_gathers(struct unit unit, uint32_t comm);

/* Whether the active ranks get something else than the result over the active ranks when `rank` has
 * joined. position: of the member in the unit. rank: in the member's communicator.
 *   - AllGather, AlltoAll: always.
 *   - Gather: unless the rank is the root; then the result lands where nobody reads it.
 *   - Scatter: if the rank is the root.
 *   - Broadcast: only where contribution_gathers; elsewhere another root is elected.
 *   - reductions: never.
 *   - point to point: what the rank sends, if that is anything; not what it receives. */
bool contribution_is_lossy(struct unit unit, uint32_t position, uint32_t rank);

/* The kind of NCCL_JOIN_LOSSY that is about a member which is lossy for some rank. LOSSY_KINDS for
 * one that never is. */
enum lossy_kind contribution_lossy_kind(uint8_t kind);

#endif
