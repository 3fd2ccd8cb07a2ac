/* Averages over the active ranks (divisors.h). */
#include "interpose/comm/apart.h"
#include "interpose/data/divisors.h"

#include <stdlib.h>

#include "core/report/log.h"
#include "hooks/divisor.h"
#include "hooks/number.h"
#include "interpose/self/environment.h"
#include "interpose/data/membership.h"
#include "interpose/comm/operators.h"
#include "interpose/nccl/real.h"

static struct divisor_rule divisors_rule(void) {
  const struct settings *settings = join_settings();
  return (struct divisor_rule){settings->divisor, settings->divisor_min};
}

bool divisors_are_on(void) {
  const struct settings *settings = join_settings();
  return settings != NULL && settings->divisor != DIVISOR_INITIAL;
}

/* How many ranks issue the unit for real; negative if that cannot be known. */
static int count_active(struct endpoint *end, uint64_t index) {
  uint64_t deadline_ms = 0;
  bool *active = calloc(end->team->plane->nranks, sizeof(*active));
  int count = active == NULL ? -1 : membership_of_all(end, index, active, &deadline_ms);
  free(active);
  return count;
}

/* What the contributions are to be multiplied with; false if the host does not know it. */
static bool find_scalar(const struct call *call, const struct member *member, double factor,
                        uint64_t *scalar) {
  uint64_t own;
  if (member->reduction != REDUCTION_PREMULSUM) {
    *scalar = number_bits(member->datatype, factor);
    return true;
  }
  if (!operators_scalar(call->handle, (ncclRedOp_t)call->reduction, &own))
    return false;
  *scalar = number_bits(member->datatype, number_value(member->datatype, own) * factor);
  return true;
}

static ncclResult_t divisors_scale(struct call *call, const struct communicator *comm,
                                   const struct member *member, double factor) {
  uint64_t scalar;
  if (!find_scalar(call, member, factor, &scalar)) {
    log_line_of(
        communicator_subject(comm), LOG_LEVEL_WARN,
        "a PreMulSum operator with its scalar in device memory cannot be scaled to the active "
        "ranks: ncclInvalidUsage. Make it with ncclScalarHostImmediate, or set "
        "NCCL_JOIN_DIVISOR=active, which leaves it alone");
    return ncclInvalidUsage;
  }
  ncclRedOp_t scaled;
  ncclResult_t result = real.RedOpCreatePreMulSum(&scaled, &scalar, call->datatype,
                                                  ncclScalarHostImmediate, call->handle);
  if (result != ncclSuccess)
    return result;
  call->reduction = (int)scaled;
  call->scaled = true;
  return ncclSuccess;
}

ncclResult_t divisors_apply(struct call *call, uint64_t index, bool *issue) {
  const struct divisor_rule divisor = divisors_rule();
  *issue = true;
  if (divisor.policy == DIVISOR_INITIAL)
    return ncclSuccess;
  const struct communicator *comm = communicator_find(call->handle);
  struct member member;
  uint32_t nranks = (uint32_t)comm->nranks;
  if (!call_member(call, comm, &member) || apart_is_set(comm->end))
    return ncclSuccess;
  enum divisor_action action = divisor_action(&divisor, &member, nranks);
  if (action == DIVISOR_KEEP)
    return ncclSuccess;
  int active = count_active(comm->end, index);
  if (active < 0) {
    *issue = false;
    if (membership_own_error_at(comm->end, index))
      return ncclInvalidUsage;
    log_line_of(
        communicator_subject(comm), LOG_LEVEL_WARN,
        "it cannot be known which ranks are active in a reduction: rank %u failed, or somebody "
        "did not come; ncclRemoteError. The log of that rank says why",
        comm->end->team->failed.rank);
    return ncclRemoteError;
  }
  if ((uint32_t)active == nranks)
    return ncclSuccess;
  if (action == DIVISOR_SCALE)
    return divisors_scale(call, comm, &member, divisor_factor(&member, nranks, (uint32_t)active));
  *issue = false;
  log_line_of(
      communicator_subject(comm), LOG_LEVEL_WARN,
      "NCCL cannot divide a sum of integers by the active ranks, of which there are %d of %u: "
      "ncclInvalidUsage on every rank that called it. Set NCCL_JOIN_DIVISOR=initial, or sum "
      "and divide in the program",
      active, nranks);
  return ncclInvalidUsage;
}

void divisors_done(struct call *call) {
  if (call->scaled)
    (void)real.RedOpDestroy((ncclRedOp_t)call->reduction, call->handle);
  call->scaled = false;
}

bool divisors_shadow(struct member *member, const struct communicator *comm) {
  const struct divisor_rule divisor = divisors_rule();
  switch (divisor_action(&divisor, member, (uint32_t)comm->nranks)) {
  case DIVISOR_KEEP:
    return true;
  case DIVISOR_SCALE:
    member->reduction = REDUCTION_PREMULSUM; /* by any scalar: its fill is 0 */
    return true;
  case DIVISOR_REFUSE:
    break;
  }
  return false;
}
