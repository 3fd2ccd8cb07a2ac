/* See launch_record.h. */
#include "tools/launch_record.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file name of a program may have a newline in it. */
static void write_line(FILE *out, const char *text) {
  fputs("why ", out);
  for (; *text != '\0'; text++)
    fputc((unsigned char)*text < ' ' ? '?' : *text, out);
  fputc('\n', out);
}

void launch_record(const char *folder, const char *why, const struct launch_end *ends,
                   size_t count) {
  char path[PATH_MAX], host[HOST_NAME_MAX + 1] = "";
  if (gethostname(host, sizeof(host) - 1) != 0)
    return;
  snprintf(path, sizeof(path), "%s/launch.%.*s.%d", folder, (int)strcspn(host, "."), host,
           (int)getpid());
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
  if (out == NULL) {
    if (file >= 0)
      close(file);
    return;
  }
  fputs("nccl-join-launch 1\n", out);
  write_line(out, why);
  for (size_t i = 0; i < count; i++)
    fprintf(out, "%s %d\n", ends[i].failed ? "failed" : "ended", (int)ends[i].group);
  fclose(out);
}
