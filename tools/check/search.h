/* Search: where the dynamic linker would find a library, by the rules of ld.so(8) of glibc. Nothing
 * is loaded: files are only looked at. */
#ifndef NCCL_JOIN_TOOLS_CHECK_SEARCH_H
#define NCCL_JOIN_TOOLS_CHECK_SEARCH_H

#include "tools/check/image.h"

/* Rules beyond the image's own. */
struct search {
  const char *library_path;    /* LD_LIBRARY_PATH; NULL: none */
  const struct names *folders; /* before the system's: whence Python packages open libraries */
  char *cache; /* the dynamic linker's cache, as ldconfig -p writes it; NULL: none */
};

/* Asks ldconfig for the dynamic linker's cache; without it, nothing is found in that. The texts
 * stay the caller's, the cache goes with search_end. */
void search_begin(struct search *search, const char *library_path);
void search_end(struct search *search);

/* The file for a name that `image` needs or opens (NULL: that a program without RUNPATH needs).
 * Folders of $ORIGIN, RPATH of the image and of those that load it, LD_LIBRARY_PATH, RUNPATH,
 * `folders`, the cache, the system's folders. A name with a slash is the path itself. False if
 * there is none of this machine's architecture. */
bool search_library(const struct search *search, const char *name, const struct image *image,
                    char path[PATH_MAX]);

#endif
