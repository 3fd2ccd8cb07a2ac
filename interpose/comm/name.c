/* Names of attachments (name.h). */
#include "interpose/comm/name.h"

uint64_t name_hash(const void *bytes, size_t size, uint64_t hash) {
  const unsigned char *byte = bytes;
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ byte[i]) * UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 32;
  }
  return hash;
}

void name_make(char name[ATTACHMENT_NAME_SIZE], const void *seed, size_t size) {
  uint64_t a = name_hash(seed, size, UINT64_C(0x243f6a8885a308d3));
  uint64_t b = name_hash(seed, size, UINT64_C(0x13198a2e03707344));
  static const char digits[] = "0123456789abcdef";
  for (int i = 0; i < 16; i++) {
    name[i] = digits[a >> 4 * i & 15];
    name[16 + i] = digits[b >> 4 * i & 15];
  }
  name[32] = '\0';
}
