/* See places.h. Loops that make the same calls, and a call behind one that may be its last round;
 * beside them what is not so. */
#include "places.h"

EXPORTED int alone(void) {
  if (places_call != 0)
    places_call(places_number, __builtin_return_address(0));
  return places_number;
}

/* Two loops that do the same, in two branches; one after the other; and that do not. */
EXPORTED void branching(int rows, int columns) {
  if (rows > 2)
    for (int i = 0; i < rows; i++)
      ALIKE(1);
  else
    for (int i = 0; i < columns; i++) {
      if (places_choice(2) == 0)
        SITE(10);
      ALIKE(2);
    }
  places_choice(1);
}

#define FOLLOWING(name, CALL)                                                                      \
  EXPORTED void name(int rows, int columns) {                                                      \
    for (int i = 0; i < rows; i++)                                                                 \
      CALL(1);                                                                                     \
    SITE(3);                                                                                       \
    for (int i = 0; i < columns; i++) {                                                            \
      CALL(2);                                                                                     \
      SITE(10);                                                                                    \
    }                                                                                              \
    places_choice(1);                                                                              \
  }
FOLLOWING(following, ALIKE)
FOLLOWING(following_alone, ALONE) /* nothing is known of what they are given */

EXPORTED void differing(int rows, int columns) {
  for (int i = 0; i < rows; i++) {
    ALIKE(1);
    places_choice(2);
  }
  SITE(3);
  for (int i = 0; i < columns; i++) {
    ALIKE(2);
    SITE(10);
  }
  places_choice(1);
}

/* Where a round is known to be the last one, a compiler makes it leave the loop at once: call 2
 * stands behind the loop, too, in a copy. Whoever does something before it may come to the other
 * one. */
#define ACCUMULATING(name, CALL)                                                                   \
  EXPORTED void name(int rows, int columns) {                                                      \
    int row = 0;                                                                                   \
    for (;;) {                                                                                     \
      int some = 0;                                                                                \
      if (row >= rows)                                                                             \
        break;                                                                                     \
      while (some < 2 && row < rows) {                                                             \
        row++;                                                                                     \
        some++;                                                                                    \
      }                                                                                            \
      asked(1, columns);                                                                           \
      if (places_choice(2) == 0)                                                                   \
        SITE(4);                                                                                   \
      CALL(2);                                                                                     \
    }                                                                                              \
    asked(3, columns);                                                                             \
    places_choice(1);                                                                              \
  }
#define ASKED(number) asked(number, columns)
ACCUMULATING(accumulating, ASKED)
ACCUMULATING(accumulating_alone, ALONE)

/* An error's way out of the loop leads where call 2 does, which is no copy of call 1. */
EXPORTED void failing(int rows, int columns) {
  while (asked(3, rows)) {
    if (ALIKE(1) < 0)
      goto end;
    places_choice(1);
    rows--;
  }
  places_choice(1);
  ALIKE(2);
end:
  places_choice(1);
}

/* The last round behind its loop, as who holds back a batch has it; and what is not. */
EXPORTED void holding(int rows, int columns) {
  places_choice(1);
  if (rows > 0) {
    for (int i = 1; i < rows; i++)
      ALIKE(1);
    ALIKE(2);
  }
  places_choice(1);
}

EXPORTED void totalling(int rows, int columns) {
  places_choice(1);
  for (int i = 0; i < rows; i++)
    ALIKE(1);
  ALIKE(2);
  places_choice(1);
}

/* Two calls whose argument is set before their blocks, and a third that shows that there is one:
 * what is given to them is not known, so neither is a copy of the other. */
#define PREPARED(number, left)                                                                     \
  places_number = (number);                                                                        \
  __asm__ volatile("mov %0, %%edi\n\tjmp 1f\n1:\tcall alike@PLT" ::"r"(left)                       \
                   : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc")
EXPORTED void preparing(int rows, int columns) {
  for (int row = 0; row < rows; row++) {
    asked(1, columns);
    if (places_choice(4) == 0) {
      PREPARED(2, rows);
      goto end;
    }
    PREPARED(3, columns);
  }
end:
  SITE(4);
  places_choice(1);
  ALIKE(5);
  places_choice(1);
}

/* gcc copies the block of call 1 to behind what some ranks do by themselves. */
static volatile int stepped;
EXPORTED void stepping(int rows, int columns) {
  (void)columns;
  while (asked(1, rows)) {
    rows--;
    if (stepped % 3 == 0)
      stepped = 2;
    else
      stepped += 2;
  }
  SITE(2);
  places_choice(1);
}

/* What is left of an accumulation when its loop ends has a call of its own, although the way to it
 * knows that the call in the loop has not been made. Where something else is called on that way,
 * and a compiler knows that something is left, nothing would tell it from a round of the loop. */
#define CARRYING(name, CALL, own, is_left)                                                         \
  EXPORTED void name(int rows, int columns) {                                                      \
    int left = 0, row = 0;                                                                         \
    if (rows > 0)                                                                                  \
      do {                                                                                         \
        places_choice(1);                                                                          \
        if (++left == 3) {                                                                         \
          CALL(1);                                                                                 \
          left = 0;                                                                                \
        }                                                                                          \
      } while (++row < rows);                                                                      \
    own;                                                                                           \
    if (is_left)                                                                                   \
      CALL(2);                                                                                     \
    places_choice(1);                                                                              \
  }
CARRYING(carrying, ALIKE, (void)0, left > 0)
CARRYING(carrying_alone, ALONE, (void)0, left > 0)
CARRYING(carrying_on, ALIKE, SITE(10), left > 0 && columns > 0)
CARRYING(carrying_on_alone, ALONE, SITE(10), left > 0 && columns > 0)
