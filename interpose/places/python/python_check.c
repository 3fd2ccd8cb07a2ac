/* The layout against the living interpreter (python_check.h). */
#include "interpose/places/python/python_check.h"

#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { CHECKED_FRAMES = 64, CHECKED_THREADS = 4096, COMPARED_FRAMES = 8 };

/* ---- the chain by itself ---- */

static bool interpreter_knows(const struct python_layout *layout, uint64_t state) {
  uint64_t interpreter = python_memory_word(state + layout->at.state_interp);
  if (interpreter == 0)
    return false;
  uint64_t other = python_memory_word(interpreter + layout->at.state_interp_threads);
  for (int i = 0; i < CHECKED_THREADS && other != 0 && other != state; i++)
    other = python_memory_word(other + layout->at.state_next);
  return other == state;
}

static bool has_frame_in_code(const struct python_layout *layout,
                              const struct python_frame *frame) {
  struct python_code *code = python_code_read(layout, frame->code);
  bool known = code != NULL && frame->where >= -2 && frame->where < (int64_t)code->nunits * 2 &&
               frame->where % 2 == 0;
  python_code_free(code);
  return known;
}

static bool has_chain(const struct python_layout *layout, uint64_t state) {
  uint64_t address = python_memory_word(state + layout->at.state_frame);
  if (layout->at.cframe_frame >= 0 && address != 0)
    address = python_memory_word(address + (uint64_t)layout->at.cframe_frame);
  for (int i = 0; i < CHECKED_FRAMES && address != 0; i++) {
    _Alignas(8) uint8_t bytes[UINT8_MAX + 1];
    struct python_frame frame;
    if (address % 8 != 0 || !python_memory_read(bytes, address, layout->at.frame_size))
      return false;
    if (python_frame_of(&layout->at, layout->minor, bytes, &frame) &&
        !has_frame_in_code(layout, &frame))
      return false;
    memcpy(&address, bytes + layout->at.frame_previous, sizeof(address));
  }
  return true;
}

static bool check_chain(const struct python_layout *layout, uint64_t state) {
  bool known = python_memory_word(state + layout->at.state_thread) == (uint64_t)pthread_self() &&
               interpreter_knows(layout, state) && has_chain(layout, state);
  if (!known)
    python_layout_refuse();
  return known;
}

/* ---- against Python ---- */

/* PyFrameObject, PyCodeObject and so on are `void` here. */
struct functions {
  void *(*get_frame)(void);       /* PyEval_GetFrame: borrowed */
  void *(*get_back)(void *frame); /* new reference */
  void *(*get_code)(void *frame); /* new reference */
  int (*get_line)(void *frame);
  int (*get_lasti)(void *frame); /* in bytes; 3.11 and later */
  void (*incref)(void *object);
  void (*decref)(void *object);
  int (*gc_enable)(void); /* 3.10 and later; return whether it was enabled */
  int (*gc_disable)(void);
};

#define FIND(member, name)                                                                         \
  memcpy(&(member), &(void *){python_layout_function(name)}, sizeof(void *))

static bool find_functions(struct functions *functions) {
  FIND(functions->get_frame, "PyEval_GetFrame");
  FIND(functions->get_back, "PyFrame_GetBack");
  FIND(functions->get_code, "PyFrame_GetCode");
  FIND(functions->get_line, "PyFrame_GetLineNumber");
  FIND(functions->get_lasti, "PyFrame_GetLasti");
  FIND(functions->incref, "Py_IncRef");
  FIND(functions->decref, "Py_DecRef");
  FIND(functions->gc_enable, "PyGC_Enable");
  FIND(functions->gc_disable, "PyGC_Disable");
  return functions->get_frame != NULL && functions->get_back != NULL &&
         functions->get_code != NULL && functions->get_line != NULL && functions->incref != NULL &&
         functions->decref != NULL;
}

static bool is_equal(const struct python_layout *layout, const struct functions *functions,
                     void *object, const struct python_frame *frame) {
  void *code = functions->get_code(object);
  functions->decref(code); /* the frame has one as well */
  if ((uint64_t)code != frame->code)
    return false;
  if (functions->get_lasti != NULL && functions->get_lasti(object) != (int)frame->where)
    return false;
  struct python_code *copy = python_code_read(layout, frame->code);
  uint32_t line = copy != NULL && frame->where >= 0
                      ? python_line(layout->minor, copy, (uint32_t)frame->where / 2)
                      : 0;
  bool equal = copy != NULL && (line == 0 || (int64_t)line == functions->get_line(object));
  python_code_free(copy);
  return equal;
}

/* From `address` on, against the frame object; takes its reference. */
static bool are_equal(const struct python_layout *layout, const struct functions *functions,
                      uint64_t address, void *object) {
  bool equal = true;
  for (int i = 0; i < COMPARED_FRAMES && equal && address != 0; i++) {
    struct python_frame frame;
    bool is_code = python_frame_of(&layout->at, layout->minor, (const uint8_t *)address, &frame);
    address = python_load(address + layout->at.frame_previous);
    if (!is_code)
      continue;
    equal = object != NULL && is_equal(layout, functions, object, &frame);
    void *outer = equal ? functions->get_back(object) : NULL;
    if (object != NULL)
      functions->decref(object);
    object = outer;
  }
  if (object != NULL)
    functions->decref(object);
  return equal;
}

/* Returns whether they have been compared: the calling thread holds the GIL, and CPython has the
 * functions. */
static bool compare_with_python(const struct python_layout *layout, uint64_t state) {
  struct functions functions;
  if ((uint64_t)layout->current_state() != state || !find_functions(&functions))
    return false;
  /* From 3.11 on frame objects are made when they are asked for, and that may collect garbage. */
  int was_enabled = functions.gc_disable != NULL && functions.gc_disable();
  void *object = functions.get_frame();
  if (object != NULL)
    functions.incref(object);
  if (!are_equal(layout, &functions, python_innermost(&layout->at, state), object))
    python_layout_refuse();
  if (was_enabled)
    functions.gc_enable();
  return true;
}

/* ---- once for a process ---- */

enum checked { NOT_CHECKED, CHECKED, COMPARED };
static _Atomic int checked;

bool python_chain_is_compared(void) {
  return atomic_load_explicit(&checked, memory_order_relaxed) == COMPARED;
}

/* The comparison with Python waits for a call that holds the GIL. */
bool python_chain_check(const struct python_layout *layout, uint64_t state) {
  if (atomic_load_explicit(&checked, memory_order_relaxed) == NOT_CHECKED &&
      !check_chain(layout, state))
    return false;
  bool compared = compare_with_python(layout, state);
  atomic_store_explicit(&checked, compared ? COMPARED : CHECKED, memory_order_relaxed);
  return python_layout() != NULL;
}
