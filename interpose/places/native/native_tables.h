/* Jump tables of one function: where an indirect jump goes. For native_graph.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_TABLES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_TABLES_H

#include "interpose/places/native/native_parts.h"

/* count entries: distances from the table's begin, or addresses. */
struct native_table {
  size_t jump; /* position of the jump that uses it */
  const uint8_t *begin;
  uint32_t count;
  bool has_addresses;
};

struct native_tables {
  struct native_table *tables; /* by jump */
  uint32_t ntables;
  uint32_t room;
};

/* Finds the tables of all indirect jumps that have one, and marks where they lead. Instructions are
 * marked already. A table is data that the code takes the address of before the jump, and whose
 * entries all lead to instructions of the function; the comparison before the jump says how many
 * entries there are. False: no memory, or too much to read. */
bool native_tables_make(struct native_tables *tables, const struct native_code *code);
void native_tables_drop(struct native_tables *tables);

bool native_tables_has(const struct native_tables *tables, size_t jump);
bool native_tables_find(const struct native_tables *tables, size_t jump,
                        struct native_table *table);

/* The position that an entry leads to. */
size_t native_table_target(const struct native_code *code, const struct native_table *table,
                           uint32_t entry);

#endif
