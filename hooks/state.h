/* The buffers of a program that are broadcast from the last joiner when all ranks are together
 * again: its model, its optimizer's state.
 *
 * nccl-join knows them because the program has registered them (hooks/include/nccl_join.h), or has
 * broadcast them at its start (NCCL_JOIN_RESYNC=broadcasts). It cannot know how long they live, so
 * each is looked at before it is used: the driver numbers allocations, and never uses a number
 * again. A buffer that has been freed, and memory that has since been given to somebody else, are
 * so recognised. Not so what an allocator of the program's own (PyTorch's) hands out anew: to the
 * driver that is one allocation.
 *
 * A list has a lock of its own; any thread may call any function.
 */
#ifndef NCCL_JOIN_HOOKS_STATE_H
#define NCCL_JOIN_HOOKS_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hooks/cuda_driver.h"

/* Numbers of buffers that were broadcast at the start have this bit; those of registered ones count
 * from 0 by communicator. So a number means the same on all ranks. */
#define STATE_BROADCAST UINT32_C(0x80000000)

struct state_buffer {
  void *address;
  uint64_t count; /* elements */
  uint32_t comm;  /* tag of the communicator */
  uint32_t number;
  uint8_t datatype;              /* ncclDataType_t; unit.h has its size */
  unsigned long long allocation; /* the driver's number of what the buffer lies in */
};

struct state {
  pthread_mutex_t lock;         /* guards all but nbuffers */
  pthread_cond_t idle;          /* users has become 0 */
  uint32_t users;               /* state_hold without state_release */
  struct state_buffer *buffers; /* in the order in which they came */
  _Atomic uint32_t nbuffers;
  uint32_t room;
};

/* What the driver says of a buffer. */
enum state_condition {
  STATE_THERE,
  STATE_FREED,    /* no device memory there, or less than the buffer needs */
  STATE_REPLACED, /* device memory that has been allocated since */
};

void state_init(struct state *state);
void state_free(struct state *state);

/* Whether there is anything in the list: one load. */
static inline bool state_is_empty(const struct state *state) {
  return atomic_load_explicit(&state->nbuffers, memory_order_relaxed) == 0;
}

/* Adds a buffer; its allocation is looked up. One that is there already, at the same address on the
 * same communicator, is replaced, and keeps its number. False with a reason (not NULL): no memory,
 * a datatype that is not known, or not device memory of that size on `device` (CUDA's number). */
bool state_add(struct state *state, const struct cuda_driver *cuda, int device,
               struct state_buffer buffer, char *reason);

/* From state_hold to state_release work on the device may read and write the buffers of the list:
 * state_remove waits. They nest. */
void state_hold(struct state *state);
void state_release(struct state *state);

/* Takes out a buffer. Waits until nothing holds the list, so the caller may free the buffer
 * afterwards. False if it is not there. */
bool state_remove(struct state *state, uint32_t comm, const void *address);

/* The same without waiting, for a buffer that has been freed already. */
void state_drop(struct state *state, uint32_t comm, const void *address);

/* A communicator has gone: takes out its buffers. Does not wait. */
void state_remove_all(struct state *state, uint32_t comm);

/* A copy of the list, for the caller to free; NULL if it is empty, or without memory. */
struct state_buffer *state_list(struct state *state, uint32_t *nbuffers);

/* A copy of the buffer of that number; false if there is none. */
bool state_find(struct state *state, uint32_t comm, uint32_t number, struct state_buffer *buffer);

/* Looks whether a buffer is still what it was. */
enum state_condition state_look(const struct cuda_driver *cuda, const struct state_buffer *buffer);

#endif
