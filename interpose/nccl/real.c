/* Finding the real NCCL, or each of several (real.h).
 *
 * No lock is held while the dynamic linker is asked, because it has locks of its own and a
 * library's constructor, which runs under them, may call NCCL. Threads that come at the same time
 * search each for itself and find the same.
 */
#include "interpose/nccl/real.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/nccl/libraries.h"
#include "interpose/elf/linker.h"

/* The version in text, from NCCL_VERSION_CODE: 2.8 and earlier counted in hundreds. */
#define VERSION_MAJOR(code) ((code) / 10000)
#define VERSION_MINOR(code) ((code) / 100 % 100)
#define VERSION_PATCH(code) ((code) % 100)

/* NCCL itself has these; a tool that wraps some of its functions has no reason to wrap a question.
 */
#define TELLING_HANDLED false
#define TELLING_FAST false
#define TELLING_UNFIT false
#define TELLING_OBSERVED false
#define TELLING_CREATES false
#define TELLING_GROUPS false
#define TELLING_SPLITS false
#define TELLING_CALLED true
#define TELLING_ASKED true

static const struct {
  const char *profiled; /* "pncclX"; without its first letter "ncclX" */
  int since;
  bool telling;
} functions[REAL_FUNCTIONS] = {
#define FUNCTION(since, name, parameters, arguments, handling)                                     \
  {"pnccl" #name, since, TELLING_##handling},
    NCCL_API(FUNCTION)
#undef FUNCTION
};

/* ---- where to look ---- */

typedef void any_function(void);

struct findings {
  any_function *function[REAL_FUNCTIONS]; /* NULL: not found yet */
};

bool real_is_ours(const void *address) {
  Dl_info ours;
  Dl_info theirs;
  return dladdr(&real, &ours) != 0 && dladdr(address, &theirs) != 0 &&
         ours.dli_fbase == theirs.dli_fbase;
}

/* Adds what a handle leads to and was not found before; true if it leads to NCCL. */
static bool look_in(void *handle, struct findings *findings) {
  bool nccl = true;
  for (unsigned i = 0; i < REAL_FUNCTIONS; i++) {
    void *address = linker_dlsym(handle, functions[i].profiled + 1);
    if (address == NULL || real_is_ours(address))
      address = linker_dlsym(handle, functions[i].profiled);
    if (address == NULL)
      nccl = nccl && !functions[i].telling;
    else if (findings->function[i] == NULL)
      *(void **)&findings->function[i] = address; /* as dlsym(3) says it is to be done */
  }
  return nccl;
}

static bool look_next(struct findings *findings) {
  return look_in(RTLD_NEXT, findings);
}

/* The handle is kept: the functions must stay, whoever closes his own. */
static bool look_in_loaded(const char *file, struct findings *findings) {
  void *handle = linker_dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == NULL)
    return false;
  struct findings more = *findings;
  if (look_in(handle, &more)) {
    *findings = more;
    return true;
  }
  dlclose(handle);
  return false;
}

static bool look_in_library(struct findings *findings) {
  return look_in_loaded("libnccl.so.2", findings);
}

struct nth_object {
  unsigned skip;
  char file[PATH_MAX];
};

static int copy_nth(struct dl_phdr_info *object, size_t size, void *argument) {
  (void)size;
  struct nth_object *nth = argument;
  if (nth->skip-- > 0)
    return 0;
  nth->file[0] = '\0';
  strncat(nth->file, object->dlpi_name, sizeof nth->file - 1);
  return 1;
}

/* One at a time: dl_iterate_phdr holds a lock under which dlopen must not be called. */
static bool look_in_objects(struct findings *findings) {
  struct nth_object nth;
  for (unsigned i = 0; nth.skip = i, dl_iterate_phdr(copy_nth, &nth) == 1; i++) {
    if (nth.file[0] == '/' && look_in_loaded(nth.file, findings))
      return true;
  }
  return false;
}

static const struct step {
  const char *name;
  bool (*look)(struct findings *findings); /* true: NCCL is here, the search ends */
} steps[] = {
    {"search order", look_next},
    {"name libnccl.so.2", look_in_library},
    {"loaded objects", look_in_objects},
};
#define STEPS (sizeof steps / sizeof steps[0])

/* ---- before, and instead of, the real functions ---- */

struct library real_libraries[LIBRARIES_MAX];

/* Set after the functions are stored. */
static _Atomic unsigned nlibraries;

unsigned real_count(void) {
  return atomic_load_explicit(&nlibraries, memory_order_acquire);
}

static ncclResult_t no_library(void) {
  log_once(LOG_LEVEL_WARN,
           "an NCCL function was called, but no NCCL is loaded in this process: link the program "
           "to libnccl.so.2, or load it before; until then calls return ncclSystemError");
  return ncclSystemError;
}

static ncclResult_t no_function(enum real_function function) {
  char found[LOG_LINE_SIZE];
  log_once(
      LOG_LEVEL_WARN,
      "%s was called, which came with NCCL %d.%d, but this is %s: it returns ncclInvalidUsage. "
      "Load a newer NCCL",
      functions[function].profiled + 1, VERSION_MAJOR(functions[function].since),
      VERSION_MINOR(functions[function].since), real_describe(found, sizeof found));
  return ncclInvalidUsage;
}

#define STAND_INS(since, name, parameters, arguments, handling)                                    \
  static ncclResult_t first_##name parameters {                                                    \
    return real_resolve() ? real.name arguments : no_library();                                    \
  }                                                                                                \
  static ncclResult_t missing_##name parameters {                                                  \
    return no_function(REAL_##name);                                                               \
  }
// NOLINTBEGIN(misc-unused-parameters)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
NCCL_API(STAND_INS)
#pragma GCC diagnostic pop
// NOLINTEND(misc-unused-parameters)

struct real_functions real = {
#define FIRST(since, name, parameters, arguments, handling) .name = first_##name,
    NCCL_API(FIRST)
#undef FIRST
};

/* ---- the libraries ---- */

static const void *base_of(const void *address) {
  Dl_info object;
  return address != NULL && dladdr(address, &object) != 0 ? object.dli_fbase : NULL;
}

static void real_fill(struct library *library, const struct findings *findings) {
// NOLINTBEGIN(bugprone-macro-parentheses): a type
#define FILL(since, name, parameters, arguments, handling)                                         \
  {                                                                                                \
    any_function *found = findings->function[REAL_##name];                                         \
    library->present[REAL_##name] = found != NULL;                                                 \
    atomic_store(&library->functions.name,                                                         \
                 found == NULL ? missing_##name : (ncclResult_t(*) parameters)found);              \
  }
  NCCL_API(FILL)
#undef FILL
  // NOLINTEND(bugprone-macro-parentheses)
}

static void real_install(const struct real_functions *these) {
#define INSTALL(since, name, parameters, arguments, handling)                                      \
  atomic_store(&real.name, atomic_load(&these->name));
  NCCL_API(INSTALL)
#undef INSTALL
}

static const struct library *known_at(const void *base) {
  for (unsigned i = 0; i < real_count(); i++)
    if (real_libraries[i].base == base)
      return &real_libraries[i];
  return NULL;
}

/* The lock is held for some stores only. */
static const struct library *real_add(const struct findings *findings, const char *found_by) {
  static atomic_flag adding = ATOMIC_FLAG_INIT;
  any_function *version = findings->function[REAL_GetVersion];
  const void *base = base_of(*(void **)&version);
  while (atomic_flag_test_and_set(&adding))
    sched_yield();
  unsigned known = real_count();
  const struct library *library = known_at(base);
  if (library == NULL && known < LIBRARIES_MAX) {
    struct library *new = &real_libraries[known];
    real_fill(new, findings);
    new->base = base;
    new->found_by = found_by;
    library = new;
    if (known == 0)
      real_install(&new->functions);
    atomic_store(&nlibraries, known + 1);
    if (known == 1)
      real_install(&libraries_dispatch);
  }
  atomic_flag_clear(&adding);
  if (library == NULL)
    log_once(
        LOG_LEVEL_WARN,
        "this process has more than %u NCCL libraries: join is off for calls of the others. Let "
        "all that uses NCCL load one",
        LIBRARIES_MAX);
  return library;
}

/* So that it stays, whoever closes his own. Not where the program has it itself. */
static void keep_loaded(const struct library *library) {
  Dl_info object;
  if (dladdr(library->base, &object) != 0)
    linker_dlopen(object.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
}

const struct library *real_library(void *handle, const char *found_by) {
  const void *version = linker_dlsym(handle, "ncclGetVersion");
  const struct library *library = version == NULL ? NULL : known_at(base_of(version));
  struct findings findings = {0};
  if (library != NULL || version == NULL || !look_in(handle, &findings))
    return library;
  library = real_add(&findings, found_by);
  if (library != NULL)
    keep_loaded(library);
  return library;
}

bool real_resolve(void) {
  if (real_count() > 0)
    return true;
  struct findings findings = {0};
  unsigned step = 0;
  while (step < STEPS && !steps[step].look(&findings))
    step++;
  return step < STEPS && real_add(&findings, steps[step].name) != NULL;
}

bool real_has(enum real_function function) {
  return real_resolve() && real_libraries[0].present[function];
}

const char *real_describe_library(const struct library *library, char *text, size_t size) {
  int version = 0;
  Dl_info object = {0};
  library->functions.GetVersion(&version);
  dladdr(library->base, &object);
  snprintf(text, size, "NCCL %d.%d.%d in %s (found by %s)", VERSION_MAJOR(version),
           VERSION_MINOR(version), VERSION_PATCH(version),
           object.dli_fname == NULL ? "?" : object.dli_fname, library->found_by);
  return text;
}

const char *real_describe(char *text, size_t size) {
  if (real_resolve())
    return real_describe_library(&real_libraries[0], text, size);
  snprintf(text, size, "no NCCL");
  return text;
}
