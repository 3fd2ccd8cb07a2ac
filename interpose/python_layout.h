/* Which CPython runs in this process, and where in its objects things lie.
 *
 * CPython is found in whatever is loaded: the program, if it exports the functions of Python, or a
 * libpython, however it was loaded. A program that contains Python and exports nothing of it is not
 * seen.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_LAYOUT_H
#define NCCL_JOIN_INTERPOSE_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* Byte offsets. 0 stands for "there is no such thing in this version" where marked so. Each from
 * the header of CPython that is named, as the compiler lays it out on 64-bit systems; equal in all
 * releases of a minor version (3.13 and later are asked, see python_layout.c). */
struct python_offsets {
  /* PyThreadState, Include/cpython/pystate.h */
  uint16_t state_next, state_interp, state_thread; /* thread: pthread_self() */
  uint16_t state_native;                           /* its number for the system; 0 */
  uint16_t state_active;                           /* a byte; bit 4: may hold the GIL; 0 */
  uint16_t state_frame;                            /* the frame; of 3.11 and 3.12 the _PyCFrame */
  uint16_t
      state_interp_threads; /* in PyInterpreterState (pycore_interp.h): the first PyThreadState */
  int16_t cframe_frame;     /* _PyCFrame, in 3.11 and 3.12; -1 */
  /* PyFrameObject (pycore_frame.h: _PyInterpreterFrame in 3.11 and later) */
  uint16_t frame_previous, frame_code, frame_instruction;
  uint16_t frame_owner;    /* a byte; 0 */
  uint8_t frame_owner_not; /* owners from here on are no frames of Python code */
  uint8_t frame_size;      /* bytes that contain all of these */
  /* PyCodeObject, Include/cpython/code.h */
  uint16_t code_names, code_first_line, code_file, code_name;
  uint16_t code_lines;      /* co_linetable; in 3.9 co_lnotab */
  uint16_t code_code;       /* co_code_adaptive, the code itself; in 3.9 and 3.10 co_code, bytes */
  uint16_t code_exceptions; /* co_exceptiontable; 0 */
  uint16_t code_version;    /* co_version, of no other code object; 0 */
  uint16_t code_monitoring; /* _co_monitoring; 0 */
  uint16_t code_size;       /* bytes that contain all of these */
  /* _PyCoMonitoringData: what stood where instrumentation has put something */
  uint16_t monitoring_lines, monitoring_instructions;
  /* PyTupleObject, PyASCIIObject and PyCompactUnicodeObject, PyBytesObject */
  uint16_t tuple_items, text_ascii, text_other;
};

enum {
  PYTHON_BYTES_DATA = 32,
  PYTHON_SIZE = 16,
  PYTHON_TYPE = 8,
  PYTHON_TEXT_HASH = 24,
  PYTHON_TEXT_STATE = 32
};

struct python_layout {
  unsigned minor; /* 9 to 14 */
  struct python_offsets at;
  const char *opcodes; /* python_opcodes.h */
  /* Functions and objects of CPython. Those of the first row may be called without the GIL. */
  void *(*thread_state)(void);  /* PyGILState_GetThisThreadState: of this thread, or NULL */
  void *(*current_state)(void); /* PyThreadState_GetUnchecked: of this thread, if it holds the GIL.
                                   Before 3.12: of whichever thread holds it */
  void *(*main_interpreter)(void); /* PyInterpreterState_Main */
  uint64_t code_type, text_type, bytes_type, tuple_type;
};

/* The layout; NULL as long as no CPython is loaded, and for good if it is one that is not known.
 * Any thread; a load and a branch once it is found. Otherwise what has been loaded meanwhile is
 * looked at, in the first 64 calls and whenever their number is a power of two. */
const struct python_layout *python_layout(void);

/* Turns reading off for good: the layout has been seen to be wrong. */
void python_layout_refuse(void);

/* A function of the CPython that was found, by name; NULL. For the comparison in python_check.h. */
void *python_layout_function(const char *name);

/* For tests: what is made of a version and the 64-bit words of debug offsets (NULL: none). False:
 * not known. `version`: as Py_GetVersion returns it. */
bool python_layout_of(struct python_layout *layout, const char *version, const uint64_t *words);

#endif
