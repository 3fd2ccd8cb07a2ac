/* Names of functions that an object calls in others, by its procedure linkage table. For
 * native_endings.c and native_jumps.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_NAMES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_NAMES_H

#include "interpose/places/native/native_decode.h"
#include "interpose/places/native/native_object.h"

/* Whether what stands there is a stub of the procedure linkage table. *name: of the function that it
 * leads to; NULL if that is not known. */
bool native_is_stub(const struct native_object *object, const uint8_t *function,
                    native_decode *decode, const char **name);

/* Whether it is a stub for a function of one of these names; NULL ends them. */
bool native_is_named(const struct native_object *object, const uint8_t *function,
                     native_decode *decode, const char *const *names);

#endif
