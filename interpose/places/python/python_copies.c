/* Copies of code, made one again (python_instructions.h).
 *
 * Two instructions are copies of one if they are alike, stand at the same place of the source, and
 * whatever follows the one is a copy of what follows the other. To take one for the other changes
 * nothing of what the function can do. Copies of a `finally` behind which control goes different
 * ways are no copies in this sense, and stay apart.
 *
 * All that are alike begin as one class; classes are split as long as what follows their members
 * is of different classes (Moore, "Gedanken-experiments on sequential machines", 1956). What only
 * leads on (a NOP, a jump) is passed over, since copies differ in it. */
#include "interpose/places/python/python_instructions.h"

#include "interpose/places/python/python_code.h"

#include <stdlib.h>
#include <string.h>

/* An instruction as it is compared. */
struct compared {
  uint64_t kind, place; /* in the first round; later kind is the class */
  uint32_t follows[3];  /* classes: of the lower and the higher of two ways on, of the handler */
  uint32_t instruction;
};

struct copies {
  struct python_instruction *all;
  uint32_t n;
  bool has_plain_opcodes; /* none is specialised */
  uint32_t *end;   /* by instruction: itself, or the first one behind it that is not silent */
  bool *is_head;   /* by instruction: it is a NOP, and the head of a loop */
  uint32_t *class; /* by instruction: the first one of its class */
  bool *has_copy;  /* by class: it has more than one member */
  struct compared *compared; /* those of classes of more than one */
  uint32_t ncompared;
};

/* Of FNV-1a (Fowler, Noll, Vo). */
#define HASH_PRIME UINT64_C(0x100000001b3)

/* How much is compared at most, in members of classes and rounds: a fraction of a second. */
enum { COMPARED_MAX = 1 << 22, JUMPS_MAX = 16 };

static bool python_is_jump(const struct python_instruction *instruction) {
  return instruction->opcode == OPCODE_JUMP || instruction->opcode == OPCODE_JUMP_BACK ||
         instruction->opcode == OPCODE_JUMP_TO;
}

/* ---- heads ---- */

/* A `while True` begins with a NOP; behind it may stand the head of another loop. `continue` goes
 * to the NOP; before 3.14 what goes round from the end goes behind it, and stands at its place. */
static void find_heads(struct copies *copies) {
  for (uint32_t i = 0; i < copies->n; i++) {
    struct python_instruction *jump = &copies->all[i];
    if (jump->target == PYTHON_NOWHERE || jump->target > i)
      continue;
    const struct python_instruction *before = &copies->all[jump->target] - (jump->target > 0);
    if (python_is_jump(jump) && before->opcode == OPCODE_NOP && before->line == jump->line &&
        before->columns == jump->columns && jump->target > 0)
      jump->target--;
    copies->is_head[jump->target] = copies->all[jump->target].opcode == OPCODE_NOP;
  }
}

/* ---- what follows ---- */

static bool is_silent(const struct python_instruction *instruction) {
  return instruction->next != PYTHON_NOWHERE && instruction->target == PYTHON_NOWHERE &&
         instruction->opcode != OPCODE_PRECALL && !python_instruction_is_loud(instruction);
}

static void find_ends(struct copies *copies) {
  for (uint32_t i = copies->n; i-- > 0;)
    copies->end[i] = is_silent(&copies->all[i]) && !copies->is_head[i] ? copies->end[i + 1] : i;
}

/* What is done next where control comes to an instruction. Jumps in a ring end anywhere. */
static uint32_t done_at(const struct copies *copies, uint32_t i) {
  i = copies->end[i];
  for (int jumps = 0; jumps < JUMPS_MAX && python_is_jump(&copies->all[i]); jumps++)
    i = copies->end[copies->all[i].target];
  return i;
}

static uint32_t class_behind(const struct copies *copies, uint32_t i) {
  return i == PYTHON_NOWHERE ? i : copies->class[done_at(copies, i)];
}

static void find_follows(const struct copies *copies, struct compared *compared) {
  const struct python_instruction *instruction = &copies->all[compared->instruction];
  uint32_t a = class_behind(copies, instruction->next);
  uint32_t b = class_behind(copies, instruction->target);
  bool is_loud = python_instruction_is_loud(instruction);
  compared->follows[0] = a < b ? a : b;
  compared->follows[1] = a < b ? b : a;
  compared->follows[2] = is_loud ? class_behind(copies, instruction->handler) : PYTHON_NOWHERE;
}

/* ---- classes ---- */

static bool are_alike(const struct compared *a, const struct compared *b) {
  return a->kind == b->kind && a->place == b->place &&
         memcmp(a->follows, b->follows, sizeof(a->follows)) == 0;
}

static int by_likeness(const void *one, const void *other) {
  const struct compared *a = one, *b = other;
  if (a->kind != b->kind)
    return a->kind < b->kind ? -1 : 1;
  if (a->place != b->place)
    return a->place < b->place ? -1 : 1;
  int follows = memcmp(a->follows, b->follows, sizeof(a->follows));
  if (follows != 0)
    return follows;
  return a->instruction < b->instruction ? -1 : a->instruction > b->instruction;
}

/* Gives what is alike a class, and keeps classes of more than one. Whether any is new. */
static bool split_classes(struct copies *copies) {
  uint32_t kept = 0, end;
  bool is_new = false;
  qsort(copies->compared, copies->ncompared, sizeof(*copies->compared), by_likeness);
  for (uint32_t i = 0; i < copies->ncompared; i = end) {
    uint32_t first = copies->compared[i].instruction;
    is_new |= copies->class[first] != first;
    for (end = i;
         end < copies->ncompared && are_alike(&copies->compared[i], &copies->compared[end]); end++)
      copies->class[copies->compared[end].instruction] = first;
    copies->has_copy[first] = end - i > 1;
    if (end - i > 1) {
      memmove(&copies->compared[kept], &copies->compared[i], (end - i) * sizeof(struct compared));
      kept += end - i;
    }
  }
  copies->ncompared = kept;
  return is_new;
}

/* Specialised instructions may differ in what they are called, but not in what they are for. Where
 * a branch leads to is what follows it; copies may differ in the sense of their test. */
static uint64_t kind_of(const struct copies *copies, const struct python_instruction *instruction) {
  if (instruction->opcode == OPCODE_RETURN)
    return OPCODE_RETURN;
  bool is_branch = python_instruction_is_branch(instruction);
  uint64_t argument = instruction->target == PYTHON_NOWHERE ? instruction->argument : 0;
  uint64_t number = copies->has_plain_opcodes && !is_branch ? instruction->number : 0;
  uint64_t opcode = is_branch ? OPCODE_BRANCH : instruction->opcode;
  return argument << 24 | number << 16 | (uint64_t)instruction->swallows << 8 | opcode;
}

/* Without columns all of a line would stand at one place: there what has run of the line since the
 * last jump is part of the place. What has no line stands behind what comes before it. All returns
 * are alike. */
static void python_copies_begin(struct copies *copies) {
  uint64_t run = 0, place = 0;
  for (uint32_t i = 0; i < copies->n; i++) {
    const struct python_instruction *is = &copies->all[i], *before = i > 0 ? is - 1 : is;
    uint64_t kind = kind_of(copies, is);
    bool goes_on_here =
        before->line == is->line && before->next == i && before->target == PYTHON_NOWHERE;
    run = goes_on_here ? (run ^ kind) * HASH_PRIME : kind;
    if (is->line == 0)
      place = (place ^ kind) * HASH_PRIME;
    else
      place = (is->columns != 0 ? is->columns : run * HASH_PRIME) ^ is->line * HASH_PRIME;
    if (copies->end[i] == i && !python_is_jump(is))
      copies->compared[copies->ncompared++] = (struct compared){
          .kind = kind, .place = kind == OPCODE_RETURN ? 0 : place, .instruction = i};
  }
}

static bool find_classes(struct copies *copies) {
  uint64_t work = 0;
  find_heads(copies);
  find_ends(copies);
  python_copies_begin(copies);
  split_classes(copies);
  do {
    work += copies->ncompared;
    for (uint32_t i = 0; i < copies->ncompared; i++) {
      struct compared *compared = &copies->compared[i];
      compared->kind = copies->class[compared->instruction];
      compared->place = 0;
      find_follows(copies, compared);
    }
  } while (split_classes(copies) && work < COMPARED_MAX);
  return work < COMPARED_MAX;
}

/* ---- all of it ---- */

/* Whether what is silent before two copies is the same, so many instructions before them. */
static bool is_same_before(const struct copies *copies, uint32_t one, uint32_t other, uint32_t n) {
  for (uint32_t i = 1; i <= n; i++) {
    if (i > other || copies->end[other - i] != other)
      return false;
    const struct python_instruction *a = &copies->all[one - i], *b = &copies->all[other - i];
    if (a->opcode != b->opcode || a->effect != b->effect || a->argument != b->argument ||
        a->line != b->line || a->columns != b->columns)
      return false;
  }
  return true;
}

/* Where control goes that comes to an instruction. What is silent before a copy may be no copy: it
 * may set variables. */
static uint32_t original_of(const struct copies *copies, uint32_t i) {
  uint32_t at = i;
  for (int jumps = 0; jumps < JUMPS_MAX && python_is_jump(&copies->all[at]); jumps++)
    at = copies->all[at].target;
  uint32_t end = copies->end[at], class = copies->class[end], before = end - at;
  return copies->has_copy[class] && is_same_before(copies, end, class, before) ? class - before : i;
}

static void lead_to_originals(struct copies *copies) {
  for (uint32_t i = 0; i < copies->n; i++)
    copies->all[i].same = original_of(copies, i);
  for (uint32_t i = 0; i < copies->n; i++) {
    struct python_instruction *instruction = &copies->all[i];
    uint32_t *const ways[] = {&instruction->next, &instruction->target, &instruction->handler};
    /* Control no longer comes to a copy: it must not end a block in the midst of what it copies. */
    for (int way = 0; way < 3 && instruction->same == i; way++)
      if (*ways[way] != PYTHON_NOWHERE)
        *ways[way] = copies->all[*ways[way]].same;
  }
}

bool python_copies_unite(unsigned minor, struct python_instructions *instructions) {
  size_t n = instructions->n;
  struct copies copies = {.all = instructions->all,
                          .n = instructions->n,
                          .has_plain_opcodes = minor < 11,
                          .end = calloc(n, sizeof(*copies.end)),
                          .is_head = calloc(n, sizeof(*copies.is_head)),
                          .class = malloc(n * sizeof(*copies.class)),
                          .has_copy = calloc(n, sizeof(*copies.has_copy)),
                          .compared = malloc(n * sizeof(*copies.compared))};
  bool made = copies.end != NULL && copies.is_head != NULL && copies.class != NULL &&
              copies.has_copy != NULL && copies.compared != NULL;
  for (uint32_t i = 0; made && i < copies.n; i++)
    copies.class[i] = i;
  made = made && find_classes(&copies);
  if (made)
    lead_to_originals(&copies);
  free(copies.end);
  free(copies.is_head);
  free(copies.class);
  free(copies.has_copy);
  free(copies.compared);
  return made;
}
