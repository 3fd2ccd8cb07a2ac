/* The least that can stand in front of NCCL: every function only calls the next one of its name.
 * What nccl-join costs is measured against it.
 */
#include <dlfcn.h>
#include <stddef.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"

#define EXPORTED __attribute__((visibility("default")))

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define FORWARD(since, name, parameters, arguments, handling)                                      \
  static ncclResult_t(*next_##name) parameters;                                                    \
  EXPORTED ncclResult_t nccl##name parameters;                                                     \
  ncclResult_t nccl##name parameters {                                                             \
    return next_##name arguments;                                                                  \
  }
NCCL_API(FORWARD)

#define FIND(since, name, parameters, arguments, handling)                                         \
  *(void **)&next_##name = dlsym(RTLD_NEXT, "nccl" #name);
__attribute__((constructor)) static void find(void) {
  NCCL_API(FIND)
}
// NOLINTEND(bugprone-macro-parentheses)
