/* A rank that has missed the rebuilding of gradient buckets (rebuilt.h). */
#include "interpose/park/rebuilt.h"

#include "interpose/comm/report.h"
#include "interpose/nccl/real.h"
#include "interpose/self/environment.h"

static bool is_broadcast_of(struct unit unit, enum datatype datatype) {
  const struct member *member = unit.members;
  return unit.nmembers == 1 && member->kind == MEMBER_BROADCAST && member->root == 0 &&
         member->datatype == datatype && member->count > 1;
}

/* The order of the parameters, and how many buckets there are: two numbers at least. */
static bool is_rebuilding(struct unit unit) {
  return is_broadcast_of(unit, DATATYPE_INT32);
}

/* The shapes of a new model's parameters (verify_params_across_processes). */
static bool is_new_model(struct unit unit) {
  return is_broadcast_of(unit, DATATYPE_INT64);
}

/* An engine's thread sums what it has computed: autograd's. */
static bool is_gradient(const struct endpoint *end, struct unit unit) {
  return unit.nmembers >= 1 && unit.members->kind == MEMBER_ALLREDUCE &&
         unit.members->datatype >= DATATYPE_FLOAT16 && atomic_load(&end->user_of_engine);
}

void rebuilt_shadowed(struct endpoint *end, struct unit unit) {
  if (end->rebuilt == REBUILT_NOT && is_rebuilding(unit))
    end->rebuilt = REBUILT_MISSED;
}

ncclResult_t rebuilt_look(struct endpoint *end, struct unit unit) {
  bool missed = end->rebuilt == REBUILT_MISSED, stops = join_settings()->unsure == UNSURE_STOP;
  if (end->rebuilt == REBUILT_DONE && is_new_model(unit))
    end->rebuilt = REBUILT_NOT;
  if (end->rebuilt == REBUILT_DONE || !is_gradient(end, unit))
    return ncclSuccess;
  end->rebuilt = REBUILT_DONE;
  if (!missed)
    return ncclSuccess;
  report_not_rebuilt(end, unit, stops);
  if (!stops)
    return ncclSuccess;
  last_error_is_ours(ncclInvalidUsage);
  return ncclInvalidUsage;
}
