/* The programs of the unwind tables (DWARF 5, 6.4.2), and reading what the tables are made of. For
 * eh_frame.c, which finds them and makes the rule of a frame from what they leave. Pure.
 */
#ifndef NCCL_JOIN_INTERPOSE_EH_FRAME_PROGRAM_H
#define NCCL_JOIN_INTERPOSE_EH_FRAME_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "interpose/places/native/eh_frame.h"

/* DWARF's numbers of the registers. */
#if defined(__x86_64__)
enum { REGISTER_STACK = 7, REGISTER_FRAME = 6, REGISTER_RETURN = 16 };
#elif defined(__aarch64__)
enum { REGISTER_STACK = 31, REGISTER_FRAME = 29, REGISTER_RETURN = 30 };
#else
enum { REGISTER_STACK = -1, REGISTER_FRAME = -1, REGISTER_RETURN = -1 }; /* nothing is understood */
#endif

struct eh_reader {
  const uint8_t *at, *end;
  bool failed; /* beyond the end, or not understood: from then on all that is read is 0 */
};

static inline uint64_t eh_read_word(struct eh_reader *from, size_t size) {
  uint64_t word = 0;
  if (from->failed || (size_t)(from->end - from->at) < size) {
    from->failed = true;
    return 0;
  }
  memcpy(&word, from->at, size); /* little-endian, as all processors that are known here */
  from->at += size;
  return word;
}

static inline uint8_t eh_read_byte(struct eh_reader *from) {
  return (uint8_t)eh_read_word(from, 1);
}

static inline int64_t eh_read_signed(struct eh_reader *from, size_t size) {
  unsigned unused = 64 - 8 * (unsigned)size;
  return (int64_t)(eh_read_word(from, size) << unused) >> unused;
}

static inline uint64_t eh_read_leb(struct eh_reader *from, bool is_signed) {
  uint64_t value = 0;
  unsigned shift = 0;
  uint8_t byte;
  do {
    byte = eh_read_byte(from);
    if (shift < 64)
      value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
  } while ((byte & 0x80) != 0 && !from->failed);
  if (is_signed && shift < 64 && (byte & 0x40) != 0)
    value |= ~UINT64_C(0) << shift;
  return value;
}

static inline uint64_t eh_read_uleb(struct eh_reader *from) {
  return eh_read_leb(from, false);
}

static inline int64_t eh_read_sleb(struct eh_reader *from) {
  return (int64_t)eh_read_leb(from, true);
}

/* Encodings of pointers (DW_EH_PE_): the format, and what it is relative to. */
enum { ENCODED_OMITTED = 0xff, ENCODED_RELATIVE = 0x70, ENCODED_PC = 0x10, ENCODED_DATA = 0x30 };

static inline uint64_t eh_read_formatted(struct eh_reader *from, uint8_t encoding) {
  switch (encoding & 0x0f) {
  case 0x00: /* absptr */
  case 0x04: /* udata8 */
  case 0x0c: /* sdata8 */
    return eh_read_word(from, 8);
  case 0x01:
    return eh_read_uleb(from);
  case 0x02:
    return eh_read_word(from, 2);
  case 0x03:
    return eh_read_word(from, 4);
  case 0x09:
    return (uint64_t)eh_read_sleb(from);
  case 0x0a:
    return (uint64_t)eh_read_signed(from, 2);
  case 0x0b:
    return (uint64_t)eh_read_signed(from, 4);
  default:
    from->failed = true;
    return 0;
  }
}

/* data: what "relative to data" means. Fails for a pointer to a pointer (DW_EH_PE_indirect): no
 * compiler writes one where the tables say where a function begins. */
static inline uintptr_t eh_read_pointer(struct eh_reader *from, uint8_t encoding,
                                        const uint8_t *data) {
  const uint8_t *here = from->at;
  uint64_t value = eh_read_formatted(from, encoding);
  switch (encoding & 0xf0) {
  case 0:
    return value;
  case ENCODED_PC:
    return (uintptr_t)here + value;
  case ENCODED_DATA:
    return (uintptr_t)data + value;
  default:
    from->failed = true;
    return 0;
  }
}

/* What the entries of many functions have in common (a CIE). */
struct eh_common {
  struct eh_reader program;
  uint64_t code_unit;
  int64_t data_unit;
  uint8_t pointers; /* their encoding */
  bool is_augmented;
};

enum saved { SAVED_NOT, SAVED_AT_CFA, SAVED_AT_FRAME, SAVED_NOWHERE, SAVED_OTHERWISE };

struct eh_saved {
  enum saved how;
  int64_t at;
};

struct eh_row {
  enum { CFA_OTHER, CFA_OF_REGISTER, CFA_LOADED } cfa;
  uint64_t cfa_register;
  int64_t cfa_offset; /* of what is loaded: where from */
  struct eh_saved frame, back, kept[EH_KEPT];
};

/* The rules at pc of the function that begins at `begin`: the common part's program first, then the
 * function's own. False: they are not understood. */
bool eh_program_run(const struct eh_common *common, struct eh_reader program, uintptr_t begin,
                    uintptr_t pc, struct eh_row *row);

#endif
