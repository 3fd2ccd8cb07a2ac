/* Made from the table in api.h, as the wrappers are: see callers.h. */
#include "interpose/entry/callers.h"

#include "interpose/entry/actors.h"
#include "interpose/places/places.h"

/* The compiler leaves no other way to these functions than a jump. */
#define CALLED(name, parameters, arguments)                                                        \
  __attribute__((noinline)) ncclResult_t called_##name parameters {                                \
    PLACES_CALLED();                                                                               \
    return act_on_##name arguments;                                                                \
  }

#define ELSEWHERE(name, parameters, arguments)                                                     \
  ACTORS_AT(name, parameters, arguments)                                                           \
  __attribute__((noinline)) ncclResult_t elsewhere_##name parameters {                             \
    PLACES_CALLED();                                                                               \
    return found_##name arguments;                                                                 \
  }                                                                                                \
  __attribute__((noinline)) ncclResult_t watched_##name parameters {                               \
    if (!PLACES_HIT_WATCHED())                                                                     \
      return elsewhere_##name arguments;                                                           \
    return at_##name(true, elsewhere_##name, UNPACK arguments);                                    \
  }                                                                                                \
  __attribute__((noinline)) ncclResult_t chained_watched_##name parameters {                       \
    if (!PLACES_HIT_CHAINED_WATCHED())                                                             \
      return elsewhere_##name arguments;                                                           \
    return at_##name(true, elsewhere_##name, UNPACK arguments);                                    \
  }

#define MADE_OF_HANDLED(name, parameters, arguments) CALLED(name, parameters, arguments)
#define MADE_OF_FAST(name, parameters, arguments) ELSEWHERE(name, parameters, arguments)
#define MADE_OF_UNFIT(name, parameters, arguments) CALLED(name, parameters, arguments)
#define MADE_OF_OBSERVED(name, parameters, arguments) CALLED(name, parameters, arguments)
#define MADE_OF_CREATES(name, parameters, arguments) CALLED(name, parameters, arguments)
#define MADE_OF_GROUPS(name, parameters, arguments) CALLED(name, parameters, arguments)
#define MADE_OF_SPLITS(name, parameters, arguments) CALLED(name, parameters, arguments)
#define MADE_OF_CALLED(name, parameters, arguments)
#define MADE_OF_ASKED(name, parameters, arguments)

#define MAKE(since, name, parameters, arguments, handling)                                         \
  MADE_OF_##handling(name, parameters, arguments)
NCCL_API(MAKE)
