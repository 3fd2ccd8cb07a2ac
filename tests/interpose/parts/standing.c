/* Calls that stand somewhere (placed.h), one way a word; each word prints the ids that it has come
 * to. What must be equal or different is checked here; that an id is right, by placed.c.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "core/place/place.h"
#include "tests/interpose/parts/placed.h"

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
/* Behind a call, so that the compiler does not make a jump of it. */
#define STAY __asm__ volatile("")

static void expect(bool as_expected, const char *what) {
  if (as_expected)
    return;
  printf("not as expected: %s\n", what);
  fflush(stdout);
  _Exit(1);
}

static void expect_known(uint32_t id) {
  expect(id != 0, "known");
}

static uint32_t first_id, second_id;

/* The same number: of which the compiler knows nothing, so that it makes one call of a loop's. */
static int times(int number) {
  volatile int same = number;
  return same;
}

/* Nor of which iteration is which: it would make the first one outside of the loop. */
static bool is_first(int iteration) {
  return times(iteration) == 0;
}

/* ---- wrappers ---- */

static NOINLINE uint32_t wrapped(void) {
  uint32_t id = stand();
  STAY;
  return id;
}

static NOINLINE uint32_t wrapped_twice(void) {
  uint32_t id = wrapped();
  STAY;
  return id;
}

static void stand_in_wrapper(void) {
  for (int i = 0; i < times(3); i++) {
    uint32_t a = wrapped_twice(), b = wrapped_twice(), c = wrapped();
    expect(a != b && b != c && a != c, "each caller has an id of its own");
    expect(is_first(i) || (a == first_id && b == second_id), "the same again");
    first_id = a;
    second_id = b;
  }
}

static NOINLINE uint32_t wrapped_thrice(void) {
  uint32_t id = wrapped_twice();
  STAY;
  return id;
}

#define CALLER(name, of)                                                                           \
  static NOINLINE uint32_t name(void) {                                                            \
    uint32_t id = of();                                                                            \
    __asm__ volatile("# " #name); /* or what is alike is made one */                               \
    return id;                                                                                     \
  }
CALLER(caller_1, wrapped)
CALLER(caller_2, wrapped)
CALLER(caller_3, wrapped_twice)
CALLER(caller_4, wrapped_twice)
CALLER(caller_5, wrapped_thrice)
CALLER(caller_6, wrapped_thrice)

/* In no order, so that what came last before is no help: they differ in one frame, of one size. */
static void stand_in_disorder(void) {
  uint32_t (*const callers[])(void) = {caller_1, caller_2, caller_3, caller_4, caller_5, caller_6};
  uint32_t ids[6] = {0}, random = 1;
  for (int i = 0; i < times(600); i++) {
    random = random * 1664525 + 1013904223;
    unsigned which = (random >> 16) % 6;
    uint32_t id = callers[which]();
    expect(ids[which] == 0 || id == ids[which], "the same again");
    ids[which] = id;
  }
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 4 && j < i; j++)
      expect(ids[i] != ids[j], "each caller has an id of its own");
  first_id = ids[0];
}

static void stand_in_pointer(void) {
  uint32_t (*volatile functions[])(void) = {wrapped, wrapped_twice, stand};
  uint32_t ids[3];
  for (int round = 0; round < times(3); round++)
    for (int i = 0; i < times(3); i++) {
      uint32_t id = functions[i]();
      expect(is_first(round) || id == ids[i], "the same again");
      ids[i] = id;
    }
  expect(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "as many as functions");
  first_id = ids[0];
}

/* A loop is learnt: nothing is searched for any more. */
static void stand_in_loop(void) {
  unsigned long searches = 0;
  for (int i = 0; i < times(5); i++) {
    if (times(i) == 3)
      searches = stand_searches();
    first_id = stand();
    second_id = stand();
    expect(first_id != second_id, "two calls");
  }
  /* Not where a program aligns its frames. */
  if (getenv("FRAMES_ARE_SIMPLE") != NULL)
    expect(stand_searches() == searches, "found without a search");
}

/* Two calls come after the one in the inner loop. */
static void stand_in_rounds(void) {
  unsigned long searches = 0;
  for (int i = 0; i < times(6); i++) {
    if (times(i) == 4)
      searches = stand_searches();
    for (int k = 0; k < times(3); k++)
      first_id = stand();
    second_id = stand();
    expect(first_id != second_id, "two calls");
  }
  if (getenv("FRAMES_ARE_SIMPLE") != NULL)
    expect(stand_searches() == searches, "found without a search");
}

/* ---- frames of all sizes ---- */

static NOINLINE uint32_t on_more(size_t size) {
  volatile char array[size];
  array[0] = 1;
  uint32_t id = stand();
  array[size - 1] = 2;
  return id;
}

static NOINLINE uint32_t on_more_of_first(size_t size) {
  uint32_t id = on_more(size);
  STAY;
  return id;
}

static NOINLINE uint32_t on_more_of_second(size_t size) {
  uint32_t id = on_more(size);
  STAY;
  return id;
}

/* Old frames lie below, with return addresses where those of smaller frames would be. */
static void stand_in_alloca(void) {
  for (size_t i = 0; i < (size_t)times(64); i++) {
    size_t size = i % 3 == 0 ? 16 : 16 * (1 + i * 7 % 40);
    uint32_t a = on_more_of_first(size), b = on_more_of_second(4 * size);
    expect(a != b && (is_first(i) || (a == first_id && b == second_id)), "by caller, not by size");
    first_id = a;
    second_id = b;
  }
}

static NOINLINE uint32_t aligned(int n) {
  _Alignas(64) volatile char array[256];
  array[n] = 1;
  expect((uintptr_t)array % 64 == 0, "aligned");
  uint32_t id = wrapped();
  array[n + 1] = 2;
  return id;
}

static NOINLINE uint32_t aligned_and_more(size_t size) {
  _Alignas(64) volatile char array[64];
  volatile char more[size];
  array[0] = more[0] = 1;
  uint32_t id = aligned(3);
  array[1] = more[size - 1] = 2;
  return id;
}

static void stand_in_aligned(void) {
  for (int i = 0; i < times(4); i++) {
    first_id = aligned(i);
    second_id = aligned_and_more(8 * (size_t)(i + 1));
    expect(first_id != second_id, "two callers");
  }
}

static NOINLINE uint32_t deep(unsigned depth) {
  uint32_t id = depth == 0 ? wrapped() : deep(depth - 1);
  STAY;
  return id;
}

static void stand_in_deep(void) {
  uint32_t before = deep(10);
  first_id = deep(5000);
  expect(before == first_id, "by the innermost frames");
  for (unsigned depth = 0; depth < (unsigned)times(100); depth++)
    expect_known(deep(depth));
}

/* ---- other ways to go ---- */

static jmp_buf back;

static NOINLINE void jump(int i) {
  uint32_t id = wrapped();
  expect(is_first(i) || id == first_id, "the same again");
  first_id = id;
  longjmp(back, 1);
}

static void stand_in_longjmp(void) {
  volatile int i = 0;
  if (setjmp(back) != 0)
    i++;
  uint32_t id = wrapped();
  expect(is_first(i) || id == second_id, "the same behind setjmp");
  second_id = id;
  if (i < 5)
    jump(i);
}

static volatile uint32_t in_handler;

static void handle(int number) {
  (void)number;
  in_handler = wrapped();
}

/* The frame of a signal is where it stops. */
static void stand_in_handler(void) {
  stand_untraced();
  signal(SIGUSR1, handle);
  for (int i = 0; i < times(3); i++) {
    raise(SIGUSR1);
    expect_known(in_handler);
    expect(is_first(i) || in_handler == first_id, "the same again");
    first_id = in_handler;
  }
}

static void *in_thread(void *id) {
  for (int i = 0; i < times(1000); i++) {
    uint32_t now = i % 3 == 0 ? wrapped() : wrapped_twice();
    if (i == 0)
      *(uint32_t *)id = now;
  }
  return NULL;
}

static void stand_in_threads(void) {
  pthread_t threads[4];
  uint32_t ids[4];
  for (int i = 0; i < 4; i++)
    expect(pthread_create(&threads[i], NULL, in_thread, &ids[i]) == 0, "a thread");
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; i++)
    expect(ids[i] == ids[0] && ids[i] != 0, "equal in all threads");
  first_id = ids[0];
}

/* In the child the loop goes on. */
static void stand_in_child(void) {
  pid_t child = 1;
  for (int i = 0; i < times(2) && (child == 0 || is_first(i)); i++) {
    second_id = wrapped();
    if (is_first(i)) {
      first_id = second_id;
      child = fork();
    }
  }
  if (child == 0)
    _exit(first_id == second_id ? 0 : 1);
  int status = 1;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child");
}

static ucontext_t main_context, other_context;

static void on_other_stack(void) {
  for (int i = 0; i < times(3); i++) {
    uint32_t id = wrapped();
    expect_known(id);
    expect(is_first(i) || id == first_id, "the same again");
    first_id = id;
    swapcontext(&other_context, &main_context);
  }
}

static void stand_in_context(void) {
  static char stack[65536] __attribute__((aligned(16)));
  stand_untraced();
  getcontext(&other_context);
  other_context.uc_stack.ss_sp = stack;
  other_context.uc_stack.ss_size = sizeof(stack);
  other_context.uc_link = &main_context;
  makecontext(&other_context, on_other_stack, 0);
  for (int i = 0; i < times(3); i++)
    swapcontext(&main_context, &other_context);
}

/* ---- without tables, or with wrong ones ---- */

#ifdef __x86_64__
/* sub $8, %rsp; call *%rdi; add $8, %rsp; ret */
static const unsigned char generated[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7,
                                          0x48, 0x83, 0xc4, 8, 0xc3};

static void stand_in_generated(void) {
  void *page =
      mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(page != MAP_FAILED, "a page");
  memcpy(page, generated, sizeof(generated));
  uint32_t (*function)(uint32_t(*)(void));
  memcpy(&function, &page, sizeof(page));
  stand_untraced();
  for (int i = 0; i < times(3); i++) {
    expect(function(stand) == 0, "the caller is unknown");
    uint32_t id = function(wrapped);
    expect_known(id);
    expect(id != wrapped(), "not that of another caller");
    expect(is_first(i) || id == first_id, "the same again");
    first_id = id;
  }
}

/* Says that its frame is found by rbp, and puts there what it is given. */
__asm__(".text\n"
        "astray:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset 6, -16\n"
        "mov %rsp, %rbp\n"
        ".cfi_def_cfa_register 6\n"
        "push %rbx\n"
        "push %rbx\n"
        "mov %rbp, %rbx\n"
        "mov %rdi, %rbp\n"
        "call stand@PLT\n"
        "mov %rbx, %rbp\n"
        "pop %rbx\n"
        "pop %rbx\n"
        "pop %rbp\n"
        "ret\n"
        ".cfi_endproc\n");
uint32_t astray(uintptr_t pointer) __asm__("astray");

static void stand_in_garbage(void) {
  char here;
  uintptr_t near = (uintptr_t)&here & ~(uintptr_t)15;
  const uintptr_t pointers[] = {0,
                                1,
                                8,
                                UINT64_C(0x4141414141414141),
                                UINT64_MAX - 15,
                                near - 4096,
                                near + (1 << 20),
                                near + (UINT64_C(1) << 40),
                                (uintptr_t)&main_context};
  stand_untraced();
  for (int round = 0; round < times(3); round++)
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
      first_id = astray(pointers[i]);
      expect_known(first_id);
    }
}
#else
static void stand_in_generated(void) {}
static void stand_in_garbage(void) {}
#endif

/* ---- objects ---- */

/* FILE: a library with a function `call`, which calls back. */
static uint32_t by_library(bool keep) {
  void *library = dlopen(getenv("FILE"), RTLD_NOW);
  expect(library != NULL, "the library");
  uint32_t (*call)(uint32_t(*)(void)) = (uint32_t(*)(uint32_t(*)(void)))dlsym(library, "call");
  uint32_t id = call(stand);
  if (!keep)
    dlclose(library);
  return id;
}

static void stand_in_closed(void) {
  for (int i = 0; i < times(3); i++) {
    unsigned long before = stand_searches();
    stand_opening();
    second_id = by_library(false);
    expect(stand_searches() > before, "looked for again");
    expect(is_first(i) || first_id == second_id, "equal wherever it lies");
    first_id = second_id;
  }
}

static uint32_t called_back;

static void call_back(void) {
  called_back = wrapped();
  STAY;
}

/* A communication hook: frames of Python's, called by an engine's thread. */
static void call_back_hook(void) {
  struct place place;
  char text[256];
  stand_in_python(true);
  stand_barely(true);
  called_back = stand();
  stand_describe(&place);
  for (uint32_t i = 0; i < place.nnodes; i++)
    printf("%x ", place.nodes[i].flags & PLACE_LOOP ? place.nodes[i].id : 0);
  puts(stand_text(place.id, text, sizeof(text)));
  stand_barely(false);
}

static void stand_in_hook(void) {
  void *library = dlopen(getenv("FILE"), RTLD_NOW);
  expect(library != NULL, "the library");
  void (*run)(void (*)(void), bool) = (void (*)(void (*)(void), bool))dlsym(library, "run");
  run(call_back_hook, true);
  expect(called_back == 0, "of an engine's thread that calls back");
}

static void stand_in_engine(void) {
  void *library = dlopen(getenv("FILE"), RTLD_NOW);
  expect(library != NULL, "the library");
  void (*run)(void (*)(void), bool) = (void (*)(void (*)(void), bool))dlsym(library, "run");
  stand_untraced();
  bool is_engine = strstr(getenv("FILE"), "torch") != NULL;
  bool is_seen = getenv("DOUBLE_UNREADABLE") == NULL;
  run(call_back, true);
  expect((called_back != 0) == (!is_engine && is_seen && getenv("DOUBLE_PYTHON") == NULL),
         "of a library's thread");
  run(call_back, false);
  expect((called_back != 0) == is_seen, "of the program's");
}

/* ---- describing ---- */

static NOINLINE uint32_t describe_here(struct place *place) {
  uint32_t id = stand();
  stand_describe(place);
  return id;
}

static void stand_in_description(void) {
  struct place place;
  char text[256];
  stand_untraced();
  first_id = describe_here(&place);
  if (getenv("DOUBLE_PYTHON") != NULL)
    stand_in_python(true), first_id = describe_here(&place);
  for (uint32_t i = 0; i < place.nnodes; i++)
    printf("%s ", (place.nodes[i].flags & PLACE_LOOP) != 0 ? "loop" : "call");
  puts(stand_text(first_id, text, sizeof(text)));
  puts(stand_text(12345, text, sizeof(text)));
}

static NOINLINE uint32_t describe_tail(struct place *place, uint32_t number) {
  uint32_t id = stand();
  stand_describe(place);
  return id + number;
}

static NOINLINE uint32_t jump_to_it(struct place *place) {
  return describe_tail(place, 1);
}

static NOINLINE uint32_t jump_twice(struct place *place) {
  if (times(1) == 1)
    return describe_tail(place, 2);
  expect_known(stand());
  return describe_tail(place, 3);
}

/* Frames that tail calls have left out are there where only one way leads there. */
static void stand_in_tails(void) {
  struct place with, without, unknown;
  stand_untraced();
  describe_tail(&without, 0);
  jump_to_it(&with);
  jump_twice(&unknown);
  printf("%u more, %u more\n", with.nnodes - without.nnodes, unknown.nnodes - without.nnodes);
}

static const struct {
  const char *word;
  void (*act)(void);
} words[] = {
    {"wrapper", stand_in_wrapper}, {"disorder", stand_in_disorder},
    {"pointer", stand_in_pointer}, {"loop", stand_in_loop},
    {"rounds", stand_in_rounds},   {"alloca", stand_in_alloca},
    {"aligned", stand_in_aligned}, {"deep", stand_in_deep},
    {"longjmp", stand_in_longjmp}, {"handler", stand_in_handler},
    {"threads", stand_in_threads}, {"child", stand_in_child},
    {"context", stand_in_context}, {"generated", stand_in_generated},
    {"garbage", stand_in_garbage}, {"closed", stand_in_closed},
    {"engine", stand_in_engine},   {"description", stand_in_description},
    {"tails", stand_in_tails},     {"hook", stand_in_hook},
};

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    for (size_t word = 0; word < sizeof(words) / sizeof(words[0]); word++)
      if (strcmp(argv[i], words[word].word) == 0) {
        words[word].act();
        printf("%s %08x %08x\n", argv[i], first_id, second_id);
        fflush(stdout);
      }
  return 0;
}
