/* Questions that concern all ranks (core/transport/questions.h), of more ranks than a word of a set
 * has bits. */
#include "core/transport/questions.h"

#include <criterion/criterion.h>

#include "tests/unit/planes.h"

enum { RANKS = 130, LAST = RANKS - 1 };

static struct planes *memory;
static struct plane *plane; /* as rank 5 has it */
static rank_set_t *set;

static struct plane_log *own(uint32_t rank) {
  return log_of(plane, rank);
}

static void start(void) {
  memory = planes_create(RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    log_begin(log_of(planes_rank(memory, rank), rank));
  plane = planes_rank(memory, 5);
  set = calloc(rank_set_words(RANKS), sizeof(*set));
}

static void stop(void) {
  planes_destroy(memory);
  free(set);
}

TestSuite(questions, .init = start, .fini = stop);

static void pass(uint32_t rank, uint64_t index, uint32_t flags, uint32_t run_start) {
  log_pass(own(rank), index, &(struct log_entry){.flags = flags, .run_start = run_start});
}

static void claim(uint32_t rank, uint64_t index, uint64_t hash, uint32_t flags) {
  log_write_claim(own(rank), &(struct log_claim){.hash = hash, .flags = flags});
  log_claim(own(rank), index);
}

Test(questions, a_set_holds_what_has_been_added) {
  cr_assert_eq(rank_set_words(64), 1);
  cr_assert_eq(rank_set_words(65), 2);
  cr_assert_eq(rank_set_last(set, RANKS), RANKS);
  rank_set_add(set, 3);
  rank_set_add(set, 67);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(rank_set_has(set, rank), rank == 3 || rank == 67);
  cr_assert_eq(rank_set_last(set, RANKS), 67);
  cr_assert_eq(rank_set_last(set, 67), 3);
}

Test(questions, what_all_have_passed) {
  cr_assert_eq(plane_slowest(plane), 0);
  cr_assert_eq(plane_first_past(plane, 0), RANKS);
  for (uint32_t rank = LAST; rank > 0; rank--) {
    pass(rank, 0, ENTRY_REAL, 0);
    cr_assert_eq(plane_first_past(plane, 0), rank);
    cr_assert_not(plane_all_past(plane, 0));
    cr_assert(plane_awaits_any(plane, 0));
  }
  log_end(own(0), RANK_DONE, 0);
  cr_assert_not(plane_awaits_any(plane, 0), "who has ended is not waited for");
  pass(0, 0, ENTRY_REAL, 0);
  cr_assert_eq(plane_slowest(plane), 1);
  cr_assert(plane_all_past(plane, 0));
}

Test(questions, since_when_all_have_issued_for_real) {
  uint64_t since = 99;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    for (uint64_t index = 0; index < 8; index++)
      pass(rank, index, ENTRY_REAL, rank == 70 ? 4 : rank == LAST ? 2 : 0);
  cr_assert(plane_all_real(plane, 7));
  cr_assert(plane_all_real_since(plane, 7, &since));
  cr_assert_eq(since, 4);
  pass(70, 8, 0, 8);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != 70)
      pass(rank, 8, ENTRY_REAL, 0);
  cr_assert_not(plane_all_real(plane, 8));
  cr_assert_not(plane_all_real_since(plane, 8, &since));
  cr_assert_eq(since, 0);
}

Test(questions, the_last_of_a_set_to_have_issued_for_real) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    pass(rank, 0, rank < 100 ? ENTRY_REAL : 0, 0);
  cr_assert_eq(plane_last_real(plane, set, 0), RANKS);
  rank_set_add(set, 2);
  rank_set_add(set, 80);
  rank_set_add(set, LAST);
  cr_assert_eq(plane_last_real(plane, set, 0), 80);
}

Test(questions, whether_all_claim_and_whether_all_leave) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert_not(plane_all_claim(plane, 4));
    claim(rank, 4, rank == 80 ? 1 : 0, 0);
  }
  cr_assert(plane_all_claim(plane, 4));
  cr_assert_not(plane_all_claim(plane, 5));
  cr_assert_not(plane_all_leave(plane, 4), "rank 80 does not");
  log_say_leaving(own(80), true);
  cr_assert(plane_all_leave(plane, 4));
  claim(LAST, 4, 0, CLAIM_YIELD);
  cr_assert_not(plane_all_leave(plane, 4), "nor does who yields");
}

Test(questions, who_has_failed_or_ended) {
  cr_assert_eq(plane_first_failed(plane, 0), RANKS);
  log_end(own(5), RANK_FAILED, 0);
  log_end(own(77), RANK_FAILED, 3);
  log_end(own(LAST), RANK_FAILED, 2);
  cr_assert_eq(plane_first_failed(plane, 0), 5);
  claim(5, 1, 0, CLAIM_STOPPED);
  cr_assert_eq(plane_first_failed(plane, 1), 77, "rank 5 was stopped there");
  cr_assert_eq(plane_first_failed(plane, 2), 5, "and not here");
  cr_assert_eq(plane_first_ended(plane, 0), RANKS);
  log_end(own(90), RANK_DONE, 0);
  log_end(own(100), RANK_DONE, 0);
  cr_assert_eq(plane_first_ended(plane, 0), 90);
  claim(90, 0, 0, 0);
  cr_assert_eq(plane_first_ended(plane, 0), 100);
}

Test(questions, whether_one_is_out_of_step_or_has_mirrored) {
  cr_assert_not(plane_any_asks(plane));
  log_say_asks(own(LAST), true);
  cr_assert(plane_any_asks(plane));
  cr_assert_not(plane_has_mirrored(plane, 3));
  log_say_mirrored(own(99), 3);
  cr_assert(plane_has_mirrored(plane, 3));
  cr_assert_not(plane_has_mirrored(plane, 4));
}
