/* What exception is under way in Python (python_frames.h). That there is one is read; which one,
 * Python is asked. */
#include "interpose/places/python/python_frames.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "interpose/places/python/python_layout.h"
#include "interpose/places/python/python_memory.h"

enum { PATIENCE_MS = 200, ITEMS_MAX = 1024 };

/* A thread without frames, as PyTorch's for the end of a process group, is asked for by one that
 * waits for it: the main thread. That does not live any more for Python once functions of atexit
 * run, as far as its module threading is there to say so: whatever has ended the program has been
 * printed by then, and left in sys. A traceback's last
 * frame outside of installed packages says where. Before 3.11 the answer is a tuple. */
static const char question[] =
    "import sys\n"
    "def told(e):\n"
    "  if not isinstance(e, BaseException) or isinstance(e, (StopIteration, StopAsyncIteration, "
    "GeneratorExit)) or type(e).__name__ == 'CancelledError' or isinstance(e, SystemExit) and "
    "e.code in (None, 0): return ''\n"
    "  t, at = e.__traceback__, ''\n"
    "  while t:\n"
    "    file = t.tb_frame.f_code.co_filename\n"
    "    if not at or '-packages' not in file: at = f\" at "
    "{file.rpartition('/')[2]}:{t.tb_lineno}\"\n"
    "    t = t.tb_next\n"
    "  return ascii(type(e).__name__ + at)[1:-1]\n"
    "frames, threads = sys._current_frames(), sys.modules.get('threading')\n"
    "main = threads.main_thread() if threads else None\n"
    "thread = %lu if %lu in frames else main.ident if main else min(frames, default=0)\n"
    "e = getattr(sys, '_current_exceptions', dict)().get(thread)\n"
    "answer = told(e[1] if isinstance(e, tuple) else e)\n"
    "if not answer and not (main and main.is_alive()) and not hasattr(sys, 'ps1'):\n"
    "  answer = told(getattr(sys, 'last_exc', None) or getattr(sys, 'last_value', None))\n";

/* The thread has a chain of what it deals with (exc_info), an item for each generator and one for
 * all else, whose first word is the exception, None or NULL. */
uint64_t python_exception_at(void) {
  const struct python_layout *layout = python_layout();
  if (layout == NULL)
    return 0;
  uint64_t state = (uint64_t)layout->thread_state();
  uint64_t item = state == 0 ? 0 : python_memory_word(state + layout->at.state_exceptions);
  for (int i = 0; i < ITEMS_MAX && item != 0; i++) {
    uint64_t exception = python_memory_word(item);
    if (exception != 0 && exception != layout->none)
      return exception;
    item = python_memory_word(item + layout->at.exceptions_previous);
  }
  return 0;
}

bool python_exception(char *text, size_t size, bool at_end) {
  char asked[PYTHON_RUN_SIZE];
  const struct python_layout *layout = python_layout();
  if (layout == NULL || (!at_end && python_exception_at() == 0))
    return false;
  unsigned long thread = (unsigned long)pthread_self();
  snprintf(asked, sizeof asked, question, thread, thread);
  return python_ask(asked, text, size, PATIENCE_MS) && text[0] != '\0';
}
