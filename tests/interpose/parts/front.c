/* Another library that is an NCCL to the program and calls the real one, as MSCCL++ does: it has
 * every function of the table, says "front ncclX", and calls the function that it has looked up in
 * the library named by BEHIND. */
#include <dlfcn.h>
#include <stdlib.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

static void *behind(const char *name) {
  return dlsym(dlopen(getenv("BEHIND"), RTLD_LAZY | RTLD_DEEPBIND), name);
}

#define FRONT(since, name, parameters, arguments, handling)                                        \
  __attribute__((visibility("default"))) ncclResult_t nccl##name parameters {                      \
    say("front nccl" #name);                                                                       \
    __typeof__(nccl##name) *next = (__typeof__(nccl##name) *)behind("nccl" #name);                 \
    return next arguments;                                                                         \
  }
NCCL_API(FRONT)
