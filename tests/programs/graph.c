/* Collectives captured in a CUDA graph, between loops of ordinary ones.
 *
 * A loop of ordinary sums over all ranks, then the same sum captured once and launched a number of
 * times, then another loop. It is in place: each launch sums what the one before has left.
 *
 * Results: "sum <place> <iteration> <value>" with place 0 before, 1 from the graph, 2 after it.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 32 };

static const char *before = "6", *after = "6", *begin = "runtime", *end = "destroy";
static int launches = 4, group = 0;

static const struct option options[] = {
    {"--before", &before, NULL, "iterations before the capture, per rank"},
    {"--launches", NULL, &launches, "of the graph"},
    {"--after", &after, NULL, "iterations after it, per rank"},
    {"--group", NULL, &group, "1: two sums in a group"},
    {"--begin", &begin, NULL, "runtime; driver: captures by libcuda's functions, found by dlsym"},
    {"--end", &end, NULL, "destroy, or return from main"},
    {0},
};

static struct ranks ranks;
static ncclComm_t comm;
static float *buffer;

static void fill(void) {
  float host[COUNT];
  for (int i = 0; i < COUNT; i++)
    host[i] = (float)(1u << ranks.rank);
  CHECK_CUDA(cudaMemcpyAsync(buffer, host, sizeof host, cudaMemcpyHostToDevice, ranks.stream));
}

static void sum(void) {
  if (group)
    CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclAllReduce(buffer, buffer, COUNT / 2, ncclFloat, ncclSum, comm, ranks.stream));
  if (group)
    CHECK_NCCL(ncclAllReduce(buffer + COUNT / 2, buffer + COUNT / 2, COUNT / 2, ncclFloat, ncclSum,
                             comm, ranks.stream));
  if (group)
    CHECK_NCCL(ncclGroupEnd());
}

static void print(int place, int i) {
  float host;
  CHECK_CUDA(cudaMemcpyAsync(&host, buffer, sizeof host, cudaMemcpyDeviceToHost, ranks.stream));
  ranks_synchronise(&ranks);
  ranks_result(&ranks, "sum %d %d %g", place, i, (double)host);
}

static void loop(int place, const char *iterations) {
  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank); i++) {
    fill();
    sum();
    print(place, i);
  }
}

static void *driver(const char *name) {
  void *function = dlsym(dlopen("libcuda.so.1", RTLD_LAZY), name);
  if (function == NULL) {
    fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    exit(2);
  }
  return function;
}

/* As a CUDA runtime does that is linked statically. */
static cudaGraph_t capture_by_driver(void) {
  CUresult (*begins)(CUstream, CUstreamCaptureMode), (*ends)(CUstream, CUgraph *);
  *(void **)&begins = driver("cuStreamBeginCapture_v2");
  *(void **)&ends = driver("cuStreamEndCapture");
  CUgraph graph;
  CHECK_CUDA((cudaError_t)begins(ranks.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  sum();
  CHECK_CUDA((cudaError_t)ends(ranks.stream, &graph));
  return graph;
}

static cudaGraph_t capture(void) {
  cudaGraph_t graph;
  CHECK_CUDA(cudaStreamBeginCapture(ranks.stream, cudaStreamCaptureModeGlobal));
  sum();
  CHECK_CUDA(cudaStreamEndCapture(ranks.stream, &graph));
  return graph;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Collectives in a CUDA graph.", options);
  ranks_begin(&ranks);
  comm = ranks_communicator(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&buffer, COUNT * sizeof *buffer));
  loop(0, before);
  cudaGraph_t graph = strcmp(begin, "driver") == 0 ? capture_by_driver() : capture();
  cudaGraphExec_t executable;
  CHECK_CUDA(cudaGraphInstantiate(&executable, graph, 0));
  fill();
  for (int i = 0; i < launches; i++) {
    CHECK_CUDA(cudaGraphLaunch(executable, ranks.stream));
    print(1, i);
  }
  loop(2, after);
  CHECK_CUDA(cudaGraphExecDestroy(executable));
  CHECK_CUDA(cudaGraphDestroy(graph));
  return ranks_leave(&ranks, strcmp(end, "return") == 0 ? ENDING_RETURN : ENDING_DESTROY);
}
