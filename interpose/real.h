/* The functions of the real NCCL: what the program would have called without us.
 *
 * real.AllReduce(...) and so on can be called at any time, by any thread. Before the first call
 * each member is a stand-in that looks all functions up at once and then calls; afterwards a call
 * costs one load. A function that the NCCL found does not have returns ncclInvalidUsage. If no NCCL
 * is found, every call returns ncclSystemError, after one WARN line for the process, and looks
 * again: a program may load NCCL later.
 *
 * Where it is looked for, first hit wins (the table of steps is in real.c):
 *   1. the next object in the program's search order (RTLD_NEXT);
 *   2. the loaded library named libnccl.so.2, even if opened RTLD_LOCAL, as Python does;
 *   3. any loaded object that leads to the functions (another name, NCCL inside a framework).
 * Nothing is ever loaded; what is found stays loaded. The search ends with the first step that
 * leads to NCCL, recognised by the functions that are CALLED in api.h. Steps before it count only
 * for what they have (a profiler preloaded behind us wraps some functions); steps after it would be
 * another copy of NCCL and are never mixed in.
 *
 * ncclX is preferred to pncclX. It is what the program itself would have reached, such a profiler
 * included, and an NCCL built without profiling support has no pncclX. pncclX is asked for where
 * there is no ncclX but ours.
 */
#ifndef NCCL_JOIN_INTERPOSE_REAL_H
#define NCCL_JOIN_INTERPOSE_REAL_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/api.h"
#include "interpose/nccl_compat.h"

/* Stored once, by the first call, before any handler runs. Atomic for the wrappers, which may be
 * called meanwhile; handlers and what they call just call. */
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

/* Looks the functions up if that has not been done; false if there is no NCCL. Any thread. */
bool real_resolve(void);

/* Whether the NCCL found has the function, for example real_has(REAL_CommShrink); false if none is
 * found. Any thread. */
bool real_has(enum real_function function);

/* Writes "NCCL 2.28.9 in /usr/lib/libnccl.so.2 (found by ...)", or that there is none. Always
 * terminated; returns text. */
const char *real_describe(char *text, size_t size);

#endif
