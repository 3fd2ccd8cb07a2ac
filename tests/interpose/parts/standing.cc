// Calls that stand in templates and coroutines; see standing.c.
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/interpose/parts/placed.h"

static void expect(bool as_expected, const char *what) {
  if (as_expected)
    return;
  std::printf("not as expected: %s\n", what);
  std::fflush(stdout);
  std::_Exit(1);
}

// The same number: of which the compiler knows nothing, so that it makes one call of a loop's.
static int times(int number) {
  volatile int same = number;
  return same;
}

template <int N> __attribute__((noinline)) uint32_t instance() {
  uint32_t id = stand();
  __asm__ volatile("" ::"i"(N)); // or linkers fold what is alike
  return id;
}

static uint32_t templates() {
  uint32_t one = instance<1>(), two = instance<2>();
  expect(one != two, "each instance");
  return one + two;
}

struct generator {
  struct promise_type {
    uint32_t id = 0;
    generator get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(uint32_t value) {
      id = value;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
  std::coroutine_handle<promise_type> handle;
};

static generator stands() {
  for (;;) {
    co_yield stand();
    co_yield stand();
  }
}

__attribute__((noinline)) static uint32_t resume(generator &of) {
  of.handle.resume();
  __asm__ volatile("");
  return of.handle.promise().id;
}

static uint32_t coroutines() {
  generator one = stands(), two = stands();
  uint32_t first = 0, second = 0;
  for (int i = 0; i < times(4); i++) {
    uint32_t a = resume(one), b = resume(one);
    expect(a != b && a != 0, "two calls in one");
    expect(times(i) == 0 || (a == first && b == second), "the same again");
    first = a, second = b;
    for (int j = 0; j < i; j++)
      resume(two);
  }
  one.handle.destroy();
  two.handle.destroy();
  return first + second;
}

static uint32_t thrown() {
  uint32_t id = 0;
  for (int i = 0; i < times(3); i++)
    try {
      std::vector<int> none;
      none.at(static_cast<size_t>(i));
    } catch (...) {
      uint32_t now = instance<3>();
      expect(times(i) == 0 || now == id, "the same again");
      id = now;
    }
  return id;
}

int main() {
  std::printf("%08x %08x %08x\n", templates(), coroutines(), thrown());
}
