/* What operands of x86-64's instructions hold: registers, words of a function's frame, and of the
 * object. For native_contents.c, which has the instructions. `bits` are those that the instruction
 * reads or writes.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_HELD_H
#define NCCL_JOIN_INTERPOSE_NATIVE_HELD_H

#include "interpose/places/native/native_contents.h"

/* The same, of which so many bits are known at most. */
struct native_held native_narrowed(struct native_held held, uint32_t bits);

/* Where it is kept what a register, or a word of the frame, holds. NULL: ah and the like; no word
 * of the frame that is followed. */
struct native_held *native_register_of(struct native_testing *testing,
                                       const struct native_operands *is, uint8_t reg,
                                       uint32_t bits);
struct native_held *native_slot_of(struct native_testing *testing,
                                   const struct native_operands *is);

/* What the two operands of ModRM hold. */
struct native_held native_get_rm(struct native_testing *testing, const struct native_operands *is,
                                 uint32_t bits);
struct native_held native_get_reg(struct native_testing *testing, const struct native_operands *is,
                                  uint32_t bits);

/* Sets what is kept there, if that is not NULL; the operand rm. */
void native_set_held(struct native_held *content, struct native_held to);
void native_set_rm(struct native_testing *testing, const struct native_operands *is,
                   struct native_held to, uint32_t bits);

/* From the first variable on nothing is known; what others may have written to is not, either: a
 * called function, or who has its address. */
void native_forget_held(struct native_testing *testing, uint32_t first);
void native_doubt_statics(struct native_testing *testing);

/* native_vectors.c: what an instruction with a VEX or EVEX prefix changes. False: it is none, or
 * nothing is known of it. */
bool native_vectors_step(struct native_testing *testing, const uint8_t *code, size_t length);

/* What moves the stack pointer, and what follows what an instruction has made of it: each ends with
 * that. One that has set it to anything but itself and a number has lost it. */
void native_push_word(struct native_testing *testing, struct native_held pushed);
struct native_held native_pop_word(struct native_testing *testing);
void native_move_stack(struct native_testing *testing, int64_t bytes);
void native_follow_stack(struct native_testing *testing);

#endif
