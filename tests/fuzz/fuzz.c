/* What the fuzz targets share (fuzz.h): reading an input, a folder, and what the code under test
 * prints. */
#include "tests/fuzz/fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int saved[3] = {-1, -1, -1}, captured[3] = {-1, -1, -1};

void fuzz_failed(const char *file, int line, const char *condition) {
  for (int descriptor = 1; descriptor <= 2; descriptor++)
    if (saved[descriptor] >= 0)
      dup2(saved[descriptor], descriptor);
  fprintf(stderr, "%s:%d: not so: %s\n", file, line, condition);
  abort();
}

/* ---- input ---- */

static void take(struct input *input, void *value, size_t size) {
  size_t taken = size < input->size ? size : input->size;
  memset(value, 0, size);
  memcpy(value, input->bytes, taken);
  input->bytes += taken;
  input->size -= taken;
}

uint8_t input_byte(struct input *input) {
  uint8_t value;
  take(input, &value, sizeof(value));
  return value;
}

int input_signed(struct input *input) {
  int value = input_byte(input);
  return value < 128 ? value : value - 256;
}

uint32_t input_word(struct input *input) {
  uint32_t value;
  take(input, &value, sizeof(value));
  return value;
}

uint64_t input_long(struct input *input) {
  uint64_t value;
  take(input, &value, sizeof(value));
  return value;
}

char *input_text(struct input *input, size_t most) {
  size_t length = strnlen((const char *)input->bytes, input->size);
  bool ended = length < input->size;
  if (length > most) {
    length = most;
    ended = false;
  }
  char *text = strndup((const char *)input->bytes, length);
  FUZZ_CHECK(text != NULL);
  input->bytes += length + ended;
  input->size -= length + ended;
  return text;
}

/* ---- the folder ---- */

static char folder[256];

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk) {
  (void)status;
  (void)type;
  (void)walk;
  return remove(path);
}

static void remove_folder(void) {
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

const char *fuzz_folder(void) {
  if (folder[0] == '\0') {
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/nccl-join-fuzz-XXXXXX",
             parent != NULL ? parent : "/tmp");
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    atexit(remove_folder);
  }
  return folder;
}

/* ---- output ---- */

void capture_begin(int descriptor) {
  if (saved[descriptor] < 0) {
    saved[descriptor] = fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
    captured[descriptor] = memfd_create("captured", MFD_CLOEXEC);
    FUZZ_CHECK(saved[descriptor] >= 0 && captured[descriptor] >= 0);
  }
  FUZZ_CHECK(ftruncate(captured[descriptor], 0) == 0);
  FUZZ_CHECK(lseek(captured[descriptor], 0, SEEK_SET) == 0);
  fflush(descriptor == STDOUT_FILENO ? stdout : stderr);
  FUZZ_CHECK(dup2(captured[descriptor], descriptor) == descriptor);
}

const char *capture_end(int descriptor) {
  static char *texts[3];
  fflush(descriptor == STDOUT_FILENO ? stdout : stderr);
  FUZZ_CHECK(dup2(saved[descriptor], descriptor) == descriptor);
  off_t size = lseek(captured[descriptor], 0, SEEK_END);
  FUZZ_CHECK(size >= 0);
  free(texts[descriptor]);
  texts[descriptor] = calloc(1, (size_t)size + 1);
  FUZZ_CHECK(texts[descriptor] != NULL);
  FUZZ_CHECK(pread(captured[descriptor], texts[descriptor], (size_t)size, 0) == size);
  return texts[descriptor];
}
