/* Places by id (place_table.h): a ring, found through an index with linear probing. */
#include "core/place/place_table.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_SIZE (2 * PLACE_TABLE_PLACES)
_Static_assert(PLACE_TABLE_PLACES < UINT16_MAX, "a position + 1 fits into the index");

struct place_table {
  uint64_t added;
  uint16_t index[INDEX_SIZE]; /* position + 1; 0: free */
  struct known_place places[PLACE_TABLE_PLACES];
};

/* A place is written before it is read: a table of few places has touched little memory. */
struct place_table *place_table_create(void) {
  struct place_table *table = malloc(sizeof(*table));
  if (table != NULL)
    memset(table, 0, offsetof(struct place_table, places));
  return table;
}

void place_table_destroy(struct place_table *table) {
  free(table);
}

static uint32_t home_of(uint32_t id) {
  return id * UINT32_C(0x9e3779b1) >> 16;
}

/* Where in the index a place is, or belongs. */
static uint32_t index_of(const struct place_table *table, uint32_t id) {
  uint32_t at = home_of(id) % INDEX_SIZE;
  while (table->index[at] != 0 && table->places[table->index[at] - 1].place.id != id)
    at = (at + 1) % INDEX_SIZE;
  return at;
}

struct known_place *place_table_find(struct place_table *table, uint32_t id) {
  uint32_t at = id == 0 ? 0 : table->index[index_of(table, id)];
  return id == 0 || at == 0 ? NULL : &table->places[at - 1];
}

const struct known_place *place_table_next(const struct place_table *table, uint32_t *at) {
  return *at < PLACE_TABLE_PLACES && *at < table->added ? &table->places[(*at)++] : NULL;
}

uint32_t place_table_added(const struct place_table *table) {
  return (uint32_t)table->added;
}

/* Those behind the gap move up, so that no search stops early. */
static void place_table_forget(struct place_table *table, uint32_t id) {
  uint32_t hole = index_of(table, id);
  for (uint32_t at = (hole + 1) % INDEX_SIZE; table->index[at] != 0; at = (at + 1) % INDEX_SIZE) {
    uint32_t home = home_of(table->places[table->index[at] - 1].place.id) % INDEX_SIZE;
    if ((at - home) % INDEX_SIZE < (at - hole) % INDEX_SIZE)
      continue;
    table->index[hole] = table->index[at];
    hole = at;
  }
  table->index[hole] = 0;
}

struct known_place *place_table_add(struct place_table *table, const struct place *place) {
  struct known_place *known = place_table_find(table, place->id);
  if (known != NULL || place->id == 0)
    return known;
  uint32_t at = (uint32_t)(table->added++ % PLACE_TABLE_PLACES);
  known = &table->places[at];
  if (table->added > PLACE_TABLE_PLACES)
    place_table_forget(table, known->place.id);
  *known = (struct known_place){.place = *place};
  table->index[index_of(table, place->id)] = (uint16_t)(at + 1);
  return known;
}
