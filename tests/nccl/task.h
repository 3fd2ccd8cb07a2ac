/* Tasks: the blocks of one kernel, and what works inside of a block at the same time, as coroutines
 * of the thread that runs the kernel (a stream's worker).
 *
 * A block that waits for a peer lets the others go on; when all of them wait, the thread sleeps for
 * a moment. Only tasks call the functions below, but for tasks_run. */
#ifndef TESTS_NCCL_TASK_H
#define TESTS_NCCL_TASK_H

#include <stdbool.h>
#include <stdint.h>

typedef void task_function(void *argument);

struct task_group {
  int left; /* tasks of it that have not ended */
};

/* Runs a task, and all that it spawns, to the end. argument must live as long. */
void tasks_run(task_function *function, void *argument, const volatile uint32_t *abort_flag);

/* Adds a task to the kernel; group counts it. */
void task_spawn(struct task_group *group, task_function *function, void *argument);

/* Waits until a group's tasks have ended. */
void task_join(const struct task_group *group);

/* Lets the others go on. Does not return if the kernel is told to end (the abort flag): a task owns
 * nothing that it would have to give back. moved: whether the caller has done something since its
 * last call. */
void task_yield(bool moved);

#endif
