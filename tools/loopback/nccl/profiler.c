/* Opening the plug-in, and telling it of communicators (create.h). */
#include "create.h"

#include "report.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* The first members of ncclProfiler_v5_t and ncclProfiler_v4_t. */
struct profiler_v5 {
  const char *name;
  ncclResult_t (*init)(void **context, uint64_t hash, int *mask, const char *name, int nnodes,
                       int nranks, int rank, void *log);
};
struct profiler_v4 {
  const char *name;
  ncclResult_t (*init)(void **context, int *mask, const char *name, uint64_t hash, int nnodes,
                       int nranks, int rank, void *log);
};

static const struct profiler_v5 *v5;
static const struct profiler_v4 *v4;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* What NCCL hands to plug-ins writes to its log; a double has none. */
static void log_nothing(int level, unsigned long flags, const char *file, int line,
                        const char *format, ...) {
  (void)level, (void)flags, (void)file, (void)line, (void)format;
}

static void open_plugin(void) {
  const char *file = getenv("NCCL_PROFILER_PLUGIN");
  if (file == NULL || *file == '\0' || strcmp(file, "none") == 0)
    return;
  void *plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    report_line("profiler plug-in: %s", dlerror());
    return;
  }
  v5 = dlsym(plugin, "ncclProfiler_v5");
  v4 = dlsym(plugin, "ncclProfiler_v4");
}

void profiler_communicator(const struct ncclComm *comm) {
  void *context = NULL;
  int mask = 0;
  pthread_once(&opened, open_plugin);
  void (*log)(int, unsigned long, const char *, int, const char *, ...) = log_nothing;
  if (v5 != NULL)
    v5->init(&context, comm->hash, &mask, NULL, 1, comm->nranks, comm->rank, *(void **)&log);
  else if (v4 != NULL)
    v4->init(&context, &mask, NULL, comm->hash, 1, comm->nranks, comm->rank, *(void **)&log);
}
