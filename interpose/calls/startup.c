/* Which of the program's first broadcasts are its state (issue.h). */
#include "interpose/calls/issue.h"

#include "core/report/log.h"
#include "interpose/self/environment.h"

/* The number of a buffer must be the same on all ranks: where in the sequence it was broadcast. */
#define POSITION_BITS 10
_Static_assert(UNIT_MEMBERS_MAX == 1 << POSITION_BITS, "the position in the unit");
#define INDEX_MAX (STATE_BROADCAST >> POSITION_BITS)

bool startup_is_watched(const struct endpoint *end) {
  return !end->started && join_settings()->resync == RESYNC_BROADCASTS;
}

static bool is_barrier(struct unit unit) {
  for (uint32_t i = 0; i < unit.nmembers; i++)
    if (unit.members[i].count > 1)
      return false;
  return true;
}

static bool is_broadcast(struct unit unit) {
  for (uint32_t i = 0; i < unit.nmembers; i++)
    if (unit.members[i].kind != MEMBER_BROADCAST)
      return false;
  return true;
}

static void startup_remember(struct endpoint *end, const struct member *member,
                             const struct call *call, uint32_t number) {
  char reason[REASON_SIZE] = "";
  const struct cuda_driver *cuda = cuda_driver_get(reason);
  struct state_buffer buffer = {.address = call->receive,
                                .count = member->count,
                                .comm = member->comm,
                                .number = number,
                                .datatype = member->datatype};
  if (cuda == NULL || !state_add(&end->buffers, cuda, end->device, buffer, reason))
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "rank %u: a buffer that is broadcast cannot be resynchronised: %s. Register it "
                "(nccl_join.h) where it is memory of the communicator's device",
                end->team->plane->rank, reason);
}

void startup_issued(const struct request *request, const struct call *const *calls) {
  struct endpoint *end = request->end;
  bool broadcast = is_broadcast(request->unit);
  if ((!broadcast && !is_barrier(request->unit)) || request->index >= INDEX_MAX ||
      request->unit.nmembers > UNIT_MEMBERS_MAX)
    end->started = true;
  for (uint32_t i = 0; i < request->unit.nmembers && broadcast && !end->started; i++)
    startup_remember(end, &request->unit.members[i], calls[i],
                     STATE_BROADCAST | (uint32_t)request->index << POSITION_BITS | i);
}
