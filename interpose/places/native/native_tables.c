/* Finds jump tables: see native_tables.h. What gcc and clang make of a switch, at any level:
 *
 *     cmp $9, %eax; ja default                          a comparison says how many entries
 *     lea table(%rip), %rdx                             perhaps long before, outside of a loop
 *     movslq (%rdx,%rax,4), %rax; add %rdx, %rax; jmp *%rax
 *
 * or, in code that is not relocated and for labels as values, `jmp *table(,%rax,8)`. Which register
 * holds what is not followed: a jump with an index of 4 or 8 bytes shortly before it has a table,
 * and whether entries lead to instructions tells tables from other data. */
#include "interpose/places/native/native_tables.h"

#include <stdlib.h>
#include <string.h>

enum {
  ADDRESSES = 32,           /* candidates: the last addresses taken */
  COMPARISONS = 4,          /* the last numbers compared with */
  ENTRIES_MAX = 4096,       /* of a table */
  ENTRIES_MIN = 3,          /* of one whose length is not known */
  INDEX_NEAR = 8,           /* instructions from the table's index to the jump */
  TABLES_ENTRIES = 1 << 18, /* of all tables of a function */
};

struct search {
  const struct native_code *code;
  const uint8_t *addresses[ADDRESSES]; /* a ring, the newest at newest - 1 */
  uint32_t newest;
  uint64_t compared[COMPARISONS];
  uint32_t newest_compared;
  uint32_t index_age; /* instructions since the last that had an index of a table, which is ... */
  bool index_of_addresses;
  uint32_t entries;
};

size_t native_table_target(const struct native_code *code, const struct native_table *table,
                           uint32_t entry) {
  if (table->has_addresses) {
    uint64_t address;
    memcpy(&address, table->begin + (size_t)entry * sizeof address, sizeof address);
    return native_position(code, address);
  }
  int32_t distance;
  memcpy(&distance, table->begin + (size_t)entry * sizeof distance, sizeof distance);
  return native_position(code, (uintptr_t)table->begin + (uintptr_t)(intptr_t)distance);
}

/* How many entries, from the first on, lead to instructions of the function. */
static uint32_t count_entries(const struct native_code *code, const struct native_table *table,
                              uint64_t limit) {
  size_t room = native_readable(code->object, table->begin) / (table->has_addresses ? 8 : 4);
  uint32_t count = 0;
  while (count < limit && count < room) {
    size_t target = native_table_target(code, table, count);
    if (target == NATIVE_OUTSIDE || !(code->marks[target] & NATIVE_STARTS))
      break;
    count++;
  }
  return count;
}

/* A table at begin, of the length that a comparison before the jump says, or as long as it goes. */
static bool try_table(const struct search *search, struct native_table *table, bool is_bound) {
  if (!is_bound) {
    table->count = count_entries(search->code, table, ENTRIES_MAX);
    return table->count >= ENTRIES_MIN;
  }
  uint32_t seen = search->newest_compared < COMPARISONS ? search->newest_compared : COMPARISONS;
  for (uint32_t i = 1; i <= seen; i++) {
    uint64_t last = search->compared[(search->newest_compared - i) % COMPARISONS];
    if (last == 0 || last >= ENTRIES_MAX)
      continue;
    table->count = count_entries(search->code, table, last + 1);
    if (table->count == last + 1)
      return true;
  }
  return false;
}

static bool find_table(const struct search *search, struct native_table *table) {
  uint32_t seen = search->newest < ADDRESSES ? search->newest : ADDRESSES;
  table->has_addresses = search->index_of_addresses;
  for (int bound = 1; bound >= 0; bound--) {
    for (uint32_t i = 1; i <= seen; i++) {
      table->begin = search->addresses[(search->newest - i) % ADDRESSES];
      if (try_table(search, table, bound == 1))
        return true;
    }
  }
  return false;
}

static void native_see(struct search *search, const struct native_cursor *cursor) {
  const struct native_instruction *is = &cursor->is;
  uintptr_t address = 0;
  if (is->details & NATIVE_ADDRESS)
    address = (uintptr_t)cursor->at + (uintptr_t)is->target;
  if (is->details & NATIVE_TABLE)
    address = (uintptr_t)is->value;
  search->index_age++;
  if (is->details & (NATIVE_INDEX_4 | NATIVE_INDEX_8)) {
    search->index_age = 0;
    search->index_of_addresses = is->details & NATIVE_INDEX_8;
  }
  const uint8_t *at = (const uint8_t *)address;
  bool again = search->newest > 0 && search->addresses[(search->newest - 1) % ADDRESSES] == at;
  if (at != NULL && !again && native_readable(search->code->object, at) > 0)
    search->addresses[search->newest++ % ADDRESSES] = at;
  if (is->details & NATIVE_COMPARE)
    search->compared[search->newest_compared++ % COMPARISONS] = is->value;
}

static bool native_tables_keep(struct native_tables *tables, struct search *search,
                               const struct native_table *table) {
  search->entries += table->count;
  if (search->entries > TABLES_ENTRIES)
    return false;
  if (tables->ntables == tables->room) {
    uint32_t room = 2 * tables->room + 4;
    struct native_table *larger = realloc(tables->tables, room * sizeof *larger);
    if (larger == NULL)
      return false;
    tables->tables = larger;
    tables->room = room;
  }
  tables->tables[tables->ntables++] = *table;
  for (uint32_t i = 0; i < table->count; i++)
    search->code->marks[native_table_target(search->code, table, i)] |= NATIVE_LEADS;
  return true;
}

bool native_tables_make(struct native_tables *tables, const struct native_code *code) {
  struct search search = {.code = code, .index_age = INDEX_NEAR};
  struct native_cursor cursor;
  bool failed;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    native_see(&search, &cursor);
    bool may_have_one = (cursor.is.kind == NATIVE_JUMP_REGISTER && search.index_age < INDEX_NEAR) ||
                        (cursor.is.kind == NATIVE_JUMP_MEMORY && search.index_age == 0);
    struct native_table table = {.jump = cursor.position};
    if (may_have_one && find_table(&search, &table) && !native_tables_keep(tables, &search, &table))
      return false;
  }
  return !failed;
}

void native_tables_drop(struct native_tables *tables) {
  free(tables->tables);
  *tables = (struct native_tables){0};
}

bool native_tables_find(const struct native_tables *tables, size_t jump,
                        struct native_table *table) {
  uint32_t low = 0;
  uint32_t high = tables->ntables;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (tables->tables[middle].jump < jump)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == tables->ntables || tables->tables[low].jump != jump)
    return false;
  *table = tables->tables[low];
  return true;
}

bool native_tables_has(const struct native_tables *tables, size_t jump) {
  struct native_table table;
  return native_tables_find(tables, jump, &table);
}
