/* Collectives with a configuration for the one call, NCCL 2.31: ncclAllReduceConfig and its like.
 *
 * Without one they are the plain collectives, as nccl.h says. One must be the same on all ranks,
 * and a joined rank does not have that of its peers' call: what it issued without it could run
 * another algorithm than theirs. So the communicator cannot be shadowed from the first one on.
 */
#include "interpose/calls/handlers.h"
#include "interpose/nccl/real.h"

#define CONFIGURED(with, KIND, NAME, ROOT, REDUCTION, TEXT, SINCE, CONFIG, ...)                    \
  HANDLE_##CONFIG(NAME, ROOT, REDUCTION)
#define HANDLE_PLAIN(NAME, ROOT, REDUCTION)
#define HANDLE_CONFIGURED(NAME, ROOT, REDUCTION)                                                   \
  ncclResult_t join_##NAME##Config API_PARAMETERS(ROOT, REDUCTION, API_STREAM, API_CONFIG) {       \
    if (config == NULL && real_has(REAL_##NAME##Config))                                           \
      return join_##NAME API_ARGUMENTS(ROOT, REDUCTION, stream);                                   \
    join_unfit(comm, "nccl" #NAME "Config");                                                       \
    return real.NAME##Config API_ARGUMENTS(ROOT, REDUCTION, stream, config);                       \
  }
NCCL_COLLECTIVES(CONFIGURED, )
