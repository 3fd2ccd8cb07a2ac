/* See places.h. Loops that make the same calls, and a call behind one that may be its last round; beside
 * them what is not so. */
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

EXPORTED void following(int rows, int columns) {
  for (int i = 0; i < rows; i++)
    ALIKE(1);
  SITE(3);
  for (int i = 0; i < columns; i++) {
    ALIKE(2);
    SITE(10);
  }
  places_choice(1);
}

/* Nothing is known of what they are given. */
EXPORTED void following_alone(int rows, int columns) {
  for (int i = 0; i < rows; i++)
    ALONE(1);
  SITE(3);
  for (int i = 0; i < columns; i++) {
    ALONE(2);
    SITE(10);
  }
  places_choice(1);
}

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

/* As accumulating: copies of a call that is given nothing. */
EXPORTED void accumulating_alone(int rows, int columns) {
  int row = 0;
  for (;;) {
    int some = 0;
    if (row >= rows)
      break;
    while (some < 2 && row < rows) {
      row++;
      some++;
    }
    asked(1, columns);
    if (places_choice(2) == 0)
      SITE(4);
    ALONE(2);
  }
  asked(3, columns);
  places_choice(1);
}

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
