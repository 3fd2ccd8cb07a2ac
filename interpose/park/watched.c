/* Told while a rank is parked, and when it goes on (watched.h). */
#include "interpose/park/watched.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/report/log.h"
#include "hooks/shadow.h"
#include "interpose/comm/clock.h"
#include "interpose/nccl/real.h"
#include "interpose/places/python/python_frames.h"
#include "interpose/self/environment.h"

/* Shorter waits are not looked at: timeouts are minutes. */
#define LONG_NS UINT64_C(1000000000)

/* For what is to be done at the end of a wait: a share of what that took, and never longer. */
#define SHARE 4
#define TROUBLE_NS UINT64_C(5000000000)

/* A share of NCCL_JOIN_TIMEOUT: 30 seconds, of the 30 minutes that it is by default. PyTorch's
 * timeouts are 10 and 8 minutes by default. */
#define WARN_SHARE 60

#define EXTEND                                                                                     \
  "getattr(__import__('sys').modules.get('torch.distributed.distributed_c10d'), "                  \
  "'_add_ephemeral_timeout_for_all_pgs', lambda _: None)"                                          \
  "(__import__('datetime').timedelta(milliseconds=%" PRIu64 "))"

static int is_torch(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size, (void)unused;
  const char *slash = strrchr(object->dlpi_name, '/');
  const char *name = slash == NULL ? object->dlpi_name : slash + 1;
  return strcmp(name, "libtorch_cuda.so") == 0;
}

static bool has_torch(void) {
  return dl_iterate_phdr(is_torch, NULL) != 0;
}

/* ---- parked ---- */

static bool has_heartbeat(void) {
  return dlsym(RTLD_DEFAULT, "_ZN4c10d5nccl221HeartbeatRegistration4beatEv") != NULL;
}

/* Where there is something that nothing moves. */
static void warn_once(const struct request *request, uint64_t parked_ns) {
  static _Atomic bool done;
  if (parked_ns < join_settings()->timeout_s * UINT64_C(1000000000) / WARN_SHARE ||
      atomic_exchange(&done, true) || !has_torch() || (python_is_present() && !has_heartbeat()))
    return;
  log_line_of(
      endpoint_subject(request->end), LOG_LEVEL_WARN,
      "rank %u has been in a collective for %" PRIu64
      " s, for ranks that are still in their loop. PyTorch counts that: it ends this process "
      "if that takes longer than %s. Set it to more than ranks may be apart",
      request->end->team->plane->rank, parked_ns / 1000000000,
      python_is_present() ? "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC (480), with its backend nccl2"
                          : "the process group's timeout (10 minutes by default)");
}

void watched_look(const struct wait *wait) {
  uint64_t parked_ns = now_ns() - wait->since_ns;
  if (parked_ns < LONG_NS)
    return;
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    struct request *request = &wait->requests[i];
    if (request->settled || unit_is_leave(request->unit) || unit_mark(request->unit) != MARK_NONE ||
        clock_is_programs_own(request->end))
      continue;
    request->watched_ns = wait->since_ns;
    warn_once(request, parked_ns);
  }
}

/* ---- going on ---- */

/* Other ranks may want something else of this one before their streams come to the collective: so
 * not without end. */
static bool is_done(const struct request *request, uint64_t until_ns) {
  struct shadow_limit limit = {.until_ns = until_ns};
  return request->end->shadow != NULL && request->result == ncclSuccess &&
         shadow_wait_stream(request->end->shadow, request->stream, &limit);
}

static void extend_timeouts(uint64_t parked_ns, uint64_t limit_ns) {
  char text[PYTHON_RUN_SIZE];
  snprintf(text, sizeof text, EXTEND, parked_ns / 1000000 + 1);
  if (python_is_present() && !python_run(text, (unsigned)(limit_ns / 1000000)))
    log_line(LOG_LEVEL_WARN,
             "PyTorch could not be told that a collective has waited %" PRIu64 " s for ranks in "
             "their loop. It may end this process if that is longer than the process group's "
             "timeout (10 minutes, or init_process_group's timeout=)",
             parked_ns / 1000000000);
}

void watched_return(const struct request *requests, uint32_t nrequests) {
  uint64_t since_ns = 0;
  for (uint32_t i = 0; i < nrequests; i++)
    since_ns = requests[i].watched_ns != 0 ? requests[i].watched_ns : since_ns;
  if (since_ns == 0 || !has_torch())
    return;
  uint64_t now = now_ns(), share_ns = (now - since_ns) / SHARE;
  uint64_t limit_ns = share_ns < TROUBLE_NS ? share_ns : TROUBLE_NS;
  bool are_done = true;
  for (uint32_t i = 0; i < nrequests; i++)
    are_done = are_done && (requests[i].watched_ns == 0 || is_done(&requests[i], now + limit_ns));
  if (are_done)
    records_complete_next();
  extend_timeouts(now_ns() - since_ns, limit_ns);
}
