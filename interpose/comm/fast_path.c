/* What the fast path (fast_path.h) leaves to be done now and then. */
#include "interpose/comm/fast_path.h"

#include <string.h>

_Thread_local struct fast_path_communicator fast_path_communicators[FAST_PATH_COMMUNICATORS];

void fast_path_remember(struct communicator *comm) {
  struct seat *seat = atomic_load(&comm->end->plain);
  if (seat != NULL && atomic_load(&seat->thread) == endpoint_this_thread())
    *fast_path_place(comm->handle) = (struct fast_path_communicator){comm, seat};
  guard_thread.fast_path.handle = GUARD_NO_HANDLE;
}

void fast_path_forget(void) {
  memset(fast_path_communicators, 0, sizeof(fast_path_communicators));
  guard_thread.fast_path.handle = GUARD_NO_HANDLE;
}

void fast_path_tell(ncclComm_t handle) {
  (void)handle;
  team_published(guard_thread.fast_path.comm->end->team);
  endpoint_end_commit(guard_thread.fast_path.seat);
}
