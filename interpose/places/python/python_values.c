/* Values of bytecode (python_values.h). What each opcode does is in python_opcodes.inc. */
#include "interpose/places/python/python_values.h"

#include "interpose/places/python/python_opcodes.h"

#include <string.h>

/* Nothing is known of it. */
static const struct python_value anything = {.by_more = true};

static const struct python_constant no_constant;

/* ---- the stack ---- */

/* Of a full stack the lowest is forgotten. */
static void push_value(struct python_values *values, struct python_value value) {
  if (values->depth == PYTHON_STACK) {
    memmove(values->stack, values->stack + 1, (PYTHON_STACK - 1) * sizeof(values->stack[0]));
    values->depth--;
  }
  values->stack[values->depth++] = value;
}

static struct python_value pop_value(struct python_values *values) {
  return values->depth == 0 ? anything : values->stack[--values->depth];
}

static void pop_values(struct python_values *values, uint32_t n) {
  values->depth -= n < values->depth ? n : values->depth;
}

/* The n-th from above; NULL: it is not known. */
static struct python_value *value_at(struct python_values *values, uint32_t n) {
  return n == 0 || n > values->depth ? NULL : &values->stack[values->depth - n];
}

static void swap_values(struct python_values *values, uint32_t n) {
  struct python_value *top = value_at(values, 1), *other = value_at(values, n);
  if (top == NULL || other == NULL) {
    if (top != NULL)
      *top = anything;
    return;
  }
  struct python_value kept = *top;
  *top = *other;
  *other = kept;
}

static struct python_value number_value(int64_t number) {
  return (struct python_value){.is = {PYTHON_NUMBER, number}};
}

static struct python_value made_of(struct python_value a, struct python_value b) {
  return (struct python_value){.by = a.by | b.by, .by_more = a.by_more || b.by_more};
}

/* ---- variables ---- */

static uint64_t bit_of(uint32_t variable) {
  return UINT64_C(1) << variable;
}

static struct python_value python_values_load(const struct python_values *values, uint32_t local) {
  return local < PYTHON_LOCALS ? values->locals[local] : anything;
}

/* Something of that name. */
static struct python_value load_named(uint32_t name) {
  struct python_value value = anything;
  if (name < PYTHON_NAMED) {
    value.by = bit_of(PYTHON_LOCALS + name);
    value.step = PYTHON_LOCALS + name + 1;
  }
  return value;
}

static void note_stored(struct python_values *values, uint32_t variable,
                        struct python_value value) {
  bool moves = value.is.kind != PYTHON_ANYTHING || value.step == variable + 1 ||
               value.step == PYTHON_ITERATED;
  values->flow.sets |= bit_of(variable);
  values->flow.moves &= ~bit_of(variable);
  values->flow.moves |= moves ? bit_of(variable) : 0;
}

static void python_values_store(struct python_values *values, uint32_t local,
                                struct python_value value) {
  if (local >= PYTHON_LOCALS)
    return;
  note_stored(values, local, value);
  if (value.step == PYTHON_ITERATED)
    value.by |= bit_of(local); /* what tests it tests the variable */
  values->locals[local] = value;
}

static void store_named(struct python_values *values, uint32_t name) {
  struct python_value value = pop_value(values);
  if (name < PYTHON_NAMED)
    note_stored(values, PYTHON_LOCALS + name, value);
}

/* ---- operators ---- */

enum { ADD = 0, SUBTRACT = 10, INPLACE = 13 }; /* of BINARY_OP: Include/opcode.h */

/* Numbers that are known are small: one digit, and sums of a few. */
#define NUMBER_MAX (INT64_C(1) << 40)

static struct python_value python_values_add(struct python_value a, struct python_value b,
                                             int sign) {
  struct python_value made = made_of(a, b);
  bool is_number = b.is.kind == PYTHON_NUMBER;
  if (is_number && a.is.kind == PYTHON_NUMBER) {
    made.is = (struct python_constant){PYTHON_NUMBER, a.is.number + sign * b.is.number};
    if (made.is.number > NUMBER_MAX || made.is.number < -NUMBER_MAX)
      made.is = no_constant;
  } else if (is_number && b.is.number != 0) {
    made.step = a.step;
  } else if (sign > 0 && a.is.kind == PYTHON_NUMBER && a.is.number != 0) {
    made.step = b.step;
  }
  return made;
}

static void python_values_operate(struct python_values *values, enum python_effect effect,
                                  uint32_t argument) {
  struct python_value b = pop_value(values), a = pop_value(values);
  bool is_binary = effect == EFFECT_BINARY;
  if (effect == EFFECT_ADD || (is_binary && argument % INPLACE == ADD && argument <= INPLACE))
    push_value(values, python_values_add(a, b, 1));
  else if (effect == EFFECT_SUBTRACT ||
           (is_binary && (argument == SUBTRACT || argument == SUBTRACT + INPLACE)))
    push_value(values, python_values_add(a, b, -1));
  else
    push_value(values, made_of(a, b));
}

static bool is_less(struct python_value a, struct python_value b) {
  return a.is.number < b.is.number;
}

/* The operators of Python's `opcode.cmp_op`. */
static void python_values_compare(struct python_values *values, uint32_t operator) {
  struct python_value b = pop_value(values), a = pop_value(values), made = made_of(a, b);
  if (a.is.kind == PYTHON_NUMBER && b.is.kind == PYTHON_NUMBER && operator<= 5) {
    const bool is[] = {
        is_less(a, b), !is_less(b, a), a.is.number == b.is.number, a.is.number != b.is.number,
        is_less(b, a), !is_less(a, b)};
    made.is = (struct python_constant){PYTHON_NUMBER, is[operator]};
  }
  push_value(values, made);
}

/* Of numbers it is not told whether they are one object. */
static void compare_objects(struct python_values *values, bool inverted) {
  struct python_value b = pop_value(values), a = pop_value(values), made = made_of(a, b);
  bool is_known = a.is.kind != PYTHON_ANYTHING && b.is.kind != PYTHON_ANYTHING &&
                  (a.is.kind == PYTHON_NONE || b.is.kind == PYTHON_NONE);
  if (is_known)
    made.is = (struct python_constant){PYTHON_NUMBER, (a.is.kind == b.is.kind) != inverted};
  push_value(values, made);
}

static uint32_t operator_of(unsigned minor, uint32_t argument) {
  return minor >= 13 ? argument >> 5 : minor == 12 ? argument >> 4 : argument;
}

/* Whether it is true: 1 or 0; -1: not known. */
static int truth_of(struct python_value value) {
  if (value.is.kind == PYTHON_ANYTHING)
    return -1;
  return value.is.kind == PYTHON_NUMBER && value.is.number != 0;
}

static void push_truth(struct python_values *values, struct python_value of, bool inverted) {
  int truth = truth_of(of);
  struct python_value made = {.by = of.by, .by_more = of.by_more};
  if (truth >= 0)
    made.is = (struct python_constant){PYTHON_NUMBER, (truth == 1) != inverted};
  push_value(values, made);
}

/* ---- instructions ---- */

static int python_values_branch(struct python_values *values, enum python_effect effect) {
  struct python_value of = pop_value(values);
  values->flow.tests = of.by;
  values->flow.tests_more = of.by_more;
  int truth = truth_of(of);
  switch (effect) {
  case EFFECT_IF_TRUE:
    return truth;
  case EFFECT_IF_FALSE:
    return truth < 0 ? truth : !truth;
  case EFFECT_IF_NONE:
    return truth < 0 ? truth : of.is.kind == PYTHON_NONE;
  default:
    return truth < 0 ? truth : of.is.kind != PYTHON_NONE;
  }
}

/* Loads and stores; false: the effect is another one. */
static bool step_variables(struct python_values *values, enum python_effect effect, uint32_t n) {
  struct python_value value;
  switch (effect) {
  case EFFECT_LOAD:
    push_value(values, python_values_load(values, n));
    return true;
  case EFFECT_LOAD_TWO:
    push_value(values, python_values_load(values, n >> 4));
    push_value(values, python_values_load(values, n & 15));
    return true;
  case EFFECT_STORE:
    python_values_store(values, n, pop_value(values));
    return true;
  case EFFECT_STORE_TWO:
    value = pop_value(values);
    python_values_store(values, n >> 4, value);
    python_values_store(values, n & 15, pop_value(values));
    return true;
  case EFFECT_STORE_LOAD:
    python_values_store(values, n >> 4, pop_value(values));
    push_value(values, python_values_load(values, n & 15));
    return true;
  case EFFECT_DELETE:
    python_values_store(values, n, anything);
    return true;
  case EFFECT_CLEAR:
    push_value(values, python_values_load(values, n));
    python_values_store(values, n, anything);
    return true;
  case EFFECT_STORE_NAME:
    store_named(values, n);
    return true;
  case EFFECT_STORE_ATTRIBUTE: /* the object is above the value */
    pop_values(values, 1);
    store_named(values, n);
    return true;
  default:
    return false;
  }
}

/* Names and attributes; false: the effect is another one. */
static bool step_named(struct python_values *values, unsigned minor, enum python_effect effect,
                       uint32_t n) {
  bool is_halved = effect == EFFECT_LOAD_GLOBAL ? minor >= 11 : minor >= 12;
  switch (effect) {
  case EFFECT_LOAD_ATTRIBUTE:
    pop_values(values, 1);
    push_value(values, load_named(is_halved ? n >> 1 : n));
    break;
  case EFFECT_LOAD_GLOBAL:
    push_value(values, load_named(is_halved ? n >> 1 : n));
    break;
  case EFFECT_LOAD_NAME:
    push_value(values, load_named(n));
    return true;
  case EFFECT_METHOD:
    pop_values(values, 1);
    push_value(values, anything);
    push_value(values, anything);
    return true;
  default:
    return false;
  }
  if (is_halved && (n & 1)) {
    struct python_value loaded = pop_value(values);
    push_value(values, anything);
    push_value(values, loaded);
  }
  return true;
}

static struct python_value constant_value(const struct python_code *code, uint32_t n) {
  struct python_constant is = n < code->nconstants ? code->constants[n] : no_constant;
  return (struct python_value){.is = is};
}

/* What only moves values about; false: the effect is another one. */
static bool step_stack(struct python_values *values, enum python_effect effect, uint32_t n) {
  switch (effect) {
  case EFFECT_NONE:
    return true;
  case EFFECT_PUSH:
    push_value(values, anything);
    return true;
  case EFFECT_POP:
    pop_values(values, 1);
    return true;
  case EFFECT_AGAIN:
  case EFFECT_COPY: {
    const struct python_value *of = value_at(values, effect == EFFECT_AGAIN ? 1 : n);
    push_value(values, of == NULL ? anything : *of);
    return true;
  }
  case EFFECT_SWAP:
    swap_values(values, n);
    return true;
  case EFFECT_ROTATE_TWO:
    swap_values(values, 2);
    return true;
  case EFFECT_ROTATE_THREE:
    swap_values(values, 2);
    if (values->depth > 2) { /* the third goes up by one */
      struct python_value *second = value_at(values, 2), *third = value_at(values, 3),
                          kept = *second;
      *second = *third;
      *third = kept;
    } else {
      values->depth = 0;
    }
    return true;
  default:
    return false;
  }
}

static bool step_calls(struct python_values *values, enum python_effect effect, uint32_t n) {
  if (effect != EFFECT_CALL && effect != EFFECT_CALL_FUNCTION)
    return false;
  pop_values(values, n + (effect == EFFECT_CALL ? 2 : 1));
  push_value(values, anything);
  return true;
}

static void python_values_unpack(struct python_values *values, uint32_t n) {
  struct python_value of = pop_value(values), item = made_of(of, of);
  item.step = of.step == PYTHON_ITERATED ? of.step : 0;
  for (uint32_t i = 0; i < n && i < PYTHON_STACK; i++)
    push_value(values, item);
}

/* What makes values of others. Of all else the stack is not known afterwards. */
static void step_operators(struct python_values *values, unsigned minor,
                           const struct python_code *code, enum python_effect effect, uint32_t n) {
  struct python_value of;
  switch (effect) {
  case EFFECT_CONSTANT:
    push_value(values, constant_value(code, n));
    break;
  case EFFECT_NUMBER:
    push_value(values, number_value(n));
    break;
  case EFFECT_BINARY:
  case EFFECT_ADD:
  case EFFECT_SUBTRACT:
  case EFFECT_OF_TWO:
    python_values_operate(values, effect, n);
    break;
  case EFFECT_COMPARE:
    python_values_compare(values, operator_of(minor, n));
    break;
  case EFFECT_IS:
    compare_objects(values, n != 0);
    break;
  case EFFECT_NOT:
  case EFFECT_TRUTH:
    push_truth(values, pop_value(values), effect == EFFECT_NOT);
    break;
  case EFFECT_UNPACK:
    python_values_unpack(values, n);
    break;
  case EFFECT_OF_ONE:
    of = pop_value(values);
    push_value(values, made_of(of, of));
    break;
  default:
    values->depth = 0;
    break;
  }
}

void python_values_iterate(struct python_values *values) {
  push_value(values, (struct python_value){.by_more = true, .step = PYTHON_ITERATED});
}

void python_values_begin(struct python_values *values, const struct python_known *known) {
  *values = (struct python_values){.flow = {.tests_more = true}};
  for (uint32_t i = 0; i < PYTHON_LOCALS; i++) {
    values->locals[i] = (struct python_value){.by = bit_of(i), .step = i + 1};
    if (known != NULL)
      values->locals[i].is = known->locals[i];
  }
}

int python_values_step(struct python_values *values, unsigned minor, const struct python_code *code,
                       const struct python_instruction *instruction) {
  enum python_effect effect = instruction->effect;
  uint32_t n = instruction->argument;
  if (effect == EFFECT_IF_TRUE || effect == EFFECT_IF_FALSE || effect == EFFECT_IF_NONE ||
      effect == EFFECT_IF_NOT_NONE)
    return python_values_branch(values, effect);
  if (!step_variables(values, effect, n) && !step_named(values, minor, effect, n) &&
      !step_stack(values, effect, n) && !step_calls(values, effect, n))
    step_operators(values, minor, code, effect, n);
  return -1;
}
