/* Rotated loops as they were, by their definition (flow_analyse in flow.h): one after the other,
 * each time from the edges alone. See flow_truth.h. */
#include "tests/unit/flow_truth.h"

#include <stdlib.h>
#include <string.h>

/* What is known of the program as it is so far. */
struct known {
  const struct graph_program *program;
  blocks_t next[GRAPH_BLOCKS_MAX];
  blocks_t reached;
  blocks_t below[GRAPH_BLOCKS_MAX]; /* what it dominates */
  uint32_t way[GRAPH_BLOCKS_MAX];   /* past what only leads on */
  blocks_t leads_on;
};

/* How many edges lead from a block; to: the first two. */
static uint32_t targets(const struct graph_program *program, uint32_t block, uint32_t to[2],
                        bool *exceptional) {
  uint32_t count = 0;
  *exceptional = false;
  for (uint32_t i = 0; i < program->graph.nedges; i++) {
    if (program->edges[i].from != block)
      continue;
    if (count < 2)
      to[count] = program->edges[i].to;
    count++;
    *exceptional |= program->edges[i].exceptional;
  }
  return count;
}

static bool only_returns(const struct known *known, uint32_t block) {
  uint32_t to[2];
  bool exceptional;
  return targets(known->program, block, to, &exceptional) == 0 &&
         known->program->blocks[block].sites == 0 && known->program->blocks[block].returns;
}

/* Where all ways from a block come to past what does nothing; the block itself, if they part. All
 * blocks that only return are one. */
static uint32_t way(const struct known *known, uint32_t block) {
  const struct flow_block *is = &known->program->blocks[block];
  uint32_t to[2] = {0, 0};
  bool exceptional;
  uint32_t edges = targets(known->program, block, to, &exceptional);
  for (uint32_t end = 0; end < block && only_returns(known, block); end++)
    if ((known->reached & BIT(end)) && only_returns(known, end))
      return end;
  for (uint32_t from = 0; from < known->program->graph.nblocks; from++)
    if ((known->next[from] & BIT(block)) && (known->below[block] & BIT(from)))
      return block; /* the head of a loop */
  if (edges == 0 || edges > 2 || exceptional || is->sites != 0 || is->returns)
    return block;
  uint32_t found = way(known, to[0]);
  return edges == 1 || way(known, to[1]) == found ? found : block;
}

static void know(struct known *known, const struct graph_program *program) {
  uint32_t n = program->graph.nblocks;
  memset(known, 0, sizeof *known);
  known->program = program;
  for (uint32_t i = 0; i < program->graph.nedges; i++)
    known->next[program->edges[i].from] |= BIT(program->edges[i].to);
  known->reached = truth_closure(known->next, BIT(0), ~UINT64_C(0));
  for (uint32_t block = 0; block < n; block++)
    known->below[block] = known->reached & ~truth_closure(known->next, BIT(0), ~BIT(block));
  for (uint32_t block = 0; block < n; block++) {
    known->way[block] = known->reached & BIT(block) ? way(known, block) : block;
    if (known->way[block] != block)
      known->leads_on |= BIT(block);
  }
}

/* Whether a block is a test, one of whose ways is `to`; then *other is the other. */
static bool is_test(const struct known *known, uint32_t block, uint32_t to, uint32_t *other) {
  uint32_t ways[2] = {0, 0};
  bool exceptional;
  if (targets(known->program, block, ways, &exceptional) != 2 || exceptional ||
      known->program->blocks[block].returns)
    return false;
  ways[0] = known->way[ways[0]];
  ways[1] = known->way[ways[1]];
  *other = ways[ways[0] == to];
  return ways[0] != ways[1] && (ways[0] == to || ways[1] == to);
}

/* The blocks that lead to a head, if these are tests of one rotated loop; 0: they are not. */
static blocks_t tests_of(const struct known *known, uint32_t head, uint32_t *other) {
  blocks_t tests = 0, next[GRAPH_BLOCKS_MAX];
  uint32_t first = NO_BLOCK;
  if (head != 0 && known->way[0] == head)
    return 0;
  for (uint32_t i = 0; i < known->program->graph.nedges; i++) {
    const struct flow_edge *edge = &known->program->edges[i];
    if (!(known->reached & ~known->leads_on & BIT(edge->from)) || known->way[edge->to] != head)
      continue;
    if (!is_test(known, edge->from, head, other) || (first != NO_BLOCK && *other != first))
      return 0;
    first = *other;
    tests |= BIT(edge->from);
  }
  blocks_t inside = tests & known->below[head], guards = tests & ~inside;
  for (uint32_t block = 0; block < known->program->graph.nblocks; block++)
    next[block] = tests & BIT(block) ? 0 : known->next[block];
  bool come_first = (guards & ~truth_closure(next, BIT(0), ~UINT64_C(0))) == 0;
  return inside != 0 && guards != 0 && come_first ? tests : 0;
}

static void drop_edges(struct graph_program *program, uint32_t from) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < program->graph.nedges; i++)
    if (program->edges[i].from != from)
      program->edges[kept++] = program->edges[i];
  program->graph.nedges = kept;
}

static void add_edge(struct graph_program *program, uint32_t from, uint32_t to) {
  program->edges[program->graph.nedges++] = (struct flow_edge){from, to, false};
}

static bool put_back(struct graph_program *program, const struct known *known, uint32_t head) {
  uint32_t test = program->graph.nblocks, other = NO_BLOCK;
  blocks_t tests = tests_of(known, head, &other);
  if (tests == 0)
    return false;
  if (test == GRAPH_BLOCKS_MAX)
    abort();
  for (uint32_t block = 0; block < test; block++) {
    if (program->source_loops[block] & BIT(head))
      program->source_loops[block] ^= BIT(head) | BIT(test);
    if (!(tests & BIT(block)))
      continue;
    drop_edges(program, block);
    add_edge(program, block, test);
  }
  program->blocks[test] = (struct flow_block){.position = program->blocks[head].position};
  program->source_loops[test] = program->source_loops[head];
  add_edge(program, test, head);
  add_edge(program, test, other);
  program->graph.nblocks++;
  return true;
}

void truth_unrotate(const struct graph_program *program, struct graph_program *as) {
  struct known known;
  memcpy(as, program, sizeof *as);
  as->graph.blocks = as->blocks;
  as->graph.edges = as->edges;
  know(&known, as);
  for (uint32_t head = 0; head < as->graph.nblocks; head++) {
    if (!put_back(as, &known, head))
      continue;
    know(&known, as);
    head = UINT32_MAX; /* from the first one on */
  }
}
