/* Jumps back to the test before a `while`, led to the test at its end (python_rounds.h). */
#include "interpose/python_rounds.h"

#include "interpose/python_lines.h"

#include <stdlib.h>

/* The end of a loop: a jump back to `body` behind a test that is a copy, `distance` instructions
 * on, of the one before the body. */
struct end {
  uint32_t body;
  uint32_t distance;
};

struct ends {
  unsigned minor;
  const struct python_code *code;
  const struct python_instruction *all;
  struct end *found;
  uint32_t n;
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

/* Before 3.12 the test's last branch itself jumps back; from then on a jump behind it. */
static bool is_end(const struct ends *ends, uint32_t i, struct end *end) {
  const struct python_instruction *all = ends->all;
  if (!goes_back(all, i) || all[i].target == 0)
    return false;
  uint32_t body = all[i].target, branch = python_instruction_is_branch(&all[i]) ? i : i - 1;
  *end = (struct end){body, branch - (body - 1)};
  return python_instruction_is_branch(&all[branch]) &&
         python_instruction_is_branch(&all[body - 1]) &&
         python_line(ends->minor, ends->code, all[branch].unit) ==
             python_line(ends->minor, ends->code, all[body - 1].unit);
}

/* The copy of the test, if the code from `test` to the body of a loop is the test before it. */
static uint32_t copy_of(const struct ends *ends, uint32_t test) {
  for (uint32_t i = 0; i < ends->n; i++) {
    const struct end *end = &ends->found[i];
    uint32_t at = test;
    while (at < end->body && do_the_same(&ends->all[at], &ends->all[at + end->distance]))
      at++;
    if (test < end->body && at == end->body)
      return test + end->distance;
  }
  return test;
}

static void pass_nops(struct python_instructions *instructions) {
  for (uint32_t i = 0; i < instructions->n; i++) {
    uint32_t *target = &instructions->all[i].target;
    while (*target != PYTHON_NOWHERE && instructions->all[*target].opcode == OPCODE_NOP &&
           *target + 1 < instructions->n)
      ++*target;
  }
}

static bool pass_tests(unsigned minor, const struct python_code *code,
                       struct python_instructions *instructions) {
  struct python_instruction *all = instructions->all;
  struct ends ends = {minor, code, all, malloc(instructions->n * sizeof(*ends.found)), 0};
  if (ends.found == NULL)
    return false;
  struct end end;
  for (uint32_t i = 0; i < instructions->n; i++)
    if (is_end(&ends, i, &end))
      ends.found[ends.n++] = end;
  for (uint32_t i = 0; i < instructions->n && ends.n > 0; i++)
    if (goes_back(all, i) && !is_end(&ends, i, &end))
      all[i].target = copy_of(&ends, all[i].target);
  free(ends.found);
  return true;
}

bool python_rounds_unite(unsigned minor, const struct python_code *code,
                         struct python_instructions *instructions) {
  pass_nops(instructions);
  return minor < 10 || minor > 13 || pass_tests(minor, code, instructions);
}
