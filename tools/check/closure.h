/* Closure: a program and all that the dynamic linker loads with it, in the order of loading, and
 * the modules of Python packages with what they need. */
#ifndef NCCL_JOIN_TOOLS_CHECK_CLOSURE_H
#define NCCL_JOIN_TOOLS_CHECK_CLOSURE_H

#include "tools/check/search.h"

/* A library that was not found, or whose file is not what it should be. */
struct missing {
  char *name, *why;              /* owned */
  const struct image *wanted_by; /* NULL: nobody but the user */
};

struct closure {
  struct search *search;
  struct image **images; /* owned */
  size_t count, room;
  struct missing *missing;
  size_t nmissing;
};

/* Adds a file, without what it needs. What is there already is not added again; it is what is
 * returned then. NULL with an entry in missing if it cannot be read. */
struct image *closure_add(struct closure *closure, const char *path, enum image_role role,
                          const struct image *loader);

/* Adds one for a name that is looked for, as LD_PRELOAD's are; the same otherwise. */
struct image *closure_add_named(struct closure *closure, const char *name, enum image_role role,
                                const struct image *loader);

/* Adds all that the images need, and what that needs, breadth first as the dynamic linker does. */
void closure_complete(struct closure *closure);

/* The first image, in the order of loading, from which a user of NCCL's functions gets them; NULL
 * if none has them. Objects put in front are passed over. */
const struct image *closure_provider(const struct closure *closure, const struct image *user);

void closure_free(struct closure *closure);

#endif
