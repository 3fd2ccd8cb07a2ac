/* What frames count as in ids, remembered by code object and position (python_chain.h).
 *
 * A table of pairs of words, read and written by all threads without a lock: the hash, and the hash
 * xored with a check of everything that tells the frame. A pair that two threads have written half
 * each has neither's check and is not found.
 *
 * A code object may be freed and another one take its place. The check is made of what tells them
 * apart:
 *   - from 3.12 on co_version, which no two code objects have in common (an interpreter counts
 * them; it is 0 once 32 bits do not suffice, and then nothing is remembered), with the addresses of
 * the table of lines and the name for several interpreters;
 *   - before: the addresses of the table of lines, the names and the name, the length of the code
 * or the table of lines, its first and last bytes, and the hashes of the name and of the first and
 * last name that is used. A code object that has the same of all these is taken for the one before.
 */
#include "interpose/python_chain.h"

#include "interpose/python_code.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SETS = 4096, WAYS = 2 };
struct known {
  _Atomic uint64_t check; /* xor hash */
  _Atomic uint64_t hash;
};
static struct known table[SETS][WAYS];

/* ---- checks -----------------------------------------------------------------------------------
 */

// NOLINTBEGIN(performance-no-int-to-ptr): addresses in another's layout are numbers

static inline uint64_t turned(uint64_t word, unsigned by) {
  return word << by | word >> (64 - by);
}

static inline uint64_t mixed(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  uint64_t mix = a * 0x9e3779b97f4a7c15u + turned(b * 0xc2b2ae3d27d4eb4fu, 31) +
                 turned(c * 0x165667b19e3779f9u, 17) + turned(d * 0x27d4eb2f165667c5u, 47);
  mix = (mix ^ mix >> 32) * 0xd6e8feb86659fd93u;
  return mix ^ mix >> 29;
}

static inline uint32_t number_at(uint64_t address) {
  return *(const uint32_t *)address;
}

/* The first and the last eight bytes of a bytes object, and its size. */
static inline uint64_t ends_of_bytes(uint64_t bytes) {
  uint64_t size = python_load(bytes + PYTHON_SIZE);
  if (size < sizeof(uint64_t))
    return size;
  uint64_t last;
  memcpy(&last, (const void *)(bytes + PYTHON_BYTES_DATA + size - sizeof(last)), sizeof(last));
  return mixed(python_load(bytes + PYTHON_BYTES_DATA), last, size, 0);
}

/* CPython keeps the hash of a str in it, once it has been asked for, as of all names. */
static inline uint64_t ends_of_names(const struct python_layout *layout, uint64_t names) {
  uint64_t n = python_load(names + PYTHON_SIZE);
  if (n == 0)
    return 0;
  uint64_t first = names + layout->at.tuple_items;
  return mixed(python_load(python_load(first) + PYTHON_TEXT_HASH),
               python_load(python_load(first + (n - 1) * sizeof(uint64_t)) + PYTHON_TEXT_HASH), n,
               0);
}

/* 0: there is nothing to tell the frame by. */
static inline uint64_t check_of(const struct python_layout *layout,
                                const struct python_frame *frame) {
  const struct python_offsets *at = &layout->at;
  uint64_t code = frame->code, lines = python_load(code + at->code_lines);
  uint64_t name = python_load(code + at->code_name);
  uint64_t first_line = number_at(code + at->code_first_line);
  uint64_t own = mixed(code, (uint64_t)frame->where, lines, name ^ first_line << 32);
  if (at->code_version != 0) {
    uint32_t version = number_at(code + at->code_version);
    return version == 0 ? 0 : mixed(own, version, 0, 0);
  }
  uint64_t names = python_load(code + at->code_names);
  uint64_t content = layout->minor < 11 ? python_load(code + at->code_code) : lines;
  return mixed(own, ends_of_bytes(content), ends_of_names(layout, names),
               names ^ python_load(name + PYTHON_TEXT_HASH));
}

// NOLINTEND(performance-no-int-to-ptr)

/* ---- hashes -----------------------------------------------------------------------------------
 */

static uint64_t hash_in(const struct python_layout *layout, const struct python_code *code,
                        int64_t where) {
  if (python_code_is_runner(code))
    return PYTHON_FRAME_RUNNER;
  uint32_t instruction = python_code_instruction(layout, code, where < 0 ? 0 : (uint32_t)where / 2);
  if (instruction == UINT32_MAX)
    return PYTHON_FRAME_UNKNOWN;
  uint64_t hash = python_hash(code->key, &instruction, sizeof(instruction));
  return hash <= PYTHON_FRAME_RUNNER ? hash + 2 : hash;
}

uint64_t python_frame_hash_unsafe(const struct python_layout *layout,
                                  const struct python_frame *frame) {
  struct python_code *code = python_code_read(layout, frame->code);
  uint64_t hash = code == NULL ? PYTHON_FRAME_UNKNOWN : hash_in(layout, code, frame->where);
  python_code_free(code);
  return hash;
}

static void remember(struct known *set, uint64_t check, uint64_t hash) {
  struct known *at = &set[check >> 63];
  atomic_store_explicit(&at->hash, hash, memory_order_relaxed);
  atomic_store_explicit(&at->check, check ^ hash, memory_order_relaxed);
}

uint64_t python_frame_hash(const struct python_layout *layout, const struct python_frame *frame) {
  uint64_t check = check_of(layout, frame);
  struct known *set = table[check % SETS];
  for (int i = 0; i < WAYS; i++) {
    uint64_t hash = atomic_load_explicit(&set[i].hash, memory_order_relaxed);
    if ((atomic_load_explicit(&set[i].check, memory_order_relaxed) ^ hash) == check && check != 0)
      return hash;
  }
  uint64_t hash = python_frame_hash_unsafe(layout, frame);
  if (check != 0)
    remember(set, check, hash);
  return hash;
}
