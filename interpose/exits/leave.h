/* The last thing a process does for its peers. Called by process.c; implemented in leaving.c. */
#ifndef NCCL_JOIN_INTERPOSE_LEAVE_H
#define NCCL_JOIN_INTERPOSE_LEAVE_H

#include <stdbool.h>

/* The process is about to end with this status; may block until all ranks are done, not for ever.
 * Returns the status that it is to end with: 1 where it would be 0, but other ranks are still in
 * their loops and all are to stop (NCCL_JOIN_EARLY_EXIT=throw), or this rank cannot answer them
 * (after the capture of a graph), or a joined rank has spoiled this one's last collectives
 * (NCCL_JOIN_LOSSY=error).
 *
 * Called at most once in a process, on the thread that ends it, with the guard raised and the
 * thread safe from being cancelled. It comes before any exit handler where the end can be seen
 * coming (return from main, exit, quick_exit, _exit), else among them, before CUDA's own. Never in
 * a forked child, never before process_watch_exit, never while this thread is inside a wrapper (a
 * signal handler that interrupted an NCCL call and ends the process: a failure, which the lock
 * tells the others). NCCL calls of other threads may be under way, or be made while it runs. Must
 * not call exit. */
int leave_process(int status);

/* Of a process that is about to vanish with status 0, by _exit: whether its ranks' loops are over,
 * and nothing is left for the device to do. If so, the caller is to call leave_process, as for an
 * exit. If not, that has been logged, and the others will take the rank for failed. */
bool leave_is_over(void);

#endif
