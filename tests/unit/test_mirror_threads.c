/* A log that its rank writes, one thread that mirrors it, and one that reads the mirror, all at
 * once: what the reader finds is what words.h says, complete before what speaks of it. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/logs.h"
#include "core/transport/mirror.h"
#include "core/transport/operations.h"
#include "core/transport/texts.h"
#include "core/transport/words.h"

#define UNITS 40000u
#define CLAIM_EVERY 16u
#define TEXT_BYTES 64u

static struct {
  struct plane_log *log, *copy;
  _Atomic uint64_t seen; /* how far the reader is: the writer runs no further ahead of it */
  _Atomic bool wrong;
} shared;

static uint64_t hash_of(uint64_t index) {
  return index % 5 == 0 ? index * UINT64_C(0x9e3779b97f4a7c15) + 1 : index % 5;
}

static uint64_t begin_of_text(uint64_t claims) {
  return claims * TEXT_BYTES;
}

static void claim(uint64_t index) {
  uint64_t claims = index / CLAIM_EVERY, text[TEXT_BYTES / 8];
  for (uint32_t i = 0; i < TEXT_BYTES / 8; i++)
    text[i] = index + i;
  uint64_t begin = text_begin(begin_of_text(claims), TEXT_BYTES);
  text_write(shared.log, begin, 0, text, TEXT_BYTES);
  text_show(shared.log, begin + TEXT_BYTES);
  log_write_claim(shared.log, &(struct log_claim){.hash = hash_of(index),
                                                  .signature = ~index,
                                                  .text = text_position(begin),
                                                  .reals = (uint32_t)index,
                                                  .place = (uint32_t)index});
  log_claim(shared.log, index);
}

static void post(uint64_t number) {
  uint64_t key = pair_key(1, (uint32_t)number % 8, true);
  if (number - log_operations_begin(shared.log) == PLANE_OPERATIONS)
    log_drop_operations(shared.log, number - PLANE_OPERATIONS / 2);
  if (!pair_is_entered(shared.log, key))
    pair_enter(shared.log, key);
  log_write_operation(
      shared.log, number,
      &(struct operation){.count = number, .index = number * 3, .place = (uint32_t)~number});
  log_show_operations(shared.log, number + 1);
  pair_count(shared.log, pair_place(shared.log, key), number / 8 + 1);
}

static void *write_log(void *unused) {
  uint32_t reals = 0, run_start = 0;
  (void)unused;
  for (uint64_t index = 0; index < UNITS;) {
    while (index >= shared.seen + PLANE_RUN_AHEAD - 1)
      sched_yield();
    if (index % CLAIM_EVERY == 0)
      claim(index);
    if (index % 3 == 0)
      post(index / 3);
    uint64_t hash = hash_of(index);
    log_commit(shared.log, &index, &hash, &reals, &run_start);
  }
  log_end(shared.log, RANK_DONE, UNITS);
  return NULL;
}

static void *carry(void *unused) {
  struct mirror *mirror = mirror_create();
  unsigned char *frame = malloc(4096);
  (void)unused;
  while (log_state(shared.copy) != RANK_DONE && !shared.wrong) {
    (void)mirror_read(mirror, shared.log);
    for (size_t size; (size = mirror_write(mirror, shared.log, UINT64_MAX, 1, frame, 700)) != 0;)
      if (mirror_apply(shared.copy, 1, frame, size) == MIRROR_MALFORMED)
        shared.wrong = true;
    sched_yield();
  }
  free(frame);
  mirror_destroy(mirror);
  return NULL;
}

/* ---- the reader ---- */

static bool claim_is_right(const struct plane_log *log) {
  uint64_t claimed = log_claimed(log), text[TEXT_BYTES / 8];
  struct log_claim claim;
  if (claimed == 0 || !log_read_claim(log, claimed - 1, &claim))
    return true;
  uint64_t index = claimed - 1;
  bool read = text_read(log, claim.text, 0, text, TEXT_BYTES);
  for (uint32_t i = 0; i < TEXT_BYTES / 8 && read; i++)
    read = text[i] == index + i;
  return claim.hash == hash_of(index) && claim.signature == ~index &&
         claim.reals == (uint32_t)index && log_passed(log) >= index &&
         (read || log_passed(log) > index);
}

static bool operations_are_right(const struct plane_log *log) {
  uint64_t counted = pair_issued(log, pair_key(1, 3, true));
  uint64_t begin = log_operations_begin(log), end = log_operations_end(log);
  if (counted > 0 && (counted - 1) * 8 + 3 >= end)
    return false;
  for (uint64_t i = begin; i < end; i++) {
    struct operation operation;
    operation_read(log, i, &operation);
    if (log_operations_gone(log) > i)
      continue;
    if (operation.count != i || operation.index != i * 3 || operation.place != (uint32_t)~i)
      return false;
  }
  return true;
}

static void *read_copy(void *unused) {
  const struct plane_log *log = shared.copy;
  uint64_t seen = 0;
  (void)unused;
  while (seen < UNITS && !shared.wrong) {
    bool done = log_state(log) == RANK_DONE;
    uint64_t head = log_passed(log);
    bool right = claim_is_right(log) && operations_are_right(log) && (!done || head == UNITS);
    for (; seen < head && right; seen++)
      right = log_hash(log, seen) == hash_of(seen) && log_reals(log, seen) == (uint32_t)seen + 1 &&
              log_flags(log, seen) == (ENTRY_REAL | ENTRY_EXPECTED);
    shared.seen = seen;
    if (!right)
      shared.wrong = true;
    sched_yield();
  }
  shared.seen = UNITS; /* nobody waits for a reader that has given up */
  return NULL;
}

Test(mirror_threads, a_reader_finds_nothing_that_is_not_complete) {
  void *(*const parts[3])(void *) = {write_log, carry, read_copy};
  pthread_t threads[3];
  shared.log = aligned_alloc(64, sizeof(struct plane_log));
  shared.copy = aligned_alloc(64, sizeof(struct plane_log));
  memset(shared.log, 0, sizeof(*shared.log));
  memset(shared.copy, 0, sizeof(*shared.copy));
  for (uint32_t i = 0; i < 3; i++)
    cr_assert_eq(pthread_create(&threads[i], NULL, parts[i], NULL), 0);
  for (uint32_t i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  cr_expect_not(shared.wrong);
  free(shared.log);
  free(shared.copy);
}
