/* The order in which the dynamic linker looks for a library (search.h). */
#include "tools/check/search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined __x86_64__
#define PLATFORM "x86_64"
#define CACHE_KIND "(libc6,x86-64)" /* as glibc's ldconfig names them, elf/cache.c */
#else
#define PLATFORM "aarch64"
#define CACHE_KIND "(libc6,AArch64)"
#endif

/* What is compiled into glibc, for Debian's and for other distributions. */
static const char system_folders[] =
    "/lib/" PLATFORM "-linux-gnu:/usr/lib/" PLATFORM "-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
static const char multiarch_lib[] = "lib/" PLATFORM "-linux-gnu";

/* ---- the cache ---- */

/* By its usual path too: users seldom have /sbin on PATH. */
static void read_cache(struct search *search) {
  static const char command[] =
      "PATH=\"$PATH:/usr/sbin:/sbin\" LC_ALL=C exec ldconfig -p 2>/dev/null";
  FILE *pipe = popen(command, "re"); /* NOLINT(cert-env33-c): a text of our own */
  size_t size = 0;
  if (pipe == NULL)
    return;
  if (getdelim(&search->cache, &size, '\0', pipe) < 0) {
    free(search->cache);
    search->cache = NULL;
  }
  pclose(pipe);
}

/* Lines are "\tNAME (libc6,x86-64) => PATH". Those for some processors only have more in the
 * brackets. */
static bool found_in_cache(const struct search *search, const char *name, char path[PATH_MAX]) {
  char begin[PATH_MAX];
  int size = snprintf(begin, sizeof begin, "\n\t%s " CACHE_KIND " => ", name);
  if (size >= PATH_MAX || search->cache == NULL)
    return false;
  for (const char *line = search->cache; (line = strstr(line, begin)) != NULL;) {
    line += size;
    snprintf(path, PATH_MAX, "%.*s", (int)strcspn(line, "\n"), line);
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

void search_begin(struct search *search, const char *library_path) {
  *search = (struct search){.library_path = library_path};
  read_cache(search);
}

void search_end(struct search *search) {
  free(search->cache);
  search->cache = NULL;
}
