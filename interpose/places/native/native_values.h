/* What a function's code does to registers and to its own frame, as far as it is followed: which
 * numbers they hold, and so which branches are decided. For native_graph.c. x86-64 only. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_VALUES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NATIVE_REGISTERS = 16, NATIVE_SLOTS = 12 };

/* The lowest `bits` of something are known: 0, 8, 16, 32 or 64. */
struct native_number {
  uint64_t value;
  uint32_t bits;
};

/* Some bytes of the frame, found by the stack pointer or by the frame pointer. bits 0: free. */
struct native_slot {
  int32_t at;
  uint32_t base; /* the register's number */
  struct native_number number;
};

/* What is known at one point. All zero: nothing. */
struct native_values {
  struct native_number registers[NATIVE_REGISTERS];
  struct native_slot slots[NATIVE_SLOTS];
  bool has_flags; /* of the last comparison or the like */
  bool zero, sign, carry, overflow;
};

/* What is known of the whole function. */
struct native_frame_use {
  bool has_pointer; /* it keeps a frame pointer */
  bool is_taken;    /* addresses of its frame may be known to others */
};

/* native_frame_use.c: to be called for each instruction of the function beforehand, and then for
 * each once more, as it may be seen late that there is a frame pointer. */
void native_values_look(struct native_frame_use *use, const uint8_t *code, size_t length);

/* What an instruction makes of the values. One that is not known counts as changing all of them. */
void native_values_step(struct native_values *values, const struct native_frame_use *use,
                        const uint8_t *code, size_t length);

/* Whether a conditional jump is taken, if the values tell. */
bool native_values_decide(const struct native_values *values, const uint8_t *code, size_t length,
                          bool *is_taken);

/* Leaves what is known in both, and returns whether that is less than before. */
bool native_values_meet(struct native_values *values, const struct native_values *other);

#endif
