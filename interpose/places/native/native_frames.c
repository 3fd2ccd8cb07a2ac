/* Walks the stack (native_frames.h). */
#include "interpose/places/native/native_frames.h"

#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Deeper stacks are not followed to their outer end. */
#define FRAMES_MAX 1024u

/* ---- the stack ---- */

static struct native_bounds ask_bounds(void) {
  pthread_attr_t attributes;
  void *low;
  size_t size;
  struct native_bounds bounds = {0, 0};
  if (pthread_getattr_np(pthread_self(), &attributes) != 0)
    return bounds;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0)
    bounds = (struct native_bounds){(uintptr_t)low, size - sizeof(uintptr_t) + 1};
  pthread_attr_destroy(&attributes);
  return bounds;
}

struct native_bounds native_stack_bounds(void) {
  static _Thread_local struct native_bounds bounds;
  static _Thread_local bool asked;
  if (!asked)
    bounds = ask_bounds();
  asked = true;
  return bounds;
}

/* On a stack that the program has made itself, of which nobody knows the bounds, the kernel reads,
 * and says so if there is nothing. */
static bool read_word_at(uintptr_t sp, uintptr_t at, uintptr_t *word) {
  struct native_bounds stack = native_stack_bounds();
  if (at % sizeof(*word) != 0)
    return false;
  if (sp - stack.low < stack.size) {
    if (at < sp || at - stack.low >= stack.size)
      return false;
    *word = *(const uintptr_t *)at;
    return true;
  }
  struct iovec to = {word, sizeof(*word)}, from = {(void *)at, sizeof(*word)};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)sizeof(*word);
}

/* A return address as an address of code: some processors sign it. */
static uintptr_t native_code_address(uintptr_t return_address) {
#ifdef __aarch64__
  register uintptr_t x30 __asm__("x30") = return_address;
  __asm__("hint #7" : "+r"(x30)); /* xpaclri, which older processors take for nothing */
  return x30;
#else
  return return_address;
#endif
}

/* ---- one step ---- */

static bool cfa_of(const struct native_caller *at, const struct frame_rule *rule, uintptr_t *cfa) {
  switch (rule->base) {
  case FRAME_BASE_STACK:
    *cfa = at->sp + (uintptr_t)(intptr_t)rule->cfa_offset;
    break;
  case FRAME_BASE_POINTER:
    *cfa = at->fp + (uintptr_t)(intptr_t)rule->cfa_offset;
    break;
  case FRAME_BASE_SAVED:
    if (!read_word_at(at->sp, at->fp + (uintptr_t)(intptr_t)rule->cfa_saved_at, cfa))
      return false;
    break;
  }
  return *cfa > at->sp;
}

/* A frame pointer that is lost becomes 0, which is no part of any stack. */
static bool pointer_of(const struct native_caller *at, const struct frame_rule *rule, uintptr_t cfa,
                       uintptr_t *fp) {
  uintptr_t offset = (uintptr_t)(intptr_t)rule->fp_at;
  switch (rule->pointer) {
  case FRAME_POINTER_SAME:
    *fp = at->fp;
    return true;
  case FRAME_POINTER_AT_CFA:
    return read_word_at(at->sp, cfa + offset, fp);
  case FRAME_POINTER_AT_FRAME:
    return read_word_at(at->sp, at->fp + offset, fp);
  case FRAME_POINTER_LOST:
    *fp = 0;
    return true;
  }
  return false;
}

enum native_end native_step(struct native_caller *at, struct native_frame *frame) {
  uintptr_t pc = native_code_address(at->pc), cfa;
  frame->pc = 0;
  frame->has_rule = false;
  frame->cfa = 0;
  if (pc == 0)
    return NATIVE_ENDED;
  if (!code_module_find(pc - 1, &frame->module))
    return NATIVE_STOPPED;
  frame->pc = pc;
  if (!eh_frame_rule(&frame->module, pc - 1, &frame->rule))
    return NATIVE_STOPPED;
  frame->has_rule = true;
  if (frame->rule.is_outermost)
    return NATIVE_ENDED;
  struct native_caller next;
  if (!cfa_of(at, &frame->rule, &cfa) || !pointer_of(at, &frame->rule, cfa, &next.fp) ||
      !read_word_at(at->sp, cfa + (uintptr_t)(intptr_t)frame->rule.return_at, &next.pc))
    return NATIVE_UNREADABLE;
  next.sp = cfa;
  frame->cfa = cfa;
  *at = next;
  return NATIVE_GOES_ON;
}

/* ---- many ---- */

/* _start is the program's own, and the only one of its frames that is outermost. */
static bool only_begins(const struct native_frame *frame) {
  return frame->module.owner == MODULE_SYSTEM || frame->module.owner == MODULE_OURS ||
         (frame->has_rule && frame->rule.is_outermost);
}

/* Drops from the outer end of a walk that has ended what only begins main or a thread. Returns how
 * many frames are left. */
static size_t native_trim(const struct native_frame *frames, size_t count) {
  while (count > 0 && only_begins(&frames[count - 1]))
    count--;
  return count;
}

uint32_t native_call_id(const struct native_frame *frame) {
  return code_hash_id(code_hash(frame->module.id, frame->pc - frame->module.base));
}

uint32_t native_function_id(const struct native_frame *frame) {
  uintptr_t offset = (uintptr_t)frame->rule.function - frame->module.base;
  return code_hash_id(code_hash(code_hash(frame->module.id, offset), 1));
}

static bool ends_id(const struct native_id *id, const struct native_frame *frame) {
  return id->nhashed >= NATIVE_INNER_FRAMES && id->tells != NULL && frame->pc != 0 &&
         id->tells(frame->module.base);
}

void native_id_add(struct native_id *id, const struct native_frame *frame) {
  id->is_made = id->is_made || ends_id(id, frame);
  if (id->is_made)
    return;
  id->frames++;
  if (frame->pc == 0)
    return;
  if (frame->module.owner != MODULE_OURS) {
    id->hash = code_hash(code_hash(id->hash, frame->module.id), frame->pc - frame->module.base);
    id->nhashed++;
  }
  if (!only_begins(frame)) {
    id->trimmed = id->hash;
    id->ntrimmed = id->nhashed;
    id->left = id->frames;
    id->is_made = id->nhashed >= NATIVE_ID_FRAMES;
  }
}

uint32_t native_id_of(const struct native_id *id, bool ended) {
  bool is_trimmed = ended && !id->is_made;
  if ((is_trimmed ? id->ntrimmed : id->nhashed) == 0)
    return 0;
  return code_hash_id(is_trimmed ? id->trimmed : id->hash);
}

/* ---- the whole stack ---- */

/* Where the calling function goes on, for a walk that begins with it. */
static inline __attribute__((always_inline)) struct native_caller native_here(void) {
  struct native_caller at;
#if defined(__x86_64__)
  __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                   : "=&r"(at.pc), "=&r"(at.sp), "=&r"(at.fp));
#elif defined(__aarch64__)
  __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
                   : "=&r"(at.pc), "=&r"(at.sp), "=&r"(at.fp));
#else
  at = (struct native_caller){0, 0, 0};
#endif
  return at;
}

/* The last frames of a walk, in a ring. */
struct ring {
  struct native_frame frames[NATIVE_OUTER_FRAMES];
  size_t count; /* all that have been */
};

static void native_unroll(const struct ring *ring, struct native_stack *stack) {
  size_t kept = ring->count < NATIVE_OUTER_FRAMES ? ring->count : NATIVE_OUTER_FRAMES;
  for (size_t i = 0; i < kept; i++)
    stack->outer[i] = ring->frames[(ring->count - kept + i) % NATIVE_OUTER_FRAMES];
  stack->nouter = kept;
}

static void native_take(struct native_stack *stack, struct ring *ring,
                        const struct native_frame *frame) {
  if (stack->ninner < NATIVE_INNER_FRAMES)
    stack->inner[stack->ninner++] = *frame;
  ring->frames[ring->count++ % NATIVE_OUTER_FRAMES] = *frame;
}

__attribute__((noinline)) bool native_stack_read(struct native_stack *stack, native_tells *tells) {
  struct native_caller at = native_here();
  struct native_frame frame;
  struct ring ring = {.count = 0};
  struct native_id id = {.tells = tells};
  enum native_end end = NATIVE_GOES_ON;
  *stack = (struct native_stack){.ninner = 0};
  for (size_t i = 0; i < FRAMES_MAX && end == NATIVE_GOES_ON; i++) {
    end = native_step(&at, &frame);
    native_id_add(&id, &frame);
    if (frame.pc != 0 && frame.module.owner != MODULE_OURS)
      native_take(stack, &ring, &frame);
  }
  stack->id = native_id_of(&id, end == NATIVE_ENDED);
  if (end == NATIVE_GOES_ON)
    return false;
  native_unroll(&ring, stack);
  if (end == NATIVE_ENDED) {
    size_t left = native_trim(stack->outer, stack->nouter);
    size_t all = ring.count - (stack->nouter - left);
    stack->nouter = left;
    stack->ninner = all < stack->ninner ? all : stack->ninner;
  }
  return true;
}

/* ---- registers ---- */

enum { NUMBER_FRAME = 5 };
static const uint8_t kept_numbers[EH_KEPT] = {3, 12, 13, 14, 15};

bool native_memory_read(uintptr_t at, uint32_t bytes, uint64_t *word) {
  struct native_bounds stack = native_stack_bounds();
  uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
  *word = 0;
  if (sp - stack.low < stack.size && at > sp && at - stack.low < stack.size) {
    memcpy(word, (const void *)at, bytes);
    return true;
  }
  struct iovec to = {word, bytes}, from = {(void *)at, bytes};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)bytes;
}

/* What the registers hold where the calling function stands: at one instruction, for which its rule
 * counts. */
static inline __attribute__((always_inline)) struct native_caller
registers_here(struct native_registers *to) {
  struct native_caller at = {0, 0, 0};
  uintptr_t kept[EH_KEPT] = {0};
#ifdef __x86_64__
  __asm__ volatile(
      "mov %%rbx, %0\n\tmov %%r12, %1\n\tmov %%r13, %2\n\tmov %%r14, %3\n\tmov %%r15, %4\n\t"
      "lea 0(%%rip), %5\n\tmov %%rsp, %6\n\tmov %%rbp, %7"
      : "=&m"(kept[0]), "=&m"(kept[1]), "=&m"(kept[2]), "=&m"(kept[3]), "=&m"(kept[4]),
        "=&r"(at.pc), "=&r"(at.sp), "=&r"(at.fp));
#endif
  *to = (struct native_registers){0};
  for (uint32_t i = 0; i < EH_KEPT; i++)
    to->of[kept_numbers[i]] = (struct native_register){.value = kept[i], .is_known = true};
  to->of[NUMBER_FRAME] = (struct native_register){.value = at.fp, .is_known = true};
  return at;
}

/* Registers that the function of the frame has saved are from here on where it has put them.
 * `before`: what the frame was found by. */
static void undo_saving(struct native_registers *registers, const struct native_frame *frame,
                        const struct native_caller *before, const struct native_caller *now) {
  for (uint32_t i = 0; i < EH_KEPT; i++) {
    struct native_register *kept = &registers->of[kept_numbers[i]];
    int32_t saved = frame->rule.kept_at[i];
    if (saved == FRAME_KEPT_SAME)
      continue;
    kept->at = frame->cfa + (uintptr_t)(intptr_t)saved;
    kept->is_known = saved != FRAME_KEPT_LOST && read_word_at(before->sp, kept->at, &kept->value);
  }
  struct native_register *fp = &registers->of[NUMBER_FRAME];
  uintptr_t offset = (uintptr_t)(intptr_t)frame->rule.fp_at;
  fp->value = now->fp;
  if (frame->rule.pointer == FRAME_POINTER_LOST)
    fp->is_known = false;
  else if (frame->rule.pointer != FRAME_POINTER_SAME)
    *fp = (struct native_register){
        now->fp, (frame->rule.pointer == FRAME_POINTER_AT_CFA ? frame->cfa : before->fp) + offset,
        true};
}

__attribute__((noinline)) bool native_registers_read(uintptr_t cfa,
                                                     struct native_registers *registers) {
  struct native_caller at = registers_here(registers);
  struct native_frame frame;
  for (size_t i = 0; i < FRAMES_MAX; i++) {
    struct native_caller before = at;
    if (native_step(&at, &frame) != NATIVE_GOES_ON)
      return false;
    if (frame.cfa == cfa)
      return true;
    undo_saving(registers, &frame, &before, &at);
  }
  return false;
}
