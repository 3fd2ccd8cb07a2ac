/* What is done with the program's calls of NCCL once it is known who has made them (callers.h), by
 * the table in api.h:
 *
 *   act_on_X       hands a call to its handler; of a collective that may take the fast path, if it is one to act on
 *   found_X        of such a collective, at a place that has not been expected: looks for it, and whether a round begins there
 *   unexpected_X   of such a collective, which is not the expected one
 *   tell_of_X      of such a collective, for which others wait
 *
 * ACTORS_AT makes at_X: the fast path of such a collective; placed: where it stands has been found.
 * `instead`: what is done if it is not to be taken.
 */
#ifndef NCCL_JOIN_INTERPOSE_ACTORS_H
#define NCCL_JOIN_INTERPOSE_ACTORS_H

#include <stdatomic.h>

#include "interpose/comm/fast_path.h"
#include "interpose/nccl/api.h"
#include "interpose/nccl/libraries.h"
#include "interpose/nccl/nccl_compat.h"
#include "interpose/nccl/real.h"
#include "interpose/self/guard.h"

/* Where a call goes that is not acted on. gcc reads an atomic that is called like any other
 * variable; where guard_acts may not have looked, that would be a race with the first call of
 * another thread. In a library that was entered by a function of its own, and may be one behind
 * another, that library. */
#define PASS(name, arguments)                                                                      \
  atomic_load_explicit(library_of_thread != NULL ? &library_of_thread->functions.name              \
                                                 : &real.name,                                     \
                       memory_order_acquire) arguments

#define UNPACK(...) __VA_ARGS__

/* A function's parameters stay in their brackets: NOLINTBEGIN(bugprone-macro-parentheses) */
#define ACTORS_AT(name, parameters, arguments)                                                     \
  static inline __attribute__((always_inline))                                                     \
  ncclResult_t at_##name(bool placed, ncclResult_t(*instead) parameters, UNPACK parameters) {      \
    enum fast_path way = fast_path_##name(UNPACK arguments, placed);                               \
    if (way == FAST_PATH_NOT)                                                                      \
      return instead arguments;                                                                    \
    if (way == FAST_PATH_AWAITED)                                                                  \
      return tell_of_##name arguments;                                                             \
    guard_raise();                                                                                 \
    ncclResult_t result = real.name arguments;                                                     \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }
/* NOLINTEND(bugprone-macro-parentheses) */

#define ACTORS_FUNCTION(name, parameters)                                                          \
  __attribute__((visibility("hidden"))) ncclResult_t name parameters;
#define ACTORS_ACT(name, parameters) ACTORS_FUNCTION(act_on_##name, parameters)
#define ACTORS_OF_HANDLED(name, parameters) ACTORS_ACT(name, parameters)
#define ACTORS_OF_FAST(name, parameters)                                                           \
  ACTORS_ACT(name, parameters)                                                                     \
  ACTORS_FUNCTION(found_##name, parameters)                                                        \
  ACTORS_FUNCTION(unexpected_##name, parameters)                                                   \
  ACTORS_FUNCTION(tell_of_##name, parameters)
#define ACTORS_OF_UNFIT(name, parameters) ACTORS_ACT(name, parameters)
#define ACTORS_OF_OBSERVED(name, parameters) ACTORS_ACT(name, parameters)
#define ACTORS_OF_CREATES(name, parameters) ACTORS_ACT(name, parameters)
#define ACTORS_OF_GROUPS(name, parameters) ACTORS_ACT(name, parameters)
#define ACTORS_OF_SPLITS(name, parameters) ACTORS_ACT(name, parameters)
#define ACTORS_OF_CALLED(name, parameters)
#define ACTORS_OF_ASKED(name, parameters)
#define ACTORS_DECLARE(since, name, parameters, arguments, handling)                               \
  ACTORS_OF_##handling(name, parameters)
NCCL_API(ACTORS_DECLARE)
#undef ACTORS_DECLARE

#endif
