/* What flow.h promises, found from the definitions alone: sets of blocks as bits, dominance by
 * taking a block away, since and until by looking at every order. See flow_graphs.h. */
#include "tests/unit/flow_truth.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { FUNCTION_ID = 77 };

static char wrong[256];

__attribute__((format(printf, 1, 2))) static const char *say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(wrong, sizeof wrong, format, arguments);
  va_end(arguments);
  return wrong;
}

static bool dominates(const blocks_t *next, uint32_t by, uint32_t block) {
  return by == block || (truth_closure(next, BIT(0), ~BIT(by)) & BIT(block)) == 0;
}

static void find_edges(struct truth *truth) {
  for (uint32_t i = 0; i < truth->program->graph.nedges; i++) {
    const struct flow_edge *edge = &truth->program->edges[i];
    truth->next[edge->from] |= BIT(edge->to);
    if (!edge->exceptional)
      truth->ordinary_next[edge->from] |= BIT(edge->to);
  }
  truth->reached = truth_closure(truth->next, BIT(0), ~UINT64_C(0));
}

static void find_loops(struct truth *truth) {
  for (uint32_t head = 0; head < truth->n; head++) {
    for (uint32_t from = 0; from < truth->n; from++) {
      if (!(truth->reached & BIT(from)) || !(truth->next[from] & BIT(head)) ||
          !dominates(truth->next, head, from))
        continue;
      for (uint32_t block = 0; block < truth->n; block++)
        if ((truth->reached & BIT(block)) &&
            (block == head || (truth_closure(truth->next, BIT(block), ~BIT(head)) & BIT(from))))
          truth->body[head] |= BIT(block);
    }
  }
  for (uint32_t block = 0; block < truth->n; block++) {
    truth->around[block] = NO_BLOCK;
    for (uint32_t head = 0; head < truth->n; head++)
      if ((truth->body[head] & BIT(block)) &&
          (truth->around[block] == NO_BLOCK ||
           (truth->body[head] & ~truth->body[truth->around[block]]) == 0))
        truth->around[block] = head;
  }
}

static void find_tangled(struct truth *truth) {
  blocks_t forward[GRAPH_BLOCKS_MAX];
  memcpy(forward, truth->next, sizeof forward);
  for (uint32_t from = 0; from < truth->n; from++)
    for (uint32_t head = 0; head < truth->n; head++)
      if ((truth->body[head] & BIT(from)) && dominates(truth->next, head, from))
        forward[from] &= ~BIT(head);
  for (uint32_t block = 0; block < truth->n; block++)
    if ((truth->reached & BIT(block)) &&
        (truth_closure(forward, forward[block], ~UINT64_C(0)) & BIT(block)))
      truth->tangled |= BIT(block);
}

/* Whether control, once in the loop, stays there but for exceptions. */
static bool is_endless(const struct truth *truth, uint32_t head) {
  blocks_t body = truth->body[head];
  for (uint32_t block = 0; block < truth->n; block++)
    if ((body & BIT(block)) &&
        (truth->program->blocks[block].returns || (truth->ordinary_next[block] & ~body)))
      return false;
  return body != 0;
}

/* The blocks from which, by one of these edges, a loop goes round that is never left. */
static blocks_t that_go_on(const struct truth *truth, const blocks_t *next) {
  blocks_t found = 0;
  for (uint32_t head = 0; head < truth->n; head++)
    for (uint32_t from = 0; from < truth->n; from++)
      if (is_endless(truth, head) && (truth->body[head] & BIT(from)) && (next[from] & BIT(head)))
        found |= BIT(from);
  return found;
}

/* Heads of the loops that are never left and that block is in. */
static blocks_t round_from(const struct truth *truth, uint32_t block) {
  blocks_t heads = 0;
  for (uint32_t head = 0; head < truth->n; head++)
    if ((truth->body[head] & BIT(block)) && is_endless(truth, head))
      heads |= BIT(head);
  return heads;
}

static void find_alive(struct truth *truth) {
  blocks_t forever = that_go_on(truth, truth->next);
  for (uint32_t block = 0; block < truth->n; block++)
    if (truth->program->blocks[block].returns)
      truth->ends |= BIT(block);
  truth->alive = truth_that_reach(truth, truth->next, truth->ends | forever);
  if (!(truth->alive & BIT(0)))
    for (uint32_t block = 0; block < truth->n; block++)
      if (truth->next[block] == 0)
        truth->ends |= BIT(block);
  truth->alive = truth_that_reach(truth, truth->next, truth->ends | forever);
  forever = that_go_on(truth, truth->ordinary_next);
  blocks_t ordinary = truth_that_reach(truth, truth->ordinary_next, truth->ends | forever);
  truth->ordinary = ordinary;
  blocks_t come = truth_closure(truth->ordinary_next, BIT(0), ~UINT64_C(0));
  for (uint32_t block = 0; block < truth->n; block++) {
    truth->since_next[block] =
        ordinary & BIT(block) ? truth->ordinary_next[block] & (ordinary | round_from(truth, block))
                              : truth->next[block] & truth->alive;
    truth->until_next[block] = truth->next[block] & ~come;
    if (come & BIT(block))
      truth->until_next[block] |= truth->ordinary_next[block];
  }
  truth_leave_early_aside(truth, forever);
}

/* ---- loops ---- */

static const char *check_nodes(struct truth *truth, uint32_t block) {
  struct place_node nodes[GRAPH_BLOCKS_MAX + 1];
  uint32_t count = flow_nodes(truth->flow, block, 0, 5, FUNCTION_ID, nodes, GRAPH_BLOCKS_MAX + 1);
  if (!(truth->reached & BIT(block)))
    return count == 0 ? NULL : say("block %u is not reached and has nodes", block);
  if (count == 0)
    return say("block %u is reached and has no nodes", block);
  uint32_t at = count - 1;
  if (nodes[at].id != flow_id(FUNCTION_ID, 5) || (nodes[at].flags & PLACE_LOOP))
    return say("block %u has no site", block);
  truth->of_block[block] = nodes[at];
  for (uint32_t head = truth->around[block]; head != NO_BLOCK; head = truth_outside(truth, head)) {
    if (at-- == 0)
      return say("block %u: the loop of %u is missing", block, head);
    if (nodes[at].id != flow_id(~(uint32_t)FUNCTION_ID, truth->program->blocks[head].position) ||
        !(nodes[at].flags & PLACE_LOOP))
      return say("block %u: node %u is not the loop of %u", block, at, head);
    truth->of_loop[head] = nodes[at];
  }
  if (at != 0)
    return say("block %u has %u loops too many", block, at);
  bool ordered = nodes[count - 1].flags & PLACE_ORDERED;
  if ((truth->tangled & BIT(block)) && ordered)
    return say("block %u is in a cycle that is no loop, and has an order", block);
  if (truth->tangled == 0 && !ordered)
    return say("block %u has no order", block);
  return NULL;
}

/* Loops as the source has them: those around a block from which control comes back to the head. */
static const char *check_source(const struct truth *truth, uint32_t block) {
  for (uint32_t head = 0; head < truth->n; head++) {
    bool is_in = false;
    if ((truth->program->source_loops[block] & BIT(head)) && (truth->reached & BIT(block)))
      for (uint32_t from = 0; from < truth->n; from++)
        is_in |=
            (truth->program->source_loops[from] & BIT(head)) && (truth->next[from] & BIT(head)) &&
            (truth_closure(truth->next, BIT(block), block == head ? ~UINT64_C(0) : ~BIT(head)) &
             BIT(from));
    if (is_in != ((truth->body[head] & BIT(block)) != 0))
      return say("block %u and the source's loop of %u", block, head);
  }
  return NULL;
}

/* ---- order ---- */

static const char *take_order(struct truth *truth, uint32_t order, struct thing thing) {
  if (order == 0 || order >= ORDERS_MAX || truth->by_order[order].known)
    return say("order %u is there twice, or too high", order);
  truth->by_order[order] = thing;
  if (truth->norders < order)
    truth->norders = order;
  return NULL;
}

static bool has_sites(const struct truth *truth, blocks_t blocks) {
  for (uint32_t block = 0; block < truth->n; block++)
    if ((blocks & truth->reached & BIT(block)) && truth->program->blocks[block].sites > 0)
      return true;
  return false;
}

static const char *check_orders(struct truth *truth) {
  const char *bad = NULL;
  for (uint32_t block = 0; block < truth->n && bad == NULL; block++) {
    if (!(truth->reached & BIT(block)))
      continue;
    if (has_sites(truth, truth->body[block]))
      bad = take_order(truth, truth->of_loop[block].order, (struct thing){true, true, block});
    for (uint32_t i = 0; i < truth->program->blocks[block].sites && bad == NULL; i++)
      bad = take_order(truth, truth->of_block[block].order + i, (struct thing){true, false, block});
  }
  for (uint32_t order = 1; order <= truth->norders && bad == NULL; order++)
    if (!truth->by_order[order].known)
      bad = say("order %u is missing", order);
  return bad;
}

static blocks_t blocks_of(const struct truth *truth, struct thing thing) {
  return thing.is_loop ? truth->body[thing.block] : BIT(thing.block);
}

/* The head of the loop that a thing is in, or NO_BLOCK. */
static uint32_t region_of(const struct truth *truth, struct thing thing) {
  return thing.is_loop ? truth_outside(truth, thing.block) : truth->around[thing.block];
}

static blocks_t region_blocks(const struct truth *truth, uint32_t region) {
  return region == NO_BLOCK ? truth->reached : truth->body[region];
}

/* What control reaches from the earlier of two things of a region has a higher order. */
static const char *check_pair(const struct truth *truth, uint32_t before, uint32_t after) {
  struct thing a = truth->by_order[before];
  struct thing b = truth->by_order[after];
  uint32_t region = region_of(truth, a);
  if (region != region_of(truth, b) || (a.block == b.block && a.is_loop == b.is_loop))
    return NULL;
  blocks_t allowed = region == NO_BLOCK ? ~UINT64_C(0) : ~BIT(region);
  if (truth_closure(truth->next, blocks_of(truth, b), allowed | blocks_of(truth, b)) &
      blocks_of(truth, a))
    return say("order %u comes behind order %u", before, after);
  if (!(truth->alive & BIT(a.block)) && (truth->alive & BIT(b.block)))
    return say("order %u comes to no end, and is not last", before);
  return NULL;
}

static const char *check_contiguous(const struct truth *truth, uint32_t order) {
  struct thing loop = truth->by_order[order];
  if (!loop.is_loop)
    return NULL;
  bool inside = true;
  for (uint32_t other = order + 1; other <= truth->norders; other++) {
    bool is_in = (truth->body[loop.block] & BIT(truth->by_order[other].block)) != 0;
    if (is_in && !inside)
      return say("order %u is not with its loop, %u", other, order);
    inside = is_in;
  }
  return NULL;
}

/* ---- since and until ---- */

/* Whether control, from what stands before, always comes to thing within the region. */
static bool is_followed(const struct truth *truth, struct thing before, struct thing thing,
                        uint32_t region) {
  blocks_t region_in = region_blocks(truth, region);
  if (!before.is_loop && !thing.is_loop && before.block == thing.block)
    return true;
  if (!(truth->alive & BIT(before.block)) || !(truth->alive & BIT(thing.block)))
    return false;
  blocks_t first = before.is_loop ? BIT(before.block) : truth->since_next[before.block];
  if (!before.is_loop && (truth->ends & BIT(before.block)))
    return false;
  blocks_t round = region == NO_BLOCK ? 0 : BIT(region);
  blocks_t on_the_way = truth_closure(truth->since_next, first, ~(BIT(thing.block) | round));
  blocks_t from = on_the_way | (before.is_loop ? 0 : BIT(before.block));
  if (on_the_way & (truth->ends | ~region_in))
    return false;
  if (!before.is_loop && (first & round) && thing.block != region)
    return false;
  for (uint32_t block = 0; block < truth->n; block++) {
    bool back = truth->since_next[block] & round;
    if ((from & BIT(block)) && back)
      return false;
    bool inside = region == NO_BLOCK || (block != region && (region_in & BIT(block)));
    if (inside && (truth->body[block] & from) && is_endless(truth, block) &&
        !(truth->body[block] & BIT(thing.block)))
      return false;
  }
  return true;
}

static const char *check_since(const struct truth *truth, uint32_t order) {
  struct thing thing = truth->by_order[order];
  uint32_t region = region_of(truth, thing);
  const struct place_node *node =
      thing.is_loop ? &truth->of_loop[thing.block] : &truth->of_block[thing.block];
  uint32_t since = order;
  for (uint32_t at = order - 1; at > 0; at--) {
    struct thing before = truth->by_order[at];
    bool same_region = (region_blocks(truth, region) & BIT(before.block)) &&
                       !(before.is_loop && before.block == region);
    if (!same_region || !is_followed(truth, before, thing, region))
      break;
    if (region_of(truth, before) == region) /* part of a loop is not tied */
      since = at;
  }
  return node->since == since ? NULL
                              : say("since of order %u is %u, not %u", order, node->since, since);
}

/* What stands in a region, and has a block, or is it. */
static struct thing thing_around(const struct truth *truth, uint32_t block, uint32_t region) {
  struct thing thing = {.known = true, .block = block};
  while (region_of(truth, thing) != region)
    thing = (struct thing){.known = true, .is_loop = true, .block = region_of(truth, thing)};
  return thing;
}

/* The same of a loop, from wherever in it. */
static bool are_followed(const struct truth *truth, struct thing before, struct thing thing,
                         uint32_t region) {
  blocks_t inside = before.is_loop ? truth->body[before.block] & truth->reached : 0;
  for (uint32_t block = 0; block < truth->n; block++)
    if ((inside & BIT(block)) && !is_followed(truth, (struct thing){.block = block}, thing, region))
      return false;
  return is_followed(truth, before, thing, region);
}

/* Whether some loop on the way from block to thing has a way of its own past thing, which nothing
 * on that way may come to: a loop is one node, so the analysis cannot tell. */
static bool loop_goes_past(const struct truth *truth, uint32_t block, struct thing thing,
                           uint32_t region) {
  blocks_t on_the_way = truth_closure(truth->since_next, BIT(block), ~BIT(thing.block));
  for (uint32_t at = 0; at < truth->n; at++) {
    if (!(on_the_way & region_blocks(truth, region) & BIT(at)) || at == region)
      continue;
    struct thing loop = thing_around(truth, at, region);
    if (loop.is_loop && loop.block != thing.block && !are_followed(truth, loop, thing, region))
      return true;
  }
  return false;
}

/* Whether control always comes to thing from a block of the region. is: it is said to. */
static bool always_comes_from(const struct truth *truth, uint32_t block, struct thing thing,
                              uint32_t region, bool is) {
  struct thing first = thing_around(truth, block, region);
  return (first.block == thing.block && first.is_loop == thing.is_loop) ||
         (are_followed(truth, first, thing, region) &&
          (is || !loop_goes_past(truth, block, thing, region)));
}

static const char *check_always(const struct truth *truth, uint32_t order) {
  struct thing thing = truth->by_order[order];
  uint32_t region = region_of(truth, thing);
  const struct place_node *node =
      thing.is_loop ? &truth->of_loop[thing.block] : &truth->of_block[thing.block];
  bool is = node->flags & PLACE_ALWAYS;
  bool is_one = region == NO_BLOCK && always_comes_from(truth, 0, thing, region, is);
  bool is_head = !thing.is_loop && thing.block == region;
  for (uint32_t next = 0; next < truth->n && region != NO_BLOCK && !is_head; next++) {
    if (next == region || !(truth->since_next[region] & truth->body[region] & BIT(next)))
      continue;
    is_one = always_comes_from(truth, next, thing, region, is);
    if (!is_one)
      break;
  }
  if (is_head) { /* nothing leaves the loop there, or all that stays is the head */
    blocks_t next = truth->since_next[region];
    bool leaves = (next & ~truth->body[region]) != 0 || (truth->ends & BIT(region));
    is_one = !leaves || !(next & truth->body[region] & ~BIT(region));
  }
  for (uint32_t block = 0; block < truth->n; block++) /* its end may be one of the round, or none */
    is_one &= is || truth->body[block] == 0 || !is_endless(truth, block);
  return is == is_one ? NULL : say("order %u is %salways come to", order, is_one ? "" : "not ");
}

static const char *check_until(const struct truth *truth, uint32_t order) {
  struct thing thing = truth->by_order[order];
  uint32_t region = region_of(truth, thing);
  const struct place_node *node =
      thing.is_loop ? &truth->of_loop[thing.block] : &truth->of_block[thing.block];
  uint32_t until = order;
  while (until < truth->norders) {
    struct thing after = truth->by_order[until + 1];
    if (!(region_blocks(truth, region) & BIT(after.block)) ||
        !dominates(truth->until_next, thing.block, after.block))
      break;
    until++;
  }
  return node->until == until ? NULL
                              : say("until of order %u is %u, not %u", order, node->until, until);
}

/* ---- reach ---- */

/* Whatever stands in the span can be come to without going round, from the block's last site. */
static const char *check_reach(const struct truth *truth, uint32_t order) {
  struct thing thing = truth->by_order[order];
  uint32_t region = region_of(truth, thing);
  const struct place_node *node =
      thing.is_loop ? &truth->of_loop[thing.block] : &truth->of_block[thing.block];
  blocks_t allowed = region == NO_BLOCK ? ~UINT64_C(0) : ~BIT(region), next = 0;
  for (uint32_t block = 0; block < truth->n; block++)
    if (blocks_of(truth, thing) & truth->reached & BIT(block))
      next |= truth->next[block];
  blocks_t reached = truth_closure(truth->next, next, allowed) & region_blocks(truth, region);
  for (uint32_t at = node->reach_from; at <= node->reach_to; at++) {
    struct thing to = truth->by_order[at];
    if (!to.known)
      return say("order %u reaches order %u, which is nothing", order, at);
    if (region_of(truth, to) == region && !(blocks_of(truth, to) & reached))
      return say("order %u does not reach order %u", order, at);
  }
  return NULL;
}

static const char *check_caught(const struct truth *truth, uint32_t block) {
  blocks_t ordinary = truth_closure(truth->ordinary_next, BIT(0), ~UINT64_C(0));
  bool is = truth->of_block[block].flags & PLACE_CAUGHT, is_one = !(ordinary & BIT(block));
  return is == is_one ? NULL : say("block %u is %scaught", block, is_one ? "" : "not ");
}

const char *graph_check(const struct graph_program *program, const struct flow *flow) {
  struct graph_program hubbed, as;
  truth_add_hubs(program, &hubbed);
  truth_unrotate(&hubbed, &as);
  struct truth truth = {.program = &as, .flow = flow, .n = as.graph.nblocks};
  const char *bad = NULL;
  find_edges(&truth);
  find_loops(&truth);
  find_tangled(&truth);
  find_alive(&truth);
  for (uint32_t block = 0; block < program->graph.nblocks && bad == NULL; block++)
    bad = check_nodes(&truth, block);
  if (bad != NULL || truth.tangled != 0)
    return bad;
  for (uint32_t block = 0; block < truth.n && bad == NULL && program->structured; block++)
    bad = check_source(&truth, block);
  if (bad == NULL)
    bad = check_orders(&truth);
  for (uint32_t order = 1; order <= truth.norders && bad == NULL; order++) {
    if (!truth.by_order[order].is_loop)
      bad = check_caught(&truth, truth.by_order[order].block);
    for (uint32_t after = order + 1; after <= truth.norders && bad == NULL; after++)
      bad = check_pair(&truth, order, after);
    if (bad == NULL)
      bad = check_contiguous(&truth, order);
    if (bad == NULL)
      bad = check_since(&truth, order);
    if (bad == NULL)
      bad = check_always(&truth, order);
    if (bad == NULL)
      bad = check_until(&truth, order);
    if (bad == NULL)
      bad = check_reach(&truth, order);
  }
  return bad;
}
