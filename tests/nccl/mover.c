/* The three protocols. */
#include "tests/nccl/mover.h"

#include "tests/nccl/task.h"

#include <stdatomic.h>
#include <string.h>

enum {
  SLOTS = 8,
  LINE = 16,
  LINE_DATA = 8,
  LINE128 = 128,
  LINE128_DATA = 120,
  LINES128 = 16,   /* LL128 moves so many lines at once */
  PART_LINES = 64, /* lines that are looked at together */
  PART_BYTES = PART_LINES * LINE_DATA,
  FIFO_OFFSET = 1, /* mode of a fifo entry: the slot is at an offset that the proxy has chosen */
};

_Static_assert(PART_BYTES <= LINES128 * LINE128_DATA, "a part of LL is the smaller one");

/* ---- connections ---- */

static uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

static void link_open(struct mover_link *link, const struct mover *mover, bool sends,
                      const layout_communicator *communicator) {
  struct ncclConnInfo *connection = link->connection;
  bool simple = mover->protocol == PROTOCOL_SIMPLE;
  link->step = connection->step;
  if (simple)
    link->step = round_up(link->step, (uint64_t)(mover->slices * mover->stride));
#ifdef HAS_ncclConnInfo_stepSize
  link->slot_size = simple ? (size_t)connection->stepSize
                           : (size_t)communicator->buffSizes[mover->protocol] / SLOTS;
#else
  link->slot_size = (size_t)communicator->buffSizes[mover->protocol] / SLOTS;
#endif
  link->slots = device_at(connection->buffs[mover->protocol], link->slot_size * SLOTS);
  volatile uint64_t *head = connection->head ? DEVICE_OBJECT(connection->head) : NULL;
  volatile uint64_t *tail = connection->tail ? DEVICE_OBJECT(connection->tail) : NULL;
  link->count = sends ? head : tail;
  link->count_of_own = sends ? tail : head;
  link->fifo =
      sends || simple ? DEVICE_ARRAY(connection->connFifo, connection->connFifo ? SLOTS : 0) : NULL;
  if (mover->protocol == PROTOCOL_LL && sends)
    link->count_of_own = NULL; /* flags say it all */
  if (mover->protocol == PROTOCOL_LL128 && sends && link->fifo == NULL)
    link->count_of_own = NULL;
  link->is_copied = mover->protocol == PROTOCOL_LL128 && !sends && connection->connFifo != NULL;
  if (simple && !sends)
    *link->count_of_own = link->step; /* what was rounded up is free */
}

static struct ncclDevChannelPeer *peer_of(const struct block *block, int rank) {
  struct ncclDevChannelPeer **peers =
      DEVICE_ARRAY(block->channel->peers, block->communicator->nRanks);
  return DEVICE_OBJECT(peers[rank]);
}

void mover_open(struct mover *mover, const struct mover_plan *plan) {
  const layout_communicator *communicator = plan->block->communicator;
  *mover = (struct mover){.reducer = plan->reducer,
                          .protocol = plan->protocol,
                          .slices = plan->slices,
                          .stride = plan->stride};
  mover->step_size = plan->step_size != 0 ? plan->step_size
                                          : (size_t)communicator->buffSizes[plan->protocol] / SLOTS;
  for (int i = 0; i < plan->nfrom; i++)
    if (plan->from[i] >= 0)
      mover->from[mover->nfrom++].connection =
          &peer_of(plan->block, plan->from[i])->recv[plan->index];
  for (int i = 0; i < plan->nto; i++)
    if (plan->to[i] >= 0)
      mover->to[mover->nto++].connection = &peer_of(plan->block, plan->to[i])->send[plan->index];
  for (int i = 0; i < mover->nfrom; i++)
    link_open(&mover->from[i], mover, false, communicator);
  for (int i = 0; i < mover->nto; i++)
    link_open(&mover->to[i], mover, true, communicator);
}

void mover_close(struct mover *mover) {
  for (int i = 0; i < mover->nfrom; i++)
    mover->from[i].connection->step = mover->from[i].step;
  for (int i = 0; i < mover->nto; i++)
    mover->to[i].connection->step = mover->to[i].step;
}

static void say(volatile uint64_t *count, uint64_t value) {
  atomic_thread_fence(memory_order_release);
  *count = value;
}

static void wait_for_data(const struct mover_link *link, int steps) {
  bool moved = true;
  while (*link->count < link->step + (uint64_t)steps) {
    task_yield(moved);
    moved = false;
  }
  atomic_thread_fence(memory_order_acquire);
}

static void wait_for_room(const struct mover_link *link, int steps) {
  bool moved = true;
  while (*link->count + SLOTS < link->step + (uint64_t)steps) {
    task_yield(moved);
    moved = false;
  }
  atomic_thread_fence(memory_order_acquire);
}

static void say_size(const struct mover_link *link, size_t size) {
  if (link->fifo != NULL)
    ((volatile struct ncclConnFifo *)link->fifo)[link->step % SLOTS].size = (int64_t)size;
}

static char *slot(const struct mover_link *link, bool with_offset) {
  const volatile struct ncclConnFifo *entry = link->fifo ? &link->fifo[link->step % SLOTS] : NULL;
  if (with_offset && entry != NULL && entry->mode == FIFO_OFFSET)
    return (char *)device_at((char *)link->connection->buffs[PROTOCOL_SIMPLE] + entry->offset, 1);
  return link->slots + link->step % SLOTS * link->slot_size;
}

/* ---- Simple ---- */

static void move_slice(struct mover *mover, const struct mover_chunk *chunk, size_t count) {
  const char *inputs[LINKS_MAX + 1];
  char *outputs[LINKS_MAX + 1];
  int ninputs = 0, noutputs = 0;
  size_t size = count * mover->reducer.element;
  if (chunk->input != NULL)
    inputs[ninputs++] = device_at(chunk->input, size);
  if (chunk->output != NULL)
    outputs[noutputs++] = device_at(chunk->output, size);
  for (int i = 0; chunk->receives && i < mover->nfrom; i++) {
    wait_for_data(&mover->from[i], mover->stride);
    inputs[ninputs++] = slot(&mover->from[i], true);
  }
  for (int i = 0; chunk->sends && i < mover->nto; i++) {
    wait_for_room(&mover->to[i], mover->stride);
    say_size(&mover->to[i], size);
    outputs[noutputs++] = slot(&mover->to[i], true);
  }
  if (count > 0)
    reducer_apply(&mover->reducer, inputs, ninputs, chunk->input != NULL, outputs, noutputs, count,
                  chunk->last);
  for (int i = 0; chunk->receives && i < mover->nfrom; i++)
    say(mover->from[i].count_of_own, mover->from[i].step += (uint64_t)mover->stride);
  for (int i = 0; chunk->sends && i < mover->nto; i++)
    say(mover->to[i].count_of_own, mover->to[i].step += (uint64_t)mover->stride);
}

/* The part of a chunk that goes into a slice: a multiple of 16 elements, and not too small. */
static size_t slice_of(const struct mover *mover, size_t count) {
  size_t even = round_up(count, (size_t)(16 * mover->slices)) / (size_t)mover->slices;
  size_t least = mover->step_size / mover->reducer.element * (size_t)mover->stride / 32;
  return even > least ? even : least;
}

static void move_simple(struct mover *mover, struct mover_chunk chunk, size_t count) {
  size_t slice = slice_of(mover, count);
  for (int i = 0; i < mover->slices; i++) {
    size_t part = count < slice ? count : slice;
    move_slice(mover, &chunk, part);
    count -= part;
    if (chunk.input != NULL)
      chunk.input += part * mover->reducer.element;
    if (chunk.output != NULL)
      chunk.output += part * mover->reducer.element;
  }
}

/* ---- LL and LL128 ---- */

/* Lines of one kind: so many bytes of data each, and a flag. */
static void line_write(char *line, bool wide, const char *data, size_t size, uint64_t flag) {
  if (wide) {
    char bytes[LINE128_DATA] = {0};
    memcpy(bytes, data, size);
    memcpy(line, bytes, sizeof bytes);
    say((volatile uint64_t *)(void *)(line + LINE128_DATA), flag);
    return;
  }
  uint32_t halves[2] = {0, 0};
  memcpy(halves, data, size);
  for (int i = 0; i < 2; i++)
    say((volatile uint64_t *)(void *)(line + 8 * i), (uint64_t)(uint32_t)flag << 32 | halves[i]);
}

static bool line_read(const char *line, bool wide, char *data, uint64_t flag) {
  if (wide) {
    if (*(const volatile uint64_t *)(const void *)(line + LINE128_DATA) != flag)
      return false;
    atomic_thread_fence(memory_order_acquire);
    memcpy(data, line, LINE128_DATA);
    return true;
  }
  for (int i = 0; i < 2; i++) {
    uint64_t word = *(const volatile uint64_t *)(const void *)(line + 8 * i);
    if ((uint32_t)(word >> 32) != (uint32_t)flag)
      return false;
    uint32_t half = (uint32_t)word;
    memcpy(data + 4 * i, &half, sizeof half);
  }
  return true;
}

struct lines {
  bool wide;
  size_t data, size; /* bytes of a line: data, all */
};

static struct lines lines_of(const struct mover *mover) {
  bool wide = mover->protocol == PROTOCOL_LL128;
  return (struct lines){wide, wide ? LINE128_DATA : LINE_DATA, wide ? LINE128 : LINE};
}

/* Where a proxy lets the kernel copy what has come over a socket, a processor may write a line's
 * flag before its data (Intel 64 manual, volume 3, "Fast-String Operation and Out-of-Order Stores";
 * AMD's do so, too): there the proxy's count is waited for, as well. */
static void read_lines(const struct mover_link *link, const struct lines *kind, size_t first,
                       size_t count, char *data) {
  if (link->is_copied)
    wait_for_data(link, 1);
  const char *line = slot(link, false) + first * kind->size;
  for (size_t i = 0; i < count; i++) {
    for (bool moved = true;
         !line_read(line + i * kind->size, kind->wide, data + i * kind->data, link->step + 1);
         moved = false)
      task_yield(moved);
  }
}

/* LL128 writes whole groups of lines: a proxy looks at the flags of all of them. */
static void write_lines(const struct mover_link *link, const struct lines *kind, size_t first,
                        const char *data, size_t size) {
  char *line = slot(link, false) + first * kind->size;
  for (size_t done = 0; done < size || (kind->wide && first % LINES128 != 0);
       done += kind->data, first++, line += kind->size) {
    size_t left = done < size ? size - done : 0;
    line_write(line, kind->wide, data + (left ? done : 0), left < kind->data ? left : kind->data,
               link->step + 1);
  }
}

static size_t wire_size(const struct lines *kind, size_t size) {
  if (kind->wide)
    return round_up(size, LINES128 * LINE128_DATA) / LINE128_DATA * LINE128;
  return round_up(size, LINE_DATA) / LINE_DATA * LINE;
}

/* Lines from first on, at most a group of them. */
static void move_part(struct mover *mover, const struct mover_chunk *chunk,
                      const struct lines *kind, size_t first, size_t size) {
  char received[LINKS_MAX][LINES128 * LINE128_DATA], result[LINES128 * LINE128_DATA];
  const char *inputs[LINKS_MAX + 1];
  char *outputs[] = {result};
  int ninputs = 0;
  if (chunk->input != NULL)
    inputs[ninputs++] = device_at(chunk->input + first * kind->data, size);
  for (int i = 0; chunk->receives && i < mover->nfrom; i++) {
    read_lines(&mover->from[i], kind, first, round_up(size, kind->data) / kind->data, received[i]);
    inputs[ninputs++] = received[i];
  }
  reducer_apply(&mover->reducer, inputs, ninputs, chunk->input != NULL, outputs, 1,
                size / mover->reducer.element, chunk->last);
  if (chunk->output != NULL)
    memcpy(device_at(chunk->output + first * kind->data, size), result, size);
  for (int i = 0; chunk->sends && i < mover->nto; i++)
    write_lines(&mover->to[i], kind, first, result, size);
}

static void move_lines(struct mover *mover, const struct mover_chunk *chunk, size_t count) {
  struct lines kind = lines_of(mover);
  size_t size = count * mover->reducer.element, lines = kind.wide ? LINES128 : PART_LINES;
  for (int i = 0; chunk->sends && i < mover->nto; i++) {
    wait_for_room(&mover->to[i], 1);
    say_size(&mover->to[i], wire_size(&kind, size));
  }
  for (size_t first = 0; first * kind.data < size; first += lines) {
    size_t left = size - first * kind.data, most = lines * kind.data;
    move_part(mover, chunk, &kind, first, left < most ? left : most);
  }
  for (int i = 0; chunk->receives && i < mover->nfrom; i++)
    say(mover->from[i].count_of_own, ++mover->from[i].step);
  for (int i = 0; chunk->sends && i < mover->nto; i++) {
    mover->to[i].step++;
    if (mover->to[i].count_of_own != NULL)
      say(mover->to[i].count_of_own, mover->to[i].step);
  }
}

void mover_move(struct mover *mover, struct mover_chunk chunk, int64_t count) {
  size_t elements = count > 0 ? (size_t)count : 0;
  if (mover->protocol == PROTOCOL_SIMPLE)
    move_simple(mover, chunk, elements);
  else
    move_lines(mover, &chunk, elements);
}
