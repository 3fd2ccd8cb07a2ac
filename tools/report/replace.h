/* Writing a file that may be there already: it stays as it is until all of the new one is written.
 */
#ifndef NCCL_JOIN_TOOLS_REPORT_REPLACE_H
#define NCCL_JOIN_TOOLS_REPORT_REPLACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

struct replace {
  const char *path;              /* the caller's */
  char temporary[PATH_MAX + 32]; /* beside it; "": what is there is no file (/dev/stdout, a pipe) */
  FILE *out;                     /* NULL: it cannot be opened, errno says why */
};

void replace_begin(struct replace *replace, const char *path);

/* Puts the new file in the place of the old one. failed: not all of it could be written: then, and
 * if it cannot be put there, it is removed. Whether it is there; errno says why not. */
bool replace_end(struct replace *replace, bool failed);

#endif
