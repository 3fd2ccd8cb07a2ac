/* A line of Python, run by the calling thread or by one of its own (python_frames.h). */
#include "interpose/places/python/python_frames.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/thread/detached.h"
#include "interpose/places/python/python_layout.h"

/* Of Python.h. */
struct python_calls {
  int (*ensure)(void);
  void (*release)(int state);
  int (*run)(const char *text, void *flags);
};

enum progress { RUNNING, DONE, ABANDONED };

/* Freed by whoever comes last: who waits, or who runs it. */
struct errand {
  struct python_calls calls;
  char text[PYTHON_RUN_SIZE];
  bool is_well; /* written before DONE */
  _Atomic int progress;
};

#define FIND(member, name)                                                                         \
  memcpy(&(member), &(void *){python_layout_function(name)}, sizeof(void *))

static bool find_calls(struct python_calls *calls) {
  FIND(calls->ensure, "PyGILState_Ensure");
  FIND(calls->release, "PyGILState_Release");
  FIND(calls->run, "PyRun_SimpleStringFlags");
  return calls->ensure != NULL && calls->release != NULL && calls->run != NULL;
}

/* CPython lets threads that ask for the GIL after its end not come back: then it is abandoned. */
static void *run_errand(void *argument) {
  struct errand *errand = argument;
  int state = errand->calls.ensure();
  errand->is_well = errand->calls.run(errand->text, NULL) == 0;
  errand->calls.release(state);
  if (atomic_exchange(&errand->progress, DONE) == ABANDONED)
    free(errand);
  return NULL;
}

/* Returns false if it is still running; then the thread frees it. */
static bool wait_for(struct errand *errand, unsigned milliseconds) {
  for (unsigned i = 0; i < milliseconds && atomic_load(&errand->progress) == RUNNING; i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return atomic_exchange(&errand->progress, ABANDONED) == DONE;
}

bool python_run(const char *text, unsigned milliseconds) {
  const struct python_layout *layout = python_layout();
  struct python_calls calls;
  if (layout == NULL || !find_calls(&calls))
    return false;
  void *own = layout->thread_state();
  if (own != NULL && layout->current_state() == own)
    return calls.run(text, NULL) == 0;
  struct errand *errand = calloc(1, sizeof(*errand));
  if (errand == NULL)
    return false;
  errand->calls = calls;
  snprintf(errand->text, sizeof(errand->text), "%s", text);
  if (detached_start(run_errand, errand) && !wait_for(errand, milliseconds))
    return false;
  bool is_well = errand->is_well;
  free(errand);
  return is_well;
}
