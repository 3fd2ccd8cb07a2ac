/* Replacing a file at once (replace.h). */
#include "tools/report/replace.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

void replace_begin(struct replace *replace, const char *path) {
  struct stat there;
  *replace = (struct replace){.path = path};
  if (lstat(path, &there) != 0 || S_ISREG(there.st_mode))
    snprintf(replace->temporary, sizeof replace->temporary, "%s.%d", path, (int)getpid());
  replace->out = fopen(replace->temporary[0] == '\0' ? path : replace->temporary, "w");
}

bool replace_end(struct replace *replace, bool failed) {
  bool opened = replace->out != NULL;
  int why = errno;
  failed = failed || !opened || ferror(replace->out);
  if (opened && fclose(replace->out) != 0 && !failed) {
    why = errno;
    failed = true;
  }
  if (replace->temporary[0] != '\0' && !failed && rename(replace->temporary, replace->path) != 0) {
    why = errno;
    failed = true;
  }
  if (replace->temporary[0] != '\0' && opened && failed)
    unlink(replace->temporary);
  errno = why;
  return !failed;
}
