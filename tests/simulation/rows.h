/* Rows: what kinds of programs the simulation has, and what each of them is counted under.
 *
 * A row is a class of programs, how uneven its ranks are, and what is seen of its places. Seeds go
 * round all rows, so that each has as many programs as any other.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_ROWS_H
#define NCCL_JOIN_TESTS_SIMULATION_ROWS_H

#include "tests/simulation/tree.h"

enum class {
  CLASS_PLAIN,
  CLASS_LOG,
  CLASS_LOG_NEARLY_EVEN,
  CLASS_EVALUATION_EVEN,
  CLASS_EVALUATION_UNEVEN,
  CLASS_EVALUATION_IN_LOOP,
  CLASS_EVALUATION_EQUAL_UNITS,
  CLASS_EVALUATION_LIKE_TRAINING_EVEN,
  CLASS_EVALUATION_LIKE_TRAINING_UNEVEN,
  CLASS_ACCUMULATION,
  CLASS_WARM_UP,
  CLASS_UNFROZEN,
  CLASS_EARLY_STOP,
  CLASS_CHECKPOINTS,
  CLASS_REBUILT,
  CLASS_NO_DATA_FIRST,
  CLASS_NO_DATA_LATER,
  CLASS_LOSS_LIKE_BARRIER,
  CLASS_ONE_UNIT,
  CLASS_BEGINS_LIKE_AFTER,
  CLASS_LOG_LIKE_BARRIER,
  CLASS_NOTHING_AFTER,
  CLASS_BREAK,
  CLASS_CONTINUE,
  CLASS_LOCAL_BRANCHES,
  CLASS_END_IN_BRANCH,
  CLASS_STATES,
  CLASS_BEGINS,
  CLASS_IN_FRONT,
  CLASS_SHARES,
  CLASS_TWICE,
  CLASS_HALVES_BY_REPLICA,
  CLASS_GRID_BY_REPLICA,
  CLASS_GRID_WORLD_BY_REPLICA,
  CLASS_HALVES_BY_RANK,
  CLASS_GRID_BY_RANK,
  CLASS_GRID_WORLD_BY_RANK,
  CLASS_BREAK_SEVERAL,
  CLASS_HASTY,
  CLASS_FAILING,
  CLASSES,
};

enum class_trait {
  TRAIT_SEVERAL = 1 << 0,       /* several teams */
  TRAIT_BY_RANK = 1 << 1,       /* of these, ranks of one tensor parallel team have unequal data */
  TRAIT_NO_DATA_FIRST = 1 << 2, /* ranks may have no data in their first epoch */
  TRAIT_INSIDE = 1 << 3,        /* ranks leave inside iterations, or skip the rest of one */
  TRAIT_ANYHOW = 1 << 4,        /* only that nothing breaks is asked of it */
  TRAIT_STATES = 1 << 5,        /* what ends a loop stands in a branch of it */
};

struct class_info {
  const char *name;
  uint32_t traits;
};
extern const struct class_info classes[CLASSES];
extern const char *const sights[SIGHTS];

enum imbalance { IMBALANCE_NONE, IMBALANCE_CONSTANT, IMBALANCE_VARYING, IMBALANCES };

struct row {
  enum class class;
  enum imbalance imbalance;
  enum sight sight;
};

#define ROWS (UINT64_C(1) * CLASSES * IMBALANCES * SIGHTS)

struct row row_of(uint32_t number); /* below ROWS */
uint32_t row_number(struct row row);

static inline struct row row_of_seed(uint64_t seed) {
  return row_of((uint32_t)(seed % ROWS));
}

static inline bool row_has(struct row row, uint32_t traits) {
  return (classes[row.class].traits & traits) != 0;
}

/* "log lines, varying, visible", into text. Returns it. */
#define ROW_NAME_SIZE 128
const char *row_name(struct row row, char text[ROW_NAME_SIZE]);

#endif
