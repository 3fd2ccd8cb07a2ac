/* Calls that stand somewhere, one way a word (standing.c, standing_ways.c). */
#ifndef TESTS_INTERPOSE_PARTS_STANDING_H
#define TESTS_INTERPOSE_PARTS_STANDING_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/interpose/parts/placed.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
/* Behind a call, so that the compiler does not make a jump of it. */
#define STAY __asm__ volatile("")

/* Ends the program if something is not as expected. */
void expect(bool as_expected, const char *what);
void expect_known(uint32_t id);

/* The same number: of which the compiler knows nothing, so that it makes one call of a loop's. */
int times(int number);

/* Nor of which iteration is which: it would make the first one outside of the loop. */
bool is_first(int iteration);

/* What a word has come to. */
extern uint32_t first_id, second_id;

/* stand() behind one caller, and behind two. */
uint32_t wrapped(void);
uint32_t wrapped_twice(void);

/* The words of standing_ways.c. */
void stand_in_longjmp(void);
void stand_in_handler(void);
void stand_in_threads(void);
void stand_in_child(void);
void stand_in_context(void);
void stand_in_generated(void);
void stand_in_garbage(void);
void stand_in_closed(void);
void stand_in_hook(void);
void stand_in_engine(void);
void stand_in_description(void);
void stand_in_tails(void);

#endif
