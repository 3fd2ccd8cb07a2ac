/* A plug-in (client.h) that captures a graph, with the runtime that it is linked to. */
#include <stddef.h>

#include "tests/interpose/parts/client.h"
#include "tests/interpose/parts/say.h"

int cudaStreamBeginCapture(void *stream, int mode);
int cudaStreamEndCapture(void *stream, void **graph);

int client(int argc, char **argv) {
  (void)argc, (void)argv;
  int stream;
  void *graph = NULL;
  int result = cudaStreamBeginCapture(&stream, 7);
  say("returned %d", result);
  cudaStreamBeginCapture(&stream, 2);
  cudaStreamEndCapture(&stream, &graph);
  return graph == &stream ? 0 : 99;
}
