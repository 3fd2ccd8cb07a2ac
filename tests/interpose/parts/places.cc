// See places.h. What only C++ has: exceptions, and code that runs when a scope is left.
#include "places.h"

void (*volatile places_site)(int number);
int (*volatile places_choice)(int below);

namespace {

struct scope {
  ~scope() { places_choice(1); }
};

} // namespace

extern "C" EXPORTED void catching(int rows, int columns) {
  (void)columns;
  SITE(1);
  for (int i = 0; i < rows; i++) {
    SITE(2);
    try {
      scope inside;
      SITE(3);
      if (CHOICE(3) == 0)
        throw 1;
      SITE(4);
    } catch (int) {
      SITE(20); // only by an exception
    }
    SITE(5);
  }
  SITE(6);
  places_choice(1);
}

extern "C" EXPORTED void scoped(int rows, int columns) {
  scope whole;
  for (int i = 0; i < rows; i++) {
    scope each;
    SITE(1);
    if (CHOICE(8) == 0)
      return;
    for (int j = 0; j < columns; j++) {
      scope innermost;
      SITE(2);
    }
  }
  SITE(3);
}

template <typename F> static void repeat(int count, F body) {
  for (int i = 0; i < count; i++)
    body(i);
}

extern "C" EXPORTED void lambdas(int rows, int columns) {
  repeat(rows, [=](int) __attribute__((always_inline)) {
    SITE(1);
    for (int j = 0; j < columns; j++)
      SITE(2);
    SITE(3);
  });
  SITE(4);
  places_choice(1);
}
