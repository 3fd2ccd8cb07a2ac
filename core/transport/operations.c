/* The words of sends and receives (operations.h). */
#include "core/transport/operations.h"

#include "core/transport/words.h"
#include "core/unit/look.h"

#define LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)

enum posting plane_posting(const struct plane *plane) {
  return (enum posting)atomic_load(&plane->team->point_to_point);
}

void plane_begin_posting(struct plane *plane) {
  if (plane_posting(plane) == POSTING_UNUSED)
    atomic_compare_exchange_strong(&plane->team->point_to_point, &(uint32_t){POSTING_UNUSED},
                                   POSTING_TRACKED);
}

void plane_give_up_posting(struct plane *plane) {
  atomic_store(&plane->team->point_to_point, POSTING_LOST);
}

/* ---- operations ---- */

uint64_t log_operations_begin(const struct plane_log *log) {
  return atomic_load_explicit(&log->operations_begin, memory_order_acquire);
}

uint64_t log_operations_end(const struct plane_log *log) {
  return atomic_load_explicit(&log->operations_end, memory_order_acquire);
}

uint64_t log_operations_gone(const struct plane_log *log) {
  atomic_thread_fence(memory_order_acquire);
  return LOAD(log->operations_begin);
}

void operation_read(const struct plane_log *log, uint64_t number, struct operation *operation) {
  const struct plane_operation *from = &log->operations[number % PLANE_OPERATIONS];
  uint32_t what = LOAD(from->what);
  *operation = (struct operation){
      .count = LOAD(from->count),
      .index = LOAD(from->index),
      .comm = LOAD(from->comm),
      .ordinal = LOAD(from->ordinal),
      .group = LOAD(from->group),
      .peer = what >> 16,
      .place = LOAD(from->place),
      .datatype = (uint8_t)(what >> 8),
      .look = (uint8_t)what >> OPERATION_LOOK_SHIFT,
      .flags = (uint8_t)LOAD(from->flags),
      .receives = (what & OPERATION_RECEIVES) != 0,
  };
}

void log_drop_operations(struct plane_log *own, uint64_t begin) {
  STORE(own->operations_begin, begin);
  /* What is written afterwards must not be seen before this has been. */
  atomic_thread_fence(memory_order_release);
}

void log_write_operation(struct plane_log *own, uint64_t number,
                         const struct operation *operation) {
  struct plane_operation *to = &own->operations[number % PLANE_OPERATIONS];
  STORE(to->count, operation->count);
  STORE(to->index, operation->index);
  STORE(to->comm, operation->comm);
  STORE(to->ordinal, operation->ordinal);
  STORE(to->group, operation->group);
  STORE(to->place, operation->place);
  STORE(to->flags, operation->flags);
  STORE(to->what, operation->peer << 16 | (uint32_t)operation->datatype << 8 |
                      (operation->look & LOOK_BUFFER_MASK) << OPERATION_LOOK_SHIFT |
                      (operation->receives ? OPERATION_RECEIVES : 0));
}

void log_show_operations(struct plane_log *own, uint64_t end) {
  atomic_store_explicit(&own->operations_end, end, memory_order_release);
}

/* ---- pairs ---- */

static uint64_t key_at(const struct plane_log *log, uint32_t place) {
  return atomic_load_explicit(&log->pairs[place].key, memory_order_acquire);
}

uint32_t pair_place(const struct plane_log *log, uint64_t key) {
  uint32_t place = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % PLANE_PAIRS;
  for (uint32_t probes = 0; probes < PLANE_PAIRS; probes++) {
    uint64_t there = key_at(log, place);
    if (there == key || there == 0)
      break;
    place = (place + 1) % PLANE_PAIRS;
  }
  return place;
}

bool pair_is_entered(const struct plane_log *log, uint64_t key) {
  return key_at(log, pair_place(log, key)) == key;
}

void pair_enter(struct plane_log *own, uint64_t key) {
  atomic_store_explicit(&own->pairs[pair_place(own, key)].key, key, memory_order_release);
}

uint64_t pair_issued(const struct plane_log *log, uint64_t key) {
  uint32_t place = pair_place(log, key);
  if (key_at(log, place) != key)
    return 0;
  return atomic_load_explicit(&log->pairs[place].issued, memory_order_acquire);
}

uint64_t pairs_issued(const struct plane_log *log) {
  uint64_t issued = 0;
  for (uint32_t place = 0; place < PLANE_PAIRS; place++)
    issued += LOAD(log->pairs[place].issued);
  return issued;
}

void pair_count(struct plane_log *own, uint32_t place, uint64_t issued) {
  atomic_store(&own->pairs[place].issued, issued);
}
