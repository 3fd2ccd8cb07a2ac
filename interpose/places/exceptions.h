/* Exceptions that are under way in the thread that calls: raised, and not dealt with yet. Code that
 * runs then cleans up (finally, with, a destructor) or handles the exception (except, catch).
 *
 * Seen are those of C++, where the program is linked with its library, and of CPython 3.10 and
 * later. Not seen: those of older ones, and of a CPython that cannot be read (python_frames.h).
 *
 * Any thread, not in a signal handler.
 */
#ifndef NCCL_JOIN_INTERPOSE_EXCEPTIONS_H
#define NCCL_JOIN_INTERPOSE_EXCEPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there is one, and its name in ASCII, such as "RuntimeError at train.py:41". What ends a
 * loop in Python by design is none: StopIteration, StopAsyncIteration, GeneratorExit, and a
 * SystemExit of status 0; nor is asyncio's CancelledError.
 *
 * at_end: the rank gives up its communicators. Then one counts, too, that has ended the program,
 * whose functions for the end run now (atexit); and for a thread without frames of Python those of
 * the main thread. It waits for the GIL, at most 0.2 s. Otherwise it does so only if the thread
 * itself deals with an exception: what is read for that costs some microseconds. */
bool exception_is_under_way(char *text, size_t size, bool at_end);

#endif
