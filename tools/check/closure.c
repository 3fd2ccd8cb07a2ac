/* What is loaded together (closure.h). */
#include "tools/check/closure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static void add_missing(struct closure *closure, const char *name, const char *why,
                        const struct image *wanted_by) {
  closure->missing =
      more_memory(closure->missing, (closure->nmissing + 1) * sizeof *closure->missing);
  closure->missing[closure->nmissing++] =
      (struct missing){.name = copy_text(name), .why = copy_text(why), .wanted_by = wanted_by};
}

static struct image *add(struct closure *closure, struct image *image, enum image_role role,
                         const struct image *loader) {
  if (closure->count == closure->room) {
    closure->room = closure->room * 2 + 32;
    closure->images = more_memory(closure->images, closure->room * sizeof(struct image *));
  }
  image->role = role;
  image->loader = loader;
  closure->images[closure->count++] = image;
  return image;
}

/* The same file may have several names. */
static struct image *loaded_file(const struct closure *closure, const char *path) {
  struct stat status;
  if (stat(path, &status) != 0)
    return NULL;
  for (size_t i = 0; i < closure->count; i++)
    if (closure->images[i]->device == status.st_dev && closure->images[i]->inode == status.st_ino)
      return closure->images[i];
  return NULL;
}

/* A name that a loaded library has is that library, wherever others of the name may be. */
static struct image *loaded_name(const struct closure *closure, const char *name) {
  for (size_t i = 0; i < closure->count; i++) {
    const char *soname = closure->images[i]->soname;
    if (soname != NULL && strcmp(soname, name) == 0)
      return closure->images[i];
  }
  return NULL;
}

struct image *closure_add(struct closure *closure, const char *path, enum image_role role,
                          const struct image *loader) {
  char error[IMAGE_ERROR_SIZE];
  struct image *image = loaded_file(closure, path);
  if (image != NULL)
    return image;
  image = image_read(path, error);
  if (image != NULL)
    return add(closure, image, role, loader);
  add_missing(closure, path, error, loader);
  return NULL;
}

struct image *closure_add_named(struct closure *closure, const char *name, enum image_role role,
                                const struct image *loader) {
  char path[PATH_MAX];
  struct image *image = loaded_name(closure, name);
  if (image != NULL)
    return image;
  if (search_library(closure->search, name, loader, path))
    return closure_add(closure, path, role, loader);
  add_missing(closure, name, "is not found", loader);
  return NULL;
}

void closure_complete(struct closure *closure) {
  for (size_t i = 0; i < closure->count; i++) {
    const struct image *image = closure->images[i];
    for (size_t j = 0; j < image->needed.count; j++)
      closure_add_named(closure, image->needed.items[j], ROLE_NEEDED, image);
  }
}

static bool provides(const struct image *image, const struct image *user) {
  return image != user && image->exports > 0 && image->has_creation && image->role != ROLE_PRELOAD;
}

/* Whether a user needs an image, directly or through others. */
static bool leads_to(const struct closure *closure, const struct image *from,
                     const struct image *to, unsigned depth) {
  for (size_t i = 0; depth > 0 && i < from->needed.count; i++) {
    const char *name = from->needed.items[i];
    const struct image *next = loaded_name(closure, base_name(name));
    for (size_t j = 0; next == NULL && j < closure->count; j++)
      if (strcmp(base_name(closure->images[j]->path), base_name(name)) == 0)
        next = closure->images[j];
    if (next == to || (next != NULL && next != from && leads_to(closure, next, to, depth - 1)))
      return true;
  }
  return false;
}

/* Modules of different packages may each bring an NCCL; what one needs itself is its own. */
#define NEEDED_DEPTH 4

const struct image *closure_provider(const struct closure *closure, const struct image *user) {
  const struct image *first = NULL;
  for (size_t i = 0; i < closure->count; i++) {
    const struct image *image = closure->images[i];
    if (!provides(image, user))
      continue;
    if (first == NULL)
      first = image;
    if (leads_to(closure, user, image, NEEDED_DEPTH))
      return image;
  }
  return first;
}

void closure_free(struct closure *closure) {
  for (size_t i = 0; i < closure->count; i++)
    image_free(closure->images[i]);
  free(closure->images);
  for (size_t i = 0; i < closure->nmissing; i++) {
    free(closure->missing[i].name);
    free(closure->missing[i].why);
  }
  free(closure->missing);
  *closure = (struct closure){0};
}
