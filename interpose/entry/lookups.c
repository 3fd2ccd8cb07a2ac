/* What look-ups of NCCL's functions are answered with (lookups.h).
 *
 * For each function that is exported and each library there is one more function, by which the
 * program says what it means: this function of that library. So does a library that stands in front
 * of another one, as MSCCL++ does; its calls are made inside of one that we have acted on.
 */
#include "interpose/entry/lookups.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "interpose/exits/exit_points.h"
#include "interpose/nccl/libraries.h"
#include "interpose/elf/linker.h"
#include "interpose/places/native/native_sites.h"
#include "interpose/nccl/real.h"
#include "interpose/elf/trampolines.h"
#include "interpose/entry/wrappers.h"

/* ---- the functions ---- */

#define NAMED(number, name, parameters, arguments)                                                 \
  static ncclResult_t in_##number##_##name parameters {                                            \
    const struct library *before = library_enter(&real_libraries[number]);                         \
    ncclResult_t result = wrapper_##name arguments;                                                \
    library_leave(before);                                                                         \
    return result;                                                                                 \
  }
#define NAMED_IN_ALL(name, parameters, arguments)                                                  \
  NAMED(0, name, parameters, arguments)                                                            \
  NAMED(1, name, parameters, arguments)                                                            \
  NAMED(2, name, parameters, arguments)                                                            \
  NAMED(3, name, parameters, arguments)
_Static_assert(LIBRARIES_MAX == 4, "one line above for each");

#define NAMED_HANDLED(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_FAST(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_UNFIT(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_OBSERVED(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_CREATES(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_GROUPS(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_SPLITS(name, parameters, arguments) NAMED_IN_ALL(name, parameters, arguments)
#define NAMED_CALLED(name, parameters, arguments)
#define NAMED_ASKED(name, parameters, arguments)
#define NAMED_BY_HANDLING(since, name, parameters, arguments, handling)                            \
  NAMED_##handling(name, parameters, arguments)
NCCL_API(NAMED_BY_HANDLING)

typedef void any_function(void);

struct named {
  const char *name;
  enum real_function number;
  any_function *in[LIBRARIES_MAX];
};

#define ROW(name)                                                                                  \
  {"nccl" #name,                                                                                   \
   REAL_##name,                                                                                    \
   {(any_function *)in_0_##name, (any_function *)in_1_##name, (any_function *)in_2_##name,         \
    (any_function *)in_3_##name}},
#define ROW_HANDLED(name) ROW(name)
#define ROW_FAST(name) ROW(name)
#define ROW_UNFIT(name) ROW(name)
#define ROW_OBSERVED(name) ROW(name)
#define ROW_CREATES(name) ROW(name)
#define ROW_GROUPS(name) ROW(name)
#define ROW_SPLITS(name) ROW(name)
#define ROW_CALLED(name)
#define ROW_ASKED(name)
#define ROW_BY_HANDLING(since, name, parameters, arguments, handling) ROW_##handling(name)

static const struct named table[] = {NCCL_API(ROW_BY_HANDLING)};
#define TABLE_END (table + sizeof(table) / sizeof(table[0]))

/* ---- look-ups ---- */

/* Not by strcmp: other names that begin so are NCCL's and its plug-ins' business, and a sanitizer
 * may not be ready. */
UNINSTRUMENTED static const struct named *find(const char *name) {
  for (const struct named *named = table; named < TABLE_END; named++) {
    const char *a = named->name, *b = name;
    while (*a != '\0' && *a == *b)
      a++, b++;
    if (*a == *b)
      return named;
  }
  return NULL;
}

bool lookup_is_caught(const char *name) {
  return find(name) != NULL;
}

static void *look_up(void *handle, const char *name, const char *version) {
  return version == NULL ? linker_dlsym(handle, name) : linker_dlvsym(handle, name, version);
}

/* Our own function stands for the one that the program would find behind it. If there is none, the
 * look-up behind us fails, and leaves its reason in dlerror. */
static struct lookup stand_for(void *found, const struct named *named, const char *version) {
  if (real_has(named->number))
    return (struct lookup){found, true};
  return (struct lookup){look_up(RTLD_NEXT, named->name, version), true};
}

/* Whoever looks something up may just have loaded what it calls. */
static struct lookup lookup_other(void *handle, const char *name, const char *version) {
  if (__atomic_load_n(&trampolines_placed, __ATOMIC_RELAXED))
    trampolines_place();
  else
    exit_points_choose();
  bool known = handle != RTLD_NEXT && trampolines_know(name);
  void *found = known ? look_up(handle, name, version) : NULL;
  void *trampoline = found == NULL ? NULL : trampolines_for(name, found);
  return (struct lookup){trampoline, trampoline != NULL};
}

struct lookup lookup_symbol(void *handle, const char *name, const char *version) {
  const struct lookup not_given = {NULL, false};
  const struct named *named = find(name);
  if (named == NULL)
    return lookup_other(handle, name, version);
  if (handle == RTLD_NEXT)
    return not_given;
  void *found = look_up(handle, name, version);
  if (found == NULL)
    return not_given;
  if (real_is_ours(found))
    return stand_for(found, named, version);
  const struct library *library = real_library(handle, "dlsym");
  if (library == NULL || !library->present[named->number])
    return not_given;
  return (struct lookup){*(void *const *)&named->in[library - real_libraries], true};
}

int lookup_flags(const char *file, int flags, const void *caller) {
  native_sites_expect_opening();
  if ((flags & RTLD_DEEPBIND) == 0)
    return flags;
  return file != NULL && deepbind_hides_nccl(file, caller, lookup_is_caught)
             ? flags & ~RTLD_DEEPBIND
             : flags;
}
