/* See places.h. In C, for all levels of optimisation. */
#include "places.h"

#include <setjmp.h>
#include <stdlib.h>

void (*volatile places_site)(int number);
int (*volatile places_choice)(int below);
void (*volatile places_call)(int number, const void *after);

/* A compiler tests the condition once in front of the loop. */
EXPORTED void guarded(int rows, int columns) {
  (void)columns;
  SITE(1);
  for (int i = 0; i < rows; i++)
    SITE(2);
  SITE(3);
  places_choice(1);
}

/* Behind another loop it may do so twice, and control enters the loop behind its test as well (gcc -O2). */
EXPORTED void in_a_row(int rows, int columns) {
  for (int i = 0; i < rows; i++)
    SITE(1);
  while (columns) {
    columns--;
    SITE(2);
  }
  SITE(3);
  places_choice(1);
}

EXPORTED int asked(int number, int left) {
  if (places_call != 0)
    places_call(number, __builtin_return_address(0));
  return left > 0;
}

/* ... which may be a call. */
EXPORTED void asking(int rows, int columns) {
  (void)columns;
  SITE(3);
  while (asked(1, rows)) {
    SITE(2);
    rows--;
  }
  SITE(4);
  places_choice(1);
}

/* What is checked for errors is no condition of a loop. */
EXPORTED void checked(int rows, int columns) {
  (void)columns;
  if (!asked(1, 1))
    goto failed;
  for (;;) {
    if (rows-- <= 0)
      break;
    SITE(2);
    if (!asked(4, 1))
      goto failed;
  }
  SITE(3);
failed:
  places_choice(1);
}

static volatile int places_numbers[] = {0, 1, 2, 3};

/* A call behind a loop that looks like the one in it is none of its copies, condition or not. */
EXPORTED void remaining(int rows, int columns) {
  for (int row = 0; row < rows; row++) {
    places_choice(1);
    asked(places_numbers[row >= 0], columns);
    places_choice(1);
  }
  if (columns > 0) {
    places_choice(1);
    asked(places_numbers[1 + (rows >= 0)], columns);
    places_choice(1);
  }
  places_choice(1);
  asked(places_numbers[2 + (rows >= 0)], columns);
  places_choice(1);
}

volatile int places_number;

EXPORTED int alike(int left) {
  if (places_call != 0)
    places_call(places_number, __builtin_return_address(0));
  return left > 0;
}

/* Calls that look the same in the code, and are not. */
EXPORTED void repeating(int rows, int columns) {
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < columns; j++)
      ALIKE(1);
    ALIKE(2);
  }
  for (int i = 0; i < columns; i++)
    ALIKE(3);
  ALIKE(4);
  while (rows-- > 0) {
    if (places_choice(2) == 0)
      ALIKE(5);
    do
      ALIKE(6);
    while (places_choice(3) > 0);
    ALIKE(7);
  }
  places_choice(1);
}

EXPORTED void nested(int rows, int columns) {
  SITE(1);
  for (int i = 0; i < rows; i++) {
    SITE(2);
    for (int j = 0; j < columns; j++)
      SITE(3);
    SITE(4);
  }
  SITE(5);
  places_choice(1);
}

EXPORTED void leaving(int rows, int columns) {
  (void)columns;
  while (rows-- > 0) {
    SITE(1);
    if (CHOICE(3) == 0)
      continue;
    SITE(2);
    if (CHOICE(5) == 0)
      break;
    SITE(3);
  }
  SITE(4);
  places_choice(1);
}

EXPORTED void once(int rows, int columns) {
  SITE(1);
  do {
    SITE(2);
    do
      SITE(3);
    while (--columns > 0);
  } while (--rows > 0);
  SITE(4);
  places_choice(1);
}

EXPORTED void choosing(int rows, int columns) {
  SITE(1);
  for (int i = 0; i < rows * columns; i++) {
    SITE(2);
    switch (CHOICE(9)) {
    case 0:
      SITE(10);
      break;
    case 1:
      SITE(11); /* and on */
      __attribute__((fallthrough));
    case 2:
      SITE(12);
      break;
    case 3:
      SITE(13);
      continue;
    case 4:
      SITE(14);
      break;
    case 5:
      SITE(15);
      break;
    case 6:
      SITE(16);
      break;
    }
    SITE(3);
  }
  SITE(4);
  places_choice(1);
}

EXPORTED void jumping(int rows, int columns) {
  SITE(1);
  if (CHOICE(3) == 0)
    goto out;
  SITE(2);
  if (CHOICE(3) == 0)
    return;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      SITE(3);
      if (CHOICE(20) == 0)
        goto out;
    }
  SITE(4);
out:
  SITE(5);
  places_choice(1);
}

static inline __attribute__((always_inline)) void inner(int columns) {
  for (int j = 0; j < columns; j++)
    SITE(2);
}

EXPORTED void inlined(int rows, int columns) {
  for (int i = 0; i < rows; i++) {
    SITE(1);
    inner(columns);
    SITE(3);
  }
  SITE(4);
  places_choice(1);
}

static __attribute__((noinline, cold, noreturn)) void give_up(void) {
  SITE(99);
  abort();
}

EXPORTED void checking(int rows, int columns) {
  SITE(1);
  if (CHOICE(1) != 0)
    give_up();
  for (int i = 0; i < rows; i++) {
    SITE(2);
    if (CHOICE(columns) < 0)
      give_up();
    SITE(3);
  }
  SITE(4);
  places_choice(1);
}

EXPORTED void rare(int rows, int columns) {
  (void)columns;
  SITE(1);
  for (int i = 0; i < rows; i++) {
    if (__builtin_expect(CHOICE(4) == 0, 0)) {
      SITE(2);
    } else {
      SITE(3);
    }
    SITE(4);
  }
  SITE(5);
  places_choice(1);
}

EXPORTED void alternatives(int rows, int columns) {
  SITE(1);
  if (CHOICE(2)) {
    for (int i = 0; i < rows; i++)
      SITE(2);
  } else {
    for (int i = 0; i < columns; i++)
      SITE(3);
  }
  SITE(4);
  if (CHOICE(2))
    SITE(5);
  SITE(6);
  places_choice(1);
}

static __attribute__((noinline)) void count_up(volatile int *i, int end, jmp_buf back) {
  if (++*i >= end)
    longjmp(back, 1);
}

/* Loops that only longjmp leaves. */
EXPORTED void returning(int rows, int columns) {
  jmp_buf back, again;
  volatile int i = -1, j = -1;
  SITE(1);
  if (setjmp(back) == 0)
    for (;;) {
      count_up(&i, rows, back);
      SITE(2);
    }
  SITE(3);
  if (setjmp(again) == 0)
    for (;;) {
      SITE(4);
      count_up(&j, columns, again);
      SITE(5);
    }
  SITE(6);
  places_choice(1);
}

/* A loop that longjmp goes round. */
EXPORTED void restarting(int rows, int columns) {
  jmp_buf back;
  volatile int i = 0;
  (void)columns;
  (void)setjmp(back);
  SITE(1);
  if (++i < rows)
    longjmp(back, 1);
  SITE(2);
  places_choice(1);
}

/* Branches that end a loop by what they set, and one that does not. */
EXPORTED void deciding(int rows, int columns) {
  int done = 0, i;
  (void)columns;
  SITE(1);
  i = CHOICE(1);
  while (!done) {
    if (i++ < rows) {
      SITE(2);
    } else {
      SITE(3);
      done = 1;
      i = CHOICE(2);
    }
  }
  SITE(5);
  for (i = 0, done = 0; i < 40 && !done; i++) {
    if (CHOICE(9) == 0) {
      SITE(10);
      done = 1;
    } else if (CHOICE(2) == 0) {
      SITE(11);
      done = 0;
    } else {
      SITE(12);
      done = CHOICE(9) == 0;
    }
  }
  SITE(6);
  places_choice(1);
}

/* What has been shifted is not what it was: the branch that sets it does not end the loop. */
EXPORTED void shifting(int rows, int columns) {
  unsigned state = 1;
  int rounds;
  (void)rows;
  SITE(1);
  for (rounds = 0; state != 4 && rounds < 40; rounds++) {
    if (CHOICE(2) == 0) {
      SITE(2);
      state = 4;
      state <<= (unsigned)columns % 8;
    } else {
      SITE(3);
    }
  }
  SITE(4);
  places_choice(1);
}

__attribute__((noinline)) static void choose_once(void) {
  places_choice(1);
  places_choice(2);
}

/* Two ways out, of which an optimiser makes the first a jump to the function called last. */
EXPORTED void jumping_out(int rows, int columns) {
  volatile int last;
  (void)columns;
  SITE(1);
  if (CHOICE(2) == 0) {
    SITE(2);
    choose_once();
    return;
  }
  SITE(4);
  last = rows;
  (void)last;
}

/* Conditions of quotients and remainders. */
EXPORTED void dividing(int rows, int columns) {
  int by = columns + 1, fixed = columns / by;
  for (int i = 0; i < rows; i++) {
    if (i % by == 0)
      SITE(1);
    else
      SITE(2);
    if ((unsigned)i / (unsigned)by > 1)
      SITE(3);
  }
  for (int i = 0; i < rows; i++) {
    if (columns % by == fixed)
      SITE(4);
    else
      SITE(5);
  }
  SITE(6);
  places_choice(1);
}

__attribute__((visibility("hidden"))) int places_word;

/* A variable of the program, which the function called in between may set. */
EXPORTED void sharing(int rows, int columns) {
  for (int i = 0; i < rows; i++) {
    places_word = columns;
    SITE(3);
    if (places_word == columns)
      SITE(1);
    else
      SITE(2);
  }
}

/* Conditions in a loop that change from round to round, or do not. */
EXPORTED void conditions(int rows, int columns) {
  int i = 0, state = 0, limit = CHOICE(30), flag;
  int fixed = columns % 2;
  while (i < rows) {
    if (fixed)
      SITE(1);
    else
      SITE(2);
    if (i < limit)
      SITE(3);
    else
      SITE(4);
    flag = CHOICE(2);
    if (flag)
      SITE(5);
    else
      SITE(6);
    if (state == 0) {
      SITE(7);
      state = 1;
    } else if (state == 1) {
      SITE(8);
      if (CHOICE(2) == 0)
        state = 2;
    } else {
      SITE(9);
      state = 0;
    }
    i++;
  }
  SITE(10);
  places_choice(1);
}
