/* Names under which ranks find each other in shared memory (core/transport/attachment.h): hashes of
 * bytes that all of them have, and nobody else. What is hashed holds a random number, NCCL's in its
 * id or that of a process, so nobody can guess the name.
 *
 * Pure.
 */
#ifndef NCCL_JOIN_INTERPOSE_NAME_H
#define NCCL_JOIN_INTERPOSE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "core/transport/attachment.h"

/* hash: what the bytes are added to. */
uint64_t name_hash(const void *bytes, size_t size, uint64_t hash);

/* 32 hexadecimal digits of two independent hashes of the seed. */
void name_make(char name[ATTACHMENT_NAME_SIZE], const void *seed, size_t size);

#endif
