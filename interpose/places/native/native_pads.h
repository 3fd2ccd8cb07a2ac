/* Where calls of a function go on when they throw: its landing pads, as the C++ runtime's tables
 * have them. For native_graph.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_PADS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_PADS_H

#include "interpose/places/native/native_parts.h"

/* Calls in [begin, end) go on at pad when they throw; all are positions. */
struct native_throwing {
  size_t begin;
  size_t end;
  size_t pad;
};

struct native_pads {
  struct native_throwing *ranges; /* by position, none in another */
  uint32_t nranges;
  uint32_t room;
};

/* Of all parts. Tables that are not written as gcc and clang write them are left out: what is
 * reached by their pads alone is then not reached. False: no memory. */
bool native_pads_make(struct native_pads *pads, const struct native_code *code);
void native_pads_drop(struct native_pads *pads);

/* The range around a position, or NULL. */
const struct native_throwing *native_pads_find(const struct native_pads *pads, size_t position);

#endif
