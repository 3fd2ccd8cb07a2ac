/* Which images call NCCL (remarks.h). Told from what they take from others, what they have, and
 * what they look up. */
#include "tools/check/remarks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest release that nccl-join is for (interpose/nccl/api.h). */
#define MAJOR_OLDEST 2u
#define MINOR_OLDEST 18u

static struct way *add_way(struct answer *answer, enum reach reach, enum seen seen,
                           const char *object) {
  if (answer->nways == answer->ways_room) {
    answer->ways_room = answer->ways_room * 2 + 8;
    answer->ways = more_memory(answer->ways, answer->ways_room * sizeof(struct way));
  }
  struct way *way = &answer->ways[answer->nways++];
  *way = (struct way){.reach = reach, .seen = seen};
  copy_path(way->object, object);
  return way;
}

/* ---- the library ---- */

/* By what it logs, or else by the name of the file behind its links: libnccl.so.2.28.9. */
static void find_version(struct way *way, struct image *library) {
  char real[PATH_MAX];
  static const char begin[] = "libnccl.so.";
  if (*library->version == '\0')
    image_scan(library, SCAN_CARRIED);
  snprintf(way->version, sizeof way->version, "%s", library->version);
  if (*way->version != '\0' || realpath(library->path, real) == NULL ||
      strncmp(base_name(real), begin, strlen(begin)) != 0)
    return;
  const char *number = base_name(real) + strlen(begin);
  if (strchr(number, '.') != NULL && strlen(number) < IMAGE_VERSION_SIZE)
    snprintf(way->version, sizeof way->version, "%s", number);
}

static void remark_old(struct answer *answer, struct way *way) {
  char *end;
  unsigned long major = strtoul(way->version, &end, 10);
  unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
  if (*way->version == '\0' || major > MAJOR_OLDEST ||
      (major == MAJOR_OLDEST && minor >= MINOR_OLDEST))
    return;
  if (way->seen == SEEN_YES)
    way->seen = SEEN_UNKNOWN;
  remark(answer, "old", REMARK_DOUBT, "use NCCL 2.18 or later",
         "NCCL %s is older than what nccl-join is made for, 2.18", way->version);
}

static void use_library(struct answer *answer, struct way *way, struct image *library) {
  if (realpath(library->path, way->library) == NULL)
    copy_path(way->library, library->path);
  find_version(way, library);
  remark_old(answer, way);
}

/* The file that a dlopen by the image finds. */
static void use_opened(struct answer *answer, struct way *way, const struct closure *closure,
                       const struct image *image, const char *name) {
  char path[PATH_MAX], error[IMAGE_ERROR_SIZE];
  if (!search_library(closure->search, name, image, path))
    return;
  struct image *library = image_read(path, error);
  if (library == NULL)
    return;
  use_library(answer, way, library);
  image_free(library);
}

/* ---- ways ---- */

static void add_linked(struct answer *answer, const struct closure *closure,
                       const struct image *image) {
  struct way *way = add_way(answer, REACH_LINKED, SEEN_YES, image->path);
  const struct image *library = closure_provider(closure, image);
  for (size_t i = 0; library != NULL && i < closure->count; i++)
    if (closure->images[i] == library)
      use_library(answer, way, closure->images[i]);
  if (library != NULL)
    return;
  way->seen = SEEN_UNKNOWN;
  remark(answer, "missing", REMARK_DOUBT,
         "set LD_LIBRARY_PATH as it is where the program runs, and check again",
         "%s calls NCCL, but no library that has it is found", image->path);
}

/* NCCL is a part of the image, and its functions can be seen from outside. */
static void add_exported(struct answer *answer, struct image *image) {
  bool can_be_preceded = image->calls_out > 0 && !image->symbolic && image->role != ROLE_PROGRAM;
  struct way *way =
      add_way(answer, REACH_EXPORTED, can_be_preceded ? SEEN_YES : SEEN_NO, image->path);
  use_library(answer, way, image);
  if (!can_be_preceded)
    remark(answer, "bound", REMARK_WRONG,
           image->role == ROLE_PROGRAM
               ? "link the program to libnccl.so.2"
               : "link it to libnccl.so.2, or without -Bsymbolic and -Bsymbolic-functions",
           "NCCL is linked statically into %s, which calls it directly: nccl-join does not see "
           "these calls",
           image->path);
}

static void add_hidden(struct answer *answer, struct image *image) {
  struct way *way = add_way(answer, REACH_HIDDEN, SEEN_NO, image->path);
  use_library(answer, way, image);
  remark(answer, "hidden", REMARK_WRONG,
         "link it to libnccl.so.2 (Horovod: build with HOROVOD_NCCL_LINK=SHARED)",
         "NCCL is linked statically into %s, and hidden there: nccl-join does not see these calls",
         image->path);
}

static bool may_open(const struct image *image) {
  return image->opens || image->opens_apart;
}

/* Whether it can open NCCL only where nothing that is preloaded is seen. */
static bool opens_only_apart(const struct image *image) {
  return image->opens_apart && !image->opens;
}

static void add_opened(struct answer *answer, const struct closure *closure,
                       const struct image *image) {
  bool only_apart = opens_only_apart(image);
  struct way *way = add_way(answer, REACH_OPENED, only_apart ? SEEN_NO : SEEN_YES, image->path);
  const struct names *opened = &image->opened;
  for (size_t i = 0; i < opened->count && *way->library == '\0'; i++)
    use_opened(answer, way, closure, image, opened->items[i]);
  if (opened->count == 0)
    use_opened(answer, way, closure, image, "libnccl.so.2");
  if (only_apart)
    remark(answer, "dlmopen", REMARK_WRONG, "open NCCL with dlopen",
           "%s opens NCCL with dlmopen, where nothing that is preloaded is seen", image->path);
}

static bool has_nccl(const struct image *image) {
  return image->exports > 0 && image->has_creation;
}

/* A stub that opens NCCL may have functions of NCCL's names that nobody else sees. A static program
 * has its dlopen inside. */
static void find_way(struct answer *answer, struct closure *closure, struct image *image,
                     bool brief) {
  bool is_static = image->role == ROLE_PROGRAM && *image->interpreter == '\0';
  if (image->uses > 0) {
    add_linked(answer, closure, image);
    return;
  }
  if (has_nccl(image)) {
    add_exported(answer, image);
    return;
  }
  if (!brief || image->role == ROLE_PROGRAM)
    image_find_hidden(image);
  if (is_static || may_open(image))
    image_scan(image,
               brief && image->hides == 0 && !opens_only_apart(image) ? SCAN_CARRIED : SCAN_ALL);
  bool names_it = image->opened.count > 0 || (image->names_functions && image->looks_up);
  if (image->carries_nccl || (image->hides > 0 && image->has_creation && !names_it))
    add_hidden(answer, image);
  else if (names_it && (is_static || may_open(image)))
    add_opened(answer, closure, image);
}

/* Loaded, but called by none of them: perhaps looked up by dlsym(RTLD_DEFAULT, ...). */
static void find_uncalled(struct answer *answer, const struct closure *closure) {
  for (size_t i = 0; answer->nways == 0 && i < closure->count; i++) {
    struct image *image = closure->images[i];
    if (image->role != ROLE_NEEDED || !image_is_nccl(image))
      continue;
    const struct image *by = image->loader;
    use_library(answer, add_way(answer, REACH_LINKED, SEEN_YES, by->path), image);
  }
}

void ways_find(struct answer *answer, struct closure *closure, bool brief) {
  for (size_t i = 0; i < closure->count; i++) {
    struct image *image = closure->images[i];
    if (image->role != ROLE_PRELOAD && image->runs_here && !image_is_nccl(image))
      find_way(answer, closure, image, brief);
  }
  find_uncalled(answer, closure);
}

void ways_add_source(struct answer *answer, const struct closure *closure, const char *source) {
  struct way *way = add_way(answer, REACH_OPENED, SEEN_YES, source);
  use_opened(answer, way, closure, NULL, "libnccl.so.2");
}

void ways_judge(struct answer *answer) {
  size_t first = 0;
  answer->reach = REACH_NONE;
  answer->seen = SEEN_NO;
  for (size_t i = 0; i < answer->nways; i++) {
    const struct way *way = &answer->ways[i];
    if (i == 0)
      answer->seen = way->seen;
    else if (answer->seen != way->seen)
      answer->seen = SEEN_UNKNOWN;
    if (way->reach < answer->ways[first].reach)
      first = i;
  }
  if (answer->nways == 0)
    return;
  struct way telling = answer->ways[first];
  memmove(answer->ways + 1, answer->ways, first * sizeof(struct way));
  answer->ways[0] = telling;
  answer->reach = telling.reach;
}
