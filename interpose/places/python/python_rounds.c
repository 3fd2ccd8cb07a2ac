/* Jumps back to the test before a `while`, led to the test at its end (python_instructions.h). */
#include "interpose/places/python/python_instructions.h"

#include "interpose/places/python/python_code.h"

#include <stdlib.h>
#include <string.h>

/* The end of a loop: a jump back to `body` behind a test that is a copy, `distance` instructions
 * on, of the one before the body, of which `last` is the last instruction. */
struct end {
  uint32_t last, body;
  uint32_t distance;
};

struct ends {
  unsigned minor;
  const struct python_code *code;
  const struct python_instruction *all;
  uint32_t ninstructions;
  struct end *found;
  uint32_t n;
  /* For is_in, by instruction, and the instructions that are still to be followed. */
  bool *reached;
  uint32_t *work;
  uint32_t nwork;
};

/* Specialised instructions may differ in what they are called, but not in their class. */
static bool do_the_same(const struct python_instruction *a, const struct python_instruction *b) {
  if (python_instruction_is_branch(a) && python_instruction_is_branch(b))
    return true;
  return a->goes_on && a->opcode == b->opcode && a->argument == b->argument;
}

static bool goes_back(const struct python_instruction *all, uint32_t i) {
  return all[i].target != PYTHON_NOWHERE && all[i].target < i;
}

/* Before 3.12 the test's last branch itself jumps back; from then on a jump behind it. Between the
 * test and the body there may be what stands for a `try`, or the way out where that leads back. */
static bool is_end(const struct ends *ends, uint32_t i, struct end *end) {
  const struct python_instruction *all = ends->all;
  if (!goes_back(all, i) || all[i].target == 0)
    return false;
  uint32_t last = all[i].target - 1, branch = python_instruction_is_branch(&all[i]) ? i : i - 1;
  while (last > 0 && all[last].opcode == OPCODE_NOP)
    last--;
  if (last > 0 && all[last].opcode == OPCODE_JUMP_BACK && all[last - 1].target == all[i].target)
    last--;
  *end = (struct end){last, all[i].target, branch - last};
  return python_instruction_is_branch(&all[branch]) && python_instruction_is_branch(&all[last]) &&
         python_line(ends->minor, ends->code, all[branch].unit) ==
             python_line(ends->minor, ends->code, all[last].unit);
}

static bool is_test_of(const struct ends *ends, uint32_t test, const struct end *end) {
  uint32_t at = test;
  while (at <= end->last && do_the_same(&ends->all[at], &ends->all[at + end->distance]))
    at++;
  return test <= end->last && at > end->last;
}

static void python_rounds_reach(struct ends *ends, uint32_t instruction) {
  if (instruction == PYTHON_NOWHERE || ends->reached[instruction])
    return;
  ends->reached[instruction] = true;
  ends->work[ends->nwork++] = instruction;
}

/* Whether every way to an instruction leads through the body. What jumps back to the test from
 * elsewhere, as handlers do that the compiler has moved behind the loop, comes to the loop and is
 * not in it. */
static bool is_in(struct ends *ends, uint32_t body, uint32_t instruction) {
  memset(ends->reached, 0, ends->ninstructions * sizeof(*ends->reached));
  ends->reached[body] = true;
  python_rounds_reach(ends, 0);
  while (ends->nwork > 0) {
    uint32_t i = ends->work[--ends->nwork];
    python_rounds_reach(ends, ends->all[i].target);
    python_rounds_reach(ends, ends->all[i].handler);
    if (ends->all[i].goes_on && i + 1 < ends->ninstructions)
      python_rounds_reach(ends, i + 1);
  }
  return !ends->reached[instruction];
}

/* Where a jump back is to go instead: to the copy of the test, if it goes to the test before a body
 * that it is in. */
static uint32_t led_back(struct ends *ends, uint32_t jump) {
  uint32_t target = ends->all[jump].target;
  for (uint32_t i = 0; i < ends->n; i++)
    if (is_test_of(ends, target, &ends->found[i]) && is_in(ends, ends->found[i].body, jump))
      return target + ends->found[i].distance;
  return target;
}

static void pass_nops(struct python_instructions *instructions) {
  for (uint32_t i = 0; i < instructions->n; i++) {
    uint32_t *target = &instructions->all[i].target;
    while (*target != PYTHON_NOWHERE && instructions->all[*target].opcode == OPCODE_NOP &&
           *target + 1 < instructions->n)
      ++*target;
  }
}

static void find_and_pass(struct ends *ends, struct python_instruction *all) {
  struct end end;
  for (uint32_t i = 0; i < ends->ninstructions; i++)
    if (is_end(ends, i, &end))
      ends->found[ends->n++] = end;
  for (uint32_t i = 0; i < ends->ninstructions && ends->n > 0; i++)
    if (goes_back(all, i) && !is_end(ends, i, &end))
      all[i].target = led_back(ends, i);
}

static bool pass_tests(unsigned minor, const struct python_code *code,
                       struct python_instructions *instructions) {
  size_t n = instructions->n;
  struct ends ends = {.minor = minor,
                      .code = code,
                      .all = instructions->all,
                      .ninstructions = instructions->n,
                      .found = malloc(n * sizeof(*ends.found)),
                      .reached = malloc(n * sizeof(*ends.reached)),
                      .work = malloc(n * sizeof(*ends.work))};
  bool made = ends.found != NULL && ends.reached != NULL && ends.work != NULL;
  if (made)
    find_and_pass(&ends, instructions->all);
  free(ends.found);
  free(ends.reached);
  free(ends.work);
  return made;
}

bool python_rounds_unite(unsigned minor, const struct python_code *code,
                         struct python_instructions *instructions) {
  pass_nops(instructions);
  return minor < 10 || minor > 13 || pass_tests(minor, code, instructions);
}
