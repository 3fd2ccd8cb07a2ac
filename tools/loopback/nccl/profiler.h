/* The profiler plug-in that NCCL_PROFILER_PLUGIN names. It is told of each communicator as NCCL
 * does it (plugin/profiler.cc, ncclProfilerPluginInit): by `init` of ncclProfiler_v5 or
 * ncclProfiler_v4, on the thread that makes the communicator. It has no events: a plug-in
 * that asks for any gets none.
 */
#ifndef LOOPBACK_NCCL_PROFILER_H
#define LOOPBACK_NCCL_PROFILER_H

#include "communicator.h"

/* The communicator has met its peers. */
void profiler_communicator(const struct ncclComm *comm);

#endif
