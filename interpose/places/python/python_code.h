/* A code object of CPython, copied out of the interpreter with reads that cannot fault.
 *
 * Copies are made where an instruction is met for the first time. The interpreter's objects are
 * trusted in nothing: every pointer is read through python_memory.h, every size has a limit.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_CODE_H
#define NCCL_JOIN_INTERPOSE_PYTHON_CODE_H

#include "interpose/places/python/python_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of what is read. A code object that is larger is "not known". */
enum {
  PYTHON_UNITS_MAX = 1 << 20,
  PYTHON_TABLE_MAX = 1 << 22,
  PYTHON_NAMES_MAX = 1 << 14,
  PYTHON_TEXT_MAX = 1024
};

struct python_bytes {
  const uint8_t *data;
  uint32_t size;
};

/* What a variable may hold, as far as it matters: bool counts as a number. Of a constant it is what
 * it is. */
enum python_kind { PYTHON_ANYTHING, PYTHON_NUMBER, PYTHON_NONE };
struct python_constant {
  enum python_kind kind;
  int64_t number;
};

struct python_code {
  /* A hash of the base name of the file, the qualified name (before 3.11: the name), the first
   * line, the number of code units, the table of lines (before 3.11 also the instructions), and of
   * each name that is used its length and its first 16 characters (24 from 3.12 on; of ASCII).
   * Equal in all processes; different for what looks different in any of these. Never 0. */
  uint64_t key;
  uint32_t first_line;
  /* How control also leaves it: a generator by a yield, a coroutine, or an asynchronous generator,
   * by an await, too. */
  enum { SUSPENDS_NOT, SUSPENDS_BY_YIELD, SUSPENDS_BY_AWAIT } suspends;
  uint32_t nunits;      /* code units of two bytes: opcode, argument */
  const uint8_t *units; /* as run: may be specialised; what instrumentation replaced is put back */
  struct python_bytes exceptions;    /* 3.11 and later */
  struct python_bytes lines;         /* for python_lines.c */
  struct python_constant *constants; /* NULL: not read */
  uint32_t nconstants;
  /* Printable ASCII, other characters as '?'; of a longer text the end. */
  char file[PYTHON_TEXT_MAX];
  char name[PYTHON_TEXT_MAX];
};

/* A copy of the code object at an address; NULL if there is none, or no memory. For
 * python_code_free. Any thread. */
struct python_code *python_code_read(const struct python_layout *layout, uint64_t address);
void python_code_free(struct python_code *code); /* NULL is allowed */

/* The instruction that a frame stands at, `where` bytes behind the beginning of its code, as a
 * number of code units: what it points at may be a cache of the instruction, a prefix
 * (EXTENDED_ARG), or in 3.11 the PRECALL before a CALL. Before the beginning stands the first one.
 * UINT32_MAX: none, or the code cannot be read up to there. */
uint32_t python_code_instruction(const struct python_layout *layout, const struct python_code *code,
                                 int64_t where);

/* Whether the code is not the program's but a runner's: runpy, the bootstrap of importlib, or
 * asyncio's, whose loop goes round for each step of a coroutine. */
bool python_code_is_runner(const struct python_code *code);

/* Whether its file is of an installed package, or the interpreter's. And which folder that lies in,
 * with a '/' at the end, from the package on: "torch/distributed/". Empty: it is the program's own,
 * or not in a package, or the name is longer. */
#define PYTHON_FOLDER_MAX 96u
bool python_code_is_installed(const struct python_code *code);
void python_code_folder(const struct python_code *code, char folder[PYTHON_FOLDER_MAX]);

/* The part behind the last '/'. */
const char *python_base_name(const char *file);

/* A hash with so many bytes added (FNV-1a, 64 bits): to another hash. */
uint64_t python_hash(uint64_t hash, const void *data, size_t size);

/* ---- python_lines.c: line numbers of instructions, from the tables in code objects: co_lnotab of
 * 3.9 (Objects/lnotab_notes.txt), co_linetable of 3.10 (PEP 626) and of 3.11 and later
 * (Objects/locations.md) ---- */

/* The line of the instruction at a code unit; 0: it has none. Never reads beyond the table,
 * whatever it holds. */
uint32_t python_line(unsigned minor, const struct python_code *code, uint32_t unit);

/* The same for one instruction after the other. */
struct python_lines {
  unsigned minor;
  const struct python_bytes *table;
  uint32_t next; /* the entry behind the current one */
  int64_t line;
  int64_t end; /* of the current entry, in bytes; 3.9: of the one before it */
  bool is_none;
  uint64_t columns;
};

void python_lines_begin(struct python_lines *lines, unsigned minor, const struct python_code *code);

/* Units ascend from call to call. *columns (3.11 and later; otherwise 0): the last line as counted
 * from the first one, the first column and the last one as one number, equal for equal ones; 0: not
 * known. */
uint32_t python_lines_at(struct python_lines *lines, uint32_t unit, uint64_t *columns);

#endif
