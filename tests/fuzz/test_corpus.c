/* Every file of tests/fuzz/corpus/ through its target: what `make fuzz` begins with, and every
 * input that it has found a fault with. The code under test is the ordinary one. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

struct file {
  char path[256];
};

static struct criterion_test_params files_of(const char *pattern) {
  glob_t found;
  size_t count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
  struct file *files = cr_calloc(count + 1, sizeof *files);
  for (size_t i = 0; i < count; i++)
    snprintf(files[i].path, sizeof files[i].path, "%s", found.gl_pathv[i]);
  globfree(&found);
  return cr_make_param_array(struct file, files, count);
}

static void replay(const struct file *file, void (*target)(const uint8_t *, size_t)) {
  FILE *stream = fopen(file->path, "rb");
  cr_assert(stream != NULL, "%s", file->path);
  fseek(stream, 0, SEEK_END);
  long size = ftell(stream);
  rewind(stream);
  cr_assert(size >= 0, "%s", file->path);
  /* Exactly as large as the file, for the address sanitizer. */
  uint8_t *bytes = malloc((size_t)size);
  cr_assert(fread(bytes, 1, (size_t)size, stream) == (size_t)size, "%s", file->path);
  fclose(stream);
  fprintf(stderr, "%s\n", file->path);
  target(bytes, (size_t)size);
  free(bytes);
}

Test(corpus, is_there) {
  static const char *const targets[] = {"settings", "records", "segment"};
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    char pattern[64];
    glob_t found;
    snprintf(pattern, sizeof pattern, "tests/fuzz/corpus/%s/*", targets[i]);
    cr_expect_eq(glob(pattern, 0, NULL, &found), 0, "no %s: run from the checkout", pattern);
    globfree(&found);
  }
}

#define REPLAY(target)                                                                             \
  ParameterizedTestParameters(corpus, target) {                                                    \
    return files_of("tests/fuzz/corpus/" #target "/*");                                            \
  }                                                                                                \
  ParameterizedTest(struct file *file, corpus, target) {                                           \
    replay(file, fuzz_##target);                                                                   \
  }

REPLAY(settings)
REPLAY(records)
REPLAY(segment)
