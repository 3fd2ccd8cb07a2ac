/* The order in which the dynamic linker looks for a library (search.h). */
#include "tools/check/search.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined __x86_64__
#define PLATFORM "x86_64"
#define CACHE_FLAGS                                                                                \
  0x0303 /* FLAG_X8664_LIB64 | FLAG_ELF_LIBC6, glibc's sysdeps/generic/ldconfig.h */
#else
#define PLATFORM "aarch64"
#define CACHE_FLAGS 0x0a03 /* FLAG_AARCH64_LIB64 | FLAG_ELF_LIBC6 */
#endif

/* What is compiled into glibc, for Debian's and for other distributions. */
static const char system_folders[] =
    "/lib/" PLATFORM "-linux-gnu:/usr/lib/" PLATFORM "-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
static const char multiarch_lib[] = "lib/" PLATFORM "-linux-gnu";

/* ---- the cache: glibc's sysdeps/generic/dl-cache.h ---- */

#define CACHE_MAGIC "glibc-ld.so.cache1.1"
#define CACHE_SIZE_MAX ((off_t)64 * 1024 * 1024)

struct cache_entry {
  int32_t flags;
  uint32_t key, value; /* names, from the beginning of the header */
  uint32_t unused;
  uint64_t hardware; /* 0: for all processors */
};

struct cache_header {
  char magic[sizeof CACHE_MAGIC - 1];
  uint32_t count, strings_size;
  uint32_t unused[5];
  struct cache_entry entries[];
};

static void read_cache(struct search *search, const char *file) {
  struct stat status;
  int descriptor = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0)
    return;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      status.st_size < CACHE_SIZE_MAX) {
    size_t size = (size_t)status.st_size;
    char *bytes = more_memory(NULL, size + 1);
    ssize_t got = read(descriptor, bytes, size);
    bytes[got > 0 ? got : 0] = '\0';
    search->cache = bytes;
    search->cache_size = got > 0 ? (size_t)got : 0;
  }
  close(descriptor);
}

/* Files of older releases of ldconfig begin with an older table, and have this one after it. */
static const struct cache_header *cache_header(const struct search *search, size_t *size) {
  const char *begin = search->cache == NULL ? NULL
                                            : memmem(search->cache, search->cache_size, CACHE_MAGIC,
                                                     sizeof CACHE_MAGIC - 1);
  if (begin == NULL || (begin - search->cache) % (ptrdiff_t) _Alignof(struct cache_entry) != 0)
    return NULL;
  *size = search->cache_size - (size_t)(begin - search->cache);
  const struct cache_header *header = (const void *)begin;
  return *size >= sizeof *header &&
                 header->count <= (*size - sizeof *header) / sizeof header->entries[0]
             ? header
             : NULL;
}

static bool found_in_cache(const struct search *search, const char *name, char path[PATH_MAX]) {
  size_t size = 0;
  const struct cache_header *header = cache_header(search, &size);
  for (uint32_t i = 0; header != NULL && i < header->count; i++) {
    const struct cache_entry *entry = &header->entries[i];
    if (entry->flags != CACHE_FLAGS || entry->hardware != 0 || entry->key >= size ||
        entry->value >= size || strcmp((const char *)header + entry->key, name) != 0)
      continue;
    snprintf(path, PATH_MAX, "%s", (const char *)header + entry->value);
    if (image_fits(path))
      return true;
  }
  return false;
}

/* ---- lists of folders ---- */

/* What stands for another text in a list of an image. */
static const char *replacement(const char *at, const struct image *image, size_t *length,
                               size_t *replaced) {
  static const struct {
    const char *name;
    const char *text; /* NULL: the image's folder */
  } words[] = {{"ORIGIN", NULL}, {"LIB", multiarch_lib}, {"PLATFORM", PLATFORM}};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    size_t size = strlen(words[i].name);
    bool braces = at[1] == '{';
    const char *word = at + 1 + braces;
    if (strncmp(word, words[i].name, size) != 0 || (braces && word[size] != '}'))
      continue;
    *replaced = 1 + size + (braces ? 2 : 0);
    const char *text = words[i].text != NULL ? words[i].text : image->path;
    *length = words[i].text != NULL ? strlen(text) : (size_t)(base_name(text) - text);
    return text;
  }
  return NULL;
}

/* One element of a list, with the file's name behind it. False if that is too long. */
static bool expand(const char *element, size_t size, const struct image *image, const char *name,
                   char path[PATH_MAX]) {
  size_t used = 0;
  for (size_t i = 0; i < size;) {
    size_t length = 1, replaced = 1;
    const char *text = element[i] == '$' && image != NULL
                           ? replacement(element + i, image, &length, &replaced)
                           : NULL;
    if (text == NULL)
      text = element + i;
    if (used + length >= PATH_MAX)
      return false;
    memcpy(path + used, text, length);
    used += length;
    i += replaced;
  }
  /* An empty element is the folder that one is in. */
  int more = snprintf(path + used, PATH_MAX - used, "%s%s", size == 0 ? "./" : "/", name);
  return used + (size_t)more < PATH_MAX;
}

static bool found_in_list(const char *list, const char *separators, const struct image *image,
                          const char *name, char path[PATH_MAX]) {
  while (list != NULL) {
    size_t size = strcspn(list, separators);
    if (expand(list, size, image, name, path) && image_fits(path))
      return true;
    list = list[size] != '\0' ? list + size + 1 : NULL;
  }
  return false;
}

/* RPATH counts where there is no RUNPATH, and for all that the image needs in turn. */
static bool found_by_rpath(const struct image *image, const char *name, char path[PATH_MAX]) {
  if (image->runpath != NULL)
    return false;
  for (const struct image *by = image; by != NULL; by = by->loader)
    if (by->runpath == NULL && by->rpath != NULL && found_in_list(by->rpath, ":", by, name, path))
      return true;
  return false;
}

bool search_library(const struct search *search, const char *name, const struct image *image,
                    char path[PATH_MAX]) {
  if (strchr(name, '/') != NULL) {
    bool whole =
        strchr(name, '$') != NULL ? false : snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    return whole && image_fits(path);
  }
  if ((image != NULL && found_by_rpath(image, name, path)) ||
      (search->library_path != NULL && *search->library_path != '\0' &&
       found_in_list(search->library_path, ":;", image, name, path)) ||
      (image != NULL && found_in_list(image->runpath, ":", image, name, path)))
    return true;
  for (size_t i = 0; search->folders != NULL && i < search->folders->count; i++)
    if (found_in_list(search->folders->items[i], "", NULL, name, path))
      return true;
  return (image == NULL || !image->skips_system) &&
         (found_in_cache(search, name, path) ||
          found_in_list(system_folders, ":", NULL, name, path));
}

void search_begin(struct search *search, const char *library_path, const char *cache_file) {
  *search = (struct search){.library_path = library_path};
  read_cache(search, cache_file);
}

void search_end(struct search *search) {
  free(search->cache);
  search->cache = NULL;
}
