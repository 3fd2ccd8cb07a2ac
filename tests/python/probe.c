/* What scripts call through ctypes: the functions of interpose/python_frames.h, by numbers and
 * texts. Also a C program's thread that calls, as PyTorch's engine threads do.
 */
#include "interpose/flow.h"
#include "interpose/linker.h"
#include "interpose/python_frames.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* Of the stubs that are not part of this library. */
void *(*linker_dlsym)(void *handle, const char *name) = dlsym;
void *(*linker_dlvsym)(void *handle, const char *name, const char *version) = dlvsym;
void *(*linker_dlopen)(const char *file, int flags) = dlopen;

EXPORT bool probe_is_present(void) {
  return python_is_present();
}

EXPORT uint32_t probe_id(void) {
  return python_id();
}

/* Six numbers a node: id, order, since, until, is a loop, is ordered. */
static void write_nodes(const struct place_node *nodes, uint32_t n, uint32_t *numbers) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t node[6] = {nodes[i].id,
                        nodes[i].order,
                        nodes[i].since,
                        nodes[i].until,
                        (nodes[i].flags & PLACE_LOOP) != 0,
                        (nodes[i].flags & PLACE_ORDERED) != 0};
    memcpy(numbers + (size_t)i * 6, node, sizeof(node));
  }
}

EXPORT uint32_t probe_nodes(uint32_t *numbers, uint32_t room) {
  struct place_node nodes[PLACE_NODES_MAX];
  uint32_t n = python_nodes(nodes, room < PLACE_NODES_MAX ? room : PLACE_NODES_MAX);
  write_nodes(nodes, n, numbers);
  return n;
}

EXPORT void probe_text(char *text, uint32_t size) {
  python_text(text, size);
}

/* Nanoseconds a call of python_id: the least of 100 times 1,000. */
EXPORT double probe_cost(void) {
  double least = 1e9;
  for (int round = 0; round < 100; round++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 1000; i++)
      python_id();
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 1000;
    least = took < least ? took : least;
  }
  return least;
}
