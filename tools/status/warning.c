/* The last WARN of a process (job.h), which it shows by core/report/last_line.h. */
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "core/report/last_line.h"
#include "tools/status/job.h"

/* A process that is stopped may be in the middle of a line: then there is none to be had. */
static bool read_line(int file, struct last_line *line) {
  enum { TRIES = 3 };
  for (int i = 0; i < TRIES; i++) {
    uint32_t after;
    if (pread(file, line, sizeof *line, 0) != sizeof *line || line->format != LAST_LINE_FORMAT ||
        pread(file, &after, sizeof after, offsetof(struct last_line, changes)) != sizeof after)
      return false;
    uint32_t before = atomic_load(&line->changes);
    if (before != 0 && before % 2 == 0 && before == after)
      return true;
  }
  return false;
}

static bool find_line(int pid, struct last_line *line) {
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%d/fd", pid);
  DIR *descriptors = opendir(folder);
  bool found = false;
  for (struct dirent *entry; !found && descriptors != NULL && (entry = readdir(descriptors));) {
    static const char name[] = "/memfd:" LAST_LINE_NAME " "; /* and "(deleted)" */
    char path[64], target[sizeof name];
    snprintf(path, sizeof path, "%s/%.12s", folder, entry->d_name);
    if (readlink(path, target, sizeof target) != sizeof target ||
        memcmp(target, name, sizeof name - 1) != 0)
      continue;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    found = file >= 0 && read_line(file, line);
    if (file >= 0)
      close(file);
  }
  if (descriptors != NULL)
    closedir(descriptors);
  return found;
}

void job_read_warning(struct job_rank *rank, uint64_t now_ms) {
  struct last_line line;
  if (!find_line(rank->pid, &line))
    return;
  line.text[LAST_LINE_SIZE - 1] = '\0';
  for (char *at = line.text; *at != '\0'; at++)
    *at = (char)((unsigned char)*at < ' ' || *at == 0x7f ? ' ' : *at);
  snprintf(rank->warning, sizeof rank->warning, "%s", line.text);
  rank->warned_s = now_ms > line.at_ms ? (now_ms - line.at_ms) / 1000 : 0;
}
