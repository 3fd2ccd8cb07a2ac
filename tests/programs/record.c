/* Files of gradients. */
#include "tests/programs/record.h"

#include <limits.h>
#include <stdlib.h>

enum { HEADER = 4, COUNT_MAX = 1 << 20 };

static FILE *open_file(const char *folder, int rank, const char *mode) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/gradients-%d", folder, rank);
  return fopen(path, mode);
}

FILE *record_create(const char *folder, int rank) {
  FILE *file = open_file(folder, rank, "wb");
  if (file == NULL) {
    fprintf(stderr, "cannot write gradients into %s\n", folder);
    exit(1);
  }
  return file;
}

void record_write(FILE *file, int epoch, int iteration, int bucket, int count, const float *mine,
                  const float *sum) {
  int32_t header[HEADER] = {epoch, iteration, bucket, count};
  fwrite(header, sizeof header, 1, file);
  fwrite(mine, sizeof *mine, (size_t)count, file);
  fwrite(sum, sizeof *sum, (size_t)count, file);
}

FILE *record_open(const char *folder, int rank) {
  return open_file(folder, rank, "rb");
}

bool record_read(FILE *file, struct record *record) {
  int32_t header[HEADER];
  if (fread(header, sizeof header, 1, file) != 1 || header[3] < 1 || header[3] > COUNT_MAX)
    return false;
  *record = (struct record){header[0], header[1], header[2], header[3], NULL, NULL};
  size_t count = (size_t)record->count;
  record->mine = malloc(2 * count * sizeof(float));
  if (record->mine == NULL)
    return false;
  record->sum = record->mine + count;
  if (fread(record->mine, sizeof(float), 2 * count, file) == 2 * count)
    return true;
  free(record->mine);
  return false;
}
