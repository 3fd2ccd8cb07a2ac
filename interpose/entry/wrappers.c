/* The functions that the program reaches instead of NCCL's, made from the table in api.h. Each
 * decides only whether the call is one to act on (guard.h) and goes on to its handler or to the
 * real function.
 *
 * Acting is a function of its own so that the wrapper, entered by every call of NCCL to itself too,
 * needs no frame: it is two loads, two branches and a jump.
 */
#include <stdatomic.h>

#include "interpose/nccl/api.h"
#include "interpose/self/guard.h"
#include "interpose/calls/handlers.h"
#include "interpose/calls/rounds.h"
#include "interpose/comm/fast_path.h"
#include "interpose/nccl/libraries.h"
#include "interpose/nccl/nccl_compat.h"
#include "interpose/places/places.h"
#include "interpose/nccl/real.h"
#include "interpose/entry/wrappers.h"

/* Where a call goes that is not acted on. gcc reads an atomic that is called like any other
 * variable; here, where guard_acts may not have looked, that would be a race with the first call of
 * another thread. */
#define BELONGS(name, arguments) atomic_load_explicit(&real.name, memory_order_acquire) arguments

/* The same; in a library that was entered by a function of its own, and may be one behind another,
 * that library. */
#define PASS(name, arguments)                                                                      \
  atomic_load_explicit(library_of_thread != NULL ? &library_of_thread->functions.name              \
                                                 : &real.name,                                     \
                       memory_order_acquire) arguments

#define UNPACK(...) __VA_ARGS__

/* The name that programs know. */
#define EXPORT_WRAPPER(name, parameters)                                                           \
  __attribute__((visibility("default"), alias("wrapper_" #name)))                                  \
  ncclResult_t nccl##name parameters;

/* What is done with a call that is acted on; sets result. */
#define ACT_HANDLED(name, arguments) result = join_##name arguments;
#define ACT_UNFIT(name, arguments)                                                                 \
  join_unfit(comm, "nccl" #name);                                                                  \
  result = real.name arguments;
#define ACT_OBSERVED(name, arguments)                                                              \
  result = real.name arguments;                                                                    \
  saw_##name(result, UNPACK arguments);

/* Who has called is asked here and not in the wrapper, which has no frame and jumps: the compiler
 * leaves it no other way to this function. */
#define ACTOR(name, parameters, arguments, act)                                                    \
  static __attribute__((noinline)) ncclResult_t act_on_##name parameters {                         \
    ncclResult_t result;                                                                           \
    PLACES_CALLED();                                                                               \
    guard_raise();                                                                                 \
    act(name, arguments);                                                                          \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }

#define WRAPPER(name, parameters, arguments, act)                                                  \
  ACTOR(name, parameters, arguments, act)                                                          \
  ncclResult_t wrapper_##name parameters {                                                         \
    return guard_acts() ? act_on_##name arguments : PASS(name, arguments);                         \
  }                                                                                                \
  EXPORT_WRAPPER(name, parameters)

/* Which NCCL is meant, the caller tells. Also where the call passes: what is made must be known. */
#define WRAPPER_CREATES(name, parameters, arguments)                                               \
  ACTOR(name, parameters, arguments, ACT_HANDLED)                                                  \
  ncclResult_t wrapper_##name parameters {                                                         \
    const struct library *before = library_of_thread;                                              \
    library_enter_of(__builtin_return_address(0));                                                 \
    ncclResult_t result = guard_acts() ? act_on_##name arguments : BELONGS(name, arguments);       \
    library_leave(before);                                                                         \
    return result;                                                                                 \
  }                                                                                                \
  EXPORT_WRAPPER(name, parameters)

/* A collective that may take the fast path; see fast_path.h. */
#define WRAPPER_FAST(name, parameters, arguments)                                                  \
  static __attribute__((noinline)) ncclResult_t act_on_##name parameters {                         \
    if (!guard_acts())                                                                             \
      return PASS(name, arguments);                                                                \
    guard_raise();                                                                                 \
    ncclResult_t result = join_##name arguments;                                                   \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }                                                                                                \
  /* In a group, or inside of NCCL. */                                                             \
  static __attribute__((noinline)) ncclResult_t in_group_##name parameters {                       \
    if (guard_passes())                                                                            \
      return PASS(name, arguments);                                                                \
    return comm != NULL ? hold_##name arguments : act_on_##name arguments;                         \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t tell_of_##name parameters {                        \
    guard_raise();                                                                                 \
    fast_path_tell(comm);                                                                          \
    ncclResult_t result = real.name arguments;                                                     \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }                                                                                                \
  /* Not the expected one. */                                                                      \
  static __attribute__((noinline)) ncclResult_t unexpected_##name parameters {                     \
    return guard_passes() ? PASS(name, arguments) : act_on_##name arguments;                       \
  }                                                                                                \
  static inline __attribute__((always_inline))                                                     \
  ncclResult_t at_##name(bool placed, UNPACK parameters) {                                         \
    enum fast_path way = fast_path_##name(UNPACK arguments, placed);                               \
    if (way == FAST_PATH_NOT)                                                                      \
      return unexpected_##name arguments;                                                          \
    if (way == FAST_PATH_AWAITED)                                                                  \
      return tell_of_##name arguments;                                                             \
    guard_raise();                                                                                 \
    ncclResult_t result = real.name arguments;                                                     \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t alone_##name parameters {                          \
    return at_##name(false, UNPACK arguments);                                                     \
  }                                                                                                \
  /* Not at a place that came after the last one before. */                                        \
  static __attribute__((noinline)) ncclResult_t elsewhere_##name parameters {                      \
    PLACES_CALLED();                                                                               \
    places_here();                                                                                 \
    if (rounds_are_due(comm))                                                                      \
      return unexpected_##name arguments;                                                          \
    return at_##name(true, UNPACK arguments);                                                      \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t chained_##name parameters {                        \
    if (!PLACES_HIT_CHAINED())                                                                     \
      return elsewhere_##name arguments;                                                           \
    return at_##name(true, UNPACK arguments);                                                      \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t placed_##name parameters {                         \
    if (!PLACES_HIT())                                                                             \
      return elsewhere_##name arguments;                                                           \
    return at_##name(true, UNPACK arguments);                                                      \
  }                                                                                                \
  ncclResult_t wrapper_##name parameters {                                                         \
    if (!guard_is_open())                                                                          \
      return in_group_##name arguments;                                                            \
    if (!places_are_on())                                                                          \
      return alone_##name arguments;                                                               \
    return places_are_chained() ? chained_##name arguments : placed_##name arguments;              \
  }                                                                                                \
  EXPORT_WRAPPER(name, parameters)

#define WRAPPER_HANDLED(name, parameters, arguments)                                               \
  WRAPPER(name, parameters, arguments, ACT_HANDLED)
#define WRAPPER_UNFIT(name, parameters, arguments) WRAPPER(name, parameters, arguments, ACT_UNFIT)
#define WRAPPER_OBSERVED(name, parameters, arguments)                                              \
  WRAPPER(name, parameters, arguments, ACT_OBSERVED)
#define WRAPPER_GROUPS(name, parameters, arguments) WRAPPER_HANDLED(name, parameters, arguments)
#define WRAPPER_SPLITS(name, parameters, arguments) WRAPPER_HANDLED(name, parameters, arguments)
#define WRAPPER_CALLED(name, parameters, arguments)
#define WRAPPER_ASKED(name, parameters, arguments)

#define API_WRAPPER(since, name, parameters, arguments, handling)                                  \
  WRAPPER_##handling(name, parameters, arguments)
NCCL_API(API_WRAPPER)
