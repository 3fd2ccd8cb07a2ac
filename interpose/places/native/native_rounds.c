/* Counters on the stack and in registers (native_rounds.h). */
#include "interpose/places/native/native_rounds.h"

#include <string.h>

enum { NUMBER_STACK = 4, NUMBER_FRAME = 5, NUMBER_KEPT = 12 };

/* Where a variable of a frame is, as what calls there have kept tells. False: that is not known. */
static bool find_variable(const struct native_frame *frame,
                          const struct native_registers *registers,
                          const struct native_variable *variable, struct native_register *found) {
  if (!variable->is_slot) {
    *found = registers->of[variable->reg];
    return found->is_known;
  }
  if (variable->reg == NATIVE_STATIC) { /* the program's, which is always there: no plug-in's */
    *found = (struct native_register){.at = (uintptr_t)variable->at, .is_known = true};
    return frame->module.is_executable;
  }
  uintptr_t base = registers->of[NUMBER_FRAME].value;
  if (variable->reg == NUMBER_FRAME && !registers->of[NUMBER_FRAME].is_known)
    return false;
  if (variable->reg == NUMBER_STACK)
    base = frame->cfa;
  *found =
      (struct native_register){.at = base + (uintptr_t)(intptr_t)variable->at, .is_known = true};
  return true;
}

static bool read_variable(const struct native_register *variable, uint32_t bits, uint64_t *value) {
  *value = variable->value;
  return variable->at == 0 || native_memory_read(variable->at, bits / 8, value);
}

static bool read_limit(const struct native_frame *frame, const struct native_registers *registers,
                       const struct native_counter *counter, uint64_t *limit) {
  bool is_memory = counter->limit == NATIVE_LIMIT_MEMORY;
  struct native_register in = {.is_known = false};
  *limit = 0;
  if (counter->limit == NATIVE_LIMIT_VARIABLE || (is_memory && counter->has_base)) {
    uint32_t bits = is_memory ? 64 : counter->limit_bits;
    if (!find_variable(frame, registers, &counter->limit_in, &in) ||
        !read_variable(&in, bits, limit))
      return false;
  }
  *limit += (uint64_t)counter->number;
  return !is_memory || native_memory_read((uintptr_t)*limit, counter->limit_bits / 8, limit);
}

bool native_loop_find(const struct native_frame *frame, const struct native_frame *whole,
                      const struct native_entry *entry, uint32_t depth, struct native_loop *loop) {
  struct native_counter counter;
  struct native_registers registers;
  struct native_register variable;
  if (frame->cfa == 0 || !whole->has_rule ||
      !native_code_counted(whole->rule.function, (const void *)(frame->pc - 1), depth, &counter) ||
      !native_registers_read(frame->cfa, &registers) ||
      !find_variable(frame, &registers, &counter.variable, &variable) ||
      !read_variable(&variable, counter.bits, &loop->value) ||
      !read_limit(frame, &registers, &counter, &loop->limit))
    return false;
  loop->counter = counter;
  /* What lies below on the stack has been saved by our own functions. */
  bool is_static = counter.variable.reg == NATIVE_STATIC;
  loop->at = !is_static && variable.at < entry->sp ? 0 : variable.at;
  loop->is_readable = loop->at != 0 || counter.variable.reg == NUMBER_FRAME || entry->has_kept;
  return true;
}

/* Of a register that calls keep. */
static uintptr_t register_at(const struct native_entry *entry, uint32_t number) {
  if (number == NUMBER_FRAME)
    return entry->fp;
  return number >= NUMBER_KEPT ? entry->kept[number - NUMBER_KEPT + 1] : entry->kept[0];
}

uint64_t native_loop_value(const struct native_loop *loop, const struct native_entry *entry) {
  uint64_t value = 0;
  if (loop->at == 0)
    return register_at(entry, loop->counter.variable.reg);
  memcpy(&value, (const void *)loop->at, loop->counter.bits / 8);
  return value;
}

struct place_round native_loop_round(const struct native_loop *loop, uint64_t value) {
  return native_counter_says(&loop->counter, value, loop->limit);
}
