/* Asking something of the Python program that nccl-join is in. */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_RUN_H
#define NCCL_JOIN_INTERPOSE_PYTHON_RUN_H

#include <stdbool.h>

#define PYTHON_RUN_SIZE 512

/* Runs an expression in the main interpreter: by the calling thread if it holds the GIL, or else by
 * a thread that is made for it, so that nobody waits longer than `milliseconds` for the GIL; that
 * thread then still runs it once it has the GIL. text: shorter than PYTHON_RUN_SIZE. False: there
 * is no Python that is known, an exception has been raised (and printed), or it has not been done
 * yet. */
bool python_run(const char *text, unsigned milliseconds);

#endif
