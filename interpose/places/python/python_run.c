/* Lines of Python, run by the calling thread or by one of its own (python_frames.h). */
#include "interpose/places/python/python_frames.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/thread/detached.h"
#include "interpose/places/python/python_layout.h"

enum { FILE_INPUT = 257 }; /* Py_file_input of Python.h */

/* Of Python.h; PyObject is `void` here. */
struct python_calls {
  int (*is_initialized)(void);
  int (*ensure)(void);
  void (*release)(int state);
  int (*run)(const char *text, void *flags);
  void *(*new_dict)(void);
  void (*clear_dict)(void *dict);
  void *(*builtins)(void); /* borrowed */
  int (*set_item)(void *dict, const char *key, void *value);
  void *(*get_item)(void *dict, const char *key); /* borrowed */
  void *(*run_in)(const char *text, int start, void *globals, void *locals, void *flags);
  const char *(*text_of)(void *object, intptr_t *size);
  void (*decref)(void *object);
  void (*fetch_error)(void **type, void **value, void **traceback);
  void (*restore_error)(void *type, void *value, void *traceback);
  void (*clear_error)(void);
};

enum progress { RUNNING, DONE, ABANDONED };

/* Freed by whoever comes last: who waits, or who runs it. */
struct errand {
  struct python_calls calls;
  char text[PYTHON_RUN_SIZE];
  bool asks;
  char answer[PYTHON_ANSWER_SIZE]; /* as is_well, written before DONE */
  bool is_well;
  _Atomic int progress;
};

static bool find_calls(struct python_calls *calls) {
  const struct {
    const char *name;
    void *member;
  } names[] = {
      {"Py_IsInitialized", &calls->is_initialized},
      {"PyGILState_Ensure", &calls->ensure},
      {"PyGILState_Release", &calls->release},
      {"PyRun_SimpleStringFlags", &calls->run},
      {"PyDict_New", &calls->new_dict},
      {"PyDict_Clear", &calls->clear_dict},
      {"PyEval_GetBuiltins", &calls->builtins},
      {"PyDict_SetItemString", &calls->set_item},
      {"PyDict_GetItemString", &calls->get_item},
      {"PyRun_StringFlags", &calls->run_in},
      {"PyUnicode_AsUTF8AndSize", &calls->text_of},
      {"Py_DecRef", &calls->decref},
      {"PyErr_Fetch", &calls->fetch_error},
      {"PyErr_Restore", &calls->restore_error},
      {"PyErr_Clear", &calls->clear_error},
  };
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
    void *function = python_layout_function(names[i].name);
    if (function == NULL)
      return false;
    memcpy(names[i].member, &function, sizeof(function));
  }
  return true;
}

/* Runs the text in `globals`, and copies what it leaves there. */
static bool ask_in(struct errand *errand, void *globals) {
  const struct python_calls *calls = &errand->calls;
  if (calls->set_item(globals, "__builtins__", calls->builtins()) != 0)
    return false;
  void *result = calls->run_in(errand->text, FILE_INPUT, globals, globals, NULL);
  if (result == NULL)
    return false;
  calls->decref(result);
  void *answer = calls->get_item(globals, "answer");
  const char *text = answer == NULL ? NULL : calls->text_of(answer, NULL);
  if (text == NULL)
    return false;
  snprintf(errand->answer, sizeof(errand->answer), "%s", text);
  return true;
}

/* Functions refer to the dict that they are in: it is cleared, or frames of the program that were
 * looked at would stay. */
static bool errand_ask(struct errand *errand) {
  const struct python_calls *calls = &errand->calls;
  void *globals = calls->new_dict();
  bool is_well = globals != NULL && ask_in(errand, globals);
  calls->clear_error();
  if (globals == NULL)
    return false;
  calls->clear_dict(globals);
  calls->decref(globals);
  return is_well;
}

/* With the GIL. What has gone wrong before, and is on its way, stays as it is. */
static void errand_run(struct errand *errand) {
  void *type, *value, *traceback;
  errand->calls.fetch_error(&type, &value, &traceback);
  errand->is_well = errand->asks ? errand_ask(errand) : errand->calls.run(errand->text, NULL) == 0;
  errand->calls.restore_error(type, value, traceback);
}

/* CPython lets threads that ask for the GIL after its end not come back: then it is abandoned. */
static void *run_errand(void *argument) {
  struct errand *errand = argument;
  int state = errand->calls.ensure();
  errand_run(errand);
  errand->calls.release(state);
  if (atomic_exchange(&errand->progress, DONE) == ABANDONED)
    free(errand);
  return NULL;
}

/* Looks often at first: mostly nobody has the GIL. Returns false if it is still running; then the
 * thread frees it. */
static bool wait_for(struct errand *errand, unsigned milliseconds) {
  long left = (long)milliseconds * 1000;
  for (long step = 20; left > 0 && atomic_load(&errand->progress) == RUNNING; step += step / 2) {
    step = step > 1000 ? 1000 : step;
    nanosleep(&(struct timespec){.tv_nsec = step * 1000}, NULL);
    left -= step;
  }
  return atomic_exchange(&errand->progress, ABANDONED) == DONE;
}

/* Returns false if the errand is not done, and not to be freed by the caller. */
static bool errand_make(struct errand *errand, const struct python_layout *layout,
                        unsigned milliseconds) {
  void *own = layout->thread_state();
  if (own != NULL && layout->current_state() == own)
    errand_run(errand);
  else if (detached_start(run_errand, errand) && !wait_for(errand, milliseconds))
    return false;
  return true;
}

/* answer: of `size` bytes; NULL: nothing is asked. */
static bool python_errand(const char *text, char *answer, size_t size, unsigned milliseconds) {
  const struct python_layout *layout = python_layout();
  struct errand *errand = layout == NULL ? NULL : calloc(1, sizeof(*errand));
  if (errand == NULL)
    return false;
  errand->asks = answer != NULL;
  snprintf(errand->text, sizeof(errand->text), "%s", text);
  bool can = find_calls(&errand->calls) && errand->calls.is_initialized();
  if (can && !errand_make(errand, layout, milliseconds))
    return false;
  bool is_well = errand->is_well;
  if (is_well && answer != NULL)
    snprintf(answer, size, "%s", errand->answer);
  free(errand);
  return is_well;
}

bool python_run(const char *text, unsigned milliseconds) {
  return python_errand(text, NULL, 0, milliseconds);
}

bool python_ask(const char *text, char *answer, size_t size, unsigned milliseconds) {
  return python_errand(text, answer, size, milliseconds);
}
