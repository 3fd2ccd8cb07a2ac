/* Timers of the program's own that go on while a rank is parked. PyTorch's backends take the time
 * before they call NCCL, and look at it when the call has returned: the legacy one ends the process
 * if the process group's timeout has passed by then, even if the collective is done
 * (ProcessGroupNCCL.cpp, WorkNCCL's constructor, Watchdog::runLoop: checkTimeout); nccl2 throws
 * from wait() unless it is done at once (WorkNCCL.cpp, checkStatus). nccl2 holds a lock around each
 * call of NCCL which its watchdog wants too (NcclApi.cpp), and where that stands still for
 * TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC the process is ended (HeartbeatMonitor.cpp). Nothing that NCCL
 * returns moves these: so a rank that waits because it has joined says in time what to set.
 */
#ifndef NCCL_JOIN_INTERPOSE_WATCHED_H
#define NCCL_JOIN_INTERPOSE_WATCHED_H

#include "interpose/park/wait_private.h"

/* Says so once for the process, where PyTorch is loaded and the wait lasts, a collective of the
 * program's is what it waits for, and join is the reason. Looks now and then. */
void watched_warn(const struct wait *wait);

#endif
