/* Mirrors of logs (core/transport/mirror.h): all that a log says arrives, in frames of any size,
 * and nothing before what it speaks of. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/logs.h"
#include "core/transport/mirror.h"
#include "core/transport/operations.h"
#include "core/transport/texts.h"
#include "core/transport/words.h"
#include "tests/simulation/random.h"

#define NOW_HERE 5000000000u /* two clocks, in milliseconds */
#define NOW_THERE 77000u

static struct plane_log *log_here, *log_there;
static struct mirror *mirror;
static uint64_t text_end, random_state;

static struct plane_log *new_log(void) {
  struct plane_log *log = aligned_alloc(64, sizeof(*log));
  cr_assert_not_null(log);
  memset(log, 0, sizeof(*log));
  return log;
}

static void set_up(void) {
  log_here = new_log();
  log_there = new_log();
  mirror = mirror_create();
  random_state = random_seeded(1);
  text_end = 0;
}

static void tear_down(void) {
  mirror_destroy(mirror);
  free(log_here);
  free(log_there);
}

/* How many frames of so much room. */
static unsigned carry(uint64_t below, size_t room) {
  unsigned char *frame = malloc(room);
  unsigned frames = 0;
  while (!mirror_read(mirror, log_here))
    ;
  for (size_t size; (size = mirror_write(mirror, log_here, below, NOW_HERE, frame, room)) != 0;) {
    cr_assert_leq(size, room);
    cr_assert_neq(mirror_apply(log_there, NOW_THERE, frame, size), MIRROR_MALFORMED);
    frames++;
  }
  free(frame);
  return frames;
}

/* ---- what a rank does ---- */

static void pass(uint32_t flags) {
  uint64_t index = log_passed(log_here);
  log_pass(log_here, index,
           &(struct log_entry){.hash = random_below(&random_state, 3) ? index % 7 + 1
                                                                      : random_next(&random_state),
                               .reals = log_reals_before(log_here, index) + (flags & ENTRY_REAL),
                               .run_start = (uint32_t)(index / 5 * 5),
                               .flags = flags,
                               .text = (uint32_t)index % 100,
                               .source = (uint32_t)index % 3,
                               .last_joiner = (uint32_t)index % 5});
}

static uint32_t say(uint64_t bytes) {
  unsigned char said[4096];
  for (uint64_t i = 0; i < bytes; i++)
    said[i] = random_below(&random_state, 2) ? (unsigned char)random_next(&random_state) : 0;
  uint64_t begin = text_begin(text_end, bytes);
  text_write(log_here, begin, 0, said, bytes);
  text_end = begin + bytes;
  text_show(log_here, text_end);
  return text_position(begin);
}

static void claim(uint32_t text) {
  log_write_claim(log_here, &(struct log_claim){.hash = random_next(&random_state),
                                                .signature = random_next(&random_state),
                                                .bytes = random_next(&random_state),
                                                .last_real = log_passed(log_here),
                                                .text = text,
                                                .flags = CLAIM_SEEN,
                                                .mark = 3,
                                                .place = 99,
                                                .epoch = 4,
                                                .reals = 17});
  log_claim(log_here, log_passed(log_here));
}

static void post(uint32_t peer) {
  uint64_t end = log_operations_end(log_here), key = pair_key(1, peer, false);
  if (end - log_operations_begin(log_here) == PLANE_OPERATIONS)
    log_drop_operations(log_here, end - PLANE_OPERATIONS / 2);
  if (!pair_is_entered(log_here, key))
    pair_enter(log_here, key);
  uint64_t issued = pair_issued(log_here, key) + 1;
  log_write_operation(log_here, end,
                      &(struct operation){.count = random_next(&random_state),
                                          .index = log_passed(log_here),
                                          .comm = 1,
                                          .ordinal = (uint32_t)issued,
                                          .peer = peer,
                                          .place = (uint32_t)random_next(&random_state),
                                          .datatype = 7});
  log_show_operations(log_here, end + 1);
  pair_count(log_here, pair_place(log_here, key), issued);
}

/* ---- what is to be the same ---- */

static void check_entries(void) {
  uint64_t head = log_passed(log_here);
  cr_assert_eq(log_passed(log_there), head);
  for (uint64_t i = head > PLANE_RING ? head - PLANE_RING : 0; i < head; i++) {
    cr_assert_eq(memcmp(&log_here->entries[i % PLANE_RING], &log_there->entries[i % PLANE_RING],
                        sizeof(log_here->entries[0])),
                 0, "entry %lu", i);
  }
}

static void check_operations(void) {
  uint64_t begin = log_operations_begin(log_here), end = log_operations_end(log_here);
  cr_assert_eq(log_operations_end(log_there), end);
  for (uint64_t i = begin; i < end; i++)
    cr_assert_eq(memcmp(&log_here->operations[i % PLANE_OPERATIONS],
                        &log_there->operations[i % PLANE_OPERATIONS],
                        sizeof(log_here->operations[0])),
                 0, "operation %lu", i);
  cr_assert_eq(memcmp(log_here->pairs, log_there->pairs, sizeof(log_here->pairs)), 0);
}

static void check_all(void) {
  size_t size = offsetof(struct plane_log, claim_epoch) + 4 - offsetof(struct plane_log, claim);
  check_entries();
  check_operations();
  cr_assert_eq(memcmp(log_here->text, log_there->text, sizeof(log_here->text)), 0);
  cr_assert_eq(log_claimed(log_here), log_claimed(log_there));
  if (log_claimed(log_here) != 0)
    cr_assert_eq(memcmp(&log_here->claim, &log_there->claim, size), 0);
}

TestSuite(mirror, .init = set_up, .fini = tear_down);

Test(mirror, a_new_log_has_nothing_to_tell) {
  cr_expect_eq(carry(UINT64_MAX, MIRROR_FRAME_MIN), 0);
  cr_expect(mirror_is_written(mirror));
}

/* To a fifth, for people. */
Test(mirror, how_long_a_rank_has_waited_is_told_about) {
  for (uint64_t age = 0; age < 3000; age += age < 100 ? 1 : 97) {
    log_here->parked_ms = NOW_HERE - age;
    carry(UINT64_MAX, 4096);
    uint64_t told = NOW_THERE - log_there->parked_ms;
    cr_expect(told <= age && 5 * told >= 4 * age, "%lu instead of %lu", told, age);
  }
  log_here->parked_ms = NOW_HERE - 1279;
  carry(UINT64_MAX, 4096);
  cr_expect_eq(NOW_THERE - log_there->parked_ms, 1024, "as of all that have waited since 1,024 ms");
  log_here->parked_ms = 0;
  carry(UINT64_MAX, 4096);
  cr_expect_eq(log_there->parked_ms, 0, "it does not wait");
}

/* Every word of the log but those of rings, and what lies between its parts. */
Test(mirror, every_word_arrives) {
  uint32_t *here = (uint32_t *)(void *)log_here, *there = (uint32_t *)(void *)log_there;
  size_t first = offsetof(struct plane_log, claim) / 4,
         last = offsetof(struct plane_log, pairs) / 4;
  for (size_t i = first; i < last; i++)
    here[i] = (uint32_t)i + 1;
  log_here->text_end = 0;
  log_here->operations_begin = log_here->operations_end = 0;
  log_here->state = RANK_FAILED;
  log_here->busy_until = NOW_HERE + 3;
  log_here->parked_ms = NOW_HERE - 20;
  log_here->joined_time = UINT64_C(8) << 32 | (uint32_t)(NOW_HERE - 30u);
  carry(UINT64_MAX, 4096);
  cr_expect_eq(log_there->busy_until, NOW_THERE + 3);
  cr_expect_eq(log_there->parked_ms, NOW_THERE - 20);
  cr_expect_eq(log_there->joined_time, UINT64_C(8) << 32 | (NOW_THERE - 30));
  log_there->busy_until = log_here->busy_until;
  log_there->parked_ms = log_here->parked_ms;
  log_there->joined_time = log_here->joined_time;
  for (size_t i = first; i < last; i++) {
    bool between = (4 * i >= offsetof(struct plane_log, claim_epoch) + 4 &&
                    4 * i < offsetof(struct plane_log, state)) ||
                   4 * i == offsetof(struct plane_log, awaits) ||
                   (4 * i >= offsetof(struct plane_log, unsteady) + 4 &&
                    4 * i < offsetof(struct plane_log, operations_end)) ||
                   4 * i >= offsetof(struct plane_log, mirrored) + 8;
    uint32_t value = between ? 0 : here[i];
    cr_expect_eq(there[i], value, "the word at %zu", 4 * i);
  }
}

Test(mirror, all_that_ranks_do_arrives_in_frames_of_any_size) {
  for (uint32_t round = 0; round < 3000; round++) {
    for (uint32_t n = random_below(&random_state, 40); n > 0; n--)
      pass(random_below(&random_state, 4) ? ENTRY_REAL | ENTRY_EXPECTED : 0);
    for (uint32_t n = random_below(&random_state, 3); n > 0; n--)
      post(random_below(&random_state, 500));
    if (random_below(&random_state, 3) == 0)
      claim(say(8 * (1 + random_below(&random_state, 100))));
    else if (random_below(&random_state, 3) == 0)
      log_withdraw_claim(log_here);
    if (random_below(&random_state, 2) == 0)
      continue;
    carry(UINT64_MAX, MIRROR_FRAME_MIN + random_below(&random_state, 2000));
    check_all();
    cr_assert(mirror_is_written(mirror));
  }
}

Test(mirror, a_claim_is_not_told_before_the_units_that_were_passed_before_it) {
  for (uint32_t i = 0; i < 10; i++)
    pass(ENTRY_REAL);
  claim(say(64));
  carry(4, MIRROR_FRAME_MIN);
  cr_expect_eq(log_passed(log_there), 4);
  cr_expect_eq(log_claimed(log_there), 0);
  carry(10, MIRROR_FRAME_MIN);
  cr_expect_eq(log_passed(log_there), 10);
  cr_expect_eq(log_claimed(log_there), 0);
  carry(UINT64_MAX, MIRROR_FRAME_MIN);
  cr_expect(log_claims(log_there, 10));
}

/* What is told is what was read, whatever the rank has done since. */
Test(mirror, what_is_told_is_of_when_it_was_read) {
  unsigned char frame[4096];
  pass(ENTRY_REAL);
  claim(say(64));
  while (!mirror_read(mirror, log_here))
    ;
  pass(0);
  claim(say(64));
  size_t size = mirror_write(mirror, log_here, UINT64_MAX, NOW_HERE, frame, sizeof(frame));
  cr_expect_eq(mirror_apply(log_there, NOW_THERE, frame, size), MIRROR_APPLIED);
  cr_expect_eq(log_passed(log_there), 1);
  cr_expect(log_claims(log_there, 1));
}

Test(mirror, who_is_taken_for_dead_stays_so) {
  log_begin(log_here);
  carry(UINT64_MAX, MIRROR_FRAME_MIN);
  log_fail(log_there);
  log_end(log_here, RANK_DONE, 3);
  carry(UINT64_MAX, MIRROR_FRAME_MIN);
  cr_expect_eq(log_state(log_there), RANK_FAILED);
  cr_expect(log_has_died(log_there));
}

Test(mirror, that_one_is_taken_for_dead_arrives) {
  log_begin(log_here);
  log_fail(log_here);
  carry(UINT64_MAX, MIRROR_FRAME_MIN);
  cr_expect_eq(log_state(log_there), RANK_FAILED);
  cr_expect(log_has_died(log_there));
}

Test(mirror, a_frame_that_is_missing_is_noticed) {
  unsigned char frame[4096];
  pass(ENTRY_REAL);
  while (!mirror_read(mirror, log_here))
    ;
  size_t size = mirror_write(mirror, log_here, UINT64_MAX, NOW_HERE, frame, sizeof(frame));
  cr_expect_eq(mirror_apply(log_there, NOW_THERE, frame, size), MIRROR_APPLIED);
  cr_expect_eq(mirror_apply(log_there, NOW_THERE, frame, size), MIRROR_MALFORMED, "twice");
  cr_expect_eq(mirror_apply(log_there, NOW_THERE, frame, 0), MIRROR_MALFORMED, "empty");
  frame[0]++;
  cr_expect_eq(mirror_apply(log_there, NOW_THERE, frame, size), MIRROR_MALFORMED, "a version");
}

/* A unit that comes again costs no more than that it has come: 8 bytes a frame. */
Test(mirror, what_comes_again_is_small) {
  unsigned char frame[4096];
  for (uint32_t i = 0; i < 64; i++) {
    log_pass(log_here, i,
             &(struct log_entry){
                 .hash = i % 4 + 1000, .reals = i + 1, .flags = ENTRY_REAL | ENTRY_EXPECTED});
    while (!mirror_read(mirror, log_here))
      ;
    size_t size = mirror_write(mirror, log_here, UINT64_MAX, NOW_HERE, frame, sizeof(frame));
    cr_expect(i < 8 || size <= 8, "%zu bytes", size);
    mirror_apply(log_there, NOW_THERE, frame, size);
  }
  check_entries();
}

/* A log that its rank has spoiled is told as one that could be. */
Test(mirror, whatever_a_log_says_makes_frames) {
  for (uint32_t round = 0; round < 300; round++) {
    uint64_t *words = (uint64_t *)(void *)log_here;
    size_t n = offsetof(struct plane_log, pairs) / 8 + 64;
    for (uint32_t i = 0; i < 8; i++)
      words[random_below(&random_state, (uint32_t)n)] =
          random_next(&random_state) >> random_below(&random_state, 64);
    unsigned char frame[2048];
    for (uint32_t reads = 0; reads < 3; reads++)
      (void)mirror_read(mirror, log_here);
    for (uint32_t frames = 0; frames < 2000; frames++) {
      size_t size = mirror_write(mirror, log_here, UINT64_MAX, NOW_HERE, frame, sizeof(frame));
      if (size == 0)
        break;
      cr_assert_neq(mirror_apply(log_there, NOW_THERE, frame, size), MIRROR_MALFORMED);
    }
  }
}
