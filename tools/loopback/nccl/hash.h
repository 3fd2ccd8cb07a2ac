/* A 64-bit hash (FNV-1a with a final mix), for names and descriptors. Deterministic on every rank;
 * not for secrets. */
#ifndef LOOPBACK_NCCL_HASH_H
#define LOOPBACK_NCCL_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t hash_add(uint64_t hash, const void *data, size_t size) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static inline uint64_t hash_add_number(uint64_t hash, uint64_t number) {
  return hash_add(hash, &number, sizeof number);
}

/* Spreads the last bytes over the whole word; call once, at the end. */
static inline uint64_t hash_finish(uint64_t hash) {
  hash ^= hash >> 33;
  hash *= UINT64_C(0xff51afd7ed558ccd);
  hash ^= hash >> 33;
  return hash;
}

#endif
