/* What the hot path (hot.h) leaves to be done now and then. */
#include "interpose/comm/hot.h"

#include <string.h>

_Thread_local struct hot_communicator hot_communicators[HOT_COMMUNICATORS];

void hot_remember(struct communicator *comm) {
  struct seat *seat = atomic_load(&comm->end->plain);
  if (seat != NULL && atomic_load(&seat->thread) == endpoint_this_thread())
    *hot_place(comm->handle) = (struct hot_communicator){comm, seat};
  guard_thread.hot.handle = GUARD_NO_HANDLE;
}

void hot_forget(void) {
  memset(hot_communicators, 0, sizeof(hot_communicators));
  guard_thread.hot.handle = GUARD_NO_HANDLE;
}

void hot_tell(ncclComm_t handle) {
  (void)handle;
  team_published(guard_thread.hot.comm->end->team);
  endpoint_end_commit(guard_thread.hot.seat);
}
