/* Programs and libraries as files, laid out in memory as they would be loaded, but neither
 * relocated nor run; and the functions in them, as .eh_frame has them. */
#ifndef NCCL_JOIN_TESTS_INTERPOSE_BINARY_H
#define NCCL_JOIN_TESTS_INTERPOSE_BINARY_H

#include "interpose/places/native/native_graph.h"

struct binary {
  uint8_t *base; /* what addresses in the file are relative to */
  struct native_object object;
  uint8_t *mapping;
  size_t mapped;
};

/* False: there is no such file, or it has no .eh_frame_hdr, or is of another processor. */
bool binary_open(struct binary *binary, const char *path);
void binary_close(struct binary *binary);

uint32_t binary_functions(const struct binary *binary);

/* The i-th function, by address. */
struct native_part binary_function(const struct binary *binary, uint32_t i);

#endif
