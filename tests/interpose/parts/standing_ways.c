/* Calls that stand where a thread comes by another way than a call, where no tables tell of the
 * frame, and in objects that come and go; and how a place is described (standing.h). */
#include "tests/interpose/parts/standing.h"

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

/* ---- other ways to go ---- */

static jmp_buf back;

static NOINLINE void jump(int i) {
  uint32_t id = wrapped();
  expect(is_first(i) || id == first_id, "the same again");
  first_id = id;
  longjmp(back, 1);
}

void stand_in_longjmp(void) {
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
void stand_in_handler(void) {
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

void stand_in_threads(void) {
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
void stand_in_child(void) {
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

void stand_in_context(void) {
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

void stand_in_generated(void) {
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

void stand_in_garbage(void) {
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
void stand_in_generated(void) {}
void stand_in_garbage(void) {}
#endif

/* ---- objects ---- */

/* FILE: a library with a function `call`, which calls back. */
static uint32_t by_library(uint32_t (*function)(void)) {
  void *library = dlopen(getenv("FILE"), RTLD_NOW);
  expect(library != NULL, "the library");
  uint32_t (*call)(uint32_t(*)(void)) = (uint32_t(*)(uint32_t(*)(void)))dlsym(library, "call");
  uint32_t id = call(function);
  dlclose(library);
  return id;
}

void stand_in_closed(void) {
  for (int i = 0; i < times(3); i++) {
    unsigned long before = stand_searches();
    stand_opening();
    second_id = by_library(stand);
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
  called_back = stand();
  stand_describe(&place);
  for (uint32_t i = 0; i < place.nnodes; i++)
    printf("%x ", place.nodes[i].flags & PLACE_LOOP ? place.nodes[i].id : 0);
  puts(stand_text(place.id, text, sizeof(text)));
}

void stand_in_hook(void) {
  void *library = dlopen(getenv("FILE"), RTLD_NOW);
  expect(library != NULL, "the library");
  void (*run)(void (*)(void), bool) = (void (*)(void (*)(void), bool))dlsym(library, "run");
  stand_untraced();
  run(call_back_hook, true);
  expect((called_back != 0) == (getenv("DOUBLE_WAITING") != NULL), "known where that waits");
}

void stand_in_engine(void) {
  void *library = dlopen(getenv("FILE"), RTLD_NOW);
  expect(library != NULL, "the library");
  void (*run)(void (*)(void), bool) = (void (*)(void (*)(void), bool))dlsym(library, "run");
  stand_untraced();
  bool is_engine = strstr(getenv("FILE"), "torch") != NULL;
  bool is_seen = getenv("DOUBLE_UNREADABLE") == NULL;
  bool is_native = !is_engine && is_seen && getenv("DOUBLE_PYTHON") == NULL;
  run(call_back, true);
  expect((called_back != 0) == (is_native || (is_engine && getenv("DOUBLE_WAITING") != NULL)),
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

static NOINLINE uint32_t describe_behind(unsigned depth, struct place *place) {
  uint32_t id = depth == 0 ? describe_here(place) : describe_behind(depth - 1, place);
  STAY;
  return id;
}

static struct place described;

static uint32_t describe_back(void) {
  return describe_here(&described);
}

void stand_in_description(void) {
  struct place place;
  char text[256];
  stand_untraced();
  first_id = describe_here(&place);
  if (getenv("DOUBLE_PYTHON") != NULL)
    stand_in_python(true), first_id = describe_here(&place);
  for (uint32_t i = 0; i < place.nnodes; i++)
    printf("%s ", (place.nodes[i].flags & PLACE_LOOP) != 0 ? "loop" : "call");
  puts(stand_text(first_id, text, sizeof(text)));
  puts(stand_text(describe_behind(5, &place), text, sizeof(text)));
  puts(stand_text(12345, text, sizeof(text)));
  if (getenv("FILE") != NULL)
    puts(stand_text(by_library(describe_back), text, sizeof(text)));
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
void stand_in_tails(void) {
  struct place with, without, unknown;
  stand_untraced();
  describe_tail(&without, 0);
  jump_to_it(&with);
  jump_twice(&unknown);
  printf("%u more, %u more\n", with.nnodes - without.nnodes, unknown.nnodes - without.nnodes);
}
