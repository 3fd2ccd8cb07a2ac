/* Names of rows (rows.h). */
#include "tests/simulation/rows.h"

#include <stdio.h>

const struct class_info classes[CLASSES] = {
    [CLASS_PLAIN] = {"plain", 0},
    [CLASS_LOG] = {"log lines", 0},
    [CLASS_LOG_NEARLY_EVEN] = {"log lines, one batch fewer", 0},
    [CLASS_EVALUATION_EVEN] = {"even evaluation", 0},
    [CLASS_EVALUATION_UNEVEN] = {"uneven evaluation", 0},
    [CLASS_EVALUATION_IN_LOOP] = {"evaluation every few steps", 0},
    [CLASS_EVALUATION_EQUAL_UNITS] = {"evaluation of equal units", 0},
    [CLASS_EVALUATION_LIKE_TRAINING_EVEN] = {"even evaluation like training", 0},
    [CLASS_EVALUATION_LIKE_TRAINING_UNEVEN] = {"uneven evaluation like training", 0},
    [CLASS_ACCUMULATION] = {"gradient accumulation", 0},
    [CLASS_WARM_UP] = {"warm-up", 0},
    [CLASS_UNFROZEN] = {"layers unfrozen later", 0},
    [CLASS_EARLY_STOP] = {"early stopping", 0},
    [CLASS_CHECKPOINTS] = {"checkpoints", 0},
    [CLASS_REBUILT] = {"buckets rebuilt", 0},
    [CLASS_NO_DATA_FIRST] = {"no data in the first epoch", TRAIT_NO_DATA_FIRST},
    [CLASS_NO_DATA_LATER] = {"no data in a later epoch", 0},
    [CLASS_LOSS_LIKE_BARRIER] = {"loss like the barrier", 0},
    [CLASS_ONE_UNIT] = {"one unit, also after the loop", 0},
    [CLASS_BEGINS_LIKE_AFTER] = {"begins like what is after", 0},
    [CLASS_LOG_LIKE_BARRIER] = {"log line like the barrier", 0},
    [CLASS_NOTHING_AFTER] = {"nothing after the loop", 0},
    [CLASS_BREAK] = {"leaving inside iterations", TRAIT_INSIDE},
    [CLASS_CONTINUE] = {"skipping rests of iterations", TRAIT_INSIDE},
    [CLASS_LOCAL_BRANCHES] = {"branches on local data", 0},
    [CLASS_END_IN_BRANCH] = {"a loop that ends in a branch", TRAIT_STATES},
    [CLASS_STATES] = {"states of one loop", TRAIT_STATES},
    [CLASS_BEGINS] = {"begins epochs that have data", 0},
    [CLASS_IN_FRONT] = {"some ranks, in front of a loop", 0},
    [CLASS_SHARES] = {"shares of a list", 0},
    [CLASS_TWICE] = {"same ranks twice", 0},
    [CLASS_HALVES_BY_REPLICA] = {"all and halves, by replica", TRAIT_SEVERAL},
    [CLASS_GRID_BY_REPLICA] = {"a x b, by replica", TRAIT_SEVERAL},
    [CLASS_GRID_WORLD_BY_REPLICA] = {"a x b and all, by replica", TRAIT_SEVERAL},
    [CLASS_HALVES_BY_RANK] = {"all and halves, by rank", TRAIT_SEVERAL | TRAIT_BY_RANK},
    [CLASS_GRID_BY_RANK] = {"a x b, by rank", TRAIT_SEVERAL | TRAIT_BY_RANK},
    [CLASS_GRID_WORLD_BY_RANK] = {"a x b and all, by rank", TRAIT_SEVERAL | TRAIT_BY_RANK},
    [CLASS_BREAK_SEVERAL] = {"leaving inside, several teams", TRAIT_SEVERAL | TRAIT_INSIDE},
    [CLASS_HASTY] = {"yielding too early", TRAIT_SEVERAL | TRAIT_ANYHOW},
    [CLASS_FAILING] = {"a rank fails", TRAIT_ANYHOW},
};

const char *const sights[SIGHTS] = {
    [SIGHT_VISIBLE] = "visible",
    [SIGHT_WRAPPED] = "shared by several",
    [SIGHT_ENGINE] = "engine threads",
    [SIGHT_HIDDEN] = "hidden",
    [SIGHT_UNORDERED] = "order unknown",
    [SIGHT_BY_RANK_OUTSIDE] = "by rank, outside loops",
    [SIGHT_BY_RANK_INSIDE] = "by rank, in loops",
    [SIGHT_OTHER_LOOP] = "by rank, another loop",
};

struct row row_of(uint32_t number) {
  return (struct row){
      .class = (enum class)(number / (IMBALANCES * SIGHTS)),
      .imbalance = (enum imbalance)(number / SIGHTS % IMBALANCES),
      .sight = (enum sight)(number % SIGHTS),
  };
}

uint32_t row_number(struct row row) {
  return (row.class * IMBALANCES + row.imbalance) * SIGHTS + row.sight;
}

const char *row_name(struct row row, char text[ROW_NAME_SIZE]) {
  static const char *const imbalances[IMBALANCES] = {"even", "constant", "varying"};
  snprintf(text, ROW_NAME_SIZE, "%s, %s, %s", classes[row.class].name, imbalances[row.imbalance],
           sights[row.sight]);
  return text;
}
