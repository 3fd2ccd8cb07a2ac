/* Graphs written by hand, and random structured programs: see flow_graphs.h. */
#include "tests/unit/flow_graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/traces.h"

static void add_edge(struct graph_program *program, uint32_t from, uint32_t to, bool exceptional) {
  if (program->graph.nedges == GRAPH_EDGES_MAX)
    abort();
  program->edges[program->graph.nedges++] = (struct flow_edge){from, to, exceptional};
}

static void start(struct graph_program *program) {
  memset(program, 0, sizeof *program);
  program->graph.blocks = program->blocks;
  program->graph.edges = program->edges;
}

static void needs_block(struct graph_program *program, uint32_t block) {
  for (; program->graph.nblocks <= block; program->graph.nblocks++)
    program->blocks[program->graph.nblocks] =
        (struct flow_block){.position = 10 * program->graph.nblocks, .sites = 1};
}

void graph_read(struct graph_program *program, const char *text) {
  start(program);
  while (*text != '\0') {
    char *at;
    uint32_t from = (uint32_t)strtoul(text, &at, 10);
    char kind = *at++;
    uint32_t to = kind == '.' ? from : (uint32_t)strtoul(at, &at, 10);
    needs_block(program, from);
    if (kind == '.')
      program->blocks[from].returns = true;
    else if (kind == '*')
      program->blocks[from].sites = (uint16_t)to;
    else {
      needs_block(program, to);
      add_edge(program, from, to, kind == '!');
    }
    text = at + strspn(at, " ");
  }
}

const char *graph_text(const struct graph_program *program) {
  static char text[GRAPH_EDGES_MAX * 8 + GRAPH_BLOCKS_MAX * 16];
  size_t used = 0;
  for (uint32_t i = 0; i < program->graph.nedges; i++) {
    const struct flow_edge *edge = &program->edges[i];
    used += (size_t)snprintf(text + used, sizeof text - used, "%u%c%u ", edge->from,
                             edge->exceptional ? '!' : '>', edge->to);
  }
  for (uint32_t block = 0; block < program->graph.nblocks; block++)
    used += (size_t)snprintf(text + used, sizeof text - used, "%u*%u ", block,
                             program->blocks[block].sites);
  for (uint32_t block = 0; block < program->graph.nblocks; block++)
    if (program->blocks[block].returns)
      used += (size_t)snprintf(text + used, sizeof text - used, "%u. ", block);
  return text;
}

/* ---- random programs ---- */

enum { NESTED_MAX = 8, NOWHERE = -1 };

/* A program as it is written: control stands at the end of block at, or nowhere. */
struct writer {
  struct graph_program *program;
  uint64_t *state;
  int at;
  int nloops;
  uint32_t break_to[NESTED_MAX]; /* of the loops around, outermost first */
  uint32_t continue_to[NESTED_MAX];
  uint64_t loops; /* heads of the loops around */
  int handler;    /* of the try around */
};

static uint32_t chance(struct writer *writer, uint32_t of) {
  return (uint32_t)trace_random(writer->state, of);
}

/* What is known of a block once it is placed is what is around it there. */
static void place(struct writer *writer, uint32_t block) {
  writer->program->source_loops[block] = writer->loops;
  if (writer->handler != NOWHERE && chance(writer, 2) == 0)
    add_edge(writer->program, block, (uint32_t)writer->handler, true);
}

static uint32_t new_block(struct writer *writer) {
  uint32_t block = writer->program->graph.nblocks++;
  writer->program->blocks[block] = (struct flow_block){
      .position = 10 * block, .sites = (uint16_t)(chance(writer, 3) == 0 ? chance(writer, 4) : 1)};
  return block;
}

static void go(struct writer *writer, uint32_t to) {
  if (writer->at != NOWHERE)
    add_edge(writer->program, (uint32_t)writer->at, to, false);
}

/* Control comes to block from where it stands. */
static void come_to(struct writer *writer, uint32_t block) {
  go(writer, block);
  place(writer, block);
  writer->at = (int)block;
}

static bool has_room(const struct writer *writer) {
  return writer->program->graph.nblocks + 12 < GRAPH_WRITTEN_MAX;
}

static void write_statements(struct writer *writer, int depth);

static void write_if(struct writer *writer, int depth) {
  uint32_t then = new_block(writer);
  uint32_t otherwise = new_block(writer);
  uint32_t behind = chance(writer, 2) == 0 ? otherwise : new_block(writer);
  go(writer, otherwise);
  come_to(writer, then);
  write_statements(writer, depth);
  go(writer, behind);
  if (behind != otherwise) {
    writer->at = NOWHERE;
    come_to(writer, otherwise);
    write_statements(writer, depth);
    go(writer, behind);
  }
  writer->at = NOWHERE;
  come_to(writer, behind);
}

static void write_switch(struct writer *writer, int depth) {
  uint32_t from = (uint32_t)writer->at;
  uint32_t behind = new_block(writer);
  uint32_t ncases = 2 + chance(writer, 3);
  writer->at = NOWHERE;
  for (uint32_t i = 0; i < ncases; i++) {
    uint32_t block = new_block(writer);
    add_edge(writer->program, from, block, false);
    come_to(writer, block); /* perhaps from the case above */
    write_statements(writer, depth - 1);
    if (chance(writer, 2) == 0) {
      go(writer, behind);
      writer->at = NOWHERE;
    }
  }
  go(writer, behind);
  if (chance(writer, 2) == 0)
    add_edge(writer->program, from, behind, false);
  writer->at = NOWHERE;
  come_to(writer, behind);
}

enum loop_kind { LOOP_WHILE, LOOP_DO, LOOP_GUARDED, LOOP_ENDLESS, LOOP_KINDS };

static void enter_loop(struct writer *writer, uint32_t head, uint32_t next, uint32_t behind) {
  writer->loops |= UINT64_C(1) << head;
  writer->break_to[writer->nloops] = behind;
  writer->continue_to[writer->nloops++] = next;
}

/* next is where `continue` goes: it goes round, and leaves the loop if it is its test. */
static void write_loop(struct writer *writer, int depth) {
  enum loop_kind kind = (enum loop_kind)chance(writer, LOOP_KINDS);
  uint32_t head = new_block(writer);
  uint32_t behind = new_block(writer);
  uint32_t next = kind == LOOP_DO || kind == LOOP_GUARDED ? new_block(writer) : head;
  uint64_t outside = writer->loops;
  if (kind == LOOP_GUARDED)
    go(writer, behind);
  go(writer, head);
  writer->at = NOWHERE;
  enter_loop(writer, head, next, behind);
  come_to(writer, head);
  if (kind == LOOP_WHILE)
    go(writer, behind);
  write_statements(writer, depth);
  if (next != head) {
    go(writer, next);
    writer->at = NOWHERE;
    come_to(writer, next);
    go(writer, behind);
  }
  go(writer, head);
  writer->at = NOWHERE;
  writer->nloops--;
  writer->loops = outside;
  come_to(writer, behind);
}

static void write_try(struct writer *writer, int depth) {
  int around = writer->handler;
  uint32_t handler = new_block(writer);
  uint32_t behind = new_block(writer);
  uint32_t inside = new_block(writer);
  writer->handler = (int)handler;
  come_to(writer, inside);
  write_statements(writer, depth);
  go(writer, behind);
  writer->handler = around;
  writer->at = NOWHERE;
  come_to(writer, handler);
  write_statements(writer, depth - 1);
  if (chance(writer, 3) > 0)
    go(writer, behind); /* otherwise thrown again */
  else if (around != NOWHERE && writer->at != NOWHERE)
    add_edge(writer->program, (uint32_t)writer->at, (uint32_t)around, true);
  writer->at = NOWHERE;
  come_to(writer, behind);
}

/* What ends a way: nothing follows. */
static void write_jump(struct writer *writer) {
  uint32_t block = new_block(writer);
  come_to(writer, block);
  uint32_t loop = writer->nloops > 0 ? chance(writer, (uint32_t)writer->nloops) : 0;
  switch (chance(writer, 5)) {
  case 0:
    writer->program->blocks[block].returns = true;
    break;
  case 1:
    if (writer->handler != NOWHERE)
      add_edge(writer->program, block, (uint32_t)writer->handler, true);
    break;
  case 2:
    break; /* abort */
  case 3:
    if (writer->nloops > 0)
      go(writer, writer->break_to[loop]);
    break;
  default:
    if (writer->nloops > 0)
      go(writer, writer->continue_to[loop]);
  }
  writer->at = NOWHERE;
}

static void write_statement(struct writer *writer, int depth) {
  switch (chance(writer, 8)) {
  case 0:
  case 1:
    write_if(writer, depth - 1);
    break;
  case 2:
  case 3:
    if (writer->nloops < NESTED_MAX)
      write_loop(writer, depth - 1);
    break;
  case 4:
    write_switch(writer, depth - 1);
    break;
  case 5:
    write_try(writer, depth - 1);
    break;
  case 6:
    come_to(writer, new_block(writer));
    break;
  default:
    if (chance(writer, 2) == 0)
      write_jump(writer);
  }
}

static void write_statements(struct writer *writer, int depth) {
  uint32_t count = 1 + chance(writer, 3);
  for (uint32_t i = 0; i < count && depth > 0 && writer->at != NOWHERE && has_room(writer); i++)
    write_statement(writer, depth);
}

/* Lets some ways to the function's end have a block of their own there, which does as little. */
static void part_ways_to_end(struct writer *writer, uint32_t end) {
  struct graph_program *program = writer->program;
  for (uint32_t i = 0; i < program->graph.nedges; i++) {
    if (program->edges[i].to != end || program->graph.nblocks == GRAPH_WRITTEN_MAX ||
        chance(writer, 2) == 0)
      continue;
    uint32_t block = new_block(writer);
    program->blocks[block].sites = 0;
    program->blocks[block].returns = true;
    program->edges[i].to = block;
  }
}

void graph_random_program(struct graph_program *program, uint64_t *state) {
  start(program);
  program->structured = true;
  struct writer writer = {.program = program, .state = state, .at = NOWHERE, .handler = NOWHERE};
  come_to(&writer, new_block(&writer));
  while (writer.at != NOWHERE && has_room(&writer) && chance(&writer, 12) > 0)
    write_statement(&writer, 5);
  if (writer.at == NOWHERE)
    return;
  struct flow_block *end = &program->blocks[writer.at];
  end->returns = chance(&writer, 10) > 0;
  if (end->returns && chance(&writer, 2) == 0) {
    end->sites = 0;
    part_ways_to_end(&writer, (uint32_t)writer.at);
  }
}

/* A cycle that a test of its own, and one in front of it, lead to and past. */
static void add_test_twice(struct graph_program *program, uint64_t *state, uint32_t nblocks) {
  uint32_t test = nblocks, front = nblocks + 1, body = (uint32_t)trace_random(state, nblocks),
           behind = (uint32_t)trace_random(state, nblocks);
  needs_block(program, front);
  add_edge(program, (uint32_t)trace_random(state, nblocks), test, false);
  add_edge(program, (uint32_t)trace_random(state, nblocks), front, false);
  for (uint32_t block = test; block <= front; block++) {
    add_edge(program, block, body, false);
    add_edge(program, block, behind, false);
  }
  add_edge(program, body, test, false);
  program->blocks[test].sites = (uint16_t)trace_random(state, 2);
}

void graph_random_edges(struct graph_program *program, uint64_t *state) {
  start(program);
  uint32_t nblocks = 2 + (uint32_t)trace_random(state, GRAPH_ANY_MAX - 4);
  uint32_t nedges = (uint32_t)trace_random(state, 3 * nblocks);
  needs_block(program, nblocks - 1);
  for (uint32_t i = 0; i < nedges; i++)
    add_edge(program, (uint32_t)trace_random(state, nblocks),
             (uint32_t)trace_random(state, nblocks), trace_random(state, 8) == 0);
  for (uint32_t block = 0; block < nblocks; block++)
    program->blocks[block].returns = trace_random(state, 8) == 0;
  if (trace_random(state, 4) == 0)
    add_test_twice(program, state, nblocks);
}
