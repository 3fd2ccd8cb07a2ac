/* The loaded object (program or library) that an address of code lies in: what it is known by on
 * all ranks, and where its unwind tables are.
 */
#ifndef NCCL_JOIN_INTERPOSE_CODE_MODULES_H
#define NCCL_JOIN_INTERPOSE_CODE_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose code it is, by the file's name. */
enum module_owner {
  MODULE_PROGRAM, /* the program's, or any library's that is none of the following */
  MODULE_OURS,    /* nccl-join itself */
  MODULE_SYSTEM,  /* the C library and the dynamic linker: begin threads and main */
  MODULE_RUNTIME, /* the C++ library: begins threads too */
  MODULE_ENGINE,  /* of a framework that runs parts of the program in threads of its own */
};

struct code_module {
  uintptr_t base;               /* what was added to the file's addresses */
  uint64_t id;                  /* hash of the build id, or of what else tells files apart */
  const uint8_t *unwind_header; /* .eh_frame_hdr; NULL: none */
  const uint8_t *tables;        /* the segment with the unwind tables, ... */
  const uint8_t *tables_end;    /* ... which is readable up to here */
  enum module_owner owner;
  bool is_executable; /* the file that the process was started with */
};

/* Whether an object is known to have code at the address. Takes the dynamic linker's lock. */
bool code_module_find(uintptr_t pc, struct code_module *module);

/* Adds a word to a hash. */
static inline uint64_t code_hash(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  return hash ^ (hash >> 29);
}

/* As an id: never 0. */
static inline uint32_t code_hash_id(uint64_t hash) {
  uint32_t id = (uint32_t)(hash ^ hash >> 32);
  return id != 0 ? id : 1;
}

#endif
