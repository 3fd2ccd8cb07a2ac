/* Finds setjmp and longjmp: see native_jumps.h. */
#include "interpose/places/native/native_jumps.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/flow/flow_arcs.h"

enum {
  CALLS_DEEP = 4,       /* functions that call each other, until one calls longjmp */
  LOOKED_AT_MAX = 4096, /* bytes of a function: this bounds the time for each call */
};

static const char *const sets[] = {"_setjmp", "setjmp", "__sigsetjmp", "sigsetjmp", NULL};
static const char *const jumps_back[] = {"longjmp", "_longjmp", "siglongjmp", "__longjmp_chk",
                                         NULL};

static const uint8_t *target_of(const uint8_t *at, const struct native_instruction *is) {
  return (const uint8_t *)((uintptr_t)at + (uintptr_t)is->target);
}

/* ---- setjmp ---- */

/* TEST EAX,EAX; CMP EAX,0; or CMP of a variable on the stack with 0. */
static bool compares_with_0(const struct native_cursor *cursor) {
  const uint8_t *at = cursor->at;
  if (cursor->is.length == 2 && at[0] == 0x85 && at[1] == 0xC0)
    return true;
  bool is_compare = at[0] == 0x83 && (at[1] == 0xF8 || (at[1] & 0x3F) == 0x3D);
  return is_compare && cursor->is.length >= 3 && at[cursor->is.length - 1] == 0;
}

/* JE: 1, JNE: 0, another: -1. */
static int is_equal(const struct native_cursor *cursor) {
  uint8_t condition = cursor->at[0] == 0x0F ? cursor->at[1] - 0x10 : cursor->at[0];
  return condition == 0x74 ? 1 : condition == 0x75 ? 0 : -1;
}

static bool is_called(const struct native_code *code, const struct native_cursor *cursor,
                      const char *const *names) {
  return cursor->is.kind == NATIVE_CALL && cursor->is.has_target &&
         native_is_named(code->object, target_of(cursor->at, &cursor->is), code->decode, names);
}

/* The branch that follows a call of setjmp. */
static bool find_branch(const struct native_code *code, struct native_cursor cursor,
                        struct native_return *found) {
  bool failed, compares = false;
  while (native_next(code, &cursor, &failed) && cursor.is.kind == NATIVE_PLAIN)
    compares |= compares_with_0(&cursor);
  if (failed || !compares || cursor.is.kind != NATIVE_BRANCH || is_equal(&cursor) < 0)
    return false;
  size_t target = native_target(code, &cursor), next = cursor.position + cursor.is.length;
  if (target == NATIVE_OUTSIDE || native_is_last(code, &cursor))
    return false;
  bool equal = is_equal(&cursor) == 1;
  *found = (struct native_return){cursor.position, equal ? target : next, equal ? next : target};
  return true;
}

bool native_jumps_find(struct native_jumps *jumps, const struct native_code *code) {
  struct native_cursor cursor;
  bool failed;
  *jumps = (struct native_jumps){.count = 0};
  if (code->decode != native_decode_x86_64)
    return true;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    if (!is_called(code, &cursor, sets))
      continue;
    if (jumps->count == NATIVE_JUMPS_MAX ||
        !find_branch(code, cursor, &jumps->returns[jumps->count]))
      return false;
    jumps->count++;
  }
  return !failed;
}

/* ---- longjmp ---- */

/* Those that are still to be looked at, and how deep they are. */
struct search {
  const uint8_t *functions[64];
  uint8_t depths[64];
  uint32_t count;
};

static void native_add(struct search *search, const uint8_t *function, uint8_t depth) {
  if (depth > CALLS_DEEP || search->count == sizeof search->depths)
    return;
  for (uint32_t i = 0; i < search->count; i++)
    if (search->functions[i] == function)
      return;
  search->functions[search->count] = function;
  search->depths[search->count++] = depth;
}

static void add_called(struct search *search, const struct native_object *object,
                       const uint8_t *function, native_decode *decode, uint8_t depth) {
  struct native_part part;
  bool is_moved;
  struct native_instruction is;
  if (!native_function_at(object, function, &part, &is_moved) ||
      part.end - part.begin > LOOKED_AT_MAX)
    return;
  for (const uint8_t *at = part.begin; at < part.end; at += is.length) {
    if (!decode(at, (size_t)(part.end - at), &is))
      return;
    const uint8_t *to = target_of(at, &is);
    if (is.has_target && is.kind != NATIVE_BRANCH && (to < part.begin || to >= part.end))
      native_add(search, to, depth);
  }
}

bool native_may_jump(const struct native_object *object, const uint8_t *function,
                     native_decode *decode) {
  struct search search = {.count = 0};
  native_add(&search, function, 1);
  for (uint32_t i = 0; i < search.count; i++) {
    if (native_is_named(object, search.functions[i], decode, jumps_back))
      return true;
    add_called(&search, object, search.functions[i], decode, (uint8_t)(search.depths[i] + 1));
  }
  return false;
}

/* ---- What runs in between ---- */

/* Marks what control reaches, but for one edge, if it is not NONE. */
static bool native_reach(const struct flow_graph *graph, uint32_t without, bool *reached) {
  struct flow_arc *arcs = calloc((size_t)graph->nedges + 1, sizeof *arcs);
  uint32_t *stack = calloc(graph->nblocks, sizeof *stack), count = 0;
  struct flow_lists next = {0};
  for (uint32_t i = 0; arcs != NULL && i < graph->nedges; i++)
    if (i != without)
      arcs[count++] = (struct flow_arc){graph->edges[i].from, graph->edges[i].to};
  bool made =
      arcs != NULL && stack != NULL && flow_lists_make(&next, graph->nblocks, arcs, count, false);
  if (made) {
    reached[0] = true;
    flow_reach(&next, graph->nblocks, reached, stack);
  }
  flow_lists_drop(&next);
  free(stack);
  free(arcs);
  return made;
}

bool native_jumps_within(const struct flow_graph *graph, uint32_t from, uint32_t to, bool *within) {
  uint32_t without = 0;
  while (without < graph->nedges &&
         (graph->edges[without].from != from || graph->edges[without].to != to))
    without++;
  bool *others = calloc(graph->nblocks, sizeof *others);
  memset(within, 0, graph->nblocks * sizeof *within);
  bool made = others != NULL && native_reach(graph, graph->nedges, within) &&
              native_reach(graph, without, others);
  for (uint32_t block = 0; made && block < graph->nblocks; block++)
    within[block] &= !others[block];
  free(others);
  return made;
}
