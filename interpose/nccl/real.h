/* The functions of the real NCCL: what the program would have called without us.
 *
 * real.AllReduce(...) and so on can be called at any time, by any thread. Before the first call
 * each member is a stand-in that looks all functions up at once and then calls; afterwards a call
 * costs one load. A function that the NCCL found does not have returns ncclInvalidUsage. If no NCCL
 * is found, every call returns ncclSystemError, after one WARN line for the process, and looks
 * again: a program may load NCCL later.
 *
 * Where it is looked for, first hit wins (2 to 4 are the table of steps in real.c):
 *   1. what the program itself has looked a function up in (lookups.h);
 *   2. the next object in the program's search order (RTLD_NEXT);
 *   3. the loaded library named libnccl.so.2, even if opened RTLD_LOCAL, as Python does;
 *   4. any loaded object that leads to the functions (another name, NCCL inside a framework).
 * Nothing is ever loaded; what is found stays loaded. The search ends with the first step that
 * leads to NCCL, recognised by the functions that are CALLED in api.h. Steps before it count only
 * for what they have (a profiler preloaded behind us wraps some functions); steps after it would be
 * another copy of NCCL and are never mixed in.
 *
 * ncclX is preferred to pncclX. It is what the program itself would have reached, such a profiler
 * included, and an NCCL built without profiling support has no pncclX. pncclX is asked for where
 * there is no ncclX but ours.
 *
 * A process may have several NCCL libraries: a framework's and one that a package of Python brings.
 * Each is found by who calls it (libraries.h), and then real.X leads to the one that the call is
 * for. With one library, which is nearly always, nothing of that is on the way.
 */
#ifndef NCCL_JOIN_INTERPOSE_REAL_H
#define NCCL_JOIN_INTERPOSE_REAL_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"

/* Stored by the first call, before any handler runs, and once more if a second library appears;
 * both are right then. Atomic for the wrappers, which may be called meanwhile; handlers and what
 * they call just call. */
struct real_functions {
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration
#define REAL_MEMBER(since, name, parameters, arguments, handling)                                  \
  ncclResult_t(*_Atomic name) parameters;
  NCCL_API(REAL_MEMBER)
#undef REAL_MEMBER
  // NOLINTEND(bugprone-macro-parentheses)
};
extern __attribute__((visibility("hidden"))) struct real_functions real;

enum real_function {
#define REAL_NUMBER(since, name, parameters, arguments, handling) REAL_##name,
  NCCL_API(REAL_NUMBER)
#undef REAL_NUMBER
      REAL_FUNCTIONS
};

/* One NCCL. Never changes once it is published. */
struct library {
  struct real_functions functions; /* those that it lacks return ncclInvalidUsage */
  bool present[REAL_FUNCTIONS];
  const void *base;     /* of the object that has ncclGetVersion: tells libraries apart */
  const char *found_by; /* what led to it, for messages */
};
#define LIBRARIES_MAX 4u
extern __attribute__((visibility("hidden"))) struct library real_libraries[LIBRARIES_MAX];

/* How many are known. Any thread. */
unsigned real_count(void);

/* Looks the functions up if that has not been done; false if there is no NCCL. Any thread. */
bool real_resolve(void);

/* The library that a handle of dlopen leads to; NULL if that is none, or one too many (logged). It
 * stays loaded. found_by: a string that stays. Any thread. */
const struct library *real_library(void *handle, const char *found_by);

/* Whether an address belongs to nccl-join itself. */
bool real_is_ours(const void *address);

/* Whether the NCCL found first has the function, for example real_has(REAL_CommShrink); false if
 * none is found. Any thread. */
bool real_has(enum real_function function);

/* Writes "NCCL 2.28.9 in /usr/lib/libnccl.so.2 (found by ...)". Always terminated; returns text. */
const char *real_describe_library(const struct library *library, char *text, size_t size);

/* The same of the one found first, or that there is none. */
const char *real_describe(char *text, size_t size);

/* ---- the reason of an error (last_error.c) ---- */

/* An error is about to be returned that is nccl-join's own, and has been logged. Until NCCL has
 * another one to tell, ncclGetLastError returns the line of the log, and ncclGetErrorString returns
 * it for this result. PyTorch asks for both, so its traceback ends with that line; other programs
 * print the latter alone. Any thread. */
void last_error_is_ours(ncclResult_t result);

/* The same, and a communicator has failed with it: what NCCL tells later is of the ranks that end
 * by that. ncclGetErrorString goes on to return the line for this result. Any thread. */
void last_error_is_final(ncclResult_t result);

/* ---- the program's events (records.c) ---- */

/* The next event that the calling thread records with the CUDA runtime is done when
 * cudaEventRecord returns; a second at most is waited for it. A program sees by such an event
 * whether a collective is done: it records one when its call of NCCL has returned, and may ask at
 * once, but even on a stream that has passed the device takes some microseconds for it. From the
 * first time on, cudaEventRecord is seen in all that was loaded by then, which costs each call a
 * jump. Does nothing where several CUDA runtimes are called. */
void records_complete_next(void);

#endif
