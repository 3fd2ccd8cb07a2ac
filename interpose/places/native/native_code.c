/* Remembers analysed functions, and finds calls in them: see native_code.h. */
#include "interpose/places/native/native_code.h"

#include <pthread.h>
#include <stdlib.h>

#include "interpose/places/native/native_graph.h"

enum {
  FUNCTIONS = 1024,     /* remembered at most; of two in the same place the later one */
  BYTES_MAX = 8 << 20,  /* remembered at most, but for one more function */
  HASH_SHIFT = 64 - 10, /* FUNCTIONS is 2^10 */
};

struct function {
  const uint8_t *start;
  size_t size;
  uint32_t id;
  uint32_t nblocks;
  uint32_t *positions; /* of the blocks */
  struct moved {
    struct native_part code;
    uint32_t position;
  } * moved;                       /* parts that have been moved away */
  struct native_copy *copies;      /* calls that stand where others do (native_graph.h) */
  struct native_twin *twins;       /* calls that may do so */
  struct native_counter *counters; /* of outer loops around calls */
  uint32_t nmoved, ncopies, ntwins, ncounters;
  struct flow *flow; /* NULL: the code cannot be followed */
};

/* Guarded by lock. */
static struct function functions[FUNCTIONS];
static size_t bytes_used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#if defined(__x86_64__)
static native_decode *const decode = native_decode_x86_64;
#elif defined(__aarch64__)
static native_decode *const decode = native_decode_aarch64;
#else
static bool decode_nothing(const uint8_t *code, size_t size,
                           struct native_instruction *instruction) {
  (void)code, (void)size, (void)instruction;
  return false;
}
static native_decode *const decode = decode_nothing;
#endif

/* ---- What is remembered ---- */

static size_t bytes_of(const struct function *function) {
  size_t positions = function->positions == NULL ? 0 : function->nblocks * sizeof(uint32_t);
  return positions + function->nmoved * sizeof *function->moved +
         function->ncopies * sizeof *function->copies + function->ntwins * sizeof *function->twins +
         function->ncounters * sizeof *function->counters +
         (function->flow == NULL ? 0 : flow_bytes(function->flow));
}

static void native_forget(struct function *function) {
  bytes_used -= bytes_of(function);
  flow_free(function->flow);
  free(function->positions);
  free(function->moved);
  free(function->copies);
  free(function->twins);
  free(function->counters);
  *function = (struct function){0};
}

static void forget_all_if_too_much(void) {
  for (uint32_t i = 0; i < FUNCTIONS && bytes_used > BYTES_MAX; i++)
    native_forget(&functions[i]);
}

static struct function *place_of(const uint8_t *start) {
  return &functions[(uintptr_t)start * UINT64_C(0x9E3779B97F4A7C15) >> HASH_SHIFT];
}

/* ---- Analysis ---- */

/* Not of parts that are moved away: their order would be one of its own. */
static bool make_graph(struct native_graph *graph, struct native_part function) {
  struct native_object object;
  struct native_part found;
  bool is_moved;
  if (!native_object_of(function.begin, &object) ||
      (native_function_at(&object, function.begin, &found, &is_moved) && is_moved))
    return false;
  return native_graph_make(graph, &object, function, decode);
}

static void native_analyse(struct function *function) {
  struct native_graph graph;
  if (!make_graph(&graph, (struct native_part){function->start, function->start + function->size}))
    return;
  struct flow_graph edges = {graph.blocks, graph.edges, graph.nblocks, graph.nedges, graph.values};
  uint32_t *positions = calloc((size_t)graph.nblocks + 1, sizeof *positions);
  for (uint32_t i = 0; positions != NULL && i < graph.nblocks; i++)
    positions[i] = graph.blocks[i].position;
  function->positions = positions;
  function->nblocks = graph.nblocks;
  function->moved = calloc(graph.nparts, sizeof *function->moved);
  function->nmoved = function->moved == NULL ? 0 : graph.nparts - 1;
  for (uint32_t i = 0; i < function->nmoved; i++)
    function->moved[i] = (struct moved){graph.parts[i + 1], (uint32_t)graph.begins[i + 1]};
  function->copies = graph.copies;
  function->ncopies = graph.ncopies;
  function->twins = graph.twins;
  function->ntwins = graph.ntwins;
  function->counters = graph.counters;
  function->ncounters = graph.ncounters;
  graph.copies = NULL;
  graph.twins = NULL;
  graph.counters = NULL;
  graph.ncounters = 0;
  function->flow = positions == NULL ? NULL : flow_analyse(&edges);
  native_graph_drop(&graph);
  bytes_used += bytes_of(function);
}

bool native_code_owner(const void *address, struct native_part *owner) {
  struct native_object object;
  struct native_part part;
  bool is_moved;
  if (!native_object_of(address, &object))
    return false;
  const uint8_t *entry = native_entry_at(&object, address, &part, &is_moved);
  if (entry == NULL || !is_moved || !native_function_before(&object, entry, owner, &is_moved) ||
      is_moved)
    return false;
  struct native_code code = {.object = &object, .decode = decode};
  if (!native_find_parts(&code, *owner))
    return false;
  for (uint32_t i = 1; i < code.nparts; i++)
    if (code.parts[i].begin == part.begin)
      return true;
  return false;
}

/* ---- Calls ---- */

/* What native_forget has freed is NULL afterwards, which the analyzer does not follow:
 * NOLINTBEGIN(clang-analyzer-unix.Malloc) */

/* Where code of the function stands. False: it is not the function's. */
static bool position_of(const struct function *function, const uint8_t *at, uint32_t *position) {
  if (at >= function->start && at < function->start + function->size) {
    *position = (uint32_t)(at - function->start);
    return true;
  }
  for (uint32_t i = 0; i < function->nmoved; i++)
    if (at >= function->moved[i].code.begin && at < function->moved[i].code.end) {
      *position = function->moved[i].position + (uint32_t)(at - function->moved[i].code.begin);
      return true;
    }
  return false;
}

/* The code from a position on, to the end of its part. */
static struct native_part code_at(const struct function *function, uint32_t position) {
  struct native_part code = {function->start + position, function->start + function->size};
  for (uint32_t i = 0; i < function->nmoved; i++) {
    const struct moved *moved = &function->moved[i];
    if (position >= moved->position)
      code =
          (struct native_part){moved->code.begin + (position - moved->position), moved->code.end};
  }
  return code;
}

/* The block that a position is in. */
static uint32_t block_of(const struct function *function, uint32_t position) {
  uint32_t low = 0;
  uint32_t high = function->nblocks;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (function->positions[middle] <= position)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* How many calls stand before the one at position in its block. False: no call is there. A tail
 * call counts as one, the last of its block. */
static bool count_calls(const struct function *function, uint32_t block, uint32_t position,
                        uint32_t *calls) {
  struct native_instruction is;
  struct native_part code = code_at(function, function->positions[block]);
  const uint8_t *call = code.begin + (position - function->positions[block]);
  *calls = 0;
  for (const uint8_t *at = code.begin; at <= call; at += is.length) {
    if (!decode(at, (size_t)(code.end - at), &is))
      return false;
    if (call < at + is.length)
      return is.kind == NATIVE_CALL || is.kind == NATIVE_JUMP;
    *calls += is.kind == NATIVE_CALL;
  }
  return false;
}

/* The call that one is a copy of, or itself. */
static uint32_t original_of(const struct function *function, uint32_t position) {
  for (uint32_t i = 0; i < function->ncopies; i++)
    if (function->copies[i].position == position)
      return original_of(function, function->copies[i].of);
  return position;
}

/* What its twins make of a call: enum place_flag. */
static uint16_t twin_flags(const struct function *function, uint32_t position) {
  for (uint32_t i = 0; i < function->ntwins; i++)
    if (function->twins[i].position == position)
      return function->twins[i].is_branch ? PLACE_TWIN | PLACE_TWIN_BRANCH : PLACE_TWIN;
  return 0;
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */

static uint32_t nodes_of(const struct function *function, const uint8_t *pc,
                         struct place_node *nodes, uint32_t room) {
  uint32_t calls, position;
  if (function->flow == NULL || !position_of(function, pc, &position))
    return 0;
  position = original_of(function, position);
  uint32_t block = block_of(function, position);
  if (!count_calls(function, block, position, &calls))
    return 0;
  uint32_t count = flow_nodes(function->flow, block, calls, position, function->id, nodes, room);
  if (count != 0 && count <= room)
    nodes[count - 1].flags |= twin_flags(function, position);
  return count < room ? count : room;
}

uint32_t native_code_nodes(const void *function_start, size_t function_size, const void *pc,
                           uint32_t function_id, struct place_node *nodes, uint32_t room) {
  if (function_size > NATIVE_FUNCTION_MAX)
    return 0;
  pthread_mutex_lock(&lock);
  struct function *function = place_of(function_start);
  if (function->start != function_start || function->size != function_size ||
      function->id != function_id) {
    native_forget(function);
    forget_all_if_too_much();
    *function =
        (struct function){.start = function_start, .size = function_size, .id = function_id};
    native_analyse(function);
  }
  uint32_t count = nodes_of(function, pc, nodes, room);
  pthread_mutex_unlock(&lock);
  return count;
}

/* NOLINTBEGIN(clang-analyzer-unix.Malloc): as above */

bool native_code_counted(const void *function_start, const void *pc, uint32_t depth,
                         struct native_counter *counter) {
  pthread_mutex_lock(&lock);
  const struct function *function = place_of(function_start);
  uint32_t position = 0;
  bool found = false;
  if (function->start == function_start && function->flow != NULL &&
      position_of(function, pc, &position) && original_of(function, position) == position)
    for (uint32_t i = 0; i < function->ncounters && !found; i++) {
      found = function->counters[i].position == position && function->counters[i].depth == depth;
      if (found)
        *counter = function->counters[i];
    }
  pthread_mutex_unlock(&lock);
  return found;
}

/* NOLINTEND(clang-analyzer-unix.Malloc) */
