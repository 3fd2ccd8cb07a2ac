/* The wrappers (wrappers.c) by names that no other library can stand in front of. */
#ifndef NCCL_JOIN_INTERPOSE_WRAPPERS_H
#define NCCL_JOIN_INTERPOSE_WRAPPERS_H

#include "interpose/api.h"
#include "interpose/nccl_compat.h"

#define WRAPPER_DECLARATION(name, parameters)                                                      \
  __attribute__((visibility("hidden"))) ncclResult_t wrapper_##name parameters;
#define DECLARE_HANDLED WRAPPER_DECLARATION
#define DECLARE_HOT WRAPPER_DECLARATION
#define DECLARE_UNFIT WRAPPER_DECLARATION
#define DECLARE_OBSERVED WRAPPER_DECLARATION
#define DECLARE_CREATES WRAPPER_DECLARATION
#define DECLARE_GROUPS WRAPPER_DECLARATION
#define DECLARE_SPLITS WRAPPER_DECLARATION
#define DECLARE_CALLED(name, parameters)
#define DECLARE_ASKED(name, parameters)
#define DECLARE(since, name, parameters, arguments, handling) DECLARE_##handling(name, parameters)
NCCL_API(DECLARE)
#undef DECLARE

#endif
