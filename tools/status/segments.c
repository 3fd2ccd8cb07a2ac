/* Looking for segments among the descriptors of processes (segments.h). */
#include "tools/status/segments.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether a descriptor's target is a segment of this user, named or not; its name. */
static bool is_segment(const char *target, char name[ATTACHMENT_NAME_SIZE]) {
  char prefix[64];
  int length = snprintf(prefix, sizeof prefix, "/dev/shm/nccl-join-%u-", (unsigned)getuid());
  if (strncmp(target, prefix, (size_t)length) != 0 ||
      strspn(target + length, "0123456789abcdef") != ATTACHMENT_NAME_SIZE - 1)
    return false;
  snprintf(name, ATTACHMENT_NAME_SIZE, "%s", target + length);
  return true;
}

static void add(struct segments *segments, const struct segment_found *one) {
  for (size_t i = 0; i < segments->count; i++)
    if (segments->found[i].device == one->device && segments->found[i].inode == one->inode)
      return;
  if (segments->count < SEGMENTS_MAX)
    segments->found[segments->count++] = *one;
}

/* Whether the thread has descriptors: one that has ended has none. */
static bool take_of_thread(struct segments *segments, long pid, const char *thread) {
  char folder[48];
  bool any = false;
  snprintf(folder, sizeof folder, "/proc/%ld/task/%.12s/fd", pid, thread);
  DIR *descriptors = opendir(folder);
  if (descriptors == NULL)
    return false; /* another user's, or gone */
  for (struct dirent *entry; (entry = readdir(descriptors)) != NULL;) {
    char target[PATH_MAX];
    struct stat status;
    struct segment_found one;
    if (!isdigit((unsigned char)entry->d_name[0]))
      continue;
    any = true;
    snprintf(one.path, sizeof one.path, "%s/%.12s", folder, entry->d_name);
    ssize_t length = readlink(one.path, target, sizeof target - 1);
    if (length <= 0)
      continue;
    target[length] = '\0';
    if (!is_segment(target, one.name) || stat(one.path, &status) != 0)
      continue;
    one.device = status.st_dev;
    one.inode = status.st_ino;
    add(segments, &one);
  }
  closedir(descriptors);
  return any;
}

/* The first thread of a process that ends may be gone before the others. */
void segments_of_process(struct segments *segments, long pid) {
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%ld/task", pid);
  DIR *threads = opendir(folder);
  bool any = false;
  for (struct dirent *entry; threads != NULL && !any && (entry = readdir(threads)) != NULL;)
    any = isdigit((unsigned char)entry->d_name[0]) && take_of_thread(segments, pid, entry->d_name);
  if (threads != NULL)
    closedir(threads);
}

void segments_of_all(struct segments *segments) {
  DIR *processes = opendir("/proc");
  for (struct dirent *entry; processes != NULL && (entry = readdir(processes)) != NULL;)
    if (isdigit((unsigned char)entry->d_name[0]))
      segments_of_process(segments, strtol(entry->d_name, NULL, 10));
  if (processes != NULL)
    closedir(processes);
}

/* The children of one thread. */
static void take_children(struct segments *segments, long pid, const char *thread) {
  char path[48];
  long child;
  snprintf(path, sizeof path, "/proc/%ld/task/%.12s/children", pid, thread);
  FILE *children = fopen(path, "r");
  while (children != NULL && fscanf(children, "%ld", &child) == 1) {
    segments_of_process(segments, child);
    segments_of_children(segments, child);
  }
  if (children != NULL)
    fclose(children);
}

void segments_of_children(struct segments *segments, long pid) {
  char folder[32];
  snprintf(folder, sizeof folder, "/proc/%ld/task", pid);
  DIR *threads = opendir(folder);
  for (struct dirent *entry; threads != NULL && (entry = readdir(threads)) != NULL;)
    if (isdigit((unsigned char)entry->d_name[0]))
      take_children(segments, pid, entry->d_name);
  if (threads != NULL)
    closedir(threads);
}
