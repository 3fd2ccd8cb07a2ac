/* Asked while a rank is parked (wait_private.h). */
#include "interpose/park/wait_private.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/comm/clock.h"
#include "interpose/self/environment.h"

/* A share of NCCL_JOIN_TIMEOUT: 30 seconds, of the 30 minutes that it is by default. PyTorch's
 * timeout is 10 minutes by default. */
#define SHARE 60

static _Atomic bool done; /* asked, and said if there was anything to say */

static int is_torch(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size, (void)unused;
  const char *slash = strrchr(object->dlpi_name, '/');
  const char *name = slash == NULL ? object->dlpi_name : slash + 1;
  return strcmp(name, "libtorch_cuda.so") == 0;
}

static bool is_long(const struct wait *wait) {
  uint64_t share = join_settings()->timeout_s * UINT64_C(1000000000) / SHARE;
  return now_ns() - wait->since_ns >= share;
}

void watched_warn(const struct wait *wait) {
  if (atomic_load(&done) || !is_long(wait))
    return;
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    const struct request *request = &wait->requests[i];
    if (request->settled || unit_is_leave(request->unit) || unit_mark(request->unit) != MARK_NONE ||
        clock_is_programs_own(request->end))
      continue;
    if (atomic_exchange(&done, true) || dl_iterate_phdr(is_torch, NULL) == 0)
      return;
    log_line(LOG_LEVEL_WARN,
             "rank %u has been in a collective for %llu s, for ranks that are still in their loop. "
             "PyTorch counts that: it ends this process if that takes longer than the process "
             "group's timeout (10 minutes, or init_process_group's timeout=), or, with its backend "
             "nccl2, than TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC (480). Set both to more than ranks may "
             "be apart",
             request->end->team->plane->rank,
             (unsigned long long)((now_ns() - wait->since_ns) / 1000000000));
    return;
  }
}
