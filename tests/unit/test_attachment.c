/* Attachments (core/transport/attachment.h), over each transport: what ranks read of each other,
 * when a slot or a name is another one's, and the plane that they get. */
#include "core/transport/attachment.h"

#include <criterion/criterion.h>
#include <string.h>

#include "core/transport/logs.h"
#include "tests/unit/planes.h"

#define SLOTS 3u

static char name[ATTACHMENT_NAME_SIZE], reason[ATTACHMENT_REASON_SIZE];

static void set_up(void) {
  planes_name(name);
}

TestSuite(attachment, .init = set_up, .timeout = 300);

static struct attachment *make(uint32_t slots, uint32_t slot, uint32_t expected) {
  struct introduction me = {
      .identity = 100 + slot, .key = -(int32_t)slot, .ncomms = 1, .comms = {7}};
  memcpy(me.tells, "alike", sizeof "alike");
  return attachment_make(name, slots, slot, expected, &me, reason);
}

static void make_all(struct attachment *all[SLOTS]) {
  for (uint32_t slot = 0; slot < SLOTS; slot++) {
    all[slot] = make(SLOTS, slot, 0);
    cr_assert_not_null(all[slot], "%s", reason);
  }
}

static void detach_all(struct attachment *all[SLOTS]) {
  for (uint32_t slot = 0; slot < SLOTS; slot++)
    attachment_detach(all[slot]);
}

/* Whether who attaches now to a slot that is taken does so elsewhere: nothing is there but itself.
 */
static void expect_begins_anew(void) {
  struct introduction other;
  struct attachment *next = make(SLOTS, 0, 0);
  cr_assert_not_null(next, "%s", reason);
  cr_expect(!attachment_read(next, 1, &other));
  attachment_complete(next);
  attachment_detach(next);
}

Test(attachment, every_rank_reads_what_all_have_said) {
  struct attachment *all[SLOTS];
  make_all(all);
  for (uint32_t reader = 0; reader < SLOTS; reader++)
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
      struct introduction other;
      cr_assert(attachment_read(all[reader], slot, &other));
      cr_expect_eq(other.identity, 100 + slot);
      cr_expect_eq(other.key, -(int32_t)slot);
      cr_expect_eq(other.ncomms, 1);
      cr_expect_eq(other.comms[0], 7);
      cr_expect_str_eq(other.tells, "alike");
    }
  cr_expect(!attachment_stranger(all[0], reason));
  detach_all(all);
}

Test(attachment, a_slot_that_is_not_taken_has_nothing_to_say) {
  struct introduction other;
  struct attachment *only = make(SLOTS, 1, 0);
  cr_assert_not_null(only, "%s", reason);
  cr_expect(!attachment_read(only, 0, &other));
  cr_expect(attachment_read(only, 1, &other));
  cr_expect(!attachment_read(only, SLOTS, &other));
  cr_expect(!attachment_read(only, UINT32_MAX, &other));
  attachment_detach(only);
}

Test(attachment, as_many_communicators_as_there_is_room_for_are_said) {
  struct introduction other, me = {.ncomms = INTRODUCTION_COMMS_MAX};
  me.comms[INTRODUCTION_COMMS_MAX - 1] = 9;
  struct attachment *only = attachment_make(name, SLOTS, 0, 0, &me, reason);
  cr_assert_not_null(only, "%s", reason);
  cr_assert(attachment_read(only, 0, &other));
  cr_expect_eq(other.ncomms, INTRODUCTION_COMMS_MAX);
  cr_expect_eq(other.comms[INTRODUCTION_COMMS_MAX - 1], 9);
  attachment_detach(only);
}

static void expect_refused(struct attachment *made) {
  cr_expect_null(made);
  cr_expect_str_neq(reason, "");
}

Test(attachment, a_slot_is_taken_once) {
  struct attachment *all[SLOTS];
  make_all(all);
  expect_refused(make(SLOTS, 1, 0));
  attachment_detach(all[1]);
  all[1] = NULL;
  expect_refused(make(SLOTS, 1, 0));
  detach_all(all);
}

Test(attachment, what_cannot_be_is_refused) {
  struct attachment *only = make(SLOTS, 0, 0);
  expect_refused(make(SLOTS + 1, 1, 0));
  expect_refused(make(0, 0, 0));
  expect_refused(make(SLOTS, SLOTS, 0));
  expect_refused(make(SLOTS, 1, SLOTS + 1));
  expect_refused(make(PLANE_RANKS_MAX + 1, 1, 0));
  attachment_detach(only);
}

Test(attachment, it_is_complete_when_the_last_one_expected_has_come) {
  struct attachment *first = make(SLOTS, 0, 2), *last = make(SLOTS, 1, 2);
  expect_begins_anew();
  attachment_detach(first);
  attachment_detach(last);
}

Test(attachment, it_is_complete_when_a_rank_says_so) {
  struct attachment *first = make(SLOTS, 0, 0), *other = make(SLOTS, 1, 0);
  attachment_complete(first);
  attachment_complete(other);
  expect_begins_anew();
  attachment_detach(first);
  attachment_detach(other);
}

Test(attachment, what_all_have_left_is_gone) {
  attachment_detach(make(SLOTS, 0, 0));
  expect_begins_anew();
  attachment_detach(NULL);
}

/* Rank 0 in slot 2, rank 1 in slot 0; slot 1 takes no part. */
static const uint32_t crossed[] = {2, 0};

Test(attachment, a_plane_is_over_the_logs_of_its_ranks) {
  struct attachment *all[SLOTS];
  make_all(all);
  struct plane *ours = attachment_plane(all[2], 0, 2, crossed);
  struct plane *theirs = attachment_plane(all[0], 1, 2, crossed);
  cr_assert(ours != NULL && theirs != NULL);
  cr_expect(ours->rank == 0 && theirs->rank == 1);
  cr_expect(ours->nranks == 2 && theirs->nranks == 2);
  cr_expect_eq(log_state(log_of(theirs, 0)), RANK_ABSENT);
  log_begin(log_of(ours, ours->rank));
  cr_expect_eq(log_state(log_of(theirs, 0)), RANK_PRESENT);
  cr_expect_eq(log_state(log_of(theirs, 1)), RANK_ABSENT);
  plane_say_waiting(plane_shared(theirs));
  cr_expect(plane_take_waiting(plane_shared(ours)));
  uint32_t bell = plane_bell(theirs);
  ours->ring(ours);
  cr_expect_neq(plane_bell(theirs), bell);
  detach_all(all);
}

Test(attachment, a_rank_that_detaches_is_dead_to_the_others) {
  struct attachment *all[SLOTS];
  make_all(all);
  struct plane *ours = attachment_plane(all[2], 0, 2, crossed);
  cr_expect(ours->alive(ours, 0) && ours->alive(ours, 1));
  cr_expect(!ours->alive(ours, 2));
  attachment_detach(all[1]);
  cr_expect(ours->alive(ours, 0) && ours->alive(ours, 1));
  attachment_detach(all[0]);
  cr_expect(ours->alive(ours, 0) && !ours->alive(ours, 1));
  attachment_detach(all[2]);
}

/* Who is not there has issued nothing, and is not dead. */
Test(attachment, a_plane_may_begin_before_all_have_come) {
  struct attachment *all[SLOTS] = {make(SLOTS, 0, 2), NULL, NULL};
  static const uint32_t slots[] = {0, 1};
  struct plane *ours = attachment_plane_early(all[0], 0, 2, slots);
  cr_assert_not_null(ours);
  cr_expect(ours->alive(ours, 1));
  cr_expect_eq(log_state(log_of(ours, 1)), RANK_ABSENT);
  cr_expect_eq(log_passed(log_of(ours, 1)), 0);
  log_begin(log_of(ours, 0));
  all[1] = make(SLOTS, 1, 2);
  struct plane *theirs = attachment_plane_early(all[1], 1, 2, slots);
  cr_assert_not_null(theirs);
  cr_expect_eq(log_state(log_of(theirs, 0)), RANK_PRESENT);
  log_begin(log_of(theirs, 1));
  cr_expect_eq(log_state(log_of(ours, 1)), RANK_PRESENT);
  attachment_detach(all[1]);
  cr_expect(!ours->alive(ours, 1));
  attachment_detach(all[0]);
}

Test(attachment, a_plane_that_cannot_be_is_refused) {
  struct attachment *all[SLOTS] = {make(SLOTS, 0, 0), make(SLOTS, 1, 0), NULL};
  cr_expect_null(attachment_plane(all[0], 1, 2, (uint32_t[]){0, 1}), "another's slot");
  cr_expect_null(attachment_plane(all[0], 2, 2, (uint32_t[]){0, 1, 0}), "no such rank");
  cr_expect_null(attachment_plane(all[0], 0, 2, (uint32_t[]){0, 2}), "not taken");
  cr_expect_null(attachment_plane(all[0], 0, 2, (uint32_t[]){0, SLOTS}), "no such slot");
  cr_expect_null(attachment_plane(all[0], 0, SLOTS + 1, (uint32_t[]){0, 1, 1, 1}), "too many");
  cr_expect_not_null(attachment_plane(all[0], 0, 2, (uint32_t[]){0, 1}));
  cr_expect_null(attachment_plane(all[0], 0, 2, (uint32_t[]){0, 1}), "it has one");
  detach_all(all);
}
