/* Which reductions are scaled, and by what (divisor.h). */
#include "hooks/divisor.h"

#include "hooks/contribution.h"
#include "hooks/number.h"

enum divisor_action divisor_action(const struct divisor_rule *rule, const struct member *member,
                                   uint32_t nranks) {
  bool is_float = number_is_float(member->datatype);
  bool is_large = contribution_send_count(member, 0, nranks) >= rule->least;
  if (rule->policy == DIVISOR_INITIAL)
    return DIVISOR_KEEP;
  switch (member->reduction) {
  case REDUCTION_AVG:
    return is_float ? DIVISOR_SCALE : DIVISOR_REFUSE;
  case REDUCTION_SUM:
  case REDUCTION_PREMULSUM:
    return rule->policy == DIVISOR_ACTIVE_SUM && is_float && is_large ? DIVISOR_SCALE
                                                                      : DIVISOR_KEEP;
  default:
    return DIVISOR_KEEP;
  }
}

double divisor_factor(const struct member *member, uint32_t nranks, uint32_t active) {
  return member->reduction == REDUCTION_AVG ? 1.0 / active : (double)nranks / active;
}
