/* Making programs smaller (shrink.h): one change after the other, each kept if the program still
 * shows what it is shown for, until none is. */
#include "tests/simulation/shrink.h"

#include <string.h>

struct shrink {
  struct program *best;
  struct program next; /* the best one, but for a change */
  uint64_t seed;
  enum measure measure;
  bool changed;
};

bool program_shows(const struct program *program, uint64_t seed, enum measure measure) {
  struct tally_row row = {0};
  if (program->row.imbalance == IMBALANCE_NONE && program->nteams == 1 && !program_is_even(program))
    return false;
  run_this(program, seed, &row);
  return row.count[measure] > 0;
}

/* Keeps the change if it may be kept. */
static void try_change(struct shrink *shrink) {
  tree_places(&shrink->next.tree, shrink->next.row.sight, shrink->next.places);
  if (program_shows(&shrink->next, shrink->seed, shrink->measure)) {
    *shrink->best = shrink->next;
    shrink->changed = true;
  }
  shrink->next = *shrink->best;
}

/* ---- changes ---- */

static void remove_rank(struct program *program, uint32_t rank) {
  uint32_t behind = --program->nranks - rank;
  for (uint32_t epoch = 0; epoch < PROGRAM_EPOCHS_MAX; epoch++) {
    struct data *data = &program->data;
    uint16_t *training = &data->training[epoch][rank];
    uint16_t *validation = &data->validation[epoch][rank];
    uint8_t *exits = &data->exits[epoch][rank];
    memmove(training, training + 1, behind * sizeof(*training));
    memmove(validation, validation + 1, behind * sizeof(*validation));
    memmove(exits, exits + 1, behind * sizeof(*exits));
  }
  memmove(&program->speed[rank], &program->speed[rank + 1], behind * sizeof(program->speed[0]));
  program->teams[0].nranks--;
  for (uint16_t i = 0; i < program->tree.nnodes; i++) {
    struct node *node = &program->tree.nodes[i];
    if (node->kind == NODE_BRANCH && (node->what == WHEN_RANK || node->what == WHEN_NOT_RANK) &&
        node->value > rank)
      node->value--;
  }
}

static void remove_epoch(struct program *program, uint32_t epoch) {
  uint32_t behind = --program->epochs - epoch;
  struct data *data = &program->data;
  memmove(data->training[epoch], data->training[epoch + 1], behind * sizeof(data->training[0]));
  memmove(data->validation[epoch], data->validation[epoch + 1],
          behind * sizeof(data->validation[0]));
  memmove(data->exits[epoch], data->exits[epoch + 1], behind * sizeof(data->exits[0]));
}

/* Half, or one fewer, of all ranks, and of each. */
static void shrink_counts(struct shrink *shrink, uint32_t epoch, bool validation) {
  uint32_t nranks = shrink->best->nranks;
  uint32_t each = shrink->best->by_replica ? nranks : 0; /* with several teams: of all only */
  for (uint32_t rank = each; rank <= nranks; rank++)
    for (uint32_t half = 2; half > 0; half--) {
      struct data *data = &shrink->next.data;
      uint16_t *counts = validation ? data->validation[epoch] : data->training[epoch];
      bool any = false;
      for (uint32_t i = 0; i < nranks; i++) {
        if ((rank < nranks && i != rank) || counts[i] < 2)
          continue;
        counts[i] = (uint16_t)(half == 2 ? counts[i] / 2 : counts[i] - 1);
        any = true;
      }
      if (any)
        try_change(shrink);
    }
}

static void shrink_schedule(struct shrink *shrink) {
  struct program *next = &shrink->next;
  if (next->sync_every != 0 || next->sync_after || next->run_ahead != 64) {
    next->sync_every = 0;
    next->sync_after = false;
    next->run_ahead = 64;
    try_change(shrink);
  }
  for (uint32_t rank = 0; rank < shrink->best->nranks; rank++)
    if (next->speed[rank] != 1) {
      next->speed[rank] = 1;
      try_change(shrink);
    }
}

static void shrink_all(struct shrink *shrink) {
  for (uint32_t rank = shrink->best->nranks; rank-- > 0;)
    if (shrink->best->nteams == 1 && shrink->best->nranks > 2) {
      remove_rank(&shrink->next, rank);
      try_change(shrink);
    }
  for (uint32_t epoch = shrink->best->epochs; epoch-- > 0;)
    if (shrink->best->epochs > 1) {
      remove_epoch(&shrink->next, epoch);
      try_change(shrink);
    }
  for (uint32_t point = 1; point < UINT8_MAX; point++) {
    uint16_t before = shrink->best->tree.nnodes, units = 0;
    for (uint16_t i = 1; i < before; i++)
      units += shrink->best->tree.nodes[i].point == point;
    tree_remove_point(&shrink->next.tree, (uint8_t)point);
    if (units > 0)
      try_change(shrink);
  }
  for (uint32_t epoch = 0; epoch < shrink->best->epochs; epoch++) {
    shrink_counts(shrink, epoch, false);
    shrink_counts(shrink, epoch, true);
  }
  shrink_schedule(shrink);
}

void program_shrink(struct program *program, uint64_t seed, enum measure measure) {
  static struct shrink shrink;
  if (!program_shows(program, seed, measure))
    return;
  shrink = (struct shrink){.best = program, .next = *program, .seed = seed, .measure = measure};
  do {
    shrink.changed = false;
    shrink_all(&shrink);
  } while (shrink.changed);
}
