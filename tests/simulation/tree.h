/* Programs as trees: functions with loops, branches, calls and collectives, as a compiler sees
 * them. The order of the nodes is that of the source.
 *
 * From the tree come both what a rank does (tree_run.c) and where each of its collectives stands
 * (tree_places.c). A point is what a collective means: two that all ranks should meet at are of one
 * point, wherever they stand (`if (rank == 0) barrier(); else barrier();`).
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_TREE_H
#define NCCL_JOIN_TESTS_SIMULATION_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/place/place.h"
#include "core/unit/unit.h"

#define TREE_NODES_MAX 384
#define TREE_DEPTH_MAX 16
#define SLOT_MEMBERS_MAX 2

/* A rank has one communicator, and one team, on each axis that the program uses. */
enum axis { AXIS_WORLD, AXIS_TENSOR, AXIS_DATA, AXES };

/* A collective, or a group of two. */
struct slot {
  enum axis axis;
  uint32_t nmembers;
  struct member members[SLOT_MEMBERS_MAX]; /* comm: which communicator of the team, 0 or 1 */
};

enum node_kind { NODE_UNIT, NODE_LOOP, NODE_BRANCH, NODE_CALL, NODE_BREAK, NODE_CONTINUE };

enum function {
  FUNCTION_MAIN,
  FUNCTION_TRAIN,
  FUNCTION_STEP,
  FUNCTION_VALIDATE,
  FUNCTION_SAVE,
  FUNCTION_HELPER, /* one more way to the same collective */
  FUNCTION_WRAPPER,
  FUNCTIONS,
};

/* How often a loop goes round. */
enum rounds {
  ROUNDS_EPOCHS,
  ROUNDS_TRAINING,   /* over the rank's own data */
  ROUNDS_VALIDATION, /* the same of its validation set */
  ROUNDS_FIXED,      /* `value` times */
  ROUNDS_STATES,     /* over the rank's own data, its validation set if `value` is not 0, and once
                        more: which of these is told by branches (WHEN_TRAINS, WHEN_VALIDATES) */
};

/* When a branch is taken; otherwise its other half is. */
enum when {
  WHEN_STEPS,      /* every `value` of the rank's own training steps, in all epochs together */
  WHEN_BATCHES,    /* the same, but in each epoch */
  WHEN_UPDATES,    /* the same, and at the rank's last one of the epoch */
  WHEN_FIRST_STEP, /* in the rank's first training step */
  WHEN_EPOCHS,     /* every `value` epochs */
  WHEN_EPOCH_FROM, /* from epoch `value` on */
  WHEN_EPOCH,      /* in epoch `value` */
  WHEN_RANK,       /* on rank `value` */
  WHEN_NOT_RANK,   /* on the others */
  WHEN_LOCAL,      /* once in `value` times, by the rank's own data */
  WHEN_AGREED,     /* the same, all ranks alike */
  WHEN_TRAINS,     /* in the loop of states, while the rank has batches left */
  WHEN_VALIDATES,  /* afterwards, while it has batches of its validation set left */
  WHEN_HAS_DATA,   /* if the rank has a batch in this epoch */
  WHEN_MINE,      /* in rounds of a loop over what all ranks share: in the rank's own, which are the
                      only ones that the loop here has */
  WHEN_DATA_ENDS, /* in the rank's last iteration of the epoch, if it leaves that here: exit
                      `value` */
};

struct node {
  uint8_t kind;    /* enum node_kind */
  uint8_t what;    /* enum rounds, when or function */
  uint8_t point;   /* of a unit: from 1 on */
  uint8_t ordinal; /* of a unit that stands for one round of another rank's loop: which */
  bool wrapped;    /* a unit called through a wrapper that hides its callers */
  bool by_engine;  /* a unit called by a thread whose frames say nothing */
  uint16_t value;
  uint16_t first;     /* the block of a loop, branch or call; 0: empty */
  uint16_t otherwise; /* the other block of a branch */
  uint16_t next;      /* in the same block */
  struct slot slot;
};

/* What is seen of the places of a program's collectives. */
enum sight {
  SIGHT_VISIBLE,
  SIGHT_WRAPPED,         /* several points share one place: id and nodes */
  SIGHT_ENGINE,          /* those of gradient buckets are not known, or not all of them */
  SIGHT_HIDDEN,          /* none is known */
  SIGHT_UNORDERED,       /* loops are known, order is not */
  SIGHT_BY_RANK_OUTSIDE, /* visible; some stand elsewhere on one rank, outside of loops */
  SIGHT_BY_RANK_INSIDE,  /* the same in loops */
  SIGHT_OTHER_LOOP,      /* one rank has a training loop of its own */
  SIGHTS,
};

/* nodes[0] is main. */
struct tree {
  uint16_t nnodes;
  struct node nodes[TREE_NODES_MAX];
};

/* ---- building ---- */

/* Blocks that are open, innermost last. */
struct builder {
  struct tree *tree;
  uint32_t depth;
  struct {
    uint16_t node, last;
    bool otherwise;
  } open[TREE_DEPTH_MAX];
};

/* An empty main, whose block is open. */
void tree_begin(struct builder *builder, struct tree *tree);

/* Appends a node to the innermost block; returns it, to be filled before the next call. */
struct node *tree_add(struct builder *builder, enum node_kind kind, uint32_t what, uint32_t value);

/* Opens the block of the node added last: a loop, branch or call. */
void tree_open(struct builder *builder);

/* Goes on with the other block of the branch that is open. */
void tree_otherwise(struct builder *builder);
void tree_close(struct builder *builder);

/* Takes all units of a point out, and what is empty then. */
void tree_remove_point(struct tree *tree, uint8_t point);

/* Whether something in it depends on such a condition. */
bool tree_has_branch(const struct tree *tree, enum when when);

/* Whether ranks come to something by counts of their own steps, which are not those of other ranks
 * in the same iteration: in all epochs together (WHEN_STEPS), in updates (WHEN_UPDATES), or in
 * each epoch (WHEN_BATCHES) where epochs count as one since nothing marks their ends. */
bool tree_counts_own_steps(const struct tree *tree);

/* Whether two points of one loop look alike, and a rank comes to each by a condition of its own. */
bool tree_has_twins(const struct tree *tree);

/* Whether what looks alike stands in both halves of a branch in a loop: ranks that take one each
 * meet, and are told so. Not if it is seen that a rank stays in its half: the branch is by rank, as
 * all are in it, and all loops around it are of its function. */
bool tree_has_halves(const struct tree *tree);

/* Whether ranks come from the loop of training to another loop at once: who has no data in an epoch
 * goes from that loop to itself. */
bool tree_goes_from_loop_to_loop(const struct tree *tree);

/* ---- places ---- */

/* The place of every unit of the tree, by node, as place.h has it: what interpose/ would find out
 * of the compiled program. Where the sight hides a place its id is 0. */
void tree_places(const struct tree *tree, enum sight sight, struct place places[TREE_NODES_MAX]);

#endif
