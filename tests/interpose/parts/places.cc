// See places.h. What only C++ has: exceptions, and code that runs when a scope is left.
#include "places.h"

#include <coroutine>

void (*volatile places_site)(int number);
int (*volatile places_choice)(int below);

namespace {

struct scope {
  ~scope() {
    places_choice(1);
  }
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

static __attribute__((noinline)) void take(int *left) {
  if ((*left)-- <= 0)
    throw 1;
}

// What follows the loop g++ moves into a part of its own, which returns by itself.
extern "C" EXPORTED void ending(int rows, int columns) {
  (void)columns;
  try {
    for (;;) {
      take(&rows);
      SITE(1);
    }
  } catch (int) {
  }
  SITE(2);
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
  repeat(
      rows, [=](int) __attribute__((always_inline)) {
        SITE(1);
        for (int j = 0; j < columns; j++)
          SITE(2);
        SITE(3);
      });
  SITE(4);
  places_choice(1);
}

namespace {

struct task {
  struct promise_type {
    task get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept {
      return {};
    }
    std::suspend_always final_suspend() noexcept {
      return {};
    }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};

} // namespace

static task loops(int rows, int columns) {
  for (int i = 0; i < rows; i++) {
    SITE(1);
    co_await std::suspend_always{};
    for (int j = 0; j < columns; j++) {
      SITE(2);
      co_await std::suspend_always{};
    }
  }
  SITE(3);
}

extern "C" EXPORTED void resuming(int rows, int columns) {
  task all = loops(rows, columns);
  while (!all.handle.done())
    all.handle.resume();
  all.handle.destroy();
}
