/* A CUDA runtime that can do nothing but begin and end captures, and says so. A mode of 7 is
 * refused. RELEASE: which one it is. */
#include <stddef.h>

#include "tests/interpose/parts/say.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int cudaStreamBeginCapture(void *stream, int mode);
EXPORTED int cudaStreamEndCapture(void *stream, void **graph);

int cudaStreamBeginCapture(void *stream, int mode) {
  (void)stream;
  say("runtime " RELEASE " begins in mode %d", mode);
  return mode == 7;
}

int cudaStreamEndCapture(void *stream, void **graph) {
  *graph = stream;
  say("runtime " RELEASE " ends");
  return 0;
}
