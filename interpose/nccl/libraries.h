/* Several NCCL libraries in one process: which one a call is for.
 *
 *   - a call by a function that the program has looked up is for the library it was looked up in
 *     (lookups.h): the thread is in that library until the call returns, and what a library calls
 *     by its own exported names meanwhile is its own;
 *   - any other call that has a communicator is for the library that made it;
 *   - what makes a communicator from nothing (CREATES in api.h) is for the library that the calling
 *     object would have reached without us: the one that its own dependencies lead to;
 *   - groups are begun and ended in all libraries: an empty group is nothing to NCCL.
 * Where none of that tells, it is the library found first.
 */
#ifndef NCCL_JOIN_INTERPOSE_LIBRARIES_H
#define NCCL_JOIN_INTERPOSE_LIBRARIES_H

#include "interpose/nccl/real.h"

/* The library that this thread's call is for, if that is known without its arguments. */
extern __attribute__((visibility("hidden"))) _Thread_local const struct library *library_of_thread;

/* Enters a library, if it is not NULL; what is returned is for library_leave. */
static inline const struct library *library_enter(const struct library *library) {
  const struct library *before = library_of_thread;
  if (library != NULL)
    library_of_thread = library;
  return before;
}

static inline void library_leave(const struct library *before) {
  library_of_thread = before;
}

/* Enters the library of an object that calls a function which CREATES, unless the thread is in one
 * already, or in a call. `caller`: an address in the object. */
void library_enter_of(const void *caller);

/* The library that a call of this thread without communicator is for; NULL without NCCL. */
const struct library *library_current(void);

/* The library of a communicator. */
const struct library *library_of(ncclComm_t comm);

/* The communicator was made by the library. Stays so until its handle is used again. */
void library_made(const struct library *library, ncclComm_t comm);

/* One line at INFO, at the first communicator of the library that this thread's call is for: which
 * it is and how it was reached. */
void library_announce(void);

/* What real.X is when there are several. */
extern __attribute__((visibility("hidden"))) const struct real_functions libraries_dispatch;

#endif
