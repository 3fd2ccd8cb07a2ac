/* What nccl-join run -n leaves in the folder of the traces (NCCL_JOIN_TRACE) of a run that did not
 * end well, for nccl-join report: who was first, and that it has ended the others. These have no
 * say in it, and so no end in their traces.
 *
 * FOLDER/launch.<host>.<pid> is text:
 *
 *   nccl-join-launch 1
 *   why rank 1 was ended by signal 9 (Killed) after allreduce(sum, float32, 256) at train.py:41
 *   failed 4712
 *   ended 4711
 *
 * `why` comes once: what the launcher has said. The others are process groups of ranks (trace.h):
 * those that failed by themselves, and those that the launcher has ended.
 */
#ifndef NCCL_JOIN_TOOLS_LAUNCH_RECORD_H
#define NCCL_JOIN_TOOLS_LAUNCH_RECORD_H

#include <stddef.h>
#include <sys/types.h>

struct launch_end {
  pid_t group;
  int failed; /* by itself */
};

/* Only into a folder that is there: ranks that have traces have made it. What cannot be written is
 * not; the ranks have warned of the folder, and the launcher has said why on stderr. */
void launch_record(const char *folder, const char *why, const struct launch_end *ends,
                   size_t count);

#endif
