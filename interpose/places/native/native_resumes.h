/* Functions that go on where they have left off: coroutines of C++. Their loops cannot be seen:
 * each way round one leaves the function, and comes back by a switch at its beginning. For
 * native_graph.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_RESUMES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_RESUMES_H

#include "interpose/places/native/native_parts.h"

/* Whether the function is what gcc or clang make of a coroutine: it begins by asking for a small
 * number in a frame behind two addresses, writes that number elsewhere, and clears the first of the
 * addresses where it is done (as the C++ ABI of all compilers has it: std::coroutine_handle::done).
 * Of other processors' code than x86-64's always false. */
bool native_resumes(const struct native_code *code);

#endif
