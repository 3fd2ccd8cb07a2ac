/* A thread that ends by itself: for what may take for ever, and must not hold up a thread of the
 * program's. nccl-join starts no others: a wait for the device that has to be bounded
 * (hooks/shadow_device.c), a line of Python (interpose/places/python/python_run.c), and who looks
 * for ranks that do not come to a communicator (interpose/calls/latecomers.c).
 */
#ifndef NCCL_JOIN_CORE_DETACHED_H
#define NCCL_JOIN_CORE_DETACHED_H

#include <stdbool.h>

/* Runs a function in a thread that nobody waits for, and that ends with it. All signals are blocked
 * there: the program's handlers are not to be called on it, and what is sent to the process goes to
 * another thread. The caller's own mask stays.
 *
 * False if there is no thread (a limit on processes, no memory): nothing runs then, and the
 * argument is the caller's alone. Otherwise what the function and its starter share has to stay
 * until both are done with it: who is last lets go of it.
 *
 * Nothing waits for the thread at the end of the process. Any thread may call. */
bool detached_start(void *(*function)(void *), void *argument);

#endif
