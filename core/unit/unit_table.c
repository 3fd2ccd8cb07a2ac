/* The unit table: units by small number. See unit.h.
 *
 * A fixed array of slots, found through an open-addressing index. A symbol is a slot and the slot's
 * generation, which grows each time the slot is given to another unit: an old symbol names nothing.
 * When all slots are taken, a hand goes round them and takes the first one that has not been used
 * since it passed (the second-chance algorithm of page replacement).
 */
#include "core/unit/unit.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS UNIT_TABLE_PLACES
#define INDEX_SIZE (4 * SLOTS) /* a quarter full at most: probes stay short */
#define GENERATION_MAX (UINT32_MAX >> UNIT_TABLE_BITS)

struct unit_table {
  struct known_unit slots[SLOTS]; /* first: see unit_table_use */
  uint32_t generation[SLOTS];     /* of the slot's last symbol */
  uint16_t index[INDEX_SIZE];     /* slot + 1, or 0; linear probing */
  uint32_t nslots;                /* slots below this have been used at least once */
  uint32_t hand;
};

static inline struct unit slot_unit(const struct known_unit *slot) {
  return (struct unit){slot->members, slot->nmembers};
}

static inline uint32_t index_home(uint64_t hash) {
  return (uint32_t)(hash >> 32) % INDEX_SIZE;
}

struct unit_table *unit_table_create(void) {
  struct unit_table *table = aligned_alloc(64, sizeof(*table));
  if (table)
    memset(table, 0, sizeof(*table));
  return table;
}

static void slot_empty(struct known_unit *slot) {
  if (slot->members != &slot->single)
    free(slot->members);
  if (slot->looks != &slot->look)
    free(slot->looks);
  *slot = (struct known_unit){0};
}

void unit_table_destroy(struct unit_table *table) {
  if (!table)
    return;
  for (uint32_t i = 0; i < table->nslots; i++)
    slot_empty(&table->slots[i]);
  free(table);
}

/* The slot that holds a symbol now, or NULL. */
static inline const struct known_unit *table_slot(const struct unit_table *table, symbol_t symbol) {
  const struct known_unit *slot = &table->slots[symbol % SLOTS];
  return slot->symbol == symbol && symbol != SYMBOL_NONE ? slot : NULL;
}

static uint32_t table_find(const struct unit_table *table, struct unit unit, uint64_t hash) {
  for (uint32_t at = index_home(hash); table->index[at]; at = (at + 1) % INDEX_SIZE) {
    uint32_t i = table->index[at] - 1u;
    if (table->slots[i].hash == hash && unit_equal(slot_unit(&table->slots[i]), unit))
      return i;
  }
  return SLOTS;
}

static void index_add(struct unit_table *table, uint32_t i) {
  uint32_t at = index_home(table->slots[i].hash);
  while (table->index[at])
    at = (at + 1) % INDEX_SIZE;
  table->index[at] = (uint16_t)(i + 1);
}

/* Takes a slot out of the index and moves later entries of the same probe sequence up, so that no
 * search stops early and no tombstones pile up. */
static void index_remove(struct unit_table *table, uint32_t i) {
  uint32_t hole = index_home(table->slots[i].hash);
  while (table->index[hole] != i + 1)
    hole = (hole + 1) % INDEX_SIZE;
  for (uint32_t at = (hole + 1) % INDEX_SIZE; table->index[at]; at = (at + 1) % INDEX_SIZE) {
    uint32_t home = index_home(table->slots[table->index[at] - 1].hash);
    if ((at - home) % INDEX_SIZE >= (at - hole) % INDEX_SIZE) {
      table->index[hole] = table->index[at];
      hole = at;
    }
  }
  table->index[hole] = 0;
}

/* A free slot; frees one by second chance if need be. A slot whose generations are used up is
 * passed over for ever, so that no symbol comes twice: four thousand million forgotten units away.
 */
static uint32_t table_claim_slot(struct unit_table *table) {
  if (table->nslots < SLOTS)
    return table->nslots++;
  for (uint32_t step = 0; step < 2 * SLOTS; step++) {
    uint32_t i = table->hand;
    struct known_unit *slot = &table->slots[i];
    table->hand = (i + 1) % SLOTS;
    if (slot->used || table->generation[i] == GENERATION_MAX) {
      slot->used = false;
      continue;
    }
    if (slot->symbol != SYMBOL_NONE) {
      index_remove(table, i);
      slot_empty(slot);
    }
    return i;
  }
  return SLOTS;
}

/* A unit that is new has not been used yet: one that never comes again must not outlive one that
 * does. */
static symbol_t table_add(struct unit_table *table, struct unit unit, uint64_t hash) {
  struct member *members = NULL;
  if (unit.nmembers > 1) {
    members = malloc(unit.nmembers * sizeof *members);
    if (!members)
      return SYMBOL_NONE;
    memcpy(members, unit.members, unit.nmembers * sizeof *members);
  }
  uint32_t i = table_claim_slot(table);
  if (i == SLOTS) {
    free(members);
    return SYMBOL_NONE;
  }
  struct known_unit *slot = &table->slots[i];
  if (unit.nmembers == 1)
    slot->single = unit.members[0];
  slot->members = unit.nmembers == 1 ? &slot->single : members;
  slot->nmembers = unit.nmembers;
  slot->hash = hash;
  uint32_t coarse = (uint32_t)(unit_coarse_hash(unit) >> 32);
  slot->coarse = coarse ? coarse : 1;
  slot->symbol = ++table->generation[i] << UNIT_TABLE_BITS | i;
  index_add(table, i);
  return slot->symbol;
}

symbol_t unit_table_intern(struct unit_table *table, struct unit unit) {
  uint64_t hash = unit_hash(unit);
  uint32_t i = table_find(table, unit, hash);
  if (i == SLOTS)
    return table_add(table, unit, hash);
  table->slots[i].used = true;
  return table->slots[i].symbol;
}

symbol_t unit_table_find(const struct unit_table *table, struct unit unit) {
  uint32_t i = table_find(table, unit, unit_hash(unit));
  return i == SLOTS ? SYMBOL_NONE : table->slots[i].symbol;
}

symbol_t unit_table_find_hash(const struct unit_table *table, uint64_t hash) {
  for (uint32_t at = index_home(hash); table->index[at]; at = (at + 1) % INDEX_SIZE)
    if (table->slots[table->index[at] - 1u].hash == hash)
      return table->slots[table->index[at] - 1u].symbol;
  return SYMBOL_NONE;
}

bool unit_table_get(const struct unit_table *table, symbol_t symbol, struct unit *unit) {
  const struct known_unit *slot = table_slot(table, symbol);
  if (!slot)
    return false;
  *unit = slot_unit(slot);
  return true;
}

void unit_table_mark(struct unit_table *table, symbol_t symbol) {
  assert(table_slot(table, symbol) != NULL);
  table->slots[symbol % SLOTS].marked = true;
}

bool unit_table_set_looks(struct unit_table *table, symbol_t symbol, const look_t *looks) {
  assert(table_slot(table, symbol) != NULL);
  struct known_unit *slot = &table->slots[symbol % SLOTS];
  bool plain = true;
  for (uint32_t i = 0; looks != NULL && i < slot->nmembers; i++)
    plain = plain && looks[i] == 0;
  if (plain) {
    if (slot->looks != &slot->look)
      free(slot->looks);
    slot->looks = NULL;
    return true;
  }
  if (slot->looks == NULL)
    slot->looks = slot->nmembers == 1 ? &slot->look : malloc(slot->nmembers * sizeof(*slot->looks));
  if (slot->looks == NULL)
    return false;
  memcpy(slot->looks, looks, slot->nmembers * sizeof(*looks));
  return true;
}

const look_t *unit_table_looks(const struct unit_table *table, symbol_t symbol) {
  const struct known_unit *slot = table_slot(table, symbol);
  return slot == NULL ? NULL : slot->looks;
}

uint32_t unit_table_coarse(const struct unit_table *table, symbol_t symbol) {
  const struct known_unit *slot = table_slot(table, symbol);
  return slot ? slot->coarse : 0;
}
