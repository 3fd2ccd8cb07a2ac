/* Places put together (places.h). What messages say of them is in places_text.c. */
#include "interpose/places/places.h"

#include <string.h>

#include "interpose/places/native/native_code.h"
#include "interpose/places/native/native_frames.h"
#include "interpose/places/python/python_frames.h"

_Thread_local struct native_caller places_caller;

enum thread_kind { THREAD_UNKNOWN, THREAD_OF_PROGRAM, THREAD_OF_ENGINE };

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
  return frames > 0 && stack->outer[frames - 1].module.owner == MODULE_ENGINE ? THREAD_OF_ENGINE
                                                                              : THREAD_OF_PROGRAM;
}

static enum thread_kind kind_of_this(void) {
  if (own.kind == THREAD_UNKNOWN) {
    struct native_stack stack;
    own.kind = native_stack_read(&stack) ? kind_of(&stack) : THREAD_OF_PROGRAM;
  }
  return own.kind;
}

/* Whose frames a place begins with. */
enum way { WAY_NATIVE, WAY_PYTHON, WAY_WAITING, WAY_UNKNOWN };

/* *python: the id of the thread's own chain, if it has one. An engine's thread may: what it calls
 * back (a communication hook) says nothing of the loop around the backward pass. */
static enum way way_of(enum thread_kind kind, uint32_t *python) {
  *python = 0;
  if (!python_is_present())
    return kind == THREAD_OF_ENGINE ? WAY_UNKNOWN : WAY_NATIVE;
  *python = python_id();
  return *python != 0 && kind != THREAD_OF_ENGINE ? WAY_PYTHON : WAY_WAITING;
}

/* ---- ids ---- */

/* Where another thread stands is no part of an id: to ask costs a system call, and the answer
 * depends on the moment, so that ranks would differ. */
static uint32_t compose(enum way way, uint32_t python, uint32_t native) {
  switch (way) {
  case WAY_NATIVE:
    return native;
  case WAY_PYTHON:
    return code_hash_id(code_hash(python, native));
  case WAY_WAITING:
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

static __attribute__((noinline)) uint32_t find(const struct native_caller *caller) {
  uint32_t native = 0, python;
  guard_thread.stack = native_stack_bounds();
  struct native_site *site = native_site_find(caller, site_before(), &native);
  enum way way = way_of(kind_of_this(), &python);
  own.before = site;
  if (way != WAY_NATIVE || site == NULL)
    site = composed_site(compose(way, python, native));
  guard_thread.site = site;
  return site->id;
}

static bool is_at(const struct native_site *site, const struct native_caller *caller) {
  if (native_site_is_at(site, caller->pc, caller->sp))
    return true;
  return NATIVE_POINTER_AT != 0 &&
         native_word(caller->sp + (uintptr_t)NATIVE_POINTER_AT) == caller->fp &&
         native_site_is_chained_at(site, caller->pc, caller->sp, &guard_thread.stack);
}

/* The one of the two sites that have come after the last one, or NULL. */
static struct native_site *follow(const struct native_caller *caller) {
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
  struct native_site *site = follow(caller);
  if (site == NULL)
    return find(caller);
  guard_thread.site = site;
  return site->id;
}

bool places_are_missed(void) {
  return places_are_on() && kind_of_this() != THREAD_OF_ENGINE;
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

static uint32_t native_nodes(const struct native_stack *stack, struct place_node *nodes) {
  uint32_t written = 0;
  for (size_t i = stack->nouter; i > 0; i--) {
    struct native_frame tails[NATIVE_TAILS_MAX];
    const struct native_frame *frame = &stack->outer[i - 1];
    size_t ntails = i == 1 ? 0 : native_tails_find(frame, frame - 1, tails);
    written += nodes_of(frame, nodes + written, PLACE_NODES_MAX - written);
    for (size_t tail = 0; tail < ntails; tail++)
      written += nodes_of(&tails[tail], nodes + written, PLACE_NODES_MAX - written);
  }
  return written;
}

/* Behind Python's nodes, of which the outermost count most, there may be no room. waiting: somebody
 * waits for the thread; python: it has frames of its own. 0: not known. */
static uint32_t python_and_site(uint32_t waiting, uint32_t python, uint32_t native,
                                struct place_node *nodes) {
  uint32_t written = waiting == 0 ? 0 : python_waiting_nodes(nodes, PLACE_NODES_MAX);
  if (waiting != 0 && written == 0)
    return 0; /* what it has called back is not where the program begins */
  if (python != 0)
    written += python_nodes(nodes + written, PLACE_NODES_MAX - written);
  if (written < PLACE_NODES_MAX && native != 0)
    nodes[written++] = site_node(native);
  return written;
}

/* Of a thread that is waited for, where that one stands counts too. */
static uint32_t describe_id(enum way way, uint32_t waiting, uint32_t python, uint32_t native) {
  if (way != WAY_WAITING)
    return compose(way, python, native);
  if (python == 0)
    return waiting;
  uint32_t own_id = compose(WAY_PYTHON, python, native);
  return waiting == 0 ? own_id : code_hash_id(code_hash(waiting, own_id));
}

bool places_describe(struct place *out) {
  struct native_stack stack;
  uint32_t python, waiting = 0;
  memset(out, 0, sizeof(*out));
  if (!places_are_on())
    return false;
  bool is_whole = native_stack_read(&stack);
  enum way way = way_of(kind_of_this(), &python);
  uint32_t native = native_frames_id(stack.inner, stack.ninner);
  if (way == WAY_WAITING)
    waiting = python_waiting_id();
  out->id = describe_id(way, waiting, python, native);
  if (out->id == 0)
    return false;
  if (way != WAY_NATIVE)
    out->nnodes = python_and_site(waiting, python, native, out->nodes);
  else if (is_whole)
    out->nnodes = native_nodes(&stack, out->nodes);
  places_text_remember(out, stack.inner, stack.ninner);
  places_text(out->id, out->text, sizeof(out->text));
  return true;
}
