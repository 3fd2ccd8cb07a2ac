/* Plug-ins (plugins.h). A message names the file and says what to do: who reads it has set
 * NCCL_JOIN_HOOK and may not have written the plug-in.
 */
#include "hooks/plugins.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "core/settings/settings.h"

#define SYMBOL "ncclJoinHook_v1"

struct plugin {
  char path[SETTINGS_PATH_SIZE];
  const ncclJoinHook_v1_t *hook;
  void *context;
  int wants;
  _Atomic bool main_failed;
};

/* Written by plugins_load, under `once`; read-only afterwards but for main_failed. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct plugin *plugins;
static unsigned nplugins;
static bool loaded;
static const char *wanted;

/* Held for reading while a hook is called, for writing while plug-ins end: other threads may still
 * be in calls when the process does. */
static pthread_rwlock_t in_use = PTHREAD_RWLOCK_INITIALIZER;
static bool finalized;

__attribute__((format(printf, 2, 3))) static void log_for_plugin(int level, const char *format,
                                                                 ...) {
  char text[LOG_LINE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  log_line(level <= NCCL_JOIN_LOG_ERROR  ? LOG_LEVEL_ERROR
           : level == NCCL_JOIN_LOG_WARN ? LOG_LEVEL_WARN
                                         : LOG_LEVEL_INFO,
           "%s", text);
}

static const char *name_of(const struct plugin *plugin) {
  return plugin->hook->name != NULL ? plugin->hook->name : plugin->path;
}

/* ---- loading ---- */

/* A plug-in for a version that this one does not know. */
static bool has_other_version(void *library, char *symbol, size_t size) {
  for (int version = 2; version < 10; version++) {
    (void)snprintf(symbol, size, "ncclJoinHook_v%d", version);
    if (dlsym(library, symbol) != NULL)
      return true;
  }
  return false;
}

static bool open_plugin(struct plugin *plugin) {
  void *library = dlopen(plugin->path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    const char *error = dlerror();
    log_line(LOG_LEVEL_ERROR,
             "NCCL_JOIN_HOOK: cannot load the plug-in %s: %s. Correct the path, or take it out of "
             "NCCL_JOIN_HOOK",
             plugin->path, error != NULL ? error : "unknown error");
    return false;
  }
  plugin->hook = dlsym(library, SYMBOL);
  if (plugin->hook != NULL)
    return true;
  char symbol[32];
  if (has_other_version(library, symbol, sizeof symbol))
    log_line(LOG_LEVEL_ERROR,
             "NCCL_JOIN_HOOK: the plug-in %s exports %s, but this nccl-join (" NCCL_JOIN_VERSION
             ") knows " SYMBOL " only. Use a plug-in built for it, or a newer nccl-join",
             plugin->path, symbol);
  else
    log_line(LOG_LEVEL_ERROR,
             "NCCL_JOIN_HOOK: %s exports no " SYMBOL
             ": it is no plug-in of nccl-join (nccl_join_hook.h), or hides the symbol. Take it out "
             "of NCCL_JOIN_HOOK",
             plugin->path);
  (void)dlclose(library);
  return false;
}

static bool plugins_initialise(struct plugin *plugin) {
  if (plugin->hook->init == NULL)
    return true;
  ncclResult_t result = plugin->hook->init(&plugin->context, &plugin->wants, log_for_plugin);
  if (result != ncclSuccess)
    log_line(LOG_LEVEL_ERROR,
             "NCCL_JOIN_HOOK: the plug-in %s (%s) could not begin: its init returned %d. See what "
             "it has said above, or take it out of NCCL_JOIN_HOOK",
             name_of(plugin), plugin->path, (int)result);
  return result == ncclSuccess;
}

/* Room for all that are named. */
static bool plugins_allocate(void) {
  size_t count = 1;
  for (const char *at = wanted; (at = strchr(at, ',')) != NULL; at++)
    count++;
  plugins = calloc(count, sizeof *plugins);
  if (plugins == NULL)
    log_line(LOG_LEVEL_ERROR, "out of memory for the plug-ins of NCCL_JOIN_HOOK");
  return plugins != NULL;
}

static void plugins_load_wanted(void) {
  if (*wanted != '\0' && !plugins_allocate())
    return;
  for (const char *at = wanted; *at != '\0';) {
    size_t length = strcspn(at, ",");
    struct plugin *plugin = &plugins[nplugins];
    (void)snprintf(plugin->path, sizeof plugin->path, "%.*s", (int)length, at);
    at += length + (at[length] == ',');
    if (length == 0)
      continue;
    if (!open_plugin(plugin) || !plugins_initialise(plugin)) {
      plugins_finalize();
      nplugins = 0;
      return;
    }
    log_line(LOG_LEVEL_INFO, "plug-in %s (%s)", name_of(plugin), plugin->path);
    nplugins++;
  }
  loaded = true;
}

bool plugins_load(const char *paths) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (wanted == NULL)
    wanted = paths;
  pthread_mutex_unlock(&lock);
  (void)pthread_once(&once, plugins_load_wanted);
  return loaded;
}

/* ---- calling ---- */

static bool has_main(const struct plugin *plugin) {
  return plugin->hook->mainHook != NULL && !atomic_load(&plugin->main_failed);
}

bool plugins_observe(void) {
  for (unsigned i = 0; i < nplugins; i++)
    if (has_main(&plugins[i]))
      return true;
  return false;
}

bool plugins_fill(void) {
  for (unsigned i = 0; i < nplugins; i++)
    if (has_main(&plugins[i]) && (plugins[i].wants & NCCL_JOIN_HOOK_FILL))
      return true;
  return false;
}

bool plugins_have_post(void) {
  for (unsigned i = 0; i < nplugins; i++)
    if (plugins[i].hook->postHook != NULL)
      return true;
  return false;
}

static struct log_subject subject_of(const ncclJoinMember_v1_t *member) {
  return (struct log_subject){member->comm, member->rank, member->nRanks, 0};
}

bool plugins_main(const ncclJoinUnit_v1_t *unit) {
  bool good = true;
  pthread_rwlock_rdlock(&in_use);
  for (unsigned i = 0; i < nplugins && !finalized; i++) {
    struct plugin *plugin = &plugins[i];
    if (!has_main(plugin))
      continue;
    ncclResult_t result = plugin->hook->mainHook(plugin->context, unit);
    if (result == ncclSuccess)
      continue;
    log_line_of(
        subject_of(unit->members), LOG_LEVEL_WARN,
        "mainHook of the plug-in %s (%s) returned %d for the shadow at collective %llu: what "
        "changes nothing is sent instead, the ranks that have data get ncclInvalidUsage, and "
        "the hook is not called again. See what it has said above, or take it out of "
        "NCCL_JOIN_HOOK",
        name_of(plugin), plugin->path, (int)result, unit->index);
    atomic_store(&plugin->main_failed, true);
    good = false;
  }
  pthread_rwlock_unlock(&in_use);
  return good;
}

ncclResult_t plugins_post(const ncclJoinReunion_v1_t *reunion) {
  ncclResult_t first = ncclSuccess;
  pthread_rwlock_rdlock(&in_use);
  for (unsigned i = 0; i < nplugins && !finalized; i++) {
    const struct plugin *plugin = &plugins[i];
    if (plugin->hook->postHook == NULL)
      continue;
    ncclResult_t result = plugin->hook->postHook(plugin->context, reunion);
    if (result == ncclSuccess)
      continue;
    log_line_of(
        (struct log_subject){reunion->comm, reunion->rank, reunion->nRanks, 0}, LOG_LEVEL_WARN,
        "postHook of the plug-in %s (%s) returned %d on rank %d; so does the call that brought "
        "the rank here, unless it ends the communicator. See what it has said above, or take it "
        "out of NCCL_JOIN_HOOK",
        name_of(plugin), plugin->path, (int)result, reunion->rank);
    first = first == ncclSuccess ? result : first;
  }
  pthread_rwlock_unlock(&in_use);
  return first;
}

void plugins_finalize(void) {
  if (nplugins == 0)
    return;
  if (pthread_rwlock_trywrlock(&in_use) != 0) {
    log_line(LOG_LEVEL_WARN,
             "the process ends while a plug-in of NCCL_JOIN_HOOK is at work: none is finalised");
    return;
  }
  for (unsigned i = 0; i < nplugins && !finalized; i++) {
    const struct plugin *plugin = &plugins[i];
    if (plugin->hook->finalize == NULL)
      continue;
    ncclResult_t result = plugin->hook->finalize(plugin->context);
    if (result != ncclSuccess)
      log_line(LOG_LEVEL_WARN, "finalize of the plug-in %s (%s) returned %d", name_of(plugin),
               plugin->path, (int)result);
  }
  finalized = true;
  pthread_rwlock_unlock(&in_use);
}
