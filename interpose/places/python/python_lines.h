/* Line numbers of instructions, from the tables in code objects: co_lnotab of 3.9
 * (Objects/lnotab_notes.txt), co_linetable of 3.10 (PEP 626) and of 3.11 and later
 * (Objects/locations.md).
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_LINES_H
#define NCCL_JOIN_INTERPOSE_PYTHON_LINES_H

#include "interpose/places/python/python_code.h"

/* The line of the instruction at a code unit; 0: it has none. Never reads beyond the table,
 * whatever it holds. */
uint32_t python_line(unsigned minor, const struct python_code *code, uint32_t unit);

#endif
