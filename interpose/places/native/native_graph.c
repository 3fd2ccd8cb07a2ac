/* Blocks and edges of machine code: see native_graph.h. The code is read from end to end, once for
 * each step, since to keep what was read would take more memory than to read it takes time. */
#include "interpose/places/native/native_graph.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_arcs.h"
#include "interpose/places/native/native_jumps.h"
#include "interpose/places/native/native_pads.h"
#include "interpose/places/native/native_tables.h"

struct work {
  struct native_graph *graph;
  struct native_code code;
  struct native_tables tables;
  struct native_pads pads;
  struct native_jumps jumps;
  uint32_t *block_at; /* of each position where one begins */
  uint32_t edges_room;
  bool has_unknown_jump;
};

/* ---- Where blocks begin ---- */

static bool ends_block(const struct native_instruction *is) {
  return is->kind != NATIVE_PLAIN && is->kind != NATIVE_CALL;
}

/* Whether a block ends here because of a landing pad, or of a setjmp. */
static bool may_throw(const struct work *work, const struct native_cursor *cursor) {
  return cursor->is.kind == NATIVE_CALL &&
         (work->jumps.count > 0 || native_pads_find(&work->pads, cursor->position) != NULL);
}

/* Marks every instruction, and those that are jumped to or stand behind a jump. */
static bool mark_instructions(struct work *work) {
  const struct native_code *code = &work->code;
  struct native_cursor cursor;
  bool failed;
  for (uint32_t part = 0; part < code->nparts; part++)
    code->marks[code->begins[part]] |= NATIVE_LEADS;
  for (uint32_t i = 0; i < work->pads.nranges; i++)
    code->marks[work->pads.ranges[i].pad] |= NATIVE_LEADS | NATIVE_PAD;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    code->marks[cursor.position] |= NATIVE_STARTS;
    bool ends = ends_block(&cursor.is) || may_throw(work, &cursor);
    if (ends && !native_is_last(code, &cursor))
      code->marks[cursor.position + cursor.is.length] |= NATIVE_LEADS;
    size_t target = native_target(code, &cursor);
    if (cursor.is.kind != NATIVE_CALL && target != NATIVE_OUTSIDE)
      code->marks[target] |= NATIVE_LEADS;
  }
  return !failed;
}

/* x86-64: code that runs with or without LOCK jumps over the prefix. */
static bool is_behind_lock(const struct native_code *code, size_t position) {
  if (position == 0 || !(code->marks[position - 1] & NATIVE_STARTS))
    return false;
  uint32_t part = 0;
  while (code->begins[part + 1] <= position)
    part++;
  return position > code->begins[part] &&
         code->parts[part].begin[position - 1 - code->begins[part]] == 0xF0;
}

static bool make_blocks(struct work *work) {
  const struct native_code *code = &work->code;
  struct native_graph *graph = work->graph;
  size_t size = code->begins[code->nparts];
  uint32_t count = 0;
  for (size_t at = 0; at < size; at++) {
    if (!(code->marks[at] & NATIVE_LEADS))
      continue;
    if (!(code->marks[at] & NATIVE_STARTS)) {
      if (!is_behind_lock(code, at))
        return false;
      code->marks[at - 1] |= NATIVE_LEADS;
    }
    count++;
  }
  graph->blocks = calloc((size_t)count + 1, sizeof *graph->blocks);
  work->block_at = malloc((size + 1) * sizeof *work->block_at);
  if (graph->blocks == NULL || work->block_at == NULL)
    return false;
  for (size_t at = 0; at < size; at++) {
    if ((code->marks[at] & (NATIVE_LEADS | NATIVE_STARTS)) == (NATIVE_LEADS | NATIVE_STARTS))
      graph->blocks[graph->nblocks++].position = (uint32_t)at;
    work->block_at[at] = graph->nblocks - 1;
  }
  return graph->nblocks <= FLOW_BLOCKS_MAX;
}

/* ---- Edges ---- */

static bool add_any_edge(struct work *work, uint32_t from, uint32_t to, bool exceptional) {
  struct native_graph *graph = work->graph;
  if (graph->nedges == work->edges_room) {
    uint32_t room = 2 * work->edges_room + 16;
    struct flow_edge *edges = realloc(graph->edges, room * sizeof *edges);
    if (edges == NULL)
      return false;
    graph->edges = edges;
    work->edges_room = room;
  }
  graph->edges[graph->nedges++] = (struct flow_edge){from, to, exceptional};
  return graph->nedges <= FLOW_EDGES_MAX;
}

static bool add_edge(struct work *work, uint32_t from, uint32_t to) {
  return add_any_edge(work, from, to, false);
}

static bool add_table(struct work *work, uint32_t from, size_t jump) {
  struct native_table table;
  if (!native_tables_find(&work->tables, jump, &table))
    return false;
  for (uint32_t i = 0; i < table.count; i++) {
    const struct native_graph *graph = work->graph;
    uint32_t to = work->block_at[native_table_target(&work->code, &table, i)];
    bool repeats = i > 0 && graph->edges[graph->nedges - 1].to == to;
    if (!repeats && !add_edge(work, from, to))
      return false;
  }
  return true;
}

/* clang has a jump to behind the function stand behind a call that does not return. */
static bool leads_nowhere(const struct work *work, const struct native_cursor *cursor) {
  const uint8_t *to = (const uint8_t *)((uintptr_t)cursor->at + (uintptr_t)cursor->is.target);
  struct native_part function;
  bool is_moved;
  return to == work->code.parts[cursor->part].end &&
         !native_function_at(work->code.object, to, &function, &is_moved);
}

/* What the last instruction of a block does, other than going on to the next. */
static bool end_block(struct work *work, uint32_t block, const struct native_cursor *cursor) {
  struct flow_block *of = &work->graph->blocks[block];
  size_t target = native_target(&work->code, cursor);
  switch ((enum native_kind)cursor->is.kind) {
  case NATIVE_RETURN:
    of->returns = true;
    break;
  case NATIVE_JUMP:
  case NATIVE_BRANCH:
    if (target != NATIVE_OUTSIDE)
      return add_edge(work, block, work->block_at[target]);
    of->returns = cursor->is.kind == NATIVE_JUMP && !leads_nowhere(work, cursor);
    if (of->returns && of->sites < UINT16_MAX)
      of->sites++;
    break;
  case NATIVE_JUMP_REGISTER:
  case NATIVE_JUMP_MEMORY:
    if (native_tables_has(&work->tables, cursor->position))
      return add_table(work, block, cursor->position);
    of->returns = true;
    work->has_unknown_jump |=
        cursor->is.kind == NATIVE_JUMP_REGISTER || (cursor->is.details & NATIVE_INDEX_8);
    break;
  case NATIVE_PLAIN:
  case NATIVE_CALL:
  case NATIVE_TRAP:
    break;
  }
  return true;
}

static bool does_not_return(const struct work *work, const struct native_cursor *call) {
  const uint8_t *to = (const uint8_t *)((uintptr_t)call->at + (uintptr_t)call->is.target);
  return call->is.has_target && native_never_returns(work->code.object, to, work->code.decode);
}

/* Behind a call that does not return stands nothing, a landing pad, or what is jumped to. */
static bool goes_on(const struct work *work, const struct native_cursor *cursor) {
  size_t next = cursor->position + cursor->is.length;
  if (native_is_last(&work->code, cursor) || !(work->code.marks[next] & NATIVE_LEADS))
    return false;
  if (cursor->is.kind == NATIVE_CALL)
    return !(work->code.marks[next] & NATIVE_PAD) && !does_not_return(work, cursor);
  return cursor->is.kind == NATIVE_BRANCH || !ends_block(&cursor->is);
}

static bool add_call(struct work *work, uint32_t block, const struct native_cursor *cursor) {
  struct flow_block *of = &work->graph->blocks[block];
  const struct native_throwing *range = native_pads_find(&work->pads, cursor->position);
  if (of->sites < UINT16_MAX)
    of->sites++;
  return range == NULL || add_any_edge(work, block, work->block_at[range->pad], true);
}

static bool add_edges(struct work *work) {
  const struct native_code *code = &work->code;
  struct native_cursor cursor;
  uint32_t block = 0;
  bool failed;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    if (code->marks[cursor.position] & NATIVE_LEADS)
      block = work->block_at[cursor.position];
    if (cursor.is.kind == NATIVE_CALL && !add_call(work, block, &cursor))
      return false;
    if (ends_block(&cursor.is) && !end_block(work, block, &cursor))
      return false;
    uint32_t next = (uint32_t)cursor.position + cursor.is.length;
    if (goes_on(work, &cursor) && !add_edge(work, block, work->block_at[next]))
      return false;
  }
  return !failed;
}

/* ---- Edges of longjmp ---- */

/* What calls within these blocks may jump to. sure: those alone that are seen to. */
static bool add_jumps(struct work *work, const bool *within, uint32_t to, bool sure) {
  const struct native_code *code = &work->code;
  struct native_cursor cursor;
  bool failed, added = true;
  for (bool more = native_first(code, &cursor, &failed); more && added;
       more = native_next(code, &cursor, &failed)) {
    uint32_t block = work->block_at[cursor.position];
    const uint8_t *target = (const uint8_t *)((uintptr_t)cursor.at + (uintptr_t)cursor.is.target);
    if (cursor.is.kind != NATIVE_CALL || !within[block] ||
        (sure && (!cursor.is.has_target || !native_may_jump(code->object, target, code->decode))))
      continue;
    added = add_any_edge(work, block, to, !sure);
  }
  return added && !failed;
}

/* The first return of setjmp does not lead there. */
static void take_away(struct native_graph *graph, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < graph->nedges; i++)
    if (graph->edges[i].from == from && graph->edges[i].to == to && !graph->edges[i].exceptional)
      graph->edges[i--] = graph->edges[--graph->nedges];
}

/* What follows a jump is reached from the calls that are seen to end in longjmp, as by a branch; if
 * none is, from all, as a landing pad is. */
static bool add_all_jumps(struct work *work) {
  struct native_graph *graph = work->graph;
  bool *within = calloc((size_t)graph->nblocks + 1, sizeof *within);
  bool added = within != NULL;
  for (uint32_t i = 0; added && i < work->jumps.count; i++) {
    const struct native_return *of = &work->jumps.returns[i];
    uint32_t from = work->block_at[of->branch], to = work->block_at[of->jumped];
    struct flow_graph flow = {graph->blocks, graph->edges, graph->nblocks, graph->nedges, NULL};
    uint32_t before = graph->nedges;
    added = native_jumps_within(&flow, from, work->block_at[of->first], within) &&
            add_jumps(work, within, to, true) &&
            (graph->nedges > before || add_jumps(work, within, to, false));
    if (added && graph->nedges > before)
      take_away(graph, from, to);
  }
  free(within);
  return added;
}

/* ---- Whether that is all ---- */

/* Marks the blocks that do something. One that only jumps stands behind a call that does not
 * return. */
static bool mark_busy(const struct work *work, bool *busy) {
  const struct native_code *code = &work->code;
  struct native_cursor cursor;
  bool failed;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed))
    if (cursor.is.kind != NATIVE_TRAP && cursor.is.kind != NATIVE_JUMP &&
        !(cursor.is.details & NATIVE_NOTHING))
      busy[work->block_at[cursor.position]] = true;
  return !failed;
}

/* Whether control comes to all blocks that do something. */
static bool reaches_all(const struct work *work) {
  const struct native_graph *graph = work->graph;
  struct flow_arc *arcs = calloc((size_t)graph->nedges + 1, sizeof *arcs);
  uint32_t *stack = calloc(graph->nblocks, sizeof *stack);
  bool *reached = calloc((size_t)2 * graph->nblocks, sizeof *reached);
  struct flow_lists next = {0};
  for (uint32_t i = 0; arcs != NULL && i < graph->nedges; i++)
    arcs[i] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  bool all = arcs != NULL && stack != NULL && reached != NULL &&
             mark_busy(work, reached + graph->nblocks) &&
             flow_lists_make(&next, graph->nblocks, arcs, graph->nedges, false);
  if (all) {
    reached[0] = true;
    flow_reach(&next, graph->nblocks, reached, stack);
  }
  for (uint32_t block = 0; all && block < graph->nblocks; block++)
    all = reached[block] || !reached[graph->nblocks + block];
  flow_lists_drop(&next);
  free(reached);
  free(stack);
  free(arcs);
  return all;
}

/* ---- All of it ---- */

static bool native_make(struct work *work, struct native_part function) {
  struct native_code *code = &work->code;
  if (!native_find_parts(code, function))
    return false;
  code->marks = calloc(code->begins[code->nparts], 1);
  return code->marks != NULL && native_pads_make(&work->pads, code) &&
         native_jumps_find(&work->jumps, code) && mark_instructions(work) &&
         !native_resumes(code) && native_tables_make(&work->tables, code) && make_blocks(work) &&
         add_edges(work) && add_all_jumps(work) && (!work->has_unknown_jump || reaches_all(work));
}

bool native_graph_make(struct native_graph *graph, const struct native_object *object,
                       struct native_part function, native_decode *decode) {
  *graph = (struct native_graph){0};
  struct work work = {.graph = graph, .code = {.object = object, .decode = decode}};
  bool made = native_make(&work, function);
  if (made && work.jumps.count == 0) { /* nothing is known of what longjmp leaves as it was */
    native_find_tests(graph, &work.code, work.block_at); /* the edges are those of the code */
    native_decide(graph, &work.code, work.block_at);
    native_find_copies(graph, &work.code, work.block_at);
  }
  graph->nparts = work.code.nparts;
  memcpy(graph->parts, work.code.parts, sizeof graph->parts);
  memcpy(graph->begins, work.code.begins, sizeof graph->begins);
  native_tables_drop(&work.tables);
  native_pads_drop(&work.pads);
  free(work.block_at);
  free(work.code.marks);
  if (!made)
    native_graph_drop(graph);
  return made;
}

void native_graph_drop(struct native_graph *graph) {
  free(graph->counters);
  free(graph->blocks);
  free(graph->edges);
  free(graph->values);
  free(graph->copies);
  free(graph->twins);
  *graph = (struct native_graph){0};
}
