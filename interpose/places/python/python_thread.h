/* The thread of a Python program whose loops say their rounds (python_rounds.h): the main thread,
 * and another one as long as nobody has asked for any other, as where a framework runs the training
 * function in a thread of its own (Ray Train).
 *
 * Where several threads make the calls, what each comes to is in rounds of its own: a thread for
 * each epoch begins anew each time. Threads by their numbers for the system. Any thread may call
 * any function at any time; none allocates.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_THREAD_H
#define NCCL_JOIN_INTERPOSE_PYTHON_THREAD_H

#include <stdbool.h>
#include <stdint.h>

/* Asks for a thread that makes a call: whether its rounds count. A system call. Not for threads of
 * an engine, which call what belongs to the thread that waits for them (python_waiting_outermost).
 */
bool python_thread_counts(uint64_t thread);

/* Whether they count still; a load. thread: 0 for the main thread. */
bool python_thread_still_counts(uint64_t thread);

#endif
