/* How a frame is undone at one address of a function, read from its object's unwind tables
 * (.eh_frame: Linux Standard Base, Core, "Exception Frames"; DWARF 5, 6.4). What is read are the
 * rules by which compilers describe almost all of their code; any other rule is not understood, and
 * the caller stops there.
 *
 * Pure but for reading the tables, which stay as they are while the object is loaded.
 */
#ifndef NCCL_JOIN_INTERPOSE_EH_FRAME_H
#define NCCL_JOIN_INTERPOSE_EH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/places/native/code_modules.h"

/* What the CFA, the stack pointer before the call of the function, is counted from. */
enum frame_base {
  FRAME_BASE_STACK,   /* the stack pointer */
  FRAME_BASE_POINTER, /* the frame pointer register */
  FRAME_BASE_SAVED,   /* what lies at the frame pointer plus cfa_saved_at: functions that align */
};

/* Where the caller's frame pointer is. */
enum frame_pointer {
  FRAME_POINTER_SAME,     /* in its register */
  FRAME_POINTER_AT_CFA,   /* at the CFA plus fp_at */
  FRAME_POINTER_AT_FRAME, /* at the frame pointer plus fp_at */
  FRAME_POINTER_LOST,
};

/* Registers that a function leaves as they were, besides the frame pointer: rbx, r12, r13, r14 and
 * r15. */
#define EH_KEPT 5u

/* Where the caller's value of one of them is: at the CFA plus this, a negative number; or one of
 * these. */
enum { FRAME_KEPT_SAME = 0, FRAME_KEPT_LOST = 1 };

struct frame_rule {
  const uint8_t *function; /* the function, or that part of it which has a table of its own */
  size_t function_size;
  enum frame_base base;
  enum frame_pointer pointer;
  int32_t cfa_offset; /* CFA = base + cfa_offset */
  int32_t cfa_saved_at;
  int32_t fp_at;
  int32_t return_at; /* the return address is at CFA + return_at */
  int32_t kept_at[EH_KEPT];
  bool is_outermost; /* the tables say that nobody has called it */
};

/* The rule at an address of the object, or false: there is none, or it is not understood. */
bool eh_frame_rule(const struct code_module *module, uintptr_t pc, struct frame_rule *rule);

#endif
