/* Being told of calls of any function, whatever its arguments and its result: a trampoline stands
 * in front of it, a few instructions (stubs_trampolines_*.S) that keep all registers in which
 * arguments may be, tell of the call, and JUMP to the function, which finds its caller's stack as
 * it was.
 *
 * Programs come to trampolines by their import tables (imports.h) and by dlsym (lookups.h).
 */
#ifndef NCCL_JOIN_INTERPOSE_TRAMPOLINES_H
#define NCCL_JOIN_INTERPOSE_TRAMPOLINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/elf/imports.h"

/* How many there are: one for each function, of each library that has one of the name. Laid out in
 * stubs_trampolines_*.S. */
#define TRAMPOLINES 128u

#define TRAMPOLINE_ENTRY __attribute__((visibility("hidden")))

/* A call that is about to be made. */
struct trampoline_call {
  size_t name;           /* in the list */
  void *function;        /* the real one */
  uintptr_t argument;    /* the first, if that is a number or a pointer */
  uintptr_t third;       /* and the third, if these three are; of less than 8 bytes the low ones */
  const uintptr_t *back; /* the address that it returns to, in its place on the stack or a copy */
  uintptr_t stack;       /* the stack pointer of the caller */
};

/* Says which functions, before anything else: `names` stays the caller's, and stays. `called` is
 * told on the calling thread, with errno as the caller left it; it is put back afterwards. The
 * first one to say it counts; any thread. */
void trampolines_choose(struct import_name *names, size_t nnames,
                        void (*called)(const struct trampoline_call *call));

/* Puts trampolines in front of the references of all that is loaded, and from now on of what is
 * loaded later, when it is first used through dlsym or this is called again. Any thread; one that
 * comes while another is at it goes on without. */
void trampolines_place(void);

/* All references are as they were. Trampolines that somebody holds go on leading to their
 * functions, and tell nobody. */
void trampolines_remove(void);

/* The same, but leaves references as they are, and asks the dynamic linker nothing: for a forked
 * child, where another thread's lock of it is held for ever. */
void trampolines_end(void);

/* Whether look-ups must be told of (read by stubs_*.S): from placing to removing. */
extern TRAMPOLINE_ENTRY uint32_t trampolines_placed;

/* The trampoline to be handed out for a function that has been looked up by name, or NULL. Any
 * thread. */
void *trampolines_for(const char *name, void *function);

/* Whether the name is in the list. */
bool trampolines_know(const char *name);

/* Called by the trampolines, with what is to be jumped to as the result. registers: as kept by
 * them. */
TRAMPOLINE_ENTRY void *trampoline_called(uint32_t number, const uintptr_t *first_argument,
                                         const uintptr_t *stack, const uintptr_t *back);

#endif
