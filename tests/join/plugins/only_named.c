/* A plug-in with nothing but its name: every function may be left out. */
#include "hooks/include/nccl_join_hook.h"

extern const ncclJoinHook_v1_t ncclJoinHook_v1;
const ncclJoinHook_v1_t ncclJoinHook_v1 = {.name = "only-named"};
