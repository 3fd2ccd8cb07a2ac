/* Which CPython runs in this process, and where in its objects things lie.
 *
 * CPython is found in whatever is loaded: the program, if it exports the functions of Python, or a
 * libpython, however it was loaded. A program that contains Python and exports nothing of it is not
 * seen.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_LAYOUT_H
#define NCCL_JOIN_INTERPOSE_PYTHON_LAYOUT_H

#include "interpose/places/python/python_offsets.h"

#include <stdbool.h>
#include <stdint.h>

struct python_layout {
  unsigned minor; /* 9 to 14 */
  struct python_offsets at;
  bool is_as_listed;   /* at is python_offsets_of[minor], but for state_interp_threads */
  const char *opcodes; /* python_opcodes.h */
  /* Functions of CPython that may be called without the GIL. */
  void *(*thread_state)(void);  /* PyGILState_GetThisThreadState: of this thread, or NULL */
  void *(*current_state)(void); /* PyThreadState_GetUnchecked (before 3.13 with an underscore, and
                                   another name): of this thread, if it holds the GIL; before 3.12
                                   of whichever thread holds it */
  void *(*main_interpreter)(void); /* PyInterpreterState_Main */
  /* Addresses of objects of CPython: types, and None. */
  uint64_t code_type, text_type, bytes_type, tuple_type;
  uint64_t number_type, bool_type, none; /* 0: not found; then no constant is known */
  /* Types; 0: not found. */
  uint64_t list_iterator, tuple_iterator, range_iterator, enumerate, zip, generator;
  uint64_t dict_iterators[6];    /* of keys, values and items, and backwards */
  uint64_t reverse_iterators[2]; /* of lists, and of other sequences */
};

/* The layout; NULL as long as no CPython is loaded, and for good if it is one that is not known.
 * Any thread; a load and a branch once it is found. Otherwise what has been loaded meanwhile is
 * looked at, in the first 64 calls and whenever their number is a power of two. */
const struct python_layout *python_layout(void);

/* Turns reading off for good: the layout has been seen to be wrong. */
void python_layout_refuse(void);

/* Whether reading has been turned off, or a CPython has been found that is not known. */
bool python_layout_is_refused(void);

/* What was added to the addresses of the file that CPython was found in. Once there is a layout. */
uint64_t python_layout_base(void);

/* A function of the CPython that was found, by name; NULL. Once there is a layout. */
void *python_layout_function(const char *name);

/* For tests: what is made of a version and the 64-bit words of debug offsets (NULL: none). False:
 * not known. `version`: as Py_GetVersion returns it. */
bool python_layout_of(struct python_layout *layout, const char *version, const uint64_t *words);

#endif
