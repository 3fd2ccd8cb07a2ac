/* A library in the place of nccl-join whose one function, stand, has a place like a collective. Its
 * id is compared with that of a walk by the compiler's own unwinder, and with that of the described
 * place; what does not agree ends the program.
 *
 * stand_bare is the same without looking. DOUBLE_PYTHON, DOUBLE_WAITING: the id of Python's chain
 * of the calling thread, and of the one that waits for it. DOUBLE_CONTAINED: all code is Python's.
 * DOUBLE_UNREADABLE: there is a Python that cannot be read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unwind.h>

#include "interpose/places/native/code_modules.h"
#include "interpose/places/native/native_code.h"
#include "interpose/places/places.h"
#include "interpose/places/python/python_frames.h"
#include "tests/interpose/parts/placed.h"

#define EXPORTED __attribute__((visibility("default")))

_Thread_local struct guard_thread guard_thread = {.site = &native_site_nowhere};
_Atomic bool guard_places;

/* ---- the walk to compare with ---- */

struct trace {
  uint64_t hash;
  unsigned frames;
  bool ended;
};

/* What lies in no object ends it: so do all frames outside of it. */
static _Unwind_Reason_Code add(struct _Unwind_Context *context, void *of) {
  struct trace *trace = of;
  struct code_module module;
  uintptr_t pc = _Unwind_GetIP(context);
  if (trace->ended || trace->frames == NATIVE_ID_FRAMES || !code_module_find(pc - 1, &module))
    return _URC_END_OF_STACK;
  if (module.owner == MODULE_OURS)
    return _URC_NO_REASON;
  if (module.owner == MODULE_SYSTEM) {
    trace->ended = true; /* the tests' programs are called by nothing else of it */
    return _URC_END_OF_STACK;
  }
  trace->hash = code_hash(code_hash(trace->hash, module.id), pc - module.base);
  trace->frames++;
  return _URC_NO_REASON;
}

static uint32_t traced(void) {
  struct trace trace = {0, 0, false};
  _Unwind_Backtrace(add, &trace);
  return trace.frames > 0 ? code_hash_id(trace.hash) : 0;
}

static void check(uint32_t id, uint32_t expected, const char *what) {
  if (id == expected)
    return;
  printf("%08x, but %s says %08x\n", id, what, expected);
  fflush(stdout);
  _Exit(1);
}

/* ---- standing ---- */

static unsigned long searches;
static bool is_bare, is_traced = true;

static __attribute__((noinline)) uint32_t found(void) {
  uint32_t id = places_current();
  struct place place;
  if (is_bare)
    return id;
  if (is_traced)
    check(id, traced(), "the unwinder");
  places_describe(&place);
  check(id, place.id, "the description");
  return id;
}

static __attribute__((noinline)) uint32_t search(void) {
  PLACES_CALLED();
  searches++;
  places_here();
  return found();
}

static __attribute__((noinline)) uint32_t chained(void) {
  return PLACES_HIT_CHAINED() ? found() : search();
}

EXPORTED uint32_t stand(void) {
  return PLACES_HIT() ? found() : chained();
}

EXPORTED unsigned long stand_searches(void) {
  return searches;
}

EXPORTED void stand_barely(bool barely) {
  is_bare = barely;
}

EXPORTED void stand_untraced(void) {
  is_traced = false;
}

EXPORTED void stand_describe(struct place *place) {
  places_describe(place);
}

EXPORTED const char *stand_text(uint32_t id, char *text, size_t size) {
  return places_text(id, text, size);
}

EXPORTED void stand_opening(void) {
  native_sites_expect_opening();
}

static __attribute__((constructor)) void begin(void) {
  guard_places = true;
}

/* ---- doubles of the other parts ---- */

static uint32_t number_of(const char *variable) {
  const char *value = getenv(variable);
  return value == NULL ? 0 : (uint32_t)strtoul(value, NULL, 0);
}

static _Thread_local bool has_python;

EXPORTED void stand_in_python(bool in) {
  has_python = in;
}

bool python_is_present(void) {
  return number_of("DOUBLE_PYTHON") != 0;
}

bool python_is_unreadable(void) {
  return number_of("DOUBLE_UNREADABLE") != 0;
}

bool python_is_in(uintptr_t base) {
  return base != 0 && number_of("DOUBLE_CONTAINED") != 0;
}

uint32_t python_id(void) {
  return has_python ? number_of("DOUBLE_PYTHON") : 0;
}

uint32_t python_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds) {
  if (rounds != NULL)
    rounds[0] = (struct place_round){0};
  if (python_id() == 0 || room == 0)
    return 0;
  nodes[0] = (struct place_node){.id = python_id(), .flags = PLACE_LOOP};
  return 1;
}

uint32_t python_waiting_id(void) {
  return number_of("DOUBLE_WAITING");
}

uint32_t python_waiting_nodes(struct place_node *nodes, uint32_t room, struct place_round *rounds) {
  rounds[0] = (struct place_round){0};
  if (python_waiting_id() == 0 || room == 0)
    return 0;
  nodes[0] = (struct place_node){.id = python_waiting_id(), .flags = PLACE_LOOP};
  return 1;
}

bool python_is_in_file(const char *end) {
  (void)end;
  return false;
}

void python_text(char *text, size_t size, bool waited_for) {
  (void)waited_for;
  snprintf(text, size, "%s", python_id() == 0 ? "" : "train.py:41 in the loop of train.py:38");
}

bool native_code_owner(const void *address, struct native_part *owner) {
  (void)address, (void)owner;
  return false;
}

/* None of them counts. */
bool native_code_counted(const void *function_start, const void *pc, uint32_t depth,
                         struct native_counter *counter) {
  (void)function_start, (void)pc, (void)depth, (void)counter;
  return false;
}

/* A loop around every call of a function whose name has been given. */
uint32_t native_code_nodes(const void *function_start, size_t function_size, const void *pc,
                           uint32_t function_id, struct place_node *nodes, uint32_t room) {
  uintptr_t offset = (uintptr_t)pc - (uintptr_t)function_start;
  if (offset >= function_size || room < 2)
    return 0;
  nodes[0] = (struct place_node){.id = function_id, .flags = PLACE_LOOP};
  nodes[1] = (struct place_node){.id = function_id + (uint32_t)offset};
  return 2;
}
