/* Calls of NCCL that go past nccl-join: an NCCL that is linked statically or whose names are
 * hidden. Nothing can be done about them but to say so.
 *
 * Two that see them:
 *   - NCCL itself, which tells its profiler plug-in of each communicator. This library is one: it
 *     exports ncclProfiler_v1 to v5 (NCCL 2.23 and later; the newest take v5, too), and the
 *     launcher names it in NCCL_PROFILER_PLUGIN unless the user has a profiler. A communicator that
 *     no wrapper has seen the making of is a bypass. No event is asked for, so no collective costs
 *     anything;
 *   - the end of the process: an NCCL is loaded and there is a CUDA context, without which no
 *     communicator is made, but not one call of NCCL came by. Not where each NCCL that is loaded
 *     would have told its profiler plug-in, and that is this library.
 * Each says so in one line at WARN, unless NCCL_JOIN=0. A process that only has NCCL loaded, as
 * `import torch` does, is told nothing, and neither are its forked children.
 */
#ifndef NCCL_JOIN_INTERPOSE_BYPASS_H
#define NCCL_JOIN_INTERPOSE_BYPASS_H

/* A wrapper is about to have communicators made, at most so many. Before the real call. Any thread.
 */
void bypass_expect(int communicators);

/* The process ends without having made a communicator. Asks the CUDA driver if that is loaded;
 * loads and initialises nothing. */
void bypass_check_at_exit(void);

#endif
