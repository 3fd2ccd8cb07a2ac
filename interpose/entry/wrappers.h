/* The wrappers (wrappers.c) by names that no other library can stand in front of. */
#ifndef NCCL_JOIN_INTERPOSE_WRAPPERS_H
#define NCCL_JOIN_INTERPOSE_WRAPPERS_H

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"

#define WRAPPER_DECLARATION(name, parameters)                                                      \
  __attribute__((visibility("hidden"))) ncclResult_t wrapper_##name parameters;
#define DECLARE_HANDLED(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_FAST(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_UNFIT(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_OBSERVED(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_CREATES(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_GROUPS(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_SPLITS(name, parameters) WRAPPER_DECLARATION(name, parameters)
#define DECLARE_CALLED(name, parameters)
#define DECLARE_ASKED(name, parameters)
#define DECLARE(since, name, parameters, arguments, handling) DECLARE_##handling(name, parameters)
NCCL_API(DECLARE)
#undef DECLARE

#endif
