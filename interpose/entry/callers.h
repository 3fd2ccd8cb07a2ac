/* Who has called a function of NCCL: asked on the way from its wrapper (wrappers.c) to what acts on
 * the call, in functions that leave the program's registers as they are (callers.c is compiled so).
 * Each ends in a jump.
 *
 *   called_X      notes who has called (places_called), and goes on to act_on_X (actors.h)
 *   elsewhere_X   of a collective that may take the fast path, not at a place that came after the last one before: likewise, to found_X
 *   watched_X     of such a collective, perhaps at such a place, in a loop that says its rounds (PLACES_HIT_WATCHED)
 *   chained_watched_X   the same for frames that are found by frame pointers
 */
#ifndef NCCL_JOIN_INTERPOSE_CALLERS_H
#define NCCL_JOIN_INTERPOSE_CALLERS_H

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"

#define CALLERS_FUNCTION(name, parameters)                                                         \
  __attribute__((visibility("hidden"))) ncclResult_t name parameters;
#define CALLERS_CALLED_BY(name, parameters) CALLERS_FUNCTION(called_##name, parameters)
#define CALLERS_FAST_BY(name, parameters)                                                          \
  CALLERS_FUNCTION(elsewhere_##name, parameters)                                                   \
  CALLERS_FUNCTION(watched_##name, parameters)                                                     \
  CALLERS_FUNCTION(chained_watched_##name, parameters)
#define CALLERS_OF_HANDLED(name, parameters) CALLERS_CALLED_BY(name, parameters)
#define CALLERS_OF_FAST(name, parameters) CALLERS_FAST_BY(name, parameters)
#define CALLERS_OF_UNFIT(name, parameters) CALLERS_CALLED_BY(name, parameters)
#define CALLERS_OF_OBSERVED(name, parameters) CALLERS_CALLED_BY(name, parameters)
#define CALLERS_OF_CREATES(name, parameters) CALLERS_CALLED_BY(name, parameters)
#define CALLERS_OF_GROUPS(name, parameters) CALLERS_CALLED_BY(name, parameters)
#define CALLERS_OF_SPLITS(name, parameters) CALLERS_CALLED_BY(name, parameters)
#define CALLERS_OF_CALLED(name, parameters)
#define CALLERS_OF_ASKED(name, parameters)
#define CALLERS_DECLARE(since, name, parameters, arguments, handling)                              \
  CALLERS_OF_##handling(name, parameters)
NCCL_API(CALLERS_DECLARE)
#undef CALLERS_DECLARE

#endif
