/* How a run ended of which some ranks could not say it (tracks.h). */
#include "tools/report/tracks.h"

#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FIRST_LINE "nccl-join-launch 1\n"

/* Of the group `line` names after `word`; NULL for another line. `name`: of the file,
 * launch.HOST.PID. */
static struct track *next_of_group(struct tracks *tracks, size_t from, const char *line,
                                   const char *word, const char *name) {
  size_t length = strlen(word);
  uint64_t group = strncmp(line, word, length) == 0 ? strtoull(line + length, NULL, 10) : 0;
  const char *host = name + strlen("launch."), *end = strrchr(name, '.');
  for (size_t i = from; group > 0 && i < tracks->count; i++) {
    struct track *track = &tracks->all[i];
    if (track->group == group && strlen(track->host) == (size_t)(end - host) &&
        strncmp(track->host, host, strlen(track->host)) == 0)
      return track;
  }
  return NULL;
}

static void take_end(struct tracks *tracks, const char *line, const char *name, const char *why) {
  static const char *const words[] = {"ended ", "failed "};
  for (int failed = 0; failed < 2; failed++)
    for (struct track *track = tracks->all - 1;
         (track = next_of_group(tracks, (size_t)(track + 1 - tracks->all), line, words[failed],
                                name)) != NULL;) {
      if (track->why == NULL)
        track->why = strdup(why);
      if (track->ended)
        continue;
      track->failed |= failed;
      track->was_ended |= !failed;
    }
}

static void read_launch(struct tracks *tracks, const char *folder, const char *name) {
  char path[PATH_MAX], line[1024], why[1024] = "";
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (file == NULL)
    return;
  bool known = fgets(line, sizeof line, file) != NULL && strcmp(line, FIRST_LINE) == 0;
  while (known && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "why ", 4) == 0)
      snprintf(why, sizeof why, "%s", line + 4);
    else
      take_end(tracks, line, name, why);
  }
  fclose(file);
}

void launches_read(struct tracks *tracks, const char *folder) {
  DIR *directory = opendir(folder);
  if (directory == NULL)
    return;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;)
    if (strncmp(entry->d_name, "launch.", 7) == 0 &&
        strrchr(entry->d_name, '.') > entry->d_name + 6)
      read_launch(tracks, folder, entry->d_name);
  closedir(directory);
}

/* A trace is mapped as long as its process is there (core/report/ring.h). */
static bool is_mapped(const struct track *track) {
  char path[64], line[PATH_MAX + 128];
  snprintf(path, sizeof path, "/proc/%" PRIu64 "/maps", track->pid);
  FILE *maps = fopen(path, "r");
  bool found = false;
  while (maps != NULL && !found && fgets(line, sizeof line, maps) != NULL) {
    unsigned high, low;
    unsigned long long inode;
    found = sscanf(line, "%*s %*s %*s %x:%x %llu", &high, &low, &inode) == 3 &&
            inode == track->inode && makedev(high, low) == track->device;
  }
  if (maps != NULL)
    fclose(maps);
  return found;
}

void launches_find_open(struct tracks *tracks) {
  for (size_t i = 0; i < tracks->count; i++) {
    struct track *track = &tracks->all[i];
    track->still_open = !track->ended && !track->was_ended && is_mapped(track);
  }
}
