/* The trampolines and what they lead to (trampolines.h). */
#include "interpose/elf/trampolines.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "core/report/log.h"

/* In stubs_trampolines_*.S. */
#define TRAMPOLINE_SIZE 16u
extern TRAMPOLINE_ENTRY const char trampoline_stubs[];

/* Never changed once it is counted. */
static struct trampoline {
  size_t name;
  void *function;
} trampolines[TRAMPOLINES];
static _Atomic uint32_t ntrampolines;
static _Atomic bool full;

static struct imports imports; /* set before `chosen` */
static void (*tell)(const struct trampoline_call *call);
static _Atomic bool chosen;
static _Atomic bool removed;

uint32_t trampolines_placed;

/* ---- registers ---- */

#ifdef __x86_64__
#include <cpuid.h>

/* What the instruction XSAVE needs for the registers in which arguments may be: SSE, AVX and
 * AVX-512 (Intel's manual, volume 1, 13.4 and 13.5). 0: the processor, or the system, has only SSE,
 * and FXSAVE. Read by the stubs. */
extern TRAMPOLINE_ENTRY uint32_t trampoline_state_size;
uint32_t trampoline_state_size;

#define THIRD_ARGUMENT (-2) /* they are pushed one after the other */
#define XSAVE_HEADER_END 576u
#define OSXSAVE_BIT (1u << 27)

static void measure_registers(void) {
  static const unsigned components[] = {2, 5, 6, 7};
  unsigned size, offset, c, d;
  if (!__get_cpuid(1, &size, &offset, &c, &d) || !(c & OSXSAVE_BIT))
    return;
  uint32_t needed = XSAVE_HEADER_END;
  for (size_t i = 0; i < sizeof components / sizeof components[0]; i++)
    if (__get_cpuid_count(0xd, components[i], &size, &offset, &c, &d) && size + offset > needed)
      needed = size + offset;
  trampoline_state_size = needed;
}
#else
#define THIRD_ARGUMENT 2
static void measure_registers(void) {}
#endif

/* ---- the table ---- */

static void *trampolines_stub(uint32_t number) {
  return (void *)(trampoline_stubs + (size_t)number * TRAMPOLINE_SIZE);
}

static void *trampolines_behind(const void *address) {
  uintptr_t at = (uintptr_t)address - (uintptr_t)trampoline_stubs;
  return at < (uintptr_t)TRAMPOLINES * TRAMPOLINE_SIZE ? trampolines[at / TRAMPOLINE_SIZE].function
                                                       : NULL;
}

/* The lock is held for a look at the table only. */
static void *in_front_of(size_t name, void *function) {
  static atomic_flag adding = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&adding))
    sched_yield();
  uint32_t count = atomic_load(&ntrampolines), number = 0;
  while (number < count &&
         (trampolines[number].name != name || trampolines[number].function != function))
    number++;
  if (number == count && count < TRAMPOLINES) {
    trampolines[number] = (struct trampoline){name, function};
    atomic_store(&ntrampolines, count + 1);
  }
  atomic_flag_clear(&adding);
  if (number == TRAMPOLINES)
    atomic_store(&full, true);
  return number == TRAMPOLINES ? NULL : trampolines_stub(number);
}

static void tell_if_full(void) {
  if (atomic_load(&full))
    log_once(LOG_LEVEL_WARN,
             "NCCL_JOIN_EXIT_ON: the functions of these names are more than %u, in all libraries "
             "together: calls of the others are not seen. Name fewer",
             TRAMPOLINES);
}

void trampolines_choose(struct import_name *names, size_t nnames,
                        void (*called)(const struct trampoline_call *call)) {
  static atomic_flag choosing = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set(&choosing)) {
    while (!atomic_load(&chosen))
      sched_yield();
    return;
  }
  measure_registers();
  tell = called;
  static struct imports_known known;
  imports = (struct imports){names, nnames, in_front_of, trampolines_behind, &known};
  atomic_store(&chosen, true);
}

/* ---- being called, and being looked up ---- */

void *trampoline_called(uint32_t number, const uintptr_t *first_argument, const uintptr_t *stack,
                        const uintptr_t *back) {
  const struct trampoline *trampoline = &trampolines[number];
  struct trampoline_call call = {
      trampoline->name, trampoline->function, *first_argument, first_argument[THIRD_ARGUMENT], back,
      (uintptr_t)stack};
  int error = errno;
  if (!atomic_load(&removed))
    tell(&call);
  errno = error;
  return trampoline->function;
}

static size_t trampolines_find(const char *name) {
  size_t i = 0;
  while (i < imports.nnames &&
         (imports.names[i].name == NULL || strcmp(imports.names[i].name, name) != 0))
    i++;
  return i;
}

bool trampolines_know(const char *name) {
  return atomic_load(&chosen) && !atomic_load(&removed) && trampolines_find(name) < imports.nnames;
}

void *trampolines_for(const char *name, void *function) {
  size_t number = trampolines_find(name);
  if (number == imports.nnames || function == NULL)
    return NULL;
  imports.names[number].found = true;
  if (trampolines_behind(function) != NULL)
    return function;
  void *placed = in_front_of(number, function);
  tell_if_full();
  return placed;
}

/* ---- references ---- */

/* Nobody waits for it: who does may hold a lock of the dynamic linker. */
static atomic_flag placing = ATOMIC_FLAG_INIT;

void trampolines_place(void) {
  if (!atomic_load(&chosen) || atomic_load(&removed) || atomic_flag_test_and_set(&placing))
    return;
  __atomic_store_n(&trampolines_placed, 1, __ATOMIC_RELAXED);
  /* An object that is just being loaded has its turn when something is looked up next. */
  (void)imports_change(&imports);
  atomic_flag_clear(&placing);
  tell_if_full();
}

void trampolines_end(void) {
  atomic_store(&removed, true);
  __atomic_store_n(&trampolines_placed, 0, __ATOMIC_RELAXED);
}

void trampolines_remove(void) {
  if (!atomic_load(&chosen) || atomic_exchange(&removed, true))
    return;
  __atomic_store_n(&trampolines_placed, 0, __ATOMIC_RELAXED);
  while (atomic_flag_test_and_set(&placing))
    sched_yield();
  imports_change_back(&imports);
  atomic_flag_clear(&placing);
}
