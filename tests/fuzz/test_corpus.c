/* Every file of tests/fuzz/corpus/ through its target: what `make fuzz` begins with, and every
 * input that it has found a fault with. The code under test is the ordinary one. A target that
 * fails aborts; the file is the last one named. */
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

static void replay(const char *path, void (*target)(const uint8_t *, size_t)) {
  FILE *stream = fopen(path, "rb");
  cr_assert(stream != NULL, "%s", path);
  fseek(stream, 0, SEEK_END);
  long size = ftell(stream);
  rewind(stream);
  cr_assert(size >= 0, "%s", path);
  /* Exactly as large as the file, for the address sanitizer. */
  uint8_t *bytes = malloc((size_t)size);
  cr_assert(fread(bytes, 1, (size_t)size, stream) == (size_t)size, "%s", path);
  fclose(stream);
  fprintf(stderr, "%s\n", path);
  target(bytes, (size_t)size);
  free(bytes);
}

static void replay_all(const char *pattern, void (*target)(const uint8_t *, size_t)) {
  glob_t found;
  cr_assert_eq(glob(pattern, 0, NULL, &found), 0, "no %s: run from the checkout", pattern);
  for (size_t i = 0; i < found.gl_pathc; i++)
    replay(found.gl_pathv[i], target);
  globfree(&found);
}

Test(corpus, settings) {
  replay_all("tests/fuzz/corpus/settings/*", fuzz_settings);
}

Test(corpus, records) {
  replay_all("tests/fuzz/corpus/records/*", fuzz_records);
}

Test(corpus, segment) {
  replay_all("tests/fuzz/corpus/segment/*", fuzz_segment);
}

Test(corpus, mirror) {
  replay_all("tests/fuzz/corpus/mirror/*", fuzz_mirror);
}

Test(corpus, machines) {
  replay_all("tests/fuzz/corpus/machines/*", fuzz_machines);
}

Test(corpus, meeting) {
  replay_all("tests/fuzz/corpus/meeting/*", fuzz_meeting);
}
