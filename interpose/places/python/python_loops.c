/* Analysed functions, and nodes from them (python_loops.h). */
#include "interpose/places/python/python_loops.h"

#include "interpose/places/flow/flow_arcs.h"
#include "interpose/places/python/python_graph.h"
#include "interpose/places/python/python_opcodes.h"
#include "interpose/places/python/python_code.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Never changed once it can be found. */
struct function {
  uint64_t key; /* of the code */
  struct flow *flow;
  struct python_graph graph; /* without it there would be no way from an instruction to its block */
  struct function *next;     /* in the same bucket */
};

/* Functions are only ever added, at the front. */
enum { BUCKETS = 1024 };
static struct function *_Atomic buckets[BUCKETS];
static _Atomic uint32_t nkept;

static struct function *find_kept(uint64_t key) {
  struct function *function = atomic_load_explicit(&buckets[key % BUCKETS], memory_order_acquire);
  while (function != NULL && function->key != key)
    function = function->next;
  return function;
}

static void free_function(struct function *function) {
  if (function == NULL)
    return;
  flow_free(function->flow);
  python_graph_free(&function->graph);
  free(function);
}

static struct function *python_analyse(const struct python_layout *layout,
                                       const struct python_code *code) {
  struct function *function = calloc(1, sizeof(*function));
  if (function == NULL)
    return NULL;
  function->key = code->key;
  if (python_graph_make(layout, code, &function->graph))
    function->flow = flow_analyse(&function->graph.flow);
  return function;
}

/* Two threads may keep the same function at once; the copies are equal. */
static bool python_keep(struct function *function) {
  if (atomic_fetch_add_explicit(&nkept, 1, memory_order_relaxed) >= PYTHON_FUNCTIONS_MAX) {
    atomic_fetch_sub_explicit(&nkept, 1, memory_order_relaxed);
    return false;
  }
  struct function *_Atomic *bucket = &buckets[function->key % BUCKETS];
  function->next = atomic_load_explicit(bucket, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(bucket, &function->next, function,
                                                memory_order_release, memory_order_relaxed))
    continue;
  return true;
}

/* `*kept`: whether it stays; otherwise it is for free_function. */
static struct function *function_of(const struct python_layout *layout,
                                    const struct python_code *code, bool *kept) {
  struct function *function = find_kept(code->key);
  *kept = function != NULL;
  if (function != NULL)
    return function;
  function = python_analyse(layout, code);
  *kept = function != NULL && python_keep(function);
  return function;
}

/* The last of n ascending numbers that is not above `number`; the first one is not. */
static uint32_t last_up_to(const uint32_t *numbers, uint32_t n, uint32_t number) {
  uint32_t low = 0, high = n;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    *(numbers[middle] <= number ? &low : &high) = middle;
  }
  return low;
}

static uint32_t function_id(uint64_t key) {
  return (uint32_t)(key >> 32 ^ key);
}

/* The instruction by number, and its block. */
static uint32_t number_of(const struct python_graph *graph, uint32_t instruction, uint32_t *block) {
  uint32_t number = graph->same[last_up_to(graph->units, graph->ninstructions, instruction)];
  *block = last_up_to(graph->firsts, graph->flow.nblocks, number);
  return number;
}

static uint32_t nodes_in(const struct function *function, uint32_t instruction, bool leaves,
                         struct place_node *nodes, uint32_t room) {
  const struct python_graph *graph = &function->graph;
  uint32_t block, number, id = function_id(function->key);
  if (function->flow == NULL)
    return 0;
  number = number_of(graph, instruction, &block);
  if (leaves)
    return flow_nodes_leaving(function->flow, block, graph->units[number], id, nodes, room);
  return flow_nodes(function->flow, block, number - graph->firsts[block], graph->units[number], id,
                    nodes, room);
}

/* ---- yields ---- */

static enum python_opcode opcode_at(const struct python_layout *layout,
                                    const struct python_code *code, uint32_t unit) {
  return python_opcode_of(layout->opcodes, code->units[(size_t)2 * unit]);
}

/* Whether control comes from an instruction, by number, to a yield, or from one to it: another one
 * than that itself. True without memory. */
static bool comes_to_yield(const struct python_layout *layout, const struct python_code *code,
                           const struct python_graph *graph, uint32_t number, bool backwards) {
  uint32_t nblocks = graph->flow.nblocks, nedges = graph->flow.nedges;
  uint32_t block = last_up_to(graph->firsts, nblocks, number);
  bool *marked = calloc(nblocks, sizeof(*marked));
  uint32_t *stack = calloc(nblocks, sizeof(*stack));
  struct flow_arc *arcs = calloc(nedges + 1, sizeof(*arcs));
  struct flow_lists next;
  bool comes = true;
  for (uint32_t i = 0; arcs != NULL && i < nedges; i++)
    arcs[i] = (struct flow_arc){graph->flow.edges[i].from, graph->flow.edges[i].to};
  if (marked != NULL && stack != NULL && arcs != NULL &&
      flow_lists_make(&next, nblocks, arcs, nedges, backwards)) {
    for (uint32_t i = next.start[block]; i < next.start[block + 1]; i++)
      marked[next.items[i]] = true;
    flow_reach(&next, nblocks, marked, stack);
    flow_lists_drop(&next);
    comes = false;
    for (uint32_t i = 0; !comes && i < graph->ninstructions; i++) {
      uint32_t of = last_up_to(graph->firsts, nblocks, i);
      bool is_reached = marked[of] || (of == block && (backwards ? i < number : i > number));
      comes = is_reached && i != number && opcode_at(layout, code, graph->units[i]) == OPCODE_YIELD;
    }
  }
  free(marked);
  free(stack);
  free(arcs);
  return comes;
}

/* Where control goes on, by number, if the instruction, by number, asks an iterator that has
 * nothing more: of a `for`, or a `yield from` (a SEND, which jumps then; before 3.11 an instruction
 * that yields). FLOW_NONE: it asks none. */
static uint32_t behind_iterator(const struct python_layout *layout, const struct python_code *code,
                                const struct python_graph *graph, uint32_t number) {
  uint32_t block = last_up_to(graph->firsts, graph->flow.nblocks, number);
  enum python_opcode opcode = opcode_at(layout, code, graph->units[number]);
  for (uint32_t i = 0; i < graph->nfors; i++)
    if (graph->fors[i].unit == graph->units[number])
      return number_of(graph, graph->fors[i].end, &block);
  for (uint32_t i = 0; opcode == OPCODE_SEND && i < graph->flow.nedges; i++) {
    const struct flow_edge *edge = &graph->flow.edges[i];
    if (edge->from == block && !edge->exceptional && graph->firsts[edge->to] != number + 1)
      return graph->firsts[edge->to];
  }
  return opcode == OPCODE_YIELD && number + 1 < graph->ninstructions ? number + 1 : FLOW_NONE;
}

/* Whether the function ends in an exception on all ways from there on, in view of how the call made
 * there ends; a generator that yields nothing more does, by StopIteration at the latest. An
 * iterator that ends so ends the `for` or the `yield from` that asks it; what an exception out of
 * another call leads to is not followed: it may be swallowed on the way here. */
static bool throws_from(const struct python_layout *layout, const struct python_code *code,
                        const struct function *function, uint32_t instruction, bool thrown) {
  uint32_t block;
  if (code->suspends == SUSPENDS_BY_AWAIT || function->flow == NULL)
    return false;
  uint32_t number = number_of(&function->graph, instruction, &block);
  if (code->suspends == SUSPENDS_NOT)
    return !thrown && flow_never_returns(function->flow, block);
  if (thrown && (number = behind_iterator(layout, code, &function->graph, number)) == FLOW_NONE)
    return false;
  bool yields = opcode_at(layout, code, function->graph.units[number]) == OPCODE_YIELD; /* from */
  return !yields && !comes_to_yield(layout, code, &function->graph, number, false);
}

uint32_t python_loops_original(const struct python_layout *layout, const struct python_code *code,
                               uint32_t instruction) {
  bool kept;
  struct function *function = function_of(layout, code, &kept);
  uint32_t block;
  if (function != NULL && function->flow != NULL && instruction < code->nunits)
    instruction = function->graph.units[number_of(&function->graph, instruction, &block)];
  if (!kept)
    free_function(function);
  return instruction;
}

uint32_t python_loops_function(const struct python_code *code) {
  uint32_t id = function_id(code->key);
  return id != 0 ? id : 1;
}

/* What comes from an iterator by an exception ends the loop, or goes beyond it. */
static bool is_iteration(const struct python_layout *layout, const struct python_code *code,
                         uint32_t instruction) {
  return python_opcode_of(layout->opcodes, code->units[(size_t)2 * instruction]) == OPCODE_FOR_ITER;
}

/* The `for` whose FOR_ITER begins the loop that a node is; NULL: it is another loop. */
static const struct python_for *for_of(const struct function *function, uint32_t node_id) {
  const struct python_graph *graph = &function->graph;
  uint32_t id = ~function_id(function->key);
  for (uint32_t i = 0; i < graph->nfors; i++)
    if (flow_id(id, graph->fors[i].unit) == node_id)
      return &graph->fors[i];
  return NULL;
}

/* The iterators on the stack are those of all `for`s in whose code the instruction stands; it may
 * stand behind a loop all the same, as that ends there. So iterators are known only where all of
 * these are loops around it. */
static void iterators_in(const struct function *function, uint32_t instruction,
                         const struct place_node *nodes, uint32_t n, uint8_t *iterators) {
  const struct python_graph *graph = &function->graph;
  uint32_t around = 0, found = 0;
  for (uint32_t i = 0; i < graph->nfors; i++)
    around += graph->fors[i].unit < instruction && instruction < graph->fors[i].end;
  for (uint32_t i = 0; i < n; i++) {
    const struct python_for *of = for_of(function, nodes[i].id);
    bool is_around = of != NULL && of->unit < instruction && instruction < of->end;
    iterators[i] = is_around && found < UINT8_MAX ? (uint8_t)++found : 0;
  }
  for (uint32_t i = 0; found != around && i < n; i++)
    iterators[i] = 0;
}

uint32_t python_loops_nodes(const struct python_layout *layout, const struct python_code *code,
                            uint32_t instruction, bool thrown, struct place_node *nodes,
                            uint8_t *iterators, uint32_t room, bool *throws) {
  bool kept, is_known = instruction < code->nunits;
  struct function *function = function_of(layout, code, &kept);
  bool leaves = thrown && is_known && is_iteration(layout, code, instruction);
  uint32_t n = function == NULL ? 0 : nodes_in(function, instruction, leaves, nodes, room);
  for (uint32_t i = 0; i < room; i++)
    iterators[i] = 0;
  if (n > 0 && is_known)
    iterators_in(function, instruction, nodes, n < room ? n : room, iterators);
  *throws =
      function != NULL && is_known && throws_from(layout, code, function, instruction, thrown);
  if (!kept)
    free_function(function);
  if (n > 0)
    return n;
  if (room > 0)
    nodes[0] = (struct place_node){.id = flow_id(function_id(code->key), instruction)};
  return 1;
}

/* ---- what a generator gives ---- */

/* The instruction, by number, that has yielded: where the frame stands, or before that (since
 * 3.13). */
static bool find_yield(const struct python_layout *layout, const struct python_code *code,
                       const struct python_graph *graph, uint32_t instruction, uint32_t *number) {
  *number = last_up_to(graph->units, graph->ninstructions, instruction);
  if (*number > 0 && opcode_at(layout, code, graph->units[*number]) != OPCODE_YIELD)
    --*number;
  return opcode_at(layout, code, graph->units[*number]) == OPCODE_YIELD;
}

/* Whether it stands in one loop, a `for`, whose rounds all come there; or in none, in a `yield
 * from`. */
static bool gives_each(const struct python_layout *layout, const struct python_code *code,
                       const struct function *function, uint32_t number) {
  const struct python_graph *graph = &function->graph;
  struct place_node nodes[FLOW_DEPTH_MAX + 1];
  uint8_t iterators[FLOW_DEPTH_MAX + 1];
  uint32_t unit = graph->units[number];
  uint32_t n = nodes_in(function, unit, false, nodes, FLOW_DEPTH_MAX + 1);
  bool is_from = number > 0 && opcode_at(layout, code, graph->units[number - 1]) == OPCODE_SEND;
  if (n != (is_from ? 1 : 2))
    return false;
  iterators_in(function, unit, nodes, n, iterators);
  return is_from || (iterators[0] == 1 && (nodes[1].flags & PLACE_ALWAYS));
}

bool python_loops_gives(const struct python_layout *layout, const struct python_code *code,
                        uint32_t instruction) {
  bool kept;
  uint32_t number;
  struct function *function = function_of(layout, code, &kept);
  bool gives = function != NULL && function->flow != NULL && instruction < code->nunits &&
               find_yield(layout, code, &function->graph, instruction, &number) &&
               gives_each(layout, code, function, number);
  for (int backwards = 0; gives && backwards < 2; backwards++)
    gives = !comes_to_yield(layout, code, &function->graph, number, backwards != 0);
  if (!kept)
    free_function(function);
  return gives;
}

/* ---- lines ---- */

/* A loop's test may stand at its end as well as before it, as compiled. So it begins at the lowest
 * line of its head and of what leads back there. */
static uint32_t lowest_line(unsigned minor, const struct python_code *code,
                            const struct python_graph *graph, uint32_t head) {
  uint32_t lowest = python_line(minor, code, graph->flow.blocks[head].position);
  for (uint32_t i = 0; i < graph->flow.nedges; i++) {
    const struct flow_edge *edge = &graph->flow.edges[i];
    if (edge->to != head || edge->from < head)
      continue;
    bool is_last = edge->from + 1 == graph->flow.nblocks;
    uint32_t last = (is_last ? graph->ninstructions : graph->firsts[edge->from + 1]) - 1;
    uint32_t line = python_line(minor, code, graph->units[last]);
    if (line != 0 && (lowest == 0 || line < lowest))
      lowest = line;
  }
  return lowest;
}

/* flow_nodes makes a loop's id of its head, as flow_id of the inverted function. */
uint32_t python_loops_line(const struct python_layout *layout, const struct python_code *code,
                           uint32_t instruction) {
  bool kept;
  struct function *function = function_of(layout, code, &kept);
  struct place_node nodes[FLOW_DEPTH_MAX + 1];
  uint32_t n =
      function == NULL ? 0 : nodes_in(function, instruction, false, nodes, FLOW_DEPTH_MAX + 1);
  uint32_t line = 0, id = n > 1 ? nodes[n - 2].id : 0;
  for (uint32_t i = 0; id != 0 && line == 0 && i < function->graph.flow.nblocks; i++)
    if (flow_id(~function_id(code->key), function->graph.flow.blocks[i].position) == id)
      line = lowest_line(layout->minor, code, &function->graph, i);
  if (!kept)
    free_function(function);
  return line;
}
