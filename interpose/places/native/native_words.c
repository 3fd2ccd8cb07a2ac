/* What variables hold in a round of a loop (native_words.h). */
#include "interpose/places/native/native_words.h"

#include <stdlib.h>
#include <string.h>

enum {
  ROOM_FIRST = 64,
  CHANGES_MAX = 1 << 18, /* of a function */
  SWEEPS_MAX = 64,       /* over a loop's blocks: some, and one for each loop within */
};

static const struct native_word words_unknown = {.kind = NATIVE_WORD_UNKNOWN};

static struct native_word as_before(uint32_t variable) {
  return (struct native_word){NATIVE_WORD_VARIABLE, false, (uint16_t)variable, 64, 0};
}

static bool words_are_equal(struct native_word a, struct native_word b) {
  return memcmp(&a, &b, sizeof a) == 0;
}

/* Whether a variable holds what it did. */
static bool words_keep(struct native_word word, uint32_t variable) {
  return word.kind == NATIVE_WORD_VARIABLE && word.of == variable && word.plus == 0;
}

/* ---- what blocks do ---- */

static struct native_word word_of(const struct native_held *held) {
  struct native_word word = {.width = (uint16_t)(held->width == 0 ? 64 : held->width),
                             .plus = held->plus};
  if (held->varies)
    return words_unknown;
  if (held->is_number) {
    word.kind = NATIVE_WORD_NUMBER;
  } else if (held->like != 0) {
    word.kind = NATIVE_WORD_VARIABLE;
    word.of = (uint16_t)(held->like - 1);
  } else if (held->memory.bits != 0 && !held->is_moved) {
    word = (struct native_word){NATIVE_WORD_MEMORY, held->memory.base != 0, 0,
                                (uint16_t)held->memory.bits, held->memory.at};
    word.of = (uint16_t)(word.has_base ? held->memory.base - 1 : 0);
    if (held->width != 0 && held->width < word.width)
      word.width = (uint16_t)held->width;
  }
  return word;
}

/* Makes room for one more thing of that size. */
static bool words_grow(struct native_counting *counting, void **things, uint32_t count,
                       uint32_t *room, size_t size) {
  if (count < *room)
    return true;
  uint32_t more = *room == 0 ? ROOM_FIRST : 2 * *room;
  void *grown = more > CHANGES_MAX ? NULL : reallocarray(*things, more, size);
  counting->failed |= grown == NULL;
  if (grown == NULL)
    return false;
  *things = grown;
  *room = more;
  return true;
}

static void add_change(struct native_counting *counting, struct native_change change) {
  void *changes = counting->changes;
  if (words_grow(counting, &changes, counting->nchanges, &counting->changes_room, sizeof change)) {
    counting->changes = changes;
    counting->changes[counting->nchanges++] = change;
  }
}

static void add_site(struct native_counting *counting, struct native_site site) {
  void *sites = counting->sites;
  if (words_grow(counting, &sites, counting->nsites, &counting->sites_room, sizeof site)) {
    counting->sites = sites;
    counting->sites[counting->nsites++] = site;
  }
}

static void add_decision(struct native_counting *counting, struct native_decision decision) {
  void *decisions = counting->decisions;
  if (words_grow(counting, &decisions, counting->ndecisions, &counting->decisions_room,
                 sizeof decision)) {
    counting->decisions = decisions;
    counting->decisions[counting->ndecisions++] = decision;
  }
}

static struct native_changes add_changes(struct native_counting *counting,
                                         const struct native_testing *testing) {
  uint32_t first = counting->nchanges;
  for (uint32_t i = 0; i < NATIVE_REGISTERS + testing->nslots; i++) {
    struct native_word to = word_of(&testing->contents[i]);
    if (!words_are_equal(to, as_before(i)))
      add_change(counting, (struct native_change){i, to});
  }
  return (struct native_changes){first, counting->nchanges - first};
}

bool native_counting_begin(struct native_counting *counting, uint32_t nblocks) {
  counting->blocks = calloc((size_t)nblocks + 1, sizeof *counting->blocks);
  return counting->blocks != NULL;
}

void native_counting_drop(struct native_counting *counting) {
  free(counting->changes);
  free(counting->blocks);
  free(counting->sites);
  free(counting->decisions);
}

void native_counting_call(struct native_counting *counting, const struct native_testing *testing,
                          uint32_t block, uint32_t position) {
  int64_t depth = testing->has_depth ? testing->pushed : NATIVE_DEPTH_UNKNOWN;
  add_site(counting, (struct native_site){block, position, depth, add_changes(counting, testing)});
}

void native_counting_end(struct native_counting *counting, const struct native_testing *testing,
                         uint32_t block) {
  const struct native_comparison *decides = &testing->decides;
  counting->blocks[block] = add_changes(counting, testing);
  if (decides->bits != 0)
    add_decision(counting,
                 (struct native_decision){block, word_of(&decides->a), word_of(&decides->b),
                                          decides->bits, decides->jumps, decides->is_bit});
}

/* ---- ways ---- */

bool native_words_make(struct native_words *words, const struct native_graph *graph,
                       struct flow_rounds *rounds, const struct native_counting *counting,
                       const struct native_testing *testing) {
  uint32_t nvariables = NATIVE_REGISTERS + testing->nslots;
  size_t nblocks = (size_t)graph->nblocks + 1;
  *words = (struct native_words){.graph = graph,
                                 .rounds = rounds,
                                 .counting = counting,
                                 .testing = testing,
                                 .nvariables = nvariables};
  words->order = calloc(nblocks, sizeof *words->order);
  words->edge_to = calloc(nblocks, sizeof *words->edge_to);
  words->edge_next = calloc((size_t)graph->nedges + 1, sizeof *words->edge_next);
  words->rank = calloc(nblocks, sizeof *words->rank);
  words->decision = calloc(nblocks, sizeof *words->decision);
  words->within = calloc(2 * nblocks, sizeof *words->within);
  words->before = calloc(nblocks * nvariables, sizeof *words->before);
  if (words->order == NULL || words->edge_to == NULL || words->edge_next == NULL ||
      words->rank == NULL || words->decision == NULL || words->within == NULL ||
      words->before == NULL)
    return false;
  words->has = words->within + nblocks;
  words->norder = flow_rounds_order(rounds, words->order);
  for (uint32_t i = 0; i < words->norder; i++)
    words->rank[words->order[i]] = i + 1;
  for (uint32_t i = 0; i < counting->ndecisions; i++)
    words->decision[counting->decisions[i].block] = i + 1;
  return true;
}

void native_words_drop(struct native_words *words) {
  free(words->order);
  free(words->edge_to);
  free(words->edge_next);
  free(words->rank);
  free(words->decision);
  free(words->within);
  free(words->before);
}

static struct native_word *words_before(const struct native_words *words, uint32_t block) {
  return words->before + (size_t)block * words->nvariables;
}

/* What is so on both of two ways. */
static struct native_word words_either(struct native_word a, struct native_word b) {
  struct native_word made = a;
  made.width = a.width < b.width ? a.width : b.width;
  a.width = b.width;
  return words_are_equal(a, b) ? made : words_unknown;
}

/* The word of memory that something is, if it is one that others may write to. */
static struct native_word words_memory(const struct native_words *words, struct native_word word) {
  uint32_t slot = word.of - NATIVE_REGISTERS;
  if (word.kind == NATIVE_WORD_VARIABLE && word.of >= NATIVE_REGISTERS && word.plus == 0 &&
      words->testing->slots[slot].base == NATIVE_STATIC)
    return (struct native_word){NATIVE_WORD_MEMORY, false, 0, word.width,
                                words->testing->slots[slot].at};
  return word;
}

/* The same of a variable, which keeps what a word of memory holds where it is read again on one of
 * the ways alone. */
static struct native_word words_either_of(const struct native_words *words, uint32_t variable,
                                          struct native_word a, struct native_word b) {
  struct native_word made = words_either(a, b);
  if (made.kind != NATIVE_WORD_UNKNOWN)
    return made;
  if (words_keep(a, variable))
    a = b;
  if (words_keep(b, variable))
    b = a;
  made = words_either(words_memory(words, a), words_memory(words, b));
  return made.kind == NATIVE_WORD_MEMORY ? made : words_unknown;
}

/* Something in terms of what the variables are there, in terms of those of another place. */
static struct native_word words_through(struct native_word word, const struct native_word *there) {
  if (word.kind != NATIVE_WORD_VARIABLE && (word.kind != NATIVE_WORD_MEMORY || !word.has_base))
    return word;
  struct native_word of = there[word.of];
  if (word.kind == NATIVE_WORD_MEMORY) {
    if ((of.kind != NATIVE_WORD_VARIABLE && of.kind != NATIVE_WORD_NUMBER) || of.width != 64)
      return words_unknown;
    word.has_base = of.kind == NATIVE_WORD_VARIABLE;
    word.of = of.of;
    word.plus = (int64_t)((uint64_t)word.plus + (uint64_t)of.plus);
    return word;
  }
  if (of.kind == NATIVE_WORD_MEMORY && word.plus != 0)
    return words_unknown;
  of.plus = (int64_t)((uint64_t)of.plus + (uint64_t)word.plus);
  of.width = word.width < of.width ? word.width : of.width;
  return of;
}

struct native_word native_words_of(const struct native_words *words, uint32_t block,
                                   struct native_word word) {
  return words->has[block] ? words_through(word, words_before(words, block)) : words_unknown;
}

/* What has become of a block's variables, to `made`. */
static void words_change(const struct native_words *words, uint32_t block,
                         struct native_changes changes, struct native_word *made) {
  const struct native_word *before = words_before(words, block);
  memcpy(made, before, words->nvariables * sizeof *made);
  for (uint32_t i = changes.first; i < changes.first + changes.count; i++)
    made[words->counting->changes[i].variable] =
        words_through(words->counting->changes[i].to, before);
}

bool native_words_at(const struct native_words *words, const struct native_site *site,
                     struct native_word *there) {
  if (words->has[site->block])
    words_change(words, site->block, site->changes, there);
  return words->has[site->block];
}

/* Where a block goes on if what it compares is equal. */
static bool words_are_met(const struct native_decision *decision, const struct flow_edge *edge) {
  bool is_next = edge->to == decision->block + 1;
  return !edge->exceptional && !decision->is_bit &&
         (decision->jumps == JUMP_IF_EQUAL       ? !is_next
          : decision->jumps == JUMP_IF_NOT_EQUAL ? is_next
                                                 : false);
}

/* There what holds one of the two holds the other, too, if that is a number, or what a variable has
 * held since the round began: so what an inner loop has counted is its limit behind it. In the loop
 * itself what is known already stays: where another way comes there, too, both must say the same.
 */
static void words_meet(const struct native_words *words, const struct native_decision *decision,
                       struct native_word one, struct native_word other, struct native_word *made) {
  const struct native_counting *counting = words->counting;
  struct native_changes changes = counting->blocks[decision->block];
  struct native_word is = words_through(other, words_before(words, decision->block));
  bool stays = other.kind == NATIVE_WORD_VARIABLE && words_keep(is, other.of);
  bool is_changed = false,
       is_inner = flow_rounds_loop(words->rounds, decision->block) != words->loop;
  if (one.kind != NATIVE_WORD_VARIABLE || (!stays && is.kind != NATIVE_WORD_NUMBER))
    return;
  if (is.width > decision->bits)
    is.width = (uint16_t)decision->bits;
  for (uint32_t i = changes.first; i < changes.first + changes.count; i++) {
    const struct native_change *change = &counting->changes[i];
    is_changed |= change->variable == one.of;
    if (change->to.kind == one.kind && change->to.of == one.of && change->to.plus == one.plus &&
        (is_inner || made[change->variable].kind == NATIVE_WORD_UNKNOWN))
      made[change->variable] = is;
  }
  if (!is_changed && one.plus == 0 && (is_inner || made[one.of].kind == NATIVE_WORD_UNKNOWN))
    made[one.of] = is;
}

/* Along an edge. Where an exception is handled that the block throws it may have done something, or
 * nothing yet. */
static void words_leave(const struct native_words *words, const struct flow_edge *edge,
                        struct native_word *made) {
  uint32_t decision = words->decision[edge->from];
  words_change(words, edge->from, words->counting->blocks[edge->from], made);
  for (uint32_t i = 0; edge->exceptional && i < words->nvariables; i++)
    made[i] = words_either(made[i], words_before(words, edge->from)[i]);
  const struct native_decision *of =
      decision == 0 ? NULL : &words->counting->decisions[decision - 1];
  if (of != NULL && words_are_met(of, edge)) {
    words_meet(words, of, of->a, of->b, made);
    words_meet(words, of, of->b, of->a, made);
  }
}

static bool words_add(const struct native_words *words, struct native_word *to, bool has,
                      const struct native_word *more) {
  bool changed = !has;
  for (uint32_t i = 0; i < words->nvariables; i++) {
    struct native_word is = has ? words_either_of(words, i, to[i], more[i]) : more[i];
    changed |= !words_are_equal(to[i], is);
    to[i] = is;
  }
  return changed;
}

/* ---- a loop ---- */

/* Whether a round begins with the edge, or goes on with it in a way that is not followed. */
static bool words_begin(const struct native_words *words, const struct flow_edge *edge) {
  return !words->within[edge->from] ||
         flow_rounds_goes_round(words->rounds, words->loop, edge->from, edge->to);
}

static void words_clear(struct native_words *words) {
  const struct native_graph *graph = words->graph;
  memset(words->has, 0, graph->nblocks);
  words->is_simple = true;
  for (uint32_t i = 0; i < graph->nblocks; i++) {
    uint32_t around = flow_rounds_loop(words->rounds, i);
    words->within[i] =
        around == words->loop || flow_rounds_around(words->rounds, words->loop, around);
    words->edge_to[i] = FLOW_NONE;
  }
  for (uint32_t i = 0; i < graph->nedges; i++) {
    const struct flow_edge *edge = &graph->edges[i];
    struct native_word *before = words_before(words, edge->to);
    if (!words->within[edge->to] || words->rank[edge->from] == 0)
      continue;
    if (!words_begin(words, edge)) {
      words->is_simple &= words->rank[edge->from] < words->rank[edge->to];
      words->edge_next[i] = words->edge_to[edge->to];
      words->edge_to[edge->to] = i;
      continue;
    }
    for (uint32_t k = 0; k < words->nvariables; k++)
      before[k] = as_before(k);
    words->has[edge->to] = true;
  }
}

static bool words_sweep(struct native_words *words) {
  struct native_word made[NATIVE_TESTED];
  bool changed = false;
  for (uint32_t at = 0; at < words->norder; at++) {
    uint32_t block = words->order[at];
    for (uint32_t i = words->edge_to[block]; i != FLOW_NONE; i = words->edge_next[i]) {
      const struct flow_edge *edge = &words->graph->edges[i];
      if (!words->has[edge->from])
        continue;
      words_leave(words, edge, made);
      changed |= words_add(words, words_before(words, block), words->has[block], made);
      words->has[block] = true;
    }
  }
  return changed;
}

bool native_words_find(struct native_words *words, uint32_t loop) {
  struct native_word made[NATIVE_TESTED];
  uint32_t sweeps = 0;
  words->loop = loop;
  words->has_round = false;
  words_clear(words);
  while (words_sweep(words) && !words->is_simple)
    if (++sweeps == SWEEPS_MAX)
      return false;
  for (uint32_t i = 0; i < words->graph->nedges; i++) {
    const struct flow_edge *edge = &words->graph->edges[i];
    if (!words->within[edge->from] || !words->has[edge->from] ||
        !flow_rounds_goes_round(words->rounds, loop, edge->from, edge->to))
      continue;
    words_leave(words, edge, made);
    words_add(words, words->round, words->has_round, made);
    words->has_round = true;
  }
  return true;
}
