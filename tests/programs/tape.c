/* A tape is one piece of pinned memory, used from front to back; played when it is full. */
#include "tests/programs/tape.h"
#include "tests/programs/values.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAPE_BYTES = 8 << 20, TAPE_READINGS = 4096, NAME_SIZE = 64 };

struct reading {
  char name[NAME_SIZE];
  const char *host;
  ncclDataType_t datatype;
  size_t blocks, count;
};

struct tape {
  struct ranks *ranks;
  char *memory;
  size_t used;
  struct reading readings[TAPE_READINGS];
  int nreadings;
  double total;
};

struct tape *tape_create(struct ranks *ranks) {
  static struct tape the_tape;
  struct tape *tape = &the_tape;
  *tape = (struct tape){.ranks = ranks};
  CHECK_CUDA(cudaMallocHost((void **)&tape->memory, TAPE_BYTES));
  return tape;
}

static void *tape_take(struct tape *tape, size_t size) {
  if (tape->used + size > TAPE_BYTES)
    tape_play(tape);
  if (size > TAPE_BYTES) {
    fprintf(stderr, "a tape holds %d bytes, not %zu\n", TAPE_BYTES, size);
    exit(1);
  }
  void *piece = tape->memory + tape->used;
  tape->used += (size + 15) / 16 * 16;
  return piece;
}

void tape_fill(struct tape *tape, ncclDataType_t datatype, void *device, size_t count, double even,
               double odd) {
  size_t size = count * datatype_size(datatype);
  void *host = tape_take(tape, size);
  for (size_t i = 0; i < count; i++)
    value_store(datatype, host, i, i % 2 == 0 ? even : odd);
  CHECK_CUDA(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, tape->ranks->stream));
}

void tape_clear(struct tape *tape, void *device, size_t size) {
  CHECK_CUDA(cudaMemsetAsync(device, 0, size, tape->ranks->stream));
}

void tape_read(struct tape *tape, ncclDataType_t datatype, const void *device, size_t blocks,
               size_t count, const char *format, ...) {
  size_t size = blocks * count * datatype_size(datatype);
  void *host = tape_take(tape, size);
  if (tape->nreadings == TAPE_READINGS) {
    tape_play(tape);
    host = tape_take(tape, size);
  }
  struct reading *reading = &tape->readings[tape->nreadings++];
  *reading = (struct reading){.host = host, .datatype = datatype, .blocks = blocks, .count = count};
  va_list values;
  va_start(values, format);
  vsnprintf(reading->name, sizeof reading->name, format, values);
  va_end(values);
  CHECK_CUDA(cudaMemcpyAsync(host, device, size, cudaMemcpyDeviceToHost, tape->ranks->stream));
}

/* Appends " even odd" of one block, or " mixed(...)" with the first element that breaks the
 * alternation. */
static void describe_block(const struct reading *reading, size_t block, char *text, size_t size) {
  size_t first = block * reading->count;
  double pair[2] = {0, 0};
  for (size_t i = 0; i < reading->count; i++) {
    double value = value_load(reading->datatype, reading->host, first + i);
    if (i < 2)
      pair[i] = value;
    if (value != pair[i % 2]) {
      snprintf(text, size, " mixed(%zu: %.9g, not %.9g)", i, value, pair[i % 2]);
      return;
    }
  }
  if (reading->count > 1)
    snprintf(text, size, " %.9g %.9g", pair[0], pair[1]);
  else
    snprintf(text, size, " %.9g", pair[0]);
}

void tape_play(struct tape *tape) {
  ranks_synchronise(tape->ranks);
  for (int i = 0; i < tape->nreadings; i++) {
    const struct reading *reading = &tape->readings[i];
    char text[900] = "";
    for (size_t block = 0; block < reading->blocks; block++) {
      size_t length = strlen(text);
      describe_block(reading, block, text + length, sizeof text - length);
    }
    ranks_result(tape->ranks, "%s%s", reading->name, text);
    tape->total += value_load(reading->datatype, reading->host, 0);
  }
  tape->nreadings = 0;
  tape->used = 0;
}

double tape_total(const struct tape *tape) {
  return tape->total;
}
