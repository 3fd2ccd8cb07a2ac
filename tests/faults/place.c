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
static bool own; /* a folder that only this test sees */

__attribute__((format(printf, 1, 2))) void place_skip(const char *format, ...) {
  char reason[256];
  va_list values;
  va_start(values, format);
  vsnprintf(reason, sizeof reason, format, values);
  va_end(values);
  fprintf(stderr, "SKIPPED: %s\n", reason);
  cr_skip_test("%s", reason);
}

static void place_change(const char *options) {
  bool read_only = strcmp(options, "ro") == 0;
  cr_assert(mount("tmpfs", folder, "tmpfs", MS_REMOUNT | (read_only ? MS_RDONLY : 0),
                  read_only ? "" : options) == 0,
            "cannot remount %s with %s: %s", folder, options, strerror(errno));
}

bool place_try(void) {
  own = unshare(CLONE_NEWNS) == 0 && mount("", "/", "", MS_REC | MS_PRIVATE, "") == 0 &&
        mount("tmpfs", folder, "tmpfs", 0, "mode=1777") == 0;
  if (!own)
    fprintf(stderr, "NOT CHECKED: what jobs leave in %s, which needs root to be the test's own\n",
            folder);
  return own;
}

void place_make(const char *options) {
  if (!place_try())
    place_skip("a %s with other options needs root: %s", folder, strerror(errno));
  place_change(options);
}

int place_segments(void) {
  static const char prefix[] = "nccl-join-";
  if (!own)
    return 0;
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
