/* Which loops of a function a call stands in, and what comes before and after it on every way
 * through the function: one function's control-flow graph, analysed. Native code and Python
 * bytecode both come here.
 *
 * Everything here is pure. An analysis does not change once it is made, so any thread may read it.
 * Nothing is recursive; time is O(n log n) in blocks and edges, times the depth of loops at worst.
 *
 * Loops are natural loops: a head that every way into the loop goes through, and all from which
 * control can come back to the head. So what runs only when the loop is left (`if (c) { x();
 * break; }`) stands behind the loop, not in it. Back edges with the same head are one loop. A cycle
 * that control enters at several places (irreducible code) counts as no loop, but for those of
 * flow_analyse; what stands in it has no order, nor has some of what comes next to it.
 */
#ifndef NCCL_JOIN_INTERPOSE_FLOW_H
#define NCCL_JOIN_INTERPOSE_FLOW_H

#include "core/place/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLOW_BLOCKS_MAX 65535u
#define FLOW_EDGES_MAX 262144u
#define FLOW_DEPTH_MAX 64u /* loops within each other */
#define FLOW_EARLY_MAX 64u /* blocks behind an early way out */

struct flow_block {
  uint32_t
      position;   /* of its first instruction in the function; a loop's id is made of its head's */
  uint16_t sites; /* calls in it that may be asked for */
  bool returns;   /* the function ends here and comes back to its caller */
};

/* A block without edges that does not return ends in a call that does not return, or in an
 * exception that nobody in the function handles: ways that end so are left aside. */
struct flow_edge {
  uint32_t from;
  uint32_t to;
  /* Taken by an exception only. It counts as taken at the end of the block: let a block end behind
     a call whose exception is handled in the function. Loops and orders take such edges into
     account; since and until only where nothing else leads from or to a block. */
  bool exceptional;
};

/* What a block does to the variables of its function, as far as that is followed: at most 64 of
 * them, a bit each. */
struct flow_values {
  uint64_t tests;  /* which decide, as they are before the block, where control goes behind it */
  uint64_t sets;   /* which the block may change */
  uint64_t moves;  /* which it sets to a number, or adds one to: they are meant to change */
  uint64_t reused; /* which may be something else altogether behind it, by the same name */
  bool tests_more; /* something else decides, too */
  bool counts;     /* it compares what each round of the loop around it adds to, and may end that */
  /* It ends a loop by what that counts, from a number to a number: the first round never ends
   * there, and no compiler asks for that in front of the loop. */
  bool counts_numbers;
  /* What the last call in the block goes to, a number that no other function has, if what it
   * returns alone decides where control goes behind the block; 0: not so, or not known. */
  uint32_t asks;
};

/* Control enters at block 0. Blocks that it does not reach are allowed, and more than one edge
 * between two blocks. */
struct flow_graph {
  const struct flow_block *blocks;
  const struct flow_edge *edges;
  uint32_t nblocks;
  uint32_t nedges;
  const struct flow_values *values; /* by block; NULL: nothing is known */
};

/* What a function's code does to values of its own, as far as it is followed. A state is what is
 * known of them at one point of the function. */
struct flow_machine {
  void *context;
  size_t size; /* of a state */
  /* A state in which nothing is known. */
  void (*forget)(void *context, void *state);
  /* Leaves what is known in both of two states, and returns whether that is less than before. */
  bool (*meet)(void *context, void *state, const void *other);
  /* From before a block to behind it. Returns the block that control goes to then, if that is
   * known; FLOW_ANYWHERE otherwise. */
  uint32_t (*run)(void *context, uint32_t block, void *state);
};
#define FLOW_ANYWHERE UINT32_MAX

/* Finds edges from which control, as the values tell, always goes on to leave a loop, and lets them
 * lead out of it at once: of `while (!done) if (c) x(); else { y(); done = 1; }` the second branch
 * then stands behind the loop. Writes the graph's edges, so changed, to `edges`, which has room for
 * twice as many, and returns how many there are. Without memory, or if it would take too long, all
 * edges stay as they are. */
uint32_t flow_decide(const struct flow_graph *graph, const struct flow_machine *machine,
                     struct flow_edge *edges);

struct flow;

/* Keeps nothing of graph. NULL: larger than the limits above, an edge to no block, or no memory.
 *
 * A cycle that control enters at several blocks, its entries, is a loop if blocks of it decide
 * between entries that stand before them in the function (past 16 blocks that only lead on).
 * Compilers make such cycles of a loop whose rounds begin with a test (`for (...) { if (c) x();
 * y(); }`): one copy of it stands in front of the loop, another one behind y, and both lead to x
 * and to y. The loop's head is a hub, a block without sites which all ways into the cycle lead to,
 * and the ways from those blocks to entries, and which leads on to the entries. Its position is
 * UINT32_MAX less the number of hubs before it. Sixteen such cycles within each other get hubs, in
 * functions of half the limits above.
 *
 * Nor is it a cycle of its own where the loop around it begins with a block without sites that
 * decides between the same entries: then the blocks that decide so lead to that head. A compiler
 * copies it to where it knows something of a round (`for (...) { if (c) x(); if (i == 0 && rank ==
 * 0) y(); ... }`), and goes on with the next round from there.
 *
 * Nor is a cycle of several entries left where one of them is its test: a block without sites that
 * decides between another entry and a way out. A block in front of the cycle that decides between
 * the same two leads to the test; so does one that decides between that entry and the test: it
 * decides of the first round. `for (...) x(); while (c) y();` is compiled so that c is tested
 * behind x as well, and from there control enters the second loop behind its test.
 *
 * A loop whose condition is tested at several places is taken for one with a single test, its head,
 * which all of them lead to: `while (c) x();` is often compiled to `if (c) do x(); while (c);`.
 * Such tests are blocks with two ways, the same for all of them past blocks that only lead on
 * (heads of loops aside; one with two ways that come to one block only leads on, too; all blocks
 * that only return are taken for one): to one block, to which
 * nothing else leads, and to another. Some of them stand in a loop whose head is the first of the
 * two, and some in front of it: guards. Control comes to each guard before it comes to any other
 * test of the loop. There is no guard where a test counts numbers (flow_values). Of a test of
 * several conditions sixteen are found. If the tests all ask the same function (flow_values), and
 * nothing but them ends the loop, those calls are one, which stands in the loop: `while (f())
 * x();`.
 *
 * What can reach neither a return nor a loop without end (it ends in a call that does not return,
 * or an unhandled exception) comes last in the order, so that no since spans it; its own since is
 * not known. In a function that never returns, every end is taken for a return.
 *
 * Nor does since heed early ways out of loops: the `return` behind an error's check in a loop is
 * left aside, as a call of exit() there is. An outermost loop decides whether it goes round in its
 * head, and in the blocks that lead to its head. Where these lead out of it, and an end is reached
 * from there, is the loop's own end. An early way out is an edge from another block of a loop that
 * has such an end, out of all loops around it, from which control comes to at most FLOW_EARLY_MAX
 * blocks and to no loop's own end, nor to what follows one past blocks that only lead on. What only
 * early ways out lead to comes last in the order of what comes to an end, unless the rest can be
 * reached from it. */
struct flow *flow_analyse(const struct flow_graph *graph);
void flow_free(struct flow *flow); /* NULL is allowed */
size_t flow_bytes(const struct flow *flow);

/* The loops around a block, outermost first, then the call in it that is the site-th (from 0),
 * which stands at position in the function. Returns how many nodes there are, of which the first
 * room are written: 0 if control does not reach the block. Ids are hashes of function_id and
 * position.
 *
 * The turn and PLACE_FIXED come from the graph's values.
 *
 * Nodes of functions with more than 65,535 sites and loops, and those in a cycle without a head,
 * have no PLACE_ORDERED. Loops without sites are no nodes: since and until pass over them. */
uint32_t flow_nodes(const struct flow *flow, uint32_t block, uint32_t site, uint32_t position,
                    uint32_t function_id, struct place_node *nodes, uint32_t room);

/* The same for a call from which control always leaves the innermost loop around it: it does not
 * stand in that loop, and has the loop's order. */
uint32_t flow_nodes_leaving(const struct flow *flow, uint32_t block, uint32_t position,
                            uint32_t function_id, struct place_node *nodes, uint32_t room);

/* Whether all ways from behind the calls in a block end in an exception, or in another call that
 * does not return. */
bool flow_never_returns(const struct flow *flow, uint32_t block);

/* The id of what stands at position of a function; never 0. */
uint32_t flow_id(uint32_t function_id, uint32_t position);

#endif
