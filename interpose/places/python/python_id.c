/* The fast path: ids (python_frames.h) from what frames count as, remembered by code object and
 * position.
 *
 * What is remembered is a table of pairs of words, read and written by all threads without a lock:
 * the hash, and the hash xored with a check of everything that tells the frame. A pair that two
 * threads have written half each has neither's check and is not found.
 *
 * A code object may be freed and another one take its place. The check is made of what tells them
 * apart:
 *   - from 3.12 on co_version, which no two code objects have in common (an interpreter counts
 *     them; it is 0 once 32 bits do not suffice, and then nothing is remembered), with the
 *     addresses of the table of lines and the name for several interpreters;
 *   - before: the addresses of the table of lines, the names and the name, the length of the code
 *     or the table of lines, its first and last bytes, and the hashes of the name and of the first
 *     and last name that is used. A code object that has the same of all these is taken for the one
 *     before.
 */
#include "interpose/places/python/python_frames.h"

#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_check.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_loops.h"
#include "interpose/places/python/python_memory.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { SETS = 4096, WAYS = 2 };
struct known {
  _Atomic uint64_t check; /* xor hash */
  _Atomic uint64_t hash;
};
static struct known table[SETS][WAYS];

/* ---- checks ---- */

PYTHON_INLINE uint64_t turned(uint64_t word, unsigned by) {
  return word << by | word >> (64 - by);
}

PYTHON_INLINE uint64_t mixed(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  uint64_t mix = a * 0x9e3779b97f4a7c15u + turned(b * 0xc2b2ae3d27d4eb4fu, 31) +
                 turned(c * 0x165667b19e3779f9u, 17) + turned(d * 0x27d4eb2f165667c5u, 47);
  mix = (mix ^ mix >> 32) * 0xd6e8feb86659fd93u;
  return mix ^ mix >> 29;
}

PYTHON_INLINE uint32_t number_at(uint64_t address) {
  return python_number((const uint8_t *)address);
}

/* The first and the last eight bytes of a bytes object, and its size. */
PYTHON_INLINE uint64_t mixed_ends(uint64_t bytes) {
  uint64_t size = python_load(bytes + PYTHON_SIZE), first = bytes + PYTHON_BYTES_DATA;
  if (size < sizeof(uint64_t))
    return size;
  uint64_t last = python_load(first + size - sizeof(uint64_t));
  return (python_load(first) ^ turned(last, 29)) * 0x85ebca77c2b2ae63u + size;
}

/* CPython keeps the hash of a str in it, once it has been asked for, as of all names. */
PYTHON_INLINE uint64_t mixed_names(const struct python_offsets *at, uint64_t names) {
  uint64_t n = python_load(names + PYTHON_SIZE), first = names + at->tuple_items;
  if (n == 0)
    return 0;
  uint64_t last = first + (n - 1) * sizeof(uint64_t);
  return (python_load(python_load(first) + PYTHON_TEXT_HASH) ^
          turned(python_load(python_load(last) + PYTHON_TEXT_HASH), 23)) *
         0xff51afd7ed558ccdu;
}

/* By version. `header`: where the beginning of the code object has been copied to, or it itself. 0:
 * there is nothing to tell the frame by. */
PYTHON_INLINE uint64_t check_by_version(const struct python_offsets *at,
                                        const struct python_frame *frame, uint64_t header) {
  uint64_t version = number_at(header + at->code_version);
  uint64_t name = python_load(header + at->code_name);
  uint64_t first_line = number_at(header + at->code_first_line);
  uint64_t check = mixed(frame->code, (uint64_t)frame->where ^ version << 32,
                         python_load(header + at->code_lines), name ^ first_line << 32);
  return version == 0 ? 0 : check;
}

PYTHON_INLINE uint64_t check_of(const struct python_offsets *at, unsigned minor,
                                const struct python_frame *frame) {
  uint64_t code = frame->code;
  if (at->code_version != 0)
    return check_by_version(at, frame, code);
  uint64_t lines = python_load(code + at->code_lines), name = python_load(code + at->code_name);
  uint64_t first_line = number_at(code + at->code_first_line);
  uint64_t content = minor < 11 ? python_load(code + at->code_code) : lines;
  uint64_t names = python_load(code + at->code_names);
  return mixed(code, (uint64_t)frame->where ^ first_line << 32, lines ^ turned(names, 24), name) +
         mixed_ends(content) + mixed_names(at, names);
}

/* ---- hashes ---- */

uint64_t python_frame_hash_of(const struct python_layout *layout, const struct python_code *code,
                              int64_t where) {
  if (python_code_is_runner(code))
    return PYTHON_FRAME_RUNNER;
  uint32_t instruction = python_code_instruction(layout, code, where);
  if (instruction == UINT32_MAX)
    return PYTHON_FRAME_UNKNOWN;
  instruction = python_loops_original(layout, code, instruction);
  uint64_t hash = python_hash(code->key, &instruction, sizeof(instruction));
  return hash <= PYTHON_FRAME_RUNNER ? hash + 2 : hash;
}

static uint64_t read_hash(const struct python_layout *layout, const struct python_frame *frame) {
  struct python_code *code = python_code_read(layout, frame->code);
  uint64_t hash =
      code == NULL ? PYTHON_FRAME_UNKNOWN : python_frame_hash_of(layout, code, frame->where);
  python_code_free(code);
  return hash;
}

/* ---- what is remembered ---- */

PYTHON_INLINE bool find(uint64_t check, uint64_t *hash) {
  struct known *set = table[check % SETS];
  for (int i = 0; i < WAYS; i++) {
    *hash = atomic_load_explicit(&set[i].hash, memory_order_relaxed);
    if ((atomic_load_explicit(&set[i].check, memory_order_relaxed) ^ *hash) == check && check != 0)
      return true;
  }
  return false;
}

static void python_remember(struct known *set, uint64_t check, uint64_t hash) {
  struct known *at = &set[check >> 63];
  atomic_store_explicit(&at->hash, hash, memory_order_relaxed);
  atomic_store_explicit(&at->check, check ^ hash, memory_order_relaxed);
}

__attribute__((noinline)) static uint64_t learn(const struct python_layout *layout,
                                                const struct python_frame *frame, uint64_t check) {
  uint64_t hash = read_hash(layout, frame);
  if (check != 0)
    python_remember(table[check % SETS], check, hash);
  return hash;
}

PYTHON_INLINE uint64_t frame_hash(const struct python_layout *layout,
                                  const struct python_offsets *at, unsigned minor,
                                  const struct python_frame *frame) {
  uint64_t check = check_of(at, minor, frame), hash;
  return find(check, &hash) ? hash : learn(layout, frame, check);
}

/* ---- frames of other threads ---- */

/* Before 3.12 of what the code object itself holds: what it points at is not read. */
uint64_t python_frame_check(const struct python_layout *layout, const struct python_frame *frame,
                            const uint8_t *header) {
  const struct python_offsets *at = &layout->at;
  uint64_t copy = (uint64_t)header, first_line = number_at(copy + at->code_first_line);
  if (at->code_version != 0)
    return check_by_version(at, frame, copy);
  uint64_t constants = python_load(copy + at->code_names - 8u);
  return mixed(frame->code, (uint64_t)frame->where ^ first_line << 32,
               python_load(copy + at->code_lines) ^ turned(python_load(copy + at->code_names), 24),
               python_load(copy + at->code_name) ^ turned(constants, 40)) ^
         turned(python_load(copy + at->code_file), 8);
}

/* Whether the code object is still the one of the header. */
static bool is_still_there(const struct python_layout *layout, const struct python_frame *frame,
                           uint64_t check) {
  _Alignas(8) uint8_t header[PYTHON_HEADER_MAX];
  return python_memory_read(header, frame->code, layout->at.code_size) &&
         python_frame_check(layout, frame, header) == check;
}

uint64_t python_frame_known(const struct python_layout *layout, const struct python_frame *frame,
                            uint64_t check, python_asks *asks) {
  uint64_t of = check ^ (uint64_t)asks, answer;
  if (check != 0 && find(of, &answer))
    return answer;
  answer = asks(layout, frame);
  if (check != 0 && is_still_there(layout, frame, check))
    python_remember(table[of % SETS], of, answer);
  return answer;
}

uint64_t python_frame_hash_unsafe(const struct python_layout *layout,
                                  const struct python_frame *frame, uint64_t check) {
  return python_frame_known(layout, frame, check, read_hash);
}

/* ---- frames of the calling thread ---- */

uint64_t python_frame_hash(const struct python_layout *layout, const struct python_frame *frame) {
  return frame_hash(layout, &layout->at, layout->minor, frame);
}

/* ---- ids ---- */

PYTHON_INLINE uint32_t id_by(const struct python_layout *layout, const struct python_offsets *at,
                             unsigned minor) {
  uint64_t state = (uint64_t)layout->thread_state();
  uint64_t address = state == 0 ? 0 : python_innermost(at, state), chain = 0;
  if (address == 0 || (!python_chain_is_compared() && !python_chain_check(layout, state)))
    return 0;
  struct python_frame frame;
  for (unsigned i = 0;
       i < PYTHON_FRAMES_MAX && python_next_frame(at, minor, layout->code_type, &address, &frame);
       i++) {
    uint64_t hash = frame_hash(layout, at, minor, &frame);
    if (hash == PYTHON_FRAME_UNKNOWN)
      return 0;
    chain = python_chain_add(chain, hash);
  }
  return python_chain_id(chain);
}

uint32_t python_id(void) {
  const struct python_layout *layout = python_layout();
  if (layout == NULL)
    return 0;
  switch (layout->is_as_listed ? layout->minor : 0) {
  case 9:
    return id_by(layout, &python_offsets_of[9], 9);
  case 10:
    return id_by(layout, &python_offsets_of[10], 10);
  case 11:
    return id_by(layout, &python_offsets_of[11], 11);
  case 12:
    return id_by(layout, &python_offsets_of[12], 12);
  case 13:
    return id_by(layout, &python_offsets_of[13], 13);
  case 14:
    return id_by(layout, &python_offsets_of[14], 14);
  default:
    return id_by(layout, &layout->at, layout->minor);
  }
}
