/* The run as a trace for the Perfetto UI (ui.perfetto.dev, Open trace file), in which it lies
 * beside an Nsight or PyTorch profile.
 *
 * A process for each of the job, by its number, with a track for each of its communicators. On it
 * stand what the rank did (its own, waits, joined), the collectives that it issued as instants,
 * from each of which an arrow leads to the shadows that follow it, and the lines of WARN. Times are
 * CLOCK_REALTIME, the clock of PyTorch's profiles; those of one machine are in the order of its
 * CLOCK_MONOTONIC, and machines are as far apart as their clocks.
 */
#ifndef NCCL_JOIN_TOOLS_REPORT_PERFETTO_H
#define NCCL_JOIN_TOOLS_REPORT_PERFETTO_H

#include <stdbool.h>

#include "tools/report/tracks.h"

/* Of tracks that have been read with wants_issued. False, having said why on stderr, if that cannot
 * be written, or if there is no protobuf-c in this build (perfetto_none.c). */
bool perfetto_write(const char *path, const struct tracks *tracks);

#endif
