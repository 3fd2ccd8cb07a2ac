/* Where in the objects of CPython things lie, by minor version.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_OFFSETS_H
#define NCCL_JOIN_INTERPOSE_PYTHON_OFFSETS_H

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
      state_interp_threads;  /* in PyInterpreterState (pycore_interp.h): the first PyThreadState */
  uint16_t state_exceptions; /* exc_info, the first _PyErr_StackItem */
  uint16_t exceptions_previous; /* in it, previous_item; the exception or its type comes first */
  int16_t cframe_frame;         /* _PyCFrame, in 3.11 and 3.12; -1 */
  /* PyFrameObject (pycore_frame.h: _PyInterpreterFrame in 3.11 and later) */
  uint16_t frame_previous, frame_code, frame_instruction;
  uint16_t frame_owner;    /* a byte; 0 */
  uint8_t frame_owner_not; /* owners from here on are no frames of Python code */
  uint8_t frame_size;      /* bytes that contain all of these */
  uint16_t frame_stack; /* localsplus, before the values; in 3.9 and 3.10 f_valuestack, a pointer */
  uint8_t
      generator_frame; /* PyGenObject, Include/cpython/genobject.h: its frame; in 3.9 and 3.10 a pointer */
  /* PyCodeObject, Include/cpython/code.h */
  uint16_t code_names, code_flags, code_first_line, code_file, code_name; /* co_consts lies before
                                                                             co_names */
  uint16_t code_locals;     /* co_nlocalsplus: how many of localsplus are before the values; 0 */
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

/* The same in all versions: of every object its type, of those of variable size and of a str the
 * size or length; what a bytes object holds; a str's hash and state. */
enum {
  PYTHON_TYPE = 8,
  PYTHON_SIZE = 16,
  PYTHON_BYTES_DATA = 32,
  PYTHON_TEXT_HASH = 24,
  PYTHON_TEXT_STATE = 32
};

/* By minor version. In the header, so that the fast path is compiled for each version with its
 * numbers. */
static const struct python_offsets python_offsets_of[] = {
    [9] = {.state_next = 8,
           .state_interp = 16,
           .state_thread = 176,
           .state_frame = 24,
           .state_interp_threads = 8,
           .state_exceptions = 144,
           .exceptions_previous = 24,
           .cframe_frame = -1,
           .frame_previous = 24,
           .frame_code = 32,
           .frame_instruction = 104,
           .frame_size = 112,
           .frame_stack = 64,
           .generator_frame = 16,
           .code_names = 64,
           .code_flags = 36,
           .code_first_line = 40,
           .code_file = 104,
           .code_name = 112,
           .code_lines = 120,
           .code_code = 48,
           .code_size = 128,
           .tuple_items = 24,
           .text_ascii = 48,
           .text_other = 72},
    [10] = {.state_next = 8,
            .state_interp = 16,
            .state_thread = 176,
            .state_frame = 24,
            .state_interp_threads = 8,
            .state_exceptions = 144,
            .exceptions_previous = 24,
            .cframe_frame = -1,
            .frame_previous = 24,
            .frame_code = 32,
            .frame_instruction = 96,
            .frame_size = 104,
            .frame_stack = 64,
            .generator_frame = 16,
            .code_names = 64,
            .code_flags = 36,
            .code_first_line = 40,
            .code_file = 104,
            .code_name = 112,
            .code_lines = 120,
            .code_code = 48,
            .code_size = 128,
            .tuple_items = 24,
            .text_ascii = 48,
            .text_other = 72},
    [11] = {.state_next = 8,
            .state_interp = 16,
            .state_thread = 152,
            .state_native = 160,
            .state_frame = 56,
            .state_interp_threads = 16,
            .state_exceptions = 120,
            .exceptions_previous = 8,
            .cframe_frame = 8,
            .frame_previous = 48,
            .frame_code = 32,
            .frame_instruction = 56,
            .frame_size = 72,
            .frame_stack = 72,
            .generator_frame = 80,
            .code_names = 32,
            .code_flags = 48,
            .code_first_line = 72,
            .code_locals = 76,
            .code_file = 112,
            .code_name = 128,
            .code_lines = 136,
            .code_code = 184,
            .code_exceptions = 40,
            .code_size = 184,
            .tuple_items = 24,
            .text_ascii = 48,
            .text_other = 72},
    [12] = {.state_next = 8,
            .state_interp = 16,
            .state_thread = 136,
            .state_native = 144,
            .state_active = 24,
            .state_frame = 56,
            .state_interp_threads = 72,
            .state_exceptions = 104,
            .exceptions_previous = 8,
            .cframe_frame = 0,
            .frame_previous = 8,
            .frame_code = 0,
            .frame_instruction = 56,
            .frame_owner = 70,
            .frame_owner_not = 3,
            .frame_size = 72,
            .frame_stack = 72,
            .generator_frame = 72,
            .code_names = 32,
            .code_flags = 48,
            .code_first_line = 68,
            .code_locals = 72,
            .code_file = 112,
            .code_name = 128,
            .code_lines = 136,
            .code_code = 192,
            .code_exceptions = 40,
            .code_version = 92,
            .code_monitoring = 168,
            .code_size = 192,
            .monitoring_lines = 40,
            .monitoring_instructions = 56,
            .tuple_items = 24,
            .text_ascii = 40,
            .text_other = 56},
    [13] = {.state_next = 8,
            .state_interp = 16,
            .state_thread = 152,
            .state_native = 160,
            .state_active = 32,
            .state_frame = 72,
            .state_interp_threads = 7344,
            .state_exceptions = 120,
            .exceptions_previous = 8,
            .cframe_frame = -1,
            .frame_previous = 8,
            .frame_code = 0,
            .frame_instruction = 56,
            .frame_owner = 70,
            .frame_owner_not = 3,
            .frame_size = 72,
            .frame_stack = 72,
            .generator_frame = 72,
            .code_names = 32,
            .code_flags = 48,
            .code_first_line = 68,
            .code_locals = 72,
            .code_file = 112,
            .code_name = 128,
            .code_lines = 136,
            .code_code = 200,
            .code_exceptions = 40,
            .code_version = 92,
            .code_monitoring = 176,
            .code_size = 200,
            .monitoring_lines = 32,
            .monitoring_instructions = 48,
            .tuple_items = 24,
            .text_ascii = 40,
            .text_other = 56},
    [14] = {.state_next = 8,
            .state_interp = 16,
            .state_thread = 152,
            .state_native = 160,
            .state_active = 32,
            .state_frame = 72,
            .state_interp_threads = 7344,
            .state_exceptions = 120,
            .exceptions_previous = 8,
            .cframe_frame = -1,
            .frame_previous = 8,
            .frame_code = 0,
            .frame_instruction = 56,
            .frame_owner = 74,
            .frame_owner_not = 3,
            .frame_size = 80,
            .frame_stack = 80,
            .generator_frame = 72,
            .code_names = 32,
            .code_flags = 48,
            .code_first_line = 68,
            .code_locals = 72,
            .code_file = 112,
            .code_name = 128,
            .code_lines = 136,
            .code_code = 208,
            .code_exceptions = 40,
            .code_version = 92,
            .code_monitoring = 176,
            .code_size = 208,
            .monitoring_lines = 96,
            .monitoring_instructions = 112,
            .tuple_items = 32,
            .text_ascii = 40,
            .text_other = 56},
};

#endif
