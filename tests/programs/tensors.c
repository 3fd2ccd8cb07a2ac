/* The tensors of programs/operations (tensors.h). */
#include "tests/programs/tensors.h"

#include <string.h>

void read_blocks(struct state *state, const struct tensor *tensor, const float *data, int blocks) {
  tape_read(state->tape, ncclFloat, data, (size_t)blocks, tensor->n, "%s %d %d", state->name,
            state->iteration, tensor->number);
}

void read_part(struct state *state, const struct tensor *tensor, int from, size_t n) {
  if (n > 0)
    tape_read(state->tape, ncclFloat, tensor->result + (size_t)from * tensor->n, 1, n,
              "%s %d %d %d", state->name, state->iteration, tensor->number, from);
}

void read_in_place(struct state *state, const struct tensor *tensor) {
  read_blocks(state, tensor, tensor->send, 1);
}

void read_in_place_at_root(struct state *state, const struct tensor *tensor) {
  if (state->ranks.rank == state->root)
    read_blocks(state, tensor, tensor->send, 1);
}

void read_one(struct state *state, const struct tensor *tensor) {
  read_blocks(state, tensor, tensor->result, 1);
}

void read_all(struct state *state, const struct tensor *tensor) {
  read_blocks(state, tensor, tensor->result, state->ranks.nranks);
}

void read_all_at_root(struct state *state, const struct tensor *tensor) {
  if (state->ranks.rank == state->root)
    read_all(state, tensor);
}

/* arena NULL: memory of its own. */
static void *new_buffer(struct arena *arena, size_t size) {
  void *buffer = NULL;
  if (arena != NULL)
    return arena_take(arena, size);
  CHECK_CUDA(cudaMalloc(&buffer, size));
  return buffer;
}

struct arena *tensors_make(struct state *state, const char *memory, size_t second) {
  size_t nranks = (size_t)state->ranks.nranks;
  struct arena *arena =
      strcmp(memory, "plain") == 0
          ? NULL
          : arena_create(&state->ranks, memory, (nranks + 2) * GRADIENTS * sizeof(double));
  state->gradients = new_buffer(arena, GRADIENTS * sizeof(float));
  state->sizes = new_buffer(arena, (nranks + 1) * sizeof *state->sizes);
  for (int t = 0; t < TENSORS; t++) {
    struct tensor *tensor = &state->tensors[t];
    *tensor = (struct tensor){.number = t, .n = t == 0 ? COUNT : second};
    tensor->send = new_buffer(arena, nranks * tensor->n * sizeof(float));
    tensor->result = new_buffer(arena, nranks * tensor->n * sizeof(float));
  }
  return arena;
}
