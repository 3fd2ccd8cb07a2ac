/* Places: where in the program a call of NCCL stands, as far as that can be seen.
 *
 * A place is the way from the outermost frame that is known of the calling thread to the call: of
 * each frame the function, the loops in it that are gone into, outermost first, and then the call
 * made there. The steps of that way are nodes. Places that begin with different functions have
 * nothing to do with each other. The same code gives the same nodes on all ranks, wherever it is
 * loaded. NCCL never sees a place.
 *
 * Everything here is pure. interpose/ finds places out; core/ compares them.
 */
#ifndef NCCL_JOIN_CORE_PLACE_H
#define NCCL_JOIN_CORE_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/* A place that needs more nodes than these has the outermost ones. */
#define PLACE_NODES_MAX 64u

enum place_flag {
  PLACE_LOOP = 1u << 0,    /* a loop of a function; otherwise a function, or a call made in it */
  PLACE_ORDERED = 1u << 1, /* order, since and until are known; otherwise they are 0 */
  PLACE_OPAQUE = 1u << 2,  /* code that cannot be followed: it may stand in loops not seen */
  /* All conditions by which control comes here in a round, rather than to something else in it, are
   * the same in all rounds of all loops of the function around the node, as far as the code of the
   * function tells (flow.h). */
  PLACE_FIXED = 1u << 3,
  /* A call in a loop: the function has another one of the same calls, or the same call behind that
   * loop. A compiler may have made both of one in the source, or they are two (native_graph.h). */
  PLACE_TWIN = 1u << 4,
  /* And control comes from none of these two loops to the other in a round of the loops around
   * both: they are two branches of one condition. So it is with all its twins. */
  PLACE_TWIN_BRANCH = 1u << 5,
  /* Whoever begins what is around it comes to it, as since has it: of what stands in a loop, each
   * round that does not end in the loop's head (of the head itself, if no round does, or if there
   * is nothing else in the loop); of anything else, each call of the function. */
  PLACE_ALWAYS = 1u << 6,
  /* Control comes to it from the begin of the function by exceptions alone: it is in a handler. */
  PLACE_CAUGHT = 1u << 7,
};

/* Above its flags a node has its turn: a number of the innermost of those conditions that is known
 * to be another in other rounds (it counts them, or the code sets what it tests), and of its way to
 * the node. 0: none is. Of two nodes with the same function and loops, the same number means the
 * same way of the same condition. Of more than PLACE_TURNS_MAX in a function some have the same
 * number. */
#define PLACE_TURN_SHIFT 8u
#define PLACE_TURNS_MAX 255u

/* One step. Two nodes that follow the same nodes stand in the same function, and in the same loops
 * of it: there their orders compare. "Round" is meant of the loop that surrounds the node. */
struct place_node {
  /* Of the code: object, function, position in it; of a call, the function called, too. Never 0. */
  uint32_t id;
  /* Topological: what control can come to from here without going round a loop that surrounds both
   * has a higher order. A loop counts as one thing, and has the order of its head. Unique within
   * the function. */
  uint16_t order;
  /* Post-dominance: whatever stands in [since, order) is always followed by this node before the
   * next round, or before the function returns. Exceptions, calls that do not return, and returns
   * from within a loop that has another end are left aside. since == order: nothing is known. */
  uint16_t since;
  /* Dominance: whatever stands in (order, until] has always come through this node in the same
   * round, or since the function began. until == order: nothing is known. */
  uint16_t until;
  /* Reach: control can come from here to whatever stands in [reach_from, reach_to] in the same
   * round. It may come to other nodes, too. reach_from > reach_to: nothing is known. */
  uint16_t reach_from, reach_to;
  uint16_t flags; /* enum place_flag, and the turn */
};
_Static_assert(sizeof(struct place_node) == 16, "no padding: published as words");

/* What a message says of a place, with its final 0: "train.py:41 in the loop of train.py:38". */
#ifndef PLACE_TEXT_MAX /* tests/simulation/many.h */
#define PLACE_TEXT_MAX 96u
#endif

/* In which rounds of the loops around it a call is made: place_rounds.h. 0: not known. */
typedef uint64_t place_rounds_t;

struct place {
  uint32_t id; /* of the whole way, frames that are not among the nodes included; 0: not known */
  uint32_t nnodes;       /* 0: nothing is known but the id */
  place_rounds_t rounds; /* of one call made there: no part of what the place is */
  struct place_node nodes[PLACE_NODES_MAX];
  char text[PLACE_TEXT_MAX];
};

/* Whether anything of its code has been understood: a loop that it stands in, or an order. */
bool place_says_anything(const struct place *place);

/* Whether a rank in the outermost loop comes to the place once in each round of it: the place
 * stands in no inner loop, and whatever comes before it in a round is followed by it. */
bool place_is_of_each_epoch(const struct place *place);

/* Of a place of each epoch (place_is_of_each_epoch): whether the other one is in its outermost
 * loop, too. */
bool place_shares_epoch(const struct place *place, const struct place *other);

/* Whether a place stands in one loop, and no more: a rank can come to it at most once in a round of
 * that loop. */
bool place_is_in_one_loop(const struct place *place);

/* Whether `first` is known to come before `second` in a round of the loops around both. */
bool place_goes_first(const struct place *first, const struct place *second);

/* Whether a rank that comes from one place to another, or to the same one again, goes round a loop
 * around both; and whether it passes by a third place then, which stands in the rest of the round,
 * or in the next one before the place that it comes to. */
bool place_goes_round(const struct place *from, const struct place *to);
bool place_passes_by(const struct place *from, const struct place *to, const struct place *other);

/* Whether a rank that comes from one place to another passes by a third, in the innermost loop
 * around the first two: by going round (place_passes_by), or within the round. */
bool place_goes_past(const struct place *from, const struct place *to, const struct place *other);

/* Whether `from` stands in a loop in which `to` does not stand. False where either is not known. */
bool place_leaves_loop(const struct place *from, const struct place *to);

/* Whether a rank that stands in a loop in which `place` does not stand always comes to that behind
 * the loop, before a loop around both goes round. */
bool place_ends_loop(const struct place *place, const struct place *in_loop);

/* Whether whoever begins what is around both comes to what the place goes into where it parts from
 * the other one; and whether it comes to the place then, if each loop on the way has a round. */
bool place_parts_to_all(const struct place *place, const struct place *other);
bool place_is_of_all(const struct place *place, const struct place *other);

/* How many nodes the ways to both begin with; and whether they part within the first nodes of one.
 */
uint32_t place_nodes_in_common(const struct place *a, const struct place *b);
bool place_parts_within(const struct place *place, const struct place *other, uint32_t nodes);

/* What two places are to each other, where the ways to them part. */
enum place_relation {
  PLACE_UNRELATED,   /* nothing is known: no nodes, or the same ones, or other code altogether */
  PLACE_ALTERNATIVE, /* in no loop that is not common to both; control may come to either alone */
  PLACE_SEQUENTIAL,  /* the same, but who comes to one has come, or will come, to the other */
  PLACE_OUTSIDE,     /* one stands in a loop, the other not */
  PLACE_LOOPS,       /* each stands in a loop in which the other does not */
};
enum place_relation place_relate(const struct place *a, const struct place *b);

/* Whether a rank at the earlier of the two will come to the later one before the loop around both
 * goes round, or a rank at the later one has come through the earlier one. A loop counts as one
 * thing, gone into or not. */
bool place_is_certain(const struct place *a, const struct place *b);

/* Whether a rank at the later of the two has been at the earlier one; and whether that is so, or a
 * rank at the earlier one will come to the later one, if each loop on the way has a round. */
bool place_has_been_passed(const struct place *a, const struct place *b);
bool place_comes_to_both(const struct place *a, const struct place *b);

/* Whether the order of the two in the program is known. */
bool place_is_ordered(const struct place *a, const struct place *b);

/* Whether one thread can come from one of the two to the other before the loop around both goes
 * round: so they are not two branches of one condition. */
bool place_is_reached(const struct place *a, const struct place *b);

/* The contrary, as far as it is known: of spans of reach a node keeps the longest (flow_reach.c).
 */
bool place_are_branches(const struct place *a, const struct place *b);

/* Of two places of which each can be come to alone (PLACE_ALTERNATIVE), whether they are two
 * conditions of one round: one thread can come from one of the two to the other, and not by an
 * exception alone. What stands in a handler may be there for what the exception has kept from
 * happening. */
bool place_are_two_conditions(const struct place *a, const struct place *b);

/* Whether they are one collective of one function, which is called from two branches of one
 * condition: `if (c) { f(); } else { g(); f(); }`. */
bool place_are_one_call(const struct place *a, const struct place *b);

/* Of two places in a loop, whether who comes to one in a round may come to the other in another
 * round, and not to the first, as a condition changes that only one of them is behind. And of two
 * branches of one condition in a loop, whether who is in one is never in the other, as nothing that
 * decides between them changes in any loop around both. False where nothing is known. */
bool place_takes_turns(const struct place *a, const struct place *b);
bool place_stays_apart(const struct place *a, const struct place *b);

/* Of two places that each stand in a loop in which the other does not, whether they are behind
 * changing conditions of these loops, and not as far from the heads of them: then they are not the
 * same point of two loops that do the same (`if (rank == 0) for (...) ...; else for (...) ...;`).
 */
bool place_turns_differ(const struct place *a, const struct place *b);

/* Whether any call of the way to it has a twin (PLACE_TWIN). */
bool place_is_twin(const struct place *place);

/* Whether they part in a function in which a compiler may have made the call of both out of one
 * (PLACE_TWIN): each stands in a loop in which the other does not, or one of them behind the loop.
 */
bool place_are_twins(const struct place *a, const struct place *b);

/* Of twins in two loops, whether these are two branches of one condition: who comes to one in a
 * round of the loops around both does not come to the other. */
bool place_are_twin_branches(const struct place *a, const struct place *b);

/* Whether one of them, where they part, goes into a loop with a twin, and the other does not: if a
 * compiler has made two of that loop, the other place is no copy of the one in it. */
bool place_one_is_twin(const struct place *a, const struct place *b);

/* Sets of nodes of a place: bit i is node i. */
typedef uint64_t place_nodes_t;
_Static_assert(PLACE_NODES_MAX <= 64, "a bit for each node");

/* The innermost loop around both; none: there is no loop. */
place_nodes_t place_loop_around(const struct place *a, const struct place *b);
bool place_shares_loop(const struct place *a, const struct place *b);

/* Whether it is known that no loop is around both. */
bool place_comes_once(const struct place *a, const struct place *b);

/* Whether the place stands in front of a loop, and the other one in it; not in two branches. */
bool place_is_in_front(const struct place *place, const struct place *other);

/* Of a place to which a rank comes once in each round of the innermost loop around it: that loop,
 * if it is around the other one, too. */
place_nodes_t place_counts_rounds(const struct place *place, const struct place *other);

/* Whether the innermost loop around a place may go round without coming to it. */
bool place_may_be_passed(const struct place *place);

/* Whether they part in code that cannot be followed: then PLACE_UNRELATED. */
bool place_parts_unseen(const struct place *a, const struct place *b);

/* Whether the ways to them begin in different functions: they are of different threads. */
bool place_roots_differ(const struct place *a, const struct place *b);

/* Of two places whose ways part, and go into one function again (`if (rank == 0) f(); else f();`):
 * `as` is the second one as if its rank had come to that function as the first one's has, so that
 * it can be told which points of the function they are. False: there is no such function. */
bool place_in_one_function(const struct place *a, const struct place *b, struct place *as);

/* What messages say of a place: terminated, and without control characters, whoever wrote it. */
void place_clean_text(struct place *place);

/* Above 0 if `a` goes before `b` where ranks stand at both, below 0 if `b` does, 0: not known.
 * last: where all ranks have been last; NULL: not known. The first difference decides:
 *   1. what comes from `last` without going round a loop around both: a rank at the other place
 *      has gone round, or has skipped the rest of this round. At `last` again it has not gone
 *      round, if each round comes to the other place: one call makes several collectives;
 *   2. where it is not known that both come next from `last`, or both with the next round of a loop
 *      around them, or their order is not: what stands in a loop, as a rank at the other place has
 *      left it, or has passed it by;
 *   3. of two loops the one that `last` stands in, unless that is behind it in one call;
 *   4. what comes first in the program. */
int place_order(const struct place *a, const struct place *b, const struct place *last);

/* Whether a place and `last` are in one call, in which their order is not known, and the other one
 * comes after that call in a loop around both: who has been at `last` may come to the place before
 * the other, or go round to it. */
bool place_may_go_round(const struct place *place, const struct place *other,
                        const struct place *last);

/* Whether a rank at `place` may not have come yet to the loop in which `other` stands: `place` and
 * `last` do not stand in that loop, and nothing tells the order of the two places. */
bool place_may_be_before_loop(const struct place *place, const struct place *other,
                              const struct place *last);

#endif
