/* What the conditions of a function's code test, and what its blocks set, as far as it is held in
 * registers that calls keep and in the function's own frame: see native_graph.h. Of x86-64's code,
 * by the opcode maps of the Intel 64 manual (volume 2, appendix A). What is left out here is taken
 * to change everything.
 *
 * The compiler may keep several variables in one register. So one that a loop sets to anything but
 * a number, or what it was and a number, may be another one there. */
#include "interpose/places/native/native_graph.h"

#include <stdlib.h>
#include <string.h>

#include "interpose/places/native/native_operands.h"
#include "interpose/places/native/native_values.h"

enum { REGISTERS = 16, SLOTS = 48, VARIABLES = REGISTERS + SLOTS };

/* rbx, rbp, r12 to r15. */
#define KEPT ((uint32_t)(1u << RBX | 1u << RBP | 0xF000u))

/* What is in a register or a slot. */
struct content {
  uint64_t by;    /* variables, before the block, that it is made of */
  bool by_more;   /* ... and of something else */
  bool is_number; /* one that stands in the code */
  bool is_moved;  /* it is not what it was */
  bool is_result; /* made of what the last call has returned, and of numbers */
  uint32_t like;  /* it is a variable, or that plus a number: its bit, from 1 on; 0: it is not */
};

struct testing {
  struct native_frame_use use;
  struct {
    uint32_t base;
    int32_t at;
  } slots[SLOTS]; /* those met so far, of all blocks */
  uint32_t nslots;
  struct content contents[VARIABLES];
  struct content flags;
  int64_t pushed;     /* bytes, since the block began */
  bool is_unbalanced; /* blocks begin with something pushed: what rsp leads to is not known */
  bool calls;         /* in this block */
  uint32_t called;    /* the last one: the lower half of what it goes to; 0: not known */
  struct flow_values values;
};

static const struct content anything = {.by_more = true};

static struct content made_of(struct content a, struct content b) {
  return (struct content){.by = a.by | b.by,
                          .by_more = a.by_more || b.by_more,
                          .is_result = (a.is_result && (b.is_result || b.is_number)) ||
                                       (b.is_result && a.is_number)};
}

static struct content number(void) {
  return (struct content){.is_number = true};
}

static void begin_block(struct testing *testing) {
  for (uint32_t i = 0; i < VARIABLES; i++) {
    bool is_variable = i >= REGISTERS || (KEPT >> i & 1);
    testing->contents[i] =
        is_variable ? (struct content){.by = UINT64_C(1) << i, .like = i + 1} : anything;
  }
  testing->flags = anything;
  testing->pushed = 0;
  testing->calls = false;
  testing->values = (struct flow_values){.tests_more = true};
}

static void end_block(struct testing *testing) {
  struct flow_values *values = &testing->values;
  for (uint32_t i = 0; i < VARIABLES; i++) {
    const struct content *is = &testing->contents[i];
    uint64_t bit = UINT64_C(1) << i;
    if ((i < REGISTERS && !(KEPT >> i & 1)) || (is->like == i + 1 && !is->is_moved))
      continue;
    values->sets |= bit;
    *(is->is_number || is->like == i + 1 ? &values->moves : &values->reused) |= bit;
  }
  /* Others may know where the frame lies. */
  if (testing->calls && testing->use.is_taken)
    values->sets |= ~((UINT64_C(1) << REGISTERS) - 1);
}

/* ---- operands ---- */

static bool is_in_frame(const struct testing *testing, const struct native_operands *is) {
  return is->is_slot && (is->base == RSP ? !testing->is_unbalanced : testing->use.has_pointer);
}

/* NULL: there are too many. */
static struct content *slot_of(struct testing *testing, const struct native_operands *is) {
  int32_t at = is->base == RSP ? (int32_t)(is->at - testing->pushed) : is->at;
  uint32_t i = 0;
  while (i < testing->nslots && (testing->slots[i].base != is->base || testing->slots[i].at != at))
    i++;
  if (i == SLOTS)
    return NULL;
  if (i == testing->nslots) {
    testing->slots[i].base = is->base;
    testing->slots[i].at = at;
    testing->nslots++;
  }
  return &testing->contents[REGISTERS + i];
}

/* ah, ch, dh and bh are none. */
static struct content *content_of(struct testing *testing, const struct native_operands *is,
                                  uint8_t reg, uint32_t bits) {
  return bits == 8 && is->rex == 0 && reg >= 4 && reg < 8 ? NULL : &testing->contents[reg];
}

static struct content *rm_of(struct testing *testing, const struct native_operands *is,
                             uint32_t bits) {
  if (is->mode == 3)
    return content_of(testing, is, is->rm, bits);
  return is_in_frame(testing, is) ? slot_of(testing, is) : NULL;
}

/* Memory elsewhere is another place if what leads to it changes. */
static struct content get_rm(struct testing *testing, const struct native_operands *is,
                             uint32_t bits) {
  const struct content *content = rm_of(testing, is, bits);
  if (content != NULL)
    return *content;
  struct content memory = anything;
  if (is->mode != 3 && !is->is_far && !is->is_slot && (is->rm & 7) != 4)
    memory.by = testing->contents[is->base].by;
  return memory;
}

static struct content get_reg(struct testing *testing, const struct native_operands *is,
                              uint32_t bits) {
  const struct content *content = content_of(testing, is, is->reg, bits);
  return content == NULL ? anything : *content;
}

static void set_content(struct content *content, struct content to) {
  if (content != NULL)
    *content = to;
}

static void set_all(struct testing *testing, uint32_t first) {
  for (uint32_t i = first; i < VARIABLES; i++)
    testing->contents[i] = anything;
}

static void set_rm(struct testing *testing, const struct native_operands *is, struct content to,
                   uint32_t bits) {
  struct content *content = rm_of(testing, is, bits);
  if (content == NULL && is->mode == 3)
    testing->contents[is->rm - 4] = anything; /* ah and the like */
  else if (content == NULL && is->is_slot)
    set_all(testing, REGISTERS);
  else if (content == NULL)
    testing->calls = true; /* may be the frame, where others know that */
  else
    *content = to;
}

/* ---- instructions ---- */

enum operation { ADD = 0, SUB = 5, XOR = 6, CMP = 7 };

static struct content plus(struct content a) {
  a.is_moved = true;
  a.is_number = false;
  return a;
}

static void move_stack(struct testing *testing, int64_t bytes) {
  testing->pushed += bytes;
}

static void arithmetic(struct testing *testing, const struct native_operands *is) {
  uint32_t operation = is->opcode >> 3, form = is->opcode & 7, bits = form & 1 ? is->bits : 8;
  bool to_register = form == 2 || form == 3, has_immediate = form >= 4;
  struct content *rax = &testing->contents[RAX];
  struct content reg = has_immediate ? number() : get_reg(testing, is, bits);
  struct content rm = has_immediate ? *rax : get_rm(testing, is, bits);
  bool clears = operation == XOR && !has_immediate && is->mode == 3 && is->reg == is->rm;
  struct content made = clears ? number() : made_of(reg, rm);
  testing->flags = made;
  if (has_immediate && (operation == ADD || operation == SUB))
    made = plus(rm);
  if (operation == CMP)
    return;
  if (has_immediate)
    *rax = made;
  else if (to_register)
    set_content(content_of(testing, is, is->reg, bits), made);
  else
    set_rm(testing, is, made, bits);
}

/* 80, 81 and 83. */
static void arithmetic_with_immediate(struct testing *testing, const struct native_operands *is) {
  uint32_t operation = is->reg & 7, bits = is->opcode == 0x80 ? 8 : is->bits;
  struct content rm = get_rm(testing, is, bits), made = made_of(rm, number());
  testing->flags = made;
  if (is->mode == 3 && is->rm == RSP && (operation == ADD || operation == SUB)) {
    int32_t bytes = (is->code[is->length - 1] ^ 0x80) - 0x80; /* with its sign */
    if (is->opcode == 0x81)
      memcpy(&bytes, is->code + is->length - sizeof bytes, sizeof bytes);
    move_stack(testing, operation == SUB ? bytes : -(int64_t)bytes);
  } else if (operation != CMP) {
    set_rm(testing, is, operation == ADD || operation == SUB ? plus(rm) : made, bits);
  }
}

/* F6 and F7, FE and FF. */
static bool unary(struct testing *testing, const struct native_operands *is) {
  uint32_t bits = is->opcode & 1 ? is->bits : 8, what = is->reg & 7;
  struct content rm = get_rm(testing, is, bits);
  testing->flags = made_of(rm, number());
  if (is->opcode >= 0xFE && what <= 1)
    set_rm(testing, is, plus(rm), bits);
  else if (is->opcode >= 0xFE)
    return false;
  else if (what == 2 || what == 3)
    set_rm(testing, is, made_of(rm, rm), bits);
  else if (what > 3) /* products, quotients and remainders */
    testing->contents[RAX] = testing->contents[RDX] =
        made_of(made_of(rm, testing->contents[RAX]), testing->contents[RDX]);
  return true;
}

static void call(struct testing *testing) {
  for (uint32_t i = 0; i < REGISTERS; i++)
    if (!(KEPT >> i & 1))
      testing->contents[i] = anything;
  testing->contents[RAX].is_result = true;
  testing->flags = anything;
  testing->calls = true;
}

static struct content loaded_address(struct testing *testing, const struct native_operands *is) {
  bool is_sum = !is->is_far && (is->mode == 1 || is->mode == 2) && (is->rm & 7) != 4;
  return is_sum ? plus(testing->contents[is->base]) : anything;
}

static void branch(struct testing *testing) {
  testing->values.tests = testing->flags.by;
  testing->values.tests_more = testing->flags.by_more;
  testing->values.asks = testing->flags.is_result ? testing->called : 0;
}

/* Moves; false: it is none. */
static bool step_move(struct testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  uint32_t bits = opcode & 1 ? is->bits : 8;
  if (opcode == 0x88 || opcode == 0x89)
    set_rm(testing, is, get_reg(testing, is, bits), bits);
  else if (opcode == 0x8A || opcode == 0x8B)
    set_content(content_of(testing, is, is->reg, bits), get_rm(testing, is, bits));
  else if ((opcode == 0xC6 || opcode == 0xC7) && (is->reg & 7) == 0)
    set_rm(testing, is, number(), bits);
  else if (opcode >> 4 == 0xB)
    set_content(content_of(testing, is, (uint8_t)((opcode & 7) | (is->rex & 1) << 3),
                           opcode & 8 ? is->bits : 8),
                number());
  else if (opcode == 0x63)
    set_content(content_of(testing, is, is->reg, is->bits), get_rm(testing, is, 32));
  else if (opcode == 0x8D)
    set_content(content_of(testing, is, is->reg, is->bits), loaded_address(testing, is));
  else
    return false;
  return true;
}

/* Calls, and what moves the stack; false: it is none. */
static bool step_stack(struct testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode, what = opcode == 0xFF ? is->reg & 7 : 0;
  if (opcode == 0xE8 || (opcode == 0xFF && what == 2)) {
    call(testing);
  } else if (opcode >> 3 == 11) {
    testing->contents[(opcode & 7) | (is->rex & 1) << 3] = anything;
    move_stack(testing, -8);
  } else if (opcode >> 3 == 10 || opcode == 0x68 || opcode == 0x6A || what == 6) {
    move_stack(testing, 8);
  } else if (opcode == 0xC9) {
    testing->contents[RBP] = anything;
  } else {
    return false;
  }
  return true;
}

static bool step_one(struct testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  uint32_t bits = opcode & 1 ? is->bits : 8;
  if (opcode < 0x40 && (opcode & 7) < 6) {
    arithmetic(testing, is);
  } else if (opcode == 0x80 || opcode == 0x81 || opcode == 0x83) {
    arithmetic_with_immediate(testing, is);
  } else if (opcode == 0x84 || opcode == 0x85) {
    testing->flags = made_of(get_rm(testing, is, bits), get_reg(testing, is, bits));
  } else if (opcode == 0xA8 || opcode == 0xA9) {
    testing->flags = made_of(testing->contents[RAX], number());
  } else if (opcode == 0xF6 || opcode == 0xF7 || opcode == 0xFE || opcode == 0xFF) {
    return unary(testing, is);
  } else if (opcode == 0x69 || opcode == 0x6B) {
    testing->flags = made_of(get_rm(testing, is, bits), number());
    set_content(content_of(testing, is, is->reg, is->bits), testing->flags);
  } else if (opcode == 0xC0 || opcode == 0xC1 || (opcode >= 0xD0 && opcode < 0xD4)) {
    testing->flags = made_of(get_rm(testing, is, bits), testing->contents[RCX]);
    set_rm(testing, is, testing->flags, bits);
  } else if (opcode == 0x99) {
    testing->contents[RDX] = made_of(testing->contents[RAX], number());
  } else if (opcode >> 4 == 7) {
    branch(testing);
  } else {
    return opcode == 0x98 || opcode == 0xE9 || opcode == 0xEB || opcode == 0xC3 ||
           (opcode == 0x90 && is->rex == 0);
  }
  return true;
}

/* 0F xx. */
static bool step_two(struct testing *testing, const struct native_operands *is) {
  uint8_t opcode = is->opcode;
  struct content *reg = content_of(testing, is, is->reg, is->bits);
  if (opcode == 0x1E || opcode == 0x1F || opcode == 0x0D || opcode == 0x18)
    return true;
  if (opcode == 0x2E || opcode == 0x2F)
    testing->flags = anything;
  else if (opcode == 0x2C || opcode == 0x2D)
    set_content(reg, anything);
  else if (opcode >> 4 == 4)
    set_content(reg, made_of(made_of(get_rm(testing, is, is->bits), *reg), testing->flags));
  else if (opcode >> 4 == 8)
    branch(testing);
  else if (opcode >> 4 == 9)
    set_rm(testing, is, made_of(testing->flags, number()), 8);
  else if (opcode == 0xAF)
    set_content(reg, testing->flags = made_of(get_rm(testing, is, is->bits), *reg));
  else if (opcode == 0xB6 || opcode == 0xB7 || opcode == 0xBE || opcode == 0xBF)
    set_content(reg, get_rm(testing, is, opcode & 1 ? 16 : 8));
  else if (native_operands_is_vector(opcode))
    return true;
  else if (is->mode != 3 && native_operands_stores_vector(opcode))
    set_rm(testing, is, anything, 128);
  else
    return native_operands_stores_vector(opcode);
  return true;
}

static void step(struct testing *testing, const uint8_t *code, size_t length) {
  struct native_operands is;
  bool known = native_operands_read(&is, code, length);
  if (known && is.two)
    known = step_two(testing, &is);
  else if (known)
    known = step_move(testing, &is) || step_stack(testing, &is) || step_one(testing, &is);
  if (known)
    return;
  set_all(testing, 0);
  testing->flags = anything;
}

/* ---- all of it ---- */

/* False: the code cannot be read. */
static bool find_all(struct testing *testing, const struct native_code *code,
                     const uint32_t *block_at, struct flow_values *values) {
  struct native_cursor cursor;
  uint32_t block = FLOW_ANYWHERE;
  bool failed, ends = false;
  testing->nslots = 0;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    if (block_at[cursor.position] != block) {
      if (block != FLOW_ANYWHERE) {
        end_block(testing);
        values[block] = testing->values;
        testing->is_unbalanced |= testing->pushed != 0 && block != 0 && !ends;
      }
      block = block_at[cursor.position];
      begin_block(testing);
    }
    if (cursor.is.kind == NATIVE_CALL)
      testing->called =
          cursor.is.has_target ? (uint32_t)((uintptr_t)cursor.at + (uintptr_t)cursor.is.target) : 0;
    step(testing, cursor.at, cursor.is.length);
    ends = cursor.is.kind != NATIVE_PLAIN && cursor.is.kind != NATIVE_CALL &&
           cursor.is.kind != NATIVE_BRANCH;
  }
  if (block != FLOW_ANYWHERE) {
    end_block(testing);
    values[block] = testing->values;
  }
  return !failed;
}

void native_find_tests(struct native_graph *graph, const struct native_code *code,
                       const uint32_t *block_at) {
  struct native_cursor cursor;
  bool failed;
  struct testing testing = {.nslots = 0};
  struct flow_values *values = NULL;
  if (code->decode != native_decode_x86_64)
    return;
  for (uint32_t times = 0; times < 2; times++)
    for (bool more = native_first(code, &cursor, &failed); more;
         more = native_next(code, &cursor, &failed))
      native_values_look(&testing.use, cursor.at, cursor.is.length);
  values = calloc((size_t)graph->nblocks + 1, sizeof *values);
  bool found = values != NULL && find_all(&testing, code, block_at, values);
  if (found && testing.is_unbalanced) /* once more, without what rsp leads to */
    found = find_all(&testing, code, block_at, values);
  if (!found) {
    free(values);
    values = NULL;
  }
  graph->values = values;
}
