/* The functions that the program reaches instead of NCCL's, made from the table in api.h. Each
 * decides only whether the call is one to act on (guard.h) and goes on to what does so (callers.h,
 * actors.h), or to the real function.
 *
 * Acting is a function of its own so that the wrapper, entered by every call of NCCL to itself too,
 * needs no frame: it is two loads, two branches and a jump.
 */
#include "interpose/calls/handlers.h"
#include "interpose/entry/actors.h"
#include "interpose/entry/callers.h"
#include "interpose/entry/wrappers.h"
#include "interpose/places/places.h"

/* As PASS, of the library that has been entered. */
#define BELONGS(name, arguments) atomic_load_explicit(&real.name, memory_order_acquire) arguments

/* The name that programs know. */
#define EXPORT_WRAPPER(name, parameters)                                                           \
  __attribute__((visibility("default"), alias("wrapper_" #name)))                                  \
  ncclResult_t nccl##name parameters;

#define WRAPPER(name, parameters, arguments)                                                       \
  ncclResult_t wrapper_##name parameters {                                                         \
    return guard_acts() ? called_##name arguments : PASS(name, arguments);                         \
  }                                                                                                \
  EXPORT_WRAPPER(name, parameters)

/* Which NCCL is meant, the caller tells. Also where the call passes: what is made must be known. */
#define WRAPPER_CREATES(name, parameters, arguments)                                               \
  ncclResult_t wrapper_##name parameters {                                                         \
    const struct library *before = library_of_thread;                                              \
    library_enter_of(__builtin_return_address(0));                                                 \
    ncclResult_t result = guard_acts() ? called_##name arguments : BELONGS(name, arguments);       \
    library_leave(before);                                                                         \
    return result;                                                                                 \
  }                                                                                                \
  EXPORT_WRAPPER(name, parameters)

/* A collective that may take the fast path; see fast_path.h. */
#define WRAPPER_FAST(name, parameters, arguments)                                                  \
  ACTORS_AT(name, parameters, arguments)                                                           \
  /* In a group, or inside of NCCL. */                                                             \
  static __attribute__((noinline)) ncclResult_t in_group_##name parameters {                       \
    if (guard_passes())                                                                            \
      return PASS(name, arguments);                                                                \
    return comm != NULL ? hold_##name arguments : act_on_##name arguments;                         \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t alone_##name parameters {                          \
    return at_##name(false, unexpected_##name, UNPACK arguments);                                  \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t chained_##name parameters {                        \
    if (!PLACES_HIT_CHAINED())                                                                     \
      return chained_watched_##name arguments;                                                     \
    return at_##name(true, unexpected_##name, UNPACK arguments);                                   \
  }                                                                                                \
  static __attribute__((noinline)) ncclResult_t placed_##name parameters {                         \
    if (!PLACES_HIT())                                                                             \
      return elsewhere_##name arguments;                                                           \
    return at_##name(true, unexpected_##name, UNPACK arguments);                                   \
  }                                                                                                \
  ncclResult_t wrapper_##name parameters {                                                         \
    if (!guard_is_open())                                                                          \
      return in_group_##name arguments;                                                            \
    if (!places_are_on())                                                                          \
      return alone_##name arguments;                                                               \
    enum places_shape shape = places_shape();                                                      \
    if (shape == PLACES_FLAT)                                                                      \
      return placed_##name arguments;                                                              \
    return shape == PLACES_CHAINED ? chained_##name arguments : watched_##name arguments;          \
  }                                                                                                \
  EXPORT_WRAPPER(name, parameters)

#define WRAPPER_HANDLED(name, parameters, arguments) WRAPPER(name, parameters, arguments)
#define WRAPPER_UNFIT(name, parameters, arguments) WRAPPER(name, parameters, arguments)
#define WRAPPER_OBSERVED(name, parameters, arguments) WRAPPER(name, parameters, arguments)
#define WRAPPER_GROUPS(name, parameters, arguments) WRAPPER(name, parameters, arguments)
#define WRAPPER_SPLITS(name, parameters, arguments) WRAPPER(name, parameters, arguments)
#define WRAPPER_CALLED(name, parameters, arguments)
#define WRAPPER_ASKED(name, parameters, arguments)

#define API_WRAPPER(since, name, parameters, arguments, handling)                                  \
  WRAPPER_##handling(name, parameters, arguments)
NCCL_API(API_WRAPPER)
