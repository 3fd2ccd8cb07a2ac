/* Noticing calls that go past us (bypass.h). */
#include "interpose/nccl/bypass.h"

#include <cuda.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/settings/settings.h"
#include "interpose/self/guard.h"
#include "interpose/elf/linker.h"
#include "interpose/nccl/nccl_compat.h"

/* Switched off, by the setting or after a fork, nobody expects to be joined. Wrong settings are
 * reported where communicators are made; who never comes there has not asked for anything. */
static bool may_speak(void) {
  struct settings settings;
  if (atomic_load(&guard_mode) == GUARD_OFF || !settings_read(&settings, environ, NULL, 0) ||
      !settings.enabled)
    return false;
  log_open(&settings, -1);
  return true;
}

/* ---- communicators ---- */

static _Atomic int expected, made;
static atomic_flag said = ATOMIC_FLAG_INIT;

void bypass_expect(int communicators) {
  atomic_fetch_add(&expected, communicators);
}

/* Creations that fail, and ranks that a split leaves out, are expected and do not come: then a
 * bypass may go unseen, but none is invented. */
static void communicator_made(void) {
  if (atomic_fetch_add(&made, 1) < atomic_load(&expected) || atomic_flag_test_and_set(&said) ||
      !may_speak())
    return;
  log_line(LOG_LEVEL_WARN,
           "join is off: this process makes NCCL communicators that bypass nccl-join. It has NCCL "
           "linked statically or hidden in a library, or it runs without LD_PRELOAD");
}

/* ---- the profiler plug-in ---- */

/* As NCCL's plug-in interface has them (NCCL, src/include/plugin/profiler/profiler_v1.h to _v5.h).
 * The releases differ in the parameters of init, and in descriptions of events that we never get.
 */
typedef ncclResult_t start_event(void *context, void **event, void *description);
typedef ncclResult_t stop_event(void *event);
typedef ncclResult_t record_state(void *event, int state, void *arguments);
typedef ncclResult_t finalize(void *context);

// NOLINTBEGIN(bugprone-macro-parentheses): types
#define PROFILER(init_type)                                                                        \
  struct init_type##_profiler {                                                                    \
    const char *name;                                                                              \
    init_type *init;                                                                               \
    start_event *start;                                                                            \
    stop_event *stop;                                                                              \
    record_state *record;                                                                          \
    finalize *end;                                                                                 \
  }
// NOLINTEND(bugprone-macro-parentheses)
typedef ncclResult_t init_v1(void **context, int *mask);
typedef ncclResult_t init_v4(void **context, int *mask, const char *name, uint64_t hash, int nnodes,
                             int nranks, int rank, void *log);
typedef ncclResult_t init_v5(void **context, uint64_t hash, int *mask, const char *name, int nnodes,
                             int nranks, int rank, void *log);

static ncclResult_t bypass_begin(void **context, int *mask) {
  *context = NULL;
  *mask = 0;
  communicator_made();
  return ncclSuccess;
}

// NOLINTBEGIN(misc-unused-parameters)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
static ncclResult_t begin_v4(void **context, int *mask, const char *name, uint64_t hash, int nnodes,
                             int nranks, int rank, void *log) {
  return bypass_begin(context, mask);
}

static ncclResult_t begin_v5(void **context, uint64_t hash, int *mask, const char *name, int nnodes,
                             int nranks, int rank, void *log) {
  return bypass_begin(context, mask);
}

static ncclResult_t bypass_start(void *context, void **event, void *description) {
  *event = NULL;
  return ncclSuccess;
}

static ncclResult_t bypass_stop(void *event) {
  return ncclSuccess;
}

static ncclResult_t bypass_record(void *event, int state, void *arguments) {
  return ncclSuccess;
}

static ncclResult_t bypass_end(void *context) {
  return ncclSuccess;
}
#pragma GCC diagnostic pop
// NOLINTEND(misc-unused-parameters)

PROFILER(init_v1);
PROFILER(init_v4);
PROFILER(init_v5);

#define PLUGIN(version, init_type, init_function)                                                  \
  extern const struct init_type##_profiler ncclProfiler_##version;                                 \
  __attribute__((visibility("default")))                                                           \
  const struct init_type##_profiler ncclProfiler_##version = {                                     \
      "nccl-join", init_function, bypass_start, bypass_stop, bypass_record, bypass_end};
PLUGIN(v1, init_v1, bypass_begin)
PLUGIN(v2, init_v1, bypass_begin)
PLUGIN(v3, init_v1, bypass_begin)
PLUGIN(v4, init_v4, begin_v4)
PLUGIN(v5, init_v5, begin_v5)

/* ---- the end ---- */

struct search {
  const char *beginning; /* of the file's name */
  unsigned skip;
  char *path; /* PATH_MAX */
};

static int is_wanted(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct search *search = data;
  const char *slash = strrchr(object->dlpi_name, '/');
  const char *name = slash == NULL ? object->dlpi_name : slash + 1;
  if (strncmp(name, search->beginning, strlen(search->beginning)) != 0 || search->skip-- > 0)
    return 0;
  snprintf(search->path, PATH_MAX, "%s", object->dlpi_name);
  return 1;
}

/* The n-th of the loaded libraries whose file is called so; NULL behind the last one. To be closed.
 * Only once dl_iterate_phdr has given its lock back dlopen may be called. */
static void *loaded_library(const char *beginning, unsigned n) {
  char path[PATH_MAX];
  struct search search = {beginning, n, path};
  return dl_iterate_phdr(is_wanted, &search) == 0 ? NULL
                                                  : linker_dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
}

#define FIND(library, name)                                                                        \
  __typeof__(name) *find_##name;                                                                   \
  *(void **)&find_##name = linker_dlsym(library, #name) /* as dlsym(3) says it is to be done */

/* Before cuInit, and in a child forked after it, every call fails. */
static bool driver_has_context(void *driver) {
  FIND(driver, cuCtxGetCurrent);
  FIND(driver, cuDeviceGetCount);
  FIND(driver, cuDeviceGet);
  FIND(driver, cuDevicePrimaryCtxGetState);
  if (find_cuCtxGetCurrent == NULL || find_cuDeviceGetCount == NULL || find_cuDeviceGet == NULL ||
      find_cuDevicePrimaryCtxGetState == NULL)
    return false;
  CUcontext context = NULL;
  if (find_cuCtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL)
    return true;
  int count = 0;
  CUdevice device;
  for (int i = 0; find_cuDeviceGetCount(&count) == CUDA_SUCCESS && i < count; i++) {
    unsigned flags;
    int active = 0;
    if (find_cuDeviceGet(&device, i) == CUDA_SUCCESS &&
        find_cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active)
      return true;
  }
  return false;
}

/* A communicator needs one, and nothing takes it away again but the program itself. */
static bool has_context(void) {
  void *driver = loaded_library("libcuda.so", 0);
  bool has = driver != NULL && driver_has_context(driver);
  if (driver != NULL)
    dlclose(driver);
  return has;
}

/* The first release with profiler plug-ins. */
enum { VERSION_WITH_PROFILER = 22300 };

static bool tells_profiler(void *nccl) {
  FIND(nccl, ncclGetVersion);
  int version = 0;
  return find_ncclGetVersion != NULL && find_ncclGetVersion(&version) == ncclSuccess &&
         version >= VERSION_WITH_PROFILER;
}

/* Whether this library is the plug-in that NCCL would have told. */
static bool is_profiler(void) {
  Dl_info object;
  const char *plugin = getenv("NCCL_PROFILER_PLUGIN");
  return plugin != NULL && dladdr(&ncclProfiler_v1, &object) != 0 &&
         strcmp(plugin, object.dli_fname) == 0;
}

/* Whether communicators may have been made of an NCCL that is loaded, unseen. */
static bool may_have_passed(void) {
  unsigned n = 0, told = 0;
  bool profiler = is_profiler();
  for (void *nccl; (nccl = loaded_library("libnccl.so", n)) != NULL; n++) {
    told += profiler && tells_profiler(nccl);
    dlclose(nccl);
  }
  return told < n;
}

void bypass_check_at_exit(void) {
  if (atomic_load(&guard_mode) != GUARD_UNDECIDED || !may_have_passed() || !has_context() ||
      atomic_flag_test_and_set(&said) || !may_speak())
    return;
  log_line(
      LOG_LEVEL_WARN,
      "libnccl.so is loaded and CUDA in use, but no call of NCCL came by nccl-join that makes a "
      "communicator or a collective: this process made none, or it has NCCL linked statically or "
      "hidden in a library, and was not joined");
}
