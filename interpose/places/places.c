/* Places put together (places.h). What messages say of them is in places_text.c. */
#include "interpose/places/places.h"

#include <string.h>

#include "core/place/place_rounds.h"
#include "interpose/places/native/native_code.h"
#include "interpose/places/native/native_frames.h"
#include "interpose/places/python/python_frames.h"

_Thread_local struct native_caller places_caller;
_Thread_local struct places_kept places_kept;

enum thread_kind {
  THREAD_UNKNOWN,
  THREAD_OF_PROGRAM, /* begun by the executable, which is not CPython */
  THREAD_OF_LIBRARY, /* begun by CPython, by another library, or by what is not seen */
  THREAD_OF_ENGINE,
};

/* What the thread keeps besides. */
static _Thread_local struct {
  struct native_site *before;  /* the site of its call before this one, or NULL */
  struct native_site composed; /* the place where the id is not that of a site of the table */
  enum thread_kind kind;
} own;

/* ---- whose thread ---- */

/* Who has begun it. */
static enum thread_kind kind_of(const struct native_stack *stack) {
  size_t frames = stack->nouter;
  while (frames > 0 && stack->outer[frames - 1].module.owner == MODULE_RUNTIME)
    frames--;
  if (frames == 0)
    return THREAD_OF_LIBRARY;
  const struct code_module *module = &stack->outer[frames - 1].module;
  if (module->owner == MODULE_ENGINE)
    return THREAD_OF_ENGINE;
  return module->is_executable && !python_is_in(module->base) ? THREAD_OF_PROGRAM
                                                              : THREAD_OF_LIBRARY;
}

static enum thread_kind kind_of_this(void) {
  if (own.kind == THREAD_UNKNOWN) {
    struct native_stack stack;
    own.kind = native_stack_read(&stack, NULL) ? kind_of(&stack) : THREAD_OF_LIBRARY;
  }
  return own.kind;
}

/* Whose frames a place begins with. */
enum way { WAY_NATIVE, WAY_PYTHON, WAY_WAITING, WAY_UNKNOWN };

/* *python: the id of the thread's own chain, if it has one. An engine's thread may: what it calls
 * back (a communication hook) says nothing of the loop around the backward pass. A library's thread
 * without one may run parts of the program, where there is Python. What the program's own thread
 * does between its calls of Python is its own. */
static enum way way_of(enum thread_kind kind, uint32_t *python) {
  *python = 0;
  if (!python_is_present())
    return python_is_unreadable() || kind == THREAD_OF_ENGINE ? WAY_UNKNOWN : WAY_NATIVE;
  *python = python_id();
  if (kind == THREAD_OF_ENGINE)
    return WAY_WAITING;
  if (*python != 0)
    return WAY_PYTHON;
  return kind == THREAD_OF_PROGRAM ? WAY_NATIVE : WAY_UNKNOWN;
}

/* ---- programs that call Python ---- */

/* How many of the outermost frames are outside of Python. False: that is not seen. */
static bool count_outside(const struct native_stack *stack, size_t *outside) {
  for (size_t i = stack->nouter; i > 0; i--)
    if (python_is_in(stack->outer[i - 1].module.base)) {
      *outside = stack->nouter - i;
      return true;
    }
  return false;
}

/* The id of the native frames of a place that begins with Python's. Where Python is called by the
 * program, the calls outside of it count, too; that costs a walk in each call. */
static uint32_t id_beside_python(uint32_t native) {
  struct native_stack stack;
  size_t outside;
  if (kind_of_this() != THREAD_OF_PROGRAM)
    return native;
  if (!native_stack_read(&stack, NULL) || !count_outside(&stack, &outside))
    return native;
  uint64_t hash = native;
  for (size_t i = 0; i < outside; i++)
    hash = code_hash(hash, native_call_id(&stack.outer[stack.nouter - 1 - i]));
  return outside == 0 ? native : code_hash_id(hash);
}

/* ---- ids ---- */

/* waiting: the id of where another thread waits for this one, which counts too. 0: not known. */
static uint32_t places_compose(enum way way, uint32_t waiting, uint32_t python, uint32_t native) {
  switch (way) {
  case WAY_NATIVE:
    return native;
  case WAY_PYTHON:
    return code_hash_id(code_hash(python, native));
  case WAY_WAITING:
    if (python == 0 || waiting == 0)
      return waiting;
    return code_hash_id(code_hash(waiting, code_hash_id(code_hash(python, native))));
  case WAY_UNKNOWN:
    return 0;
  }
  return 0;
}

static struct native_site *site_before(void) {
  if (guard_thread.site->is_record)
    return guard_thread.site;
  return own.before != NULL ? own.before : &native_site_nowhere;
}

/* No call stands there for native_site_is_at, so none is predicted to follow it. */
static struct native_site *composed_site(uint32_t id) {
  own.composed.id = id;
  atomic_store_explicit(&own.composed.next, &own.composed, memory_order_relaxed);
  atomic_store_explicit(&own.composed.other, &own.composed, memory_order_relaxed);
  return &own.composed;
}

/* What ends the id of the native frames of a place. */
static native_tells *who_tells(uint32_t python) {
  return python != 0 ? python_is_in : NULL;
}

static __attribute__((noinline)) uint32_t places_find(const struct native_caller *caller) {
  uint32_t native = 0, python;
  struct native_site *site = NULL;
  guard_thread.stack = native_stack_bounds();
  enum way way = way_of(kind_of_this(), &python);
  if (way == WAY_NATIVE || python != 0)
    own.before = site = native_site_find(caller, site_before(), who_tells(python), &native);
  if (way == WAY_PYTHON)
    native = id_beside_python(native);
  uint32_t waiting = way == WAY_WAITING ? python_waiting_id() : 0;
  if (way != WAY_NATIVE || site == NULL)
    site = composed_site(places_compose(way, waiting, python, native));
  guard_thread.site = site;
  return site->id;
}

static bool is_at(const struct native_site *site, const struct native_caller *caller) {
  bool is_watched = atomic_load_explicit(&site->is_watched, memory_order_relaxed);
  uintptr_t pc = is_watched ? caller->pc ^ NATIVE_WATCHED : caller->pc;
  if (native_site_is_at(site, pc, caller->sp))
    return true;
  return NATIVE_POINTER_AT != 0 &&
         native_word(caller->sp + (uintptr_t)NATIVE_POINTER_AT) == caller->fp &&
         native_site_is_chained_at(site, pc, caller->sp, &guard_thread.stack);
}

/* The one of the two sites that have come after the last one, or NULL. */
static struct native_site *places_follow(const struct native_caller *caller) {
  struct native_site *last = guard_thread.site;
  struct native_site *next = atomic_load_explicit(&last->next, memory_order_acquire);
  if (is_at(next, caller))
    return next;
  next = atomic_load_explicit(&last->other, memory_order_acquire);
  return is_at(next, caller) ? next : NULL;
}

uint32_t places_here(void) {
  const struct native_caller *caller = &places_caller;
  if (!places_are_on())
    return 0;
  struct native_site *site = places_follow(caller);
  if (site == NULL)
    return places_find(caller);
  guard_thread.site = site;
  return site->id;
}

bool places_are_missed(void) {
  return places_are_on() && kind_of_this() != THREAD_OF_ENGINE;
}

bool places_are_in_file(const char *end) {
  return places_are_on() && python_is_in_file(end);
}

/* ---- nodes ---- */

static struct place_node site_node(uint32_t id) {
  return (struct place_node){.id = id};
}

/* The function, the loops and the call of one frame. Loops of an engine are not the program's. */
static uint32_t nodes_of(const struct native_frame *frame, struct place_node *nodes,
                         uint32_t room) {
  uint32_t written = 0;
  if (room < 2)
    return 0;
  nodes[0] = site_node(frame->has_rule ? native_function_id(frame) : native_call_id(frame));
  if (frame->has_rule && frame->module.owner != MODULE_ENGINE)
    written = native_code_nodes(frame->rule.function, frame->rule.function_size,
                                (const void *)(frame->pc - 1), native_function_id(frame), nodes + 1,
                                room - 1);
  if (written == 0) {
    nodes[1] = site_node(native_call_id(frame));
    written = 1;
  }
  written = written < room - 1 ? written + 1 : room;
  for (uint32_t i = 1; i < written && frame->module.owner != MODULE_ENGINE; i++)
    if (!(nodes[i].flags & PLACE_ORDERED))
      nodes[i].flags |= PLACE_OPAQUE;
  return written;
}

/* A frame as one of its whole function, of which the compiler has moved a part away. */
static struct native_frame in_one_function(const struct native_frame *frame) {
  struct native_frame whole = *frame;
  struct native_part owner;
  if (frame->has_rule && native_code_owner((const void *)(frame->pc - 1), &owner)) {
    whole.rule.function = owner.begin;
    whole.rule.function_size = (size_t)(owner.end - owner.begin);
  }
  return whole;
}

/* The outermost loops of a native place, and which its nodes they are. */
struct outermost {
  uint32_t count;
  struct {
    uint32_t node;
    bool is_known; /* what it counts */
    struct native_loop loop;
  } of[PLACE_LEVELS];
};

struct native_entry places_entry(void) {
  struct native_entry entry = {
      .sp = places_caller.sp, .fp = places_caller.fp, .has_kept = places_kept.is_known};
  memcpy(entry.kept, places_kept.of, sizeof(entry.kept));
  return entry;
}

/* Looks for them among the nodes that a frame has given, from `from` on. */
static void find_outermost(const struct native_frame *frame, const struct native_frame *whole,
                           const struct place_node *nodes, uint32_t from, uint32_t to,
                           struct outermost *found) {
  const struct native_entry entry = places_entry();
  uint32_t depth = 0;
  for (uint32_t i = from; i < to && found->count < PLACE_LEVELS; i++)
    if (nodes[i].flags & PLACE_LOOP) {
      found->of[found->count].node = i;
      found->of[found->count].is_known =
          native_loop_find(frame, whole, &entry, depth++, &found->of[found->count].loop);
      found->count++;
    }
}

/* Of the outermost frames. */
static uint32_t native_nodes(const struct native_stack *stack, size_t frames,
                             struct place_node *nodes, struct outermost *outermost) {
  uint32_t written = 0, before;
  *outermost = (struct outermost){.count = 0};
  struct native_frame whole, below = {.has_rule = false};
  for (size_t i = 0; i < frames; i++) {
    struct native_frame tails[NATIVE_TAILS_MAX];
    const struct native_frame *frame = &stack->outer[stack->nouter - 1 - i];
    bool is_last = i + 1 == frames;
    whole = i == 0 ? in_one_function(frame) : below;
    if (!is_last)
      below = in_one_function(frame - 1);
    size_t ntails = is_last ? 0 : native_tails_find(frame, &below, tails);
    before = written;
    written += nodes_of(&whole, nodes + written, PLACE_NODES_MAX - written);
    find_outermost(frame, &whole, nodes, before, written, outermost);
    for (size_t tail = 0; tail < ntails; tail++)
      written += nodes_of(&tails[tail], nodes + written, PLACE_NODES_MAX - written);
  }
  return written;
}

/* Nodes of the program's frames outside of Python. False: not seen. */
static bool nodes_outside(const struct native_stack *stack, struct place_node *nodes,
                          uint32_t *written) {
  size_t outside;
  if (!count_outside(stack, &outside))
    return false;
  struct outermost unused;
  *written = native_nodes(stack, outside, nodes, &unused);
  return true;
}

/* Of nodes the outermost count most; there may be no room for others. stack: of a program that has
 * called Python, or NULL; waiting: somebody waits for the thread; python: it has frames of its own.
 * 0: not known. */
static uint32_t python_and_site(const struct native_stack *stack, uint32_t waiting, uint32_t python,
                                uint32_t native, struct place *out) {
  struct place_round rounds[PLACE_NODES_MAX] = {0};
  struct place_node *nodes = out->nodes;
  uint32_t written = 0;
  if (stack != NULL && !nodes_outside(stack, nodes, &written))
    return 0;
  if (waiting != 0 && (written = python_waiting_nodes(nodes, PLACE_NODES_MAX, rounds)) == 0)
    return 0; /* what it has called back is not where the program begins */
  if (python != 0) {
    uint32_t room = PLACE_NODES_MAX - written,
             more = room == 0 ? 0
                              : python_nodes(nodes + written, room,
                                             waiting != 0 ? NULL : rounds + written);
    if (more == 0 && written > 0 && waiting == 0)
      return 0; /* not what lies between */
    written += more;
  }
  if (written < PLACE_NODES_MAX && native != 0)
    nodes[written++] = site_node(native);
  out->rounds = place_rounds_of(nodes, written, rounds);
  return written;
}

/* What the outermost loops of a native place say. */
static void add_rounds(struct place *out, const struct outermost *outermost) {
  struct place_round rounds[PLACE_NODES_MAX] = {0};
  for (uint32_t i = 0; i < outermost->count; i++)
    if (outermost->of[i].is_known)
      rounds[outermost->of[i].node] =
          native_loop_round(&outermost->of[i].loop, outermost->of[i].loop.value);
  out->rounds = place_rounds_of(out->nodes, out->nnodes, rounds);
}

uint32_t places_native_loops(struct native_loop loops[PLACE_LEVELS]) {
  struct native_stack stack;
  struct outermost outermost;
  struct place_node nodes[PLACE_NODES_MAX];
  uint32_t level = 0;
  if (!native_stack_read(&stack, NULL))
    return 0;
  native_nodes(&stack, stack.nouter, nodes, &outermost);
  while (level < outermost.count && outermost.of[level].is_known &&
         outermost.of[level].loop.is_readable) {
    loops[level] = outermost.of[level].loop;
    level++;
  }
  return level;
}

bool places_describe(struct place *out) {
  struct native_stack stack;
  struct place_begin begin;
  uint32_t python;
  memset(out, 0, sizeof(*out));
  if (!places_are_on())
    return false;
  enum way way = way_of(kind_of_this(), &python);
  bool is_whole = native_stack_read(&stack, who_tells(python));
  uint32_t native = stack.id;
  uint32_t within = native;
  if (way == WAY_PYTHON)
    native = id_beside_python(native);
  uint32_t waiting = way == WAY_WAITING ? python_waiting_id() : 0;
  out->id = places_compose(way, waiting, python, native);
  if (out->id == 0)
    return false;
  bool is_called = way == WAY_PYTHON && kind_of_this() == THREAD_OF_PROGRAM;
  if (way != WAY_NATIVE && (is_whole || !is_called))
    out->nnodes = python_and_site(is_called ? &stack : NULL, waiting, python, within, out);
  else if (is_whole) {
    struct outermost outermost;
    out->nnodes = native_nodes(&stack, stack.nouter, out->nodes, &outermost);
    add_rounds(out, &outermost);
  }
  if (guard_thread.site->id == out->id)
    native_site_tell(guard_thread.site, place_round_begins(out, 0, &begin));
  places_text_remember(out, &stack, waiting != 0);
  places_text(out->id, out->text, sizeof(out->text));
  return true;
}
