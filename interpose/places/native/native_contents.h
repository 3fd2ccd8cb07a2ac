/* What the files that read a function's conditions share: native_tests.c has the blocks,
 * native_contents.c what each instruction does to what is held where. Not for anybody else. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_CONTENTS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_CONTENTS_H

#include "interpose/places/native/native_graph.h"
#include "interpose/places/native/native_operands.h"
#include "interpose/places/native/native_values.h"

enum { NATIVE_TESTED_SLOTS = 48, NATIVE_TESTED = NATIVE_REGISTERS + NATIVE_TESTED_SLOTS };

/* rbx, rbp, r12 to r15. */
#define NATIVE_KEPT ((uint32_t)(1u << RBX | 1u << RBP | 0xF000u))

/* What is in a register or a slot. */
struct native_held {
  uint64_t by;  /* variables, before the block, that it is made of */
  int64_t plus; /* the number: of is_number, or what has been added to the variable */
  /* It has been read, on some way at least, from a word of memory that is no part of the frame;
   * bits 0: it has not. */
  struct native_memory {
    int64_t at;    /* from where the variable leads; without one, the address */
    uint32_t base; /* the variable, from 1 on; 0: none */
    uint32_t bits;
  } memory;
  uint32_t like; /* it is a variable, or that plus a number: its bit, from 1 on; 0: it is not */
  uint8_t
      truth; /* it is whether the comparison of that number holds (struct native_testing); 0: of none */
  uint8_t width;  /* so many of its lower bits are that, and others are not known; 0: all are */
  bool by_more;   /* it is made of something else, too */
  bool is_number; /* one that stands in the code */
  bool is_moved;  /* it is not what it was */
  bool is_result; /* made of what the last call has returned, and of numbers */
  bool varies;    /* plus may be another one */
};

static inline bool native_memory_is(struct native_memory a, struct native_memory b) {
  return a.bits == b.bits && (a.bits == 0 || (a.base == b.base && a.at == b.at));
}

/* What a conditional jump compares. */
struct native_comparison {
  struct native_held a, b;
  uint32_t bits; /* 0: not known */
  bool is_truth; /* they were compared before, and it has been kept how */
  enum native_jump { JUMP_OTHERWISE, JUMP_IF_EQUAL, JUMP_IF_NOT_EQUAL } jumps;
  bool is_bit; /* the lowest bit of a alone, with 0 */
};

struct native_testing {
  struct native_frame_use use;
  struct {
    /* RSP: at so many bytes from the frame's CFA. NATIVE_STATIC: a word of the object that the
     * function writes to. Others may do so, too. */
    uint32_t base;
    int64_t at;
  } slots[NATIVE_TESTED_SLOTS]; /* those met so far, of all blocks */
  uint32_t nslots;
  uint64_t taken; /* of them those whose address is taken, by number */
  struct native_held contents[NATIVE_TESTED];
  struct native_held flags;
  struct native_comparison compared; /* that the flags are of */
  struct native_comparison decides;  /* at the end of the block */
  struct native_comparison truth;    /* that the last flag kept in a register is of; its number */
  uint8_t ntruths;
  struct native_counting *counting;  /* native_counters.h; NULL: nothing is counted */
  const struct native_held *entries; /* of registers, by block; NULL: nothing is known */
  struct native_held *exits;         /* the same, behind each block */
  const int64_t *
      depths; /* of the stack where blocks begin, in bytes below the CFA, or NATIVE_DEPTH_UNKNOWN; NULL: all are unknown */
  int64_t *grows; /* what each block adds to that; unknown, if it has lost it */
  int64_t pushed; /* the depth now; unknown: since the block began */
  bool has_depth;
  bool loses_stack; /* this block has set the stack pointer to something that is not known */
  bool forgets;     /* what slots hold, in this block, of which some are met later */
  bool calls;       /* in this block */
  uint32_t called;  /* the last one: the lower half of what it goes to; 0: not known */
  struct flow_values values;
};

#define NATIVE_DEPTH_UNKNOWN INT64_MAX

/* Nothing is known of it. */
static const struct native_held native_anything = {.by_more = true};

/* A variable is what it was before the block. */
static inline struct native_held native_as_before(uint32_t variable) {
  return (struct native_held){.by = UINT64_C(1) << variable, .like = variable + 1};
}

/* The same of a slot. */
static inline struct native_held native_slot_before(const struct native_testing *testing,
                                                    uint32_t slot) {
  struct native_held before = native_as_before(NATIVE_REGISTERS + slot);
  before.by_more = testing->slots[slot].base == NATIVE_STATIC;
  return before;
}

/* What an instruction changes, whichever it is. */
void native_contents_step(struct native_testing *testing, const uint8_t *code, size_t length);

#endif
