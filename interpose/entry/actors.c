/* Made from the table in api.h, as the wrappers are: see actors.h. */
#include "interpose/entry/actors.h"

#include "interpose/calls/handlers.h"
#include "interpose/calls/rounds.h"
#include "interpose/places/places.h"

/* What is done with a call that is acted on; sets result. */
#define ACT_HANDLED(name, arguments) result = join_##name arguments;
#define ACT_UNFIT(name, arguments)                                                                 \
  join_unfit(comm, "nccl" #name);                                                                  \
  result = real.name arguments;
#define ACT_OBSERVED(name, arguments)                                                              \
  result = real.name arguments;                                                                    \
  saw_##name(result, UNPACK arguments);

#define ACTOR(name, parameters, arguments, act)                                                    \
  ncclResult_t act_on_##name parameters {                                                          \
    ncclResult_t result;                                                                           \
    guard_raise();                                                                                 \
    act(name, arguments);                                                                          \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }

#define ACTOR_FAST(name, parameters, arguments)                                                    \
  ACTORS_AT(name, parameters, arguments)                                                           \
  ncclResult_t act_on_##name parameters {                                                          \
    if (!guard_acts())                                                                             \
      return PASS(name, arguments);                                                                \
    guard_raise();                                                                                 \
    ncclResult_t result = join_##name arguments;                                                   \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }                                                                                                \
  ncclResult_t tell_of_##name parameters {                                                         \
    guard_raise();                                                                                 \
    fast_path_tell(comm);                                                                          \
    ncclResult_t result = real.name arguments;                                                     \
    guard_lower();                                                                                 \
    return result;                                                                                 \
  }                                                                                                \
  ncclResult_t unexpected_##name parameters {                                                      \
    return guard_passes() ? PASS(name, arguments) : act_on_##name arguments;                       \
  }                                                                                                \
  ncclResult_t found_##name parameters {                                                           \
    guard_raise(); /* what is asked of NCCL may call other functions of it */                      \
    places_here();                                                                                 \
    bool due = rounds_are_due(comm);                                                               \
    guard_lower();                                                                                 \
    if (due)                                                                                       \
      return unexpected_##name arguments;                                                          \
    return at_##name(true, unexpected_##name, UNPACK arguments);                                   \
  }

#define ACTOR_HANDLED(name, parameters, arguments) ACTOR(name, parameters, arguments, ACT_HANDLED)
#define ACTOR_UNFIT(name, parameters, arguments) ACTOR(name, parameters, arguments, ACT_UNFIT)
#define ACTOR_OBSERVED(name, parameters, arguments) ACTOR(name, parameters, arguments, ACT_OBSERVED)
#define ACTOR_CREATES(name, parameters, arguments) ACTOR(name, parameters, arguments, ACT_HANDLED)
#define ACTOR_GROUPS(name, parameters, arguments) ACTOR(name, parameters, arguments, ACT_HANDLED)
#define ACTOR_SPLITS(name, parameters, arguments) ACTOR(name, parameters, arguments, ACT_HANDLED)
#define ACTOR_CALLED(name, parameters, arguments)
#define ACTOR_ASKED(name, parameters, arguments)

#define API_ACTOR(since, name, parameters, arguments, handling)                                    \
  ACTOR_##handling(name, parameters, arguments)
NCCL_API(API_ACTOR)
