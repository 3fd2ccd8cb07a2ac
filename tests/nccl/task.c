/* Coroutines with stacks of their own. Stacks are kept by the thread for the next kernel. */
#include "tests/nccl/task.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum {
  STACK_SIZE = 128 << 10,
  ROUNDS_AWAKE = 64,         /* of looking at all tasks, before the thread gives way */
  ROUNDS_YIELDING = 128,     /* and before it sleeps */
  SLEEP_NS = 50 * 1000,      /* at first */
  SLEEP_LONGEST_NS = 400000, /* doubled up to that */
};

struct task {
  void *stack_pointer; /* while it does not run */
  char *stack;
  task_function *function;
  void *argument;
  struct task_group *group;
  bool ended;
  struct task *next;
};

struct crew {
  struct task *tasks, **end;
  struct task *current;
  void *scheduler; /* its stack pointer while a task runs */
  const volatile uint32_t *abort_flag;
  bool moved;
};

static _Thread_local struct crew *crew;
static _Thread_local struct task *spare;

/* Saves what a call preserves on the stack, and goes on where the other stack was left. */
void emulation_switch(void **from, void *to);
__asm__(".text\n"
        ".globl emulation_switch\n"
        ".hidden emulation_switch\n"
        ".type emulation_switch, @function\n"
        "emulation_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emulation_switch, .-emulation_switch\n");

static _Noreturn void task_end(void) {
  struct task *task = crew->current;
  task->ended = true;
  task->group->left--;
  crew->moved = true;
  emulation_switch(&task->stack_pointer, crew->scheduler);
  abort();
}

static void task_begin(void) {
  crew->current->function(crew->current->argument);
  task_end();
}

static struct task *task_create(void) {
  struct task *task = spare;
  if (task != NULL) {
    spare = task->next;
    return task;
  }
  task = malloc(sizeof *task);
  char *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (task == NULL || stack == MAP_FAILED || mprotect(stack, 4096, PROT_NONE) != 0) {
    fprintf(stderr, "NCCL emulation: no memory for a task\n");
    abort();
  }
  task->stack = stack;
  return task;
}

void task_spawn(struct task_group *group, task_function *function, void *argument) {
  struct task *task = task_create();
  void **top = (void **)(task->stack + STACK_SIZE) - 1;
  *top = NULL; /* where task_begin would return to; keeps the stack aligned as after a call */
  *--top = (void *)task_begin;
  top -= 6; /* registers */
  task->stack_pointer = top;
  task->function = function;
  task->argument = argument;
  task->group = group;
  task->ended = false;
  task->next = NULL;
  group->left++;
  *crew->end = task;
  crew->end = &task->next;
}

void task_yield(bool moved) {
  crew->moved |= moved;
  emulation_switch(&crew->current->stack_pointer, crew->scheduler);
  if (*crew->abort_flag != 0)
    task_end();
}

void task_join(const struct task_group *group) {
  while (group->left > 0)
    task_yield(false);
}

/* Lets each task go on once; frees those that have ended. */
static void round_of(struct crew *all) {
  struct task **link = &all->tasks;
  while (*link != NULL) {
    struct task *task = *link;
    all->current = task;
    emulation_switch(&all->scheduler, task->stack_pointer);
    if (!task->ended) {
      link = &task->next;
      continue;
    }
    *link = task->next;
    if (all->end == &task->next)
      all->end = link;
    task->next = spare;
    spare = task;
  }
}

static void rest(int idle) {
  if (idle < ROUNDS_AWAKE) {
    __builtin_ia32_pause();
  } else if (idle < ROUNDS_YIELDING) {
    sched_yield();
  } else {
    int doublings = (idle - ROUNDS_YIELDING) / 64;
    long sleep = doublings < 4 ? SLEEP_NS << doublings : SLEEP_LONGEST_NS;
    nanosleep(&(struct timespec){0, sleep < SLEEP_LONGEST_NS ? sleep : SLEEP_LONGEST_NS}, NULL);
  }
}

void tasks_run(task_function *function, void *argument, const volatile uint32_t *abort_flag) {
  struct crew all = {.abort_flag = abort_flag};
  struct task_group group = {0};
  all.end = &all.tasks;
  crew = &all;
  task_spawn(&group, function, argument);
  for (int idle = 0; all.tasks != NULL; idle = all.moved ? 0 : idle + 1) {
    if (idle > 0)
      rest(idle);
    all.moved = false;
    round_of(&all);
  }
  crew = NULL;
}
