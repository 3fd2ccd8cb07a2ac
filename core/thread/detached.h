/* A thread that ends by itself: for what may take for ever, and must not hold up a thread of the
 * program's. The only threads that nccl-join starts.
 */
#ifndef NCCL_JOIN_CORE_DETACHED_H
#define NCCL_JOIN_CORE_DETACHED_H

#include <stdbool.h>

/* Runs a function in a thread that nobody waits for. All signals are blocked there: the program's
 * handlers are not to be called on it. False if there is no thread: nothing runs then.
 *
 * What the function and its starter share has to stay until both are done with it. Nothing waits
 * for the thread at the end of the process. Any thread. */
bool detached_start(void *(*function)(void *), void *argument);

#endif
