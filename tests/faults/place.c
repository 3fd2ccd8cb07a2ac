/* The place of place.h. */
#include "tests/faults/place.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <unistd.h>

static const char folder[] = "/dev/shm";

__attribute__((format(printf, 1, 2))) void place_skip(const char *format, ...) {
  char reason[256];
  va_list values;
  va_start(values, format);
  vsnprintf(reason, sizeof reason, format, values);
  va_end(values);
  fprintf(stderr, "SKIPPED: %s\n", reason);
  cr_skip_test("%s", reason);
}

static bool write_line(const char *path, const char *format, unsigned id) {
  FILE *file = fopen(path, "w");
  if (file == NULL)
    return false;
  fprintf(file, format, id, id);
  return fclose(file) == 0;
}

/* Root needs a mount namespace only; others need to be root of a user namespace first. */
static bool leave_the_namespace(void) {
  unsigned user = geteuid(), group = getegid();
  if (unshare(CLONE_NEWNS) == 0)
    return true;
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
         write_line("/proc/self/setgroups", "deny", 0) &&
         write_line("/proc/self/uid_map", "%u %u 1", user) &&
         write_line("/proc/self/gid_map", "%u %u 1", group);
}

void place_make(const char *options) {
  if (!leave_the_namespace() || mount("", "/", "", MS_REC | MS_PRIVATE, "") != 0 ||
      mount("tmpfs", folder, "tmpfs", 0, "mode=1777") != 0)
    place_skip("a /dev/shm of its own needs root or user namespaces: %s", strerror(errno));
  if (*options != '\0')
    place_change(options);
}

void place_change(const char *options) {
  bool read_only = strcmp(options, "ro") == 0;
  cr_assert(mount("tmpfs", folder, "tmpfs", MS_REMOUNT | (read_only ? MS_RDONLY : 0),
                  read_only ? "" : options) == 0,
            "cannot remount %s with %s: %s", folder, options, strerror(errno));
}

int place_count(const char *prefix) {
  DIR *files = opendir(folder);
  cr_assert(files != NULL);
  int count = 0;
  for (struct dirent *file; (file = readdir(files)) != NULL;)
    count += strncmp(file->d_name, prefix, strlen(prefix)) == 0;
  closedir(files);
  return count;
}

bool place_is_long(void) {
  const char *form = getenv("FAULTS_LONG");
  return form != NULL && strcmp(form, "1") == 0;
}

int place_times(int short_form, int long_form) {
  return place_is_long() ? long_form : short_form;
}

uint64_t place_random(uint64_t below) {
  static uint64_t state;
  if (state == 0) {
    const char *seed = getenv("FAULTS_SEED");
    if (seed != NULL)
      state = strtoull(seed, NULL, 10);
    else
      cr_assert(getrandom(&state, sizeof state, 0) == sizeof state);
    state %= 1000000000;
    state += state == 0;
    fprintf(stderr, "FAULTS_SEED=%llu\n", (unsigned long long)state);
  }
  /* xorshift64*, Vigna 2016 */
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return (state * UINT64_C(2685821657736338717) >> 33) % below;
}
