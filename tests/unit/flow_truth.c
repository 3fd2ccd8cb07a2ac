/* Early ways out of loops, by their definition (flow.h). See flow_truth.h. */
#include "tests/unit/flow_truth.h"

blocks_t truth_closure(const blocks_t *next, blocks_t from, blocks_t allowed) {
  blocks_t seen = from & allowed;
  for (blocks_t left = seen; left != 0;) {
    uint32_t block = (uint32_t)__builtin_ctzll(left);
    left &= left - 1;
    blocks_t fresh = next[block] & allowed & ~seen;
    seen |= fresh;
    left |= fresh;
  }
  return seen;
}

uint32_t truth_outside(const struct truth *truth, uint32_t head) {
  uint32_t found = NO_BLOCK;
  for (uint32_t other = 0; other < truth->n; other++)
    if (other != head && (truth->body[other] & BIT(head)) &&
        (found == NO_BLOCK || (truth->body[other] & ~truth->body[found]) == 0))
      found = other;
  return found;
}

blocks_t truth_that_reach(const struct truth *truth, const blocks_t *next, blocks_t ends) {
  blocks_t found = 0;
  for (uint32_t block = 0; block < truth->n; block++)
    if (truth_closure(next, BIT(block), ~UINT64_C(0)) & ends)
      found |= BIT(block);
  return found;
}

static uint32_t outermost(const struct truth *truth, uint32_t block) {
  uint32_t head = truth->around[block], found = NO_BLOCK;
  for (; head != NO_BLOCK; head = truth_outside(truth, head))
    found = head;
  return found;
}

/* Whether an edge leads out of all loops from where the outermost decides whether it goes round. */
static bool is_end_of_loop(const struct truth *truth, uint32_t from, uint32_t to) {
  uint32_t head = outermost(truth, from);
  return head != NO_BLOCK && (truth->reached & BIT(from)) &&
         (truth->ordinary_next[from] & truth->ordinary & BIT(to)) &&
         !(truth->body[head] & BIT(to)) && (from == head || (truth->next[from] & BIT(head)));
}

/* Where an end of a loop leads: there, and on where blocks have no site and one successor. */
static blocks_t behind_end(const struct truth *truth, uint32_t block) {
  blocks_t found = 0;
  while (!(found & BIT(block))) {
    blocks_t next = truth->next[block];
    found |= BIT(block);
    uint32_t edges = 0;
    for (uint32_t i = 0; i < truth->program->graph.nedges; i++)
      edges += truth->program->edges[i].from == block;
    if (truth->program->blocks[block].sites == 0 && edges == 1)
      block = (uint32_t)__builtin_ctzll(next);
  }
  return found;
}

static bool is_early(const struct truth *truth, uint32_t from, uint32_t to) {
  uint32_t head = outermost(truth, from);
  if (head == NO_BLOCK || (truth->body[head] & BIT(to)) || is_end_of_loop(truth, from, to))
    return false;
  bool has_end = false, comes_there = false;
  blocks_t behind = truth_closure(truth->next, BIT(to), ~UINT64_C(0));
  for (uint32_t block = 0; block < truth->n; block++)
    for (uint32_t end = 0; end < truth->n; end++)
      if (is_end_of_loop(truth, block, end)) {
        has_end |= outermost(truth, block) == head;
        comes_there |= (behind & behind_end(truth, end)) != 0;
      }
  return has_end && !comes_there;
}

/* Takes away what since does not heed: an exception's edge beside an ordinary one is that one's. */
void truth_leave_early_aside(struct truth *truth, blocks_t forever) {
  blocks_t next[GRAPH_BLOCKS_MAX] = {0}, early[GRAPH_BLOCKS_MAX] = {0};
  for (uint32_t from = 0; from < truth->n; from++) {
    for (uint32_t to = 0; to < truth->n; to++)
      if ((truth->reached & BIT(from)) && (truth->ordinary_next[from] & BIT(to)) &&
          is_early(truth, from, to))
        early[from] |= BIT(to);
    next[from] = truth->ordinary_next[from] & ~early[from];
  }
  blocks_t ordinary = truth_that_reach(truth, next, truth->ends | forever);
  for (uint32_t from = 0; from < truth->n; from++)
    if (ordinary & BIT(from))
      truth->since_next[from] &= ~early[from];
}
