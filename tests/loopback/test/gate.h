/* A gate that holds a stream up: its worker waits in gate_wait until the test opens the gate. */
#ifndef LOOPBACK_TEST_GATE_H
#define LOOPBACK_TEST_GATE_H

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

/* Comparisons as criterion/new/assert.h writes them; the type is for the reader. */
#define eq(type, a, b) ((a) == (b))
#define ne(type, a, b) ((a) != (b))
#define ge(type, a, b) ((a) >= (b))
#define lt(type, a, b) ((a) < (b))

/* Seconds that a test may take, sanitizers included: what waits for ever is broken. */
#define TIMEOUT 300

struct gate {
  sem_t open, passed;
};

/* A host function; argument: a struct gate. */
static inline void gate_wait(void *argument) {
  struct gate *gate = argument;
  sem_wait(&gate->open);
  sem_post(&gate->passed);
}

/* Puts the gate into a stream. */
static inline void gate_close(struct gate *gate, cudaStream_t stream) {
  sem_init(&gate->open, 0, 0);
  sem_init(&gate->passed, 0, 0);
  cr_assert(eq(int, cudaLaunchHostFunc(stream, gate_wait, gate), cudaSuccess));
}

/* Returns once the worker is through: the gate may then go out of scope. */
static inline void gate_open(struct gate *gate) {
  sem_post(&gate->open);
  sem_wait(&gate->passed);
}

/* A host function; argument: an int to count up. */
static inline void count_up(void *argument) {
  ++*(int *)argument;
}

#define succeeds(call) cr_assert(eq(int, (call), 0), "%s", #call)
#define fails(call, error) cr_assert(eq(int, (int)(call), (int)(error)), "%s", #call)
#define reads(text, expected) cr_assert(eq(int, strcmp(text, expected), 0), "\"%s\"", text)

#endif
