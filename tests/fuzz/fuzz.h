/* Fuzz targets: functions that make of any bytes a use of the code under test, and check what must
 * hold whatever the bytes are. Run with libFuzzer by `make fuzz` (libfuzzer.c), and over the files
 * of corpus/ by `make check` (test_corpus.c).
 *
 * A check that fails aborts the process: libFuzzer keeps the input, Criterion names the file.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The targets. */
void fuzz_settings(const uint8_t *bytes, size_t size);
void fuzz_records(const uint8_t *bytes, size_t size);
void fuzz_segment(const uint8_t *bytes, size_t size);
void fuzz_mirror(const uint8_t *bytes, size_t size);
void fuzz_machines(const uint8_t *bytes, size_t size);
void fuzz_meeting(const uint8_t *bytes, size_t size);

#define FUZZ_CHECK(condition)                                                                      \
  do {                                                                                             \
    if (!(condition))                                                                              \
      fuzz_failed(__FILE__, __LINE__, #condition);                                                 \
  } while (0)
void fuzz_failed(const char *file, int line, const char *condition) __attribute__((noreturn));

/* What is left of the input. Taking from an empty one gives zeros. */
struct input {
  const uint8_t *bytes;
  size_t size;
};
uint8_t input_byte(struct input *input);
int input_signed(struct input *input); /* a byte: -128 to 127 */
uint32_t input_word(struct input *input);
uint64_t input_long(struct input *input);

/* Up to the next zero byte or the end, at most most bytes, as a string that the caller frees. */
char *input_text(struct input *input, size_t most);

/* A folder of this process's own in TMPDIR or /tmp, empty when it is made; removed with all in it
 * at exit. */
const char *fuzz_folder(void);

/* Sends what is written to a descriptor (1 or 2) to a file until capture_end, which returns it;
 * valid until the next capture of that descriptor. */
void capture_begin(int descriptor);
const char *capture_end(int descriptor);

#endif
