/* libFuzzer's way in; compiled once for each target, whose function is FUZZ_TARGET. */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  FUZZ_TARGET(bytes, size);
  return 0;
}
