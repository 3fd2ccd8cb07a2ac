/* Hubs of cycles with several entries, and tests that lead to one of them, by their definition
 * (flow_analyse in flow.h). See flow_truth.h. */
#include "tests/unit/flow_truth.h"

#include <stdlib.h>
#include <string.h>

enum { TURNS_MAX = 16, STEPS_MAX = 16 };

/* What is known of the program as it is so far. */
struct known {
  const struct graph_program *program;
  blocks_t next[GRAPH_BLOCKS_MAX];
  blocks_t reached;
  blocks_t cycle[GRAPH_BLOCKS_MAX]; /* the blocks of the cycle that it is in; 0: in none */
  blocks_t entries;
};

static void know_cycles(struct known *known) {
  blocks_t forward[GRAPH_BLOCKS_MAX];
  uint32_t n = known->program->graph.nblocks;
  memcpy(forward, known->next, sizeof forward);
  for (uint32_t head = 0; head < n; head++) {
    blocks_t without = truth_closure(known->next, BIT(0), ~BIT(head));
    for (uint32_t from = 0; from < n; from++)
      if ((known->reached & BIT(from)) && (from == head || !(without & BIT(from))))
        forward[from] &= ~BIT(head);
  }
  blocks_t ahead[GRAPH_BLOCKS_MAX];
  for (uint32_t block = 0; block < n; block++)
    ahead[block] = truth_closure(forward, forward[block], ~UINT64_C(0));
  for (uint32_t block = 0; block < n; block++)
    for (uint32_t other = 0; other < n; other++)
      if ((known->reached & BIT(block)) && (ahead[block] & BIT(other)) &&
          (ahead[other] & BIT(block)))
        known->cycle[block] |= BIT(other);
}

static void know(struct known *known, const struct graph_program *program) {
  memset(known, 0, sizeof *known);
  known->program = program;
  for (uint32_t i = 0; i < program->graph.nedges; i++)
    known->next[program->edges[i].from] |= BIT(program->edges[i].to);
  known->reached = truth_closure(known->next, BIT(0), ~UINT64_C(0));
  know_cycles(known);
  for (uint32_t from = 0; from < program->graph.nblocks; from++)
    for (uint32_t to = 0; to < program->graph.nblocks; to++)
      if ((known->reached & BIT(from)) && (known->next[from] & BIT(to)) &&
          !(known->cycle[to] & BIT(from)))
        known->entries |= known->cycle[to] ? BIT(to) : 0;
}

/* The edges from (or to) a block, and the number of one of them. */
static uint32_t edges_of(const struct known *known, uint32_t block, bool to, uint32_t *last) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < known->program->graph.nedges; i++) {
    const struct flow_edge *edge = &known->program->edges[i];
    if ((to ? edge->to : edge->from) != block || !(known->reached & BIT(edge->from)))
      continue;
    count++;
    *last = i;
  }
  return count;
}

static bool leads_on(const struct known *known, uint32_t block) {
  const struct flow_block *is = &known->program->blocks[block];
  uint32_t to = 0;
  return is->sites == 0 && !is->returns && edges_of(known, block, false, &to) == 1 &&
         !known->program->edges[to].exceptional;
}

static bool leads_back(const struct known *known, uint32_t block, uint32_t entry) {
  for (int i = 0; i < STEPS_MAX && leads_on(known, entry); i++)
    entry = (uint32_t)__builtin_ctzll(known->next[entry]);
  return known->program->blocks[entry].position <= known->program->blocks[block].position;
}

static bool is_between(const struct known *known, uint32_t block) {
  uint32_t from = 0;
  return block != 0 && !(known->entries & BIT(block)) && leads_on(known, block) &&
         edges_of(known, block, true, &from) == 1;
}

/* The entries of its own cycle that control goes to from a block, ways between included. */
static blocks_t entries_from(const struct known *known, uint32_t block) {
  blocks_t found = 0;
  for (uint32_t i = 0; i < known->program->graph.nedges; i++) {
    const struct flow_edge *edge = &known->program->edges[i];
    uint32_t to = edge->to;
    if (edge->from != block || edge->exceptional)
      continue;
    while (to != block && is_between(known, to))
      to = (uint32_t)__builtin_ctzll(known->next[to]);
    if (leads_back(known, block, to))
      found |= BIT(to) & known->entries & known->cycle[block];
  }
  return found;
}

static bool decides(const struct known *known, uint32_t block) {
  blocks_t entries = entries_from(known, block);
  return (entries & (entries - 1)) != 0;
}

static bool is_tested(const struct known *known, blocks_t cycle) {
  bool found = false;
  for (uint32_t block = 0; block < known->program->graph.nblocks; block++)
    found |= (cycle & BIT(block)) && decides(known, block);
  return found;
}

static bool goes_round(const struct known *known, uint32_t from, uint32_t to) {
  uint32_t last = 0;
  if (!(known->cycle[to] & BIT(from)))
    return true;
  while (!decides(known, from) && is_between(known, from)) {
    edges_of(known, from, true, &last);
    from = known->program->edges[last].from;
  }
  return decides(known, from);
}

/* Has the edges lead to a hub that go round by it, one from each block. */
static void lead_to(const struct known *known, struct graph_program *as, blocks_t entries,
                    uint32_t hub) {
  blocks_t ordinary = 0, exceptional = 0, to_ordinary = 0;
  uint32_t kept = 0;
  for (uint32_t i = 0; i < as->graph.nedges; i++) {
    struct flow_edge edge = as->edges[i];
    bool goes = (known->reached & BIT(edge.from)) && edge.from != hub && (entries & BIT(edge.to)) &&
                goes_round(known, edge.from, edge.to);
    if (!goes)
      as->edges[kept++] = edge;
    else if (edge.exceptional)
      exceptional |= BIT(edge.from);
    else {
      ordinary |= BIT(edge.from);
      to_ordinary |= BIT(edge.to);
    }
  }
  for (uint32_t block = 0; block < hub; block++)
    if ((ordinary | exceptional) & BIT(block))
      as->edges[kept++] = (struct flow_edge){block, hub, !(ordinary & BIT(block))};
  for (uint32_t entry = 0; entry < hub; entry++)
    if (entries & BIT(entry))
      as->edges[kept++] = (struct flow_edge){hub, entry, !(to_ordinary & BIT(entry))};
  as->graph.nedges = kept;
}

/* What is known where a turn begins: of a copy, as that changes the program. */
static void know_before(struct known *known, struct graph_program *before,
                        const struct graph_program *as) {
  memcpy(before, as, sizeof *before);
  before->graph.blocks = before->blocks;
  before->graph.edges = before->edges;
  know(known, before);
}

/* One turn: a hub for each cycle that decides between its entries. Returns whether there were any.
 */
static bool add_hubs(struct graph_program *as, uint32_t *nhubs) {
  struct graph_program before;
  struct known known;
  know_before(&known, &before, as);
  for (uint32_t block = 0; block < before.graph.nblocks; block++) {
    blocks_t cycle = known.cycle[block];
    if (cycle == 0 || (cycle & (BIT(block) - 1)) || !is_tested(&known, cycle))
      continue;
    uint32_t hub = as->graph.nblocks++;
    if (hub == GRAPH_BLOCKS_MAX)
      abort();
    as->blocks[hub] = (struct flow_block){.position = UINT32_MAX - (*nhubs)++};
    as->source_loops[hub] = 0;
    lead_to(&known, as, known.entries & cycle, hub);
  }
  return as->graph.nblocks > before.graph.nblocks;
}

/* Where a block's two ordinary edges lead past what only leads on, and their numbers; false: it has
 * others. */
static bool decides_between(const struct known *known, uint32_t block, uint32_t ends[2],
                            uint32_t numbers[2]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < known->program->graph.nedges; i++) {
    const struct flow_edge *edge = &known->program->edges[i];
    if (edge->from != block)
      continue;
    if (edge->exceptional || count == 2)
      return false;
    uint32_t to = edge->to;
    for (int step = 0; step < STEPS_MAX && is_between(known, to); step++)
      to = (uint32_t)__builtin_ctzll(known->next[to]);
    numbers[count] = i;
    ends[count++] = to;
  }
  return count == 2 && !known->program->blocks[block].returns && (known->reached & BIT(block));
}

static bool is_head(const struct known *known, uint32_t block) {
  bool found = false;
  for (uint32_t i = 0; i < known->program->graph.nedges; i++) {
    const struct flow_edge *edge = &known->program->edges[i];
    found |= edge->to == block && (known->reached & BIT(edge->from)) &&
             (edge->from == block ||
              !(truth_closure(known->next, BIT(0), ~BIT(block)) & BIT(edge->from)));
  }
  return found;
}

static void lead_blocks_to(struct graph_program *as, const struct known *known, blocks_t blocks,
                           uint32_t to) {
  uint32_t ends[2], numbers[2];
  for (uint32_t block = 0; block < known->program->graph.nblocks; block++) {
    if (!(blocks & BIT(block)) || !decides_between(known, block, ends, numbers))
      continue;
    as->edges[numbers[0]].to = to;
    as->edges[numbers[1]].from = UINT32_MAX;
  }
}

static void tidy(struct graph_program *as) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < as->graph.nedges; i++)
    if (as->edges[i].from != UINT32_MAX)
      as->edges[kept++] = as->edges[i];
  as->graph.nedges = kept;
}

/* One turn: what decides in a cycle as the head of a loop around it does, which does nothing else,
 * leads to that. Returns whether there was any. */
static bool share_begins(struct graph_program *as) {
  struct graph_program before;
  struct known known;
  blocks_t shared = 0;
  know_before(&known, &before, as);
  for (uint32_t head = 0; head < before.graph.nblocks; head++) {
    uint32_t ends[2], numbers[2], others[2];
    if ((shared & BIT(head)) || before.blocks[head].sites != 0 || !is_head(&known, head) ||
        !decides_between(&known, head, ends, numbers) || ends[0] == ends[1])
      continue;
    blocks_t cycle = known.cycle[ends[0]], both = BIT(ends[0]) | BIT(ends[1]), found = 0;
    if (cycle == 0 || (cycle & BIT(head)) || (both & ~(known.entries & cycle)))
      continue;
    for (uint32_t block = 0; block < before.graph.nblocks; block++)
      if ((cycle & ~shared & BIT(block)) && decides_between(&known, block, others, numbers) &&
          (BIT(others[0]) | BIT(others[1])) == both)
        found |= BIT(block);
    lead_blocks_to(as, &known, found, head);
    shared |= found;
  }
  tidy(as);
  return shared != 0;
}

/* One turn: what stands in front of a cycle, and decides as an entry of it that does nothing else,
 * or between that and what it goes on with, leads to that. Returns whether there was any. */
static bool share_tests(struct graph_program *as) {
  struct graph_program before;
  struct known known;
  blocks_t shared = 0;
  know_before(&known, &before, as);
  for (uint32_t test = 0; test < before.graph.nblocks; test++) {
    uint32_t ends[2], numbers[2], others[2];
    if (!(known.entries & BIT(test)) || (shared & BIT(test)) || before.blocks[test].sites != 0 ||
        !decides_between(&known, test, ends, numbers))
      continue;
    blocks_t entries = known.entries & known.cycle[test];
    if (((entries & BIT(ends[0])) != 0) == ((entries & BIT(ends[1])) != 0))
      continue;
    blocks_t entry = entries & (BIT(ends[0]) | BIT(ends[1]));
    for (uint32_t block = 0; block < before.graph.nblocks; block++) {
      if ((known.cycle[test] & BIT(block)) || (shared & BIT(block)) ||
          !decides_between(&known, block, others, numbers) || others[0] == others[1])
        continue;
      blocks_t both = BIT(others[0]) | BIT(others[1]);
      if (both != (BIT(ends[0]) | BIT(ends[1])) && both != (entry | BIT(test)))
        continue;
      lead_blocks_to(as, &known, BIT(block), test);
      shared |= BIT(block);
    }
  }
  tidy(as);
  return shared != 0;
}

void truth_add_hubs(const struct graph_program *program, struct graph_program *as) {
  uint32_t nhubs = 0;
  memcpy(as, program, sizeof *as);
  as->graph.blocks = as->blocks;
  as->graph.edges = as->edges;
  for (int turn = 0; turn < TURNS_MAX; turn++)
    if (!share_begins(as) && !share_tests(as) && !add_hubs(as, &nhubs))
      break;
}
