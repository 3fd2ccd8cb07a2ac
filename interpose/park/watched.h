/* Timers of the program's own that go on while a rank is parked: PyTorch's. Both of its backends
 * take the time before they call NCCL and look at it when the call has returned
 * (ProcessGroupNCCL.cpp, nccl2/WorkNCCL.cpp of PyTorch 2.15):
 *
 *   legacy   ends the process if the timeout has passed, even if the collective is done
 *            (Watchdog::runLoop, checkTimeout). It decides after the call which timeout that is
 *            (assignTimeoutToWork): the process group's, and what has been added to it once by
 *            _add_ephemeral_timeout_for_all_pgs (torch/distributed/distributed_c10d.py).
 *   nccl2    looks first whether the collective is done (checkStatus).
 *
 * So where a rank has been parked for long because of join, its call returns only when the
 * collective is done, and the event that is recorded after it, too (real.h). And that function is
 * called with the time that the rank was parked.
 *
 * Releases after 2.15 have one timer more: nccl2 holds a lock around each call of NCCL, which its
 * watchdog wants too (NcclApi.cpp). Where the watchdog stands still for
 * TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC the process is ended (nccl2/HeartbeatMonitor.cpp). Nothing moves
 * that timer, nor the others in a program without Python: there a WARN says so in time.
 */
#ifndef NCCL_JOIN_INTERPOSE_WATCHED_H
#define NCCL_JOIN_INTERPOSE_WATCHED_H

#include "interpose/park/wait_private.h"

/* Notes in the requests of the wait that they are parked because of join, for a collective of the
 * program's. Looks now and then. */
void watched_look(const struct wait *wait);

/* The requests have been issued, and their call is about to return. Waits for the device for a
 * quarter of the time that the rank has been parked, 5 seconds at most. */
void watched_return(const struct request *requests, uint32_t nrequests);

#endif
