/* The agreed sequence beside a peer whose log holds what cannot be: an overwritten segment, or
 * another version. Rank 0 is under test; the tests write rank 1's log. The fuzz target `segment`
 * does the same at random. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/planes.h"
#include "core/team/team.h"

enum { RANKS = 2 };

static struct planes *memory;
static struct team *team, *honest;
static struct plane_log *hostile; /* rank 1's log */
static struct member A, B;
static struct unit got;

static struct unit unit(const struct member *of) {
  return (struct unit){of, 1};
}

static void all_issue(const struct member *of) {
  struct team *teams[RANKS] = {team, honest};
  for (int rank = 0; rank < RANKS; rank++)
    if (!team_commit(teams[rank], unit(of)))
      team_claim(teams[rank], unit(of), 0, NULL);
  for (int rank = 0; rank < RANKS; rank++)
    if (teams[rank]->claim.open)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

/* Both ranks run a loop of A until A is expected. */
static void start(void) {
  memory = planes_create(RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++) /* as new memory of a segment is */
    memset((void *)planes_rank(memory, 0)->logs[rank], 0, sizeof(struct plane_log));
  team = team_create(planes_rank(memory, 0));
  honest = team_create(planes_rank(memory, 1));
  hostile = planes_rank(memory, 0)->logs[1];
  A = (struct member){.count = 1, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
  B = A;
  B.count = 2;
  for (int i = 0; i < 8; i++)
    all_issue(&A);
}

static void stop(void) {
  team_destroy(team);
  team_destroy(honest);
  planes_destroy(memory);
}

TestSuite(team_hostile, .init = start, .fini = stop);

/* The entry at the index where all stand now. */
static void write_entry(struct unit of, uint32_t flags, uint32_t above) {
  struct plane_entry *entry = &hostile->entries[team->head % PLANE_RING];
  atomic_store(&entry->hash, unit_hash(of));
  atomic_store(&entry->flags, above << ENTRY_FLAG_BITS | flags);
  atomic_store(&entry->ranks, flags & ENTRY_REAL ? 1 : above);
}

static void expect_corrupt(void) {
  cr_assert_eq(team_poll(team, &got), TEAM_FAILED);
  cr_expect_eq(team->failed.how, FAILURE_CORRUPT);
  cr_expect_eq(team->failed.rank, 1, "rank %u is named", team->failed.rank);
}

Test(team_hostile, a_rank_that_is_ahead_further_than_any_can_be_is_not_followed, .timeout = 300) {
  for (uint32_t i = 0; i < PLANE_RING; i++) {
    atomic_store(&hostile->entries[i].hash, unit_hash(unit(&A)));
    atomic_store(&hostile->entries[i].flags, ENTRY_EXPECTED | ENTRY_REFUSED);
  }
  atomic_store(&hostile->head, UINT64_MAX);
  expect_corrupt();
}

Test(team_hostile, a_rank_as_far_ahead_as_the_log_reaches_is_followed) {
  for (uint32_t i = 0; i < PLANE_RUN_AHEAD; i++)
    cr_assert(team_commit(honest, unit(&A)));
  cr_assert_not(team_commit(honest, unit(&A)));
  for (uint32_t i = 0; i < PLANE_RUN_AHEAD; i++)
    cr_assert_eq(team_poll(team, &got), TEAM_SHADOW);
}

Test(team_hostile, a_shadow_of_a_rank_that_is_not_there_names_the_rank_that_said_so) {
  write_entry(unit(&B), 0, 77);
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

Test(team_hostile, a_unit_refused_for_a_rank_that_is_not_there) {
  write_entry(unit(&A), ENTRY_EXPECTED | ENTRY_REFUSED, 0);
  atomic_store(&hostile->refused_for, RANKS);
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

/* The others would agree on the claim's hash, this rank issue what the text says. */
Test(team_hostile, a_claim_of_something_else_than_its_text) {
  team_claim(honest, unit(&B), 0, NULL);
  atomic_fetch_xor(&hostile->claim_hash, 1);
  atomic_store(&hostile->claim_last_real, UINT64_MAX);
  team_claim(team, unit(&A), 0, NULL);
  expect_corrupt();
}

/* ---- what an entry says ---- */

Test(team_hostile, a_leave_that_this_rank_has_not_claimed) {
  write_entry((struct unit){NULL, 0}, ENTRY_LEAVE, 0);
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

Test(team_hostile, a_leave_while_this_rank_claims_a_unit) {
  team_claim(team, unit(&B), 0, NULL);
  write_entry((struct unit){NULL, 0}, ENTRY_LEAVE, 0);
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

Test(team_hostile, an_expected_unit_where_nothing_is_expected) {
  struct planes *fresh = planes_create(RANKS);
  struct plane *plane = planes_rank(fresh, 0);
  struct team *new = team_create(plane);
  atomic_store(&plane->logs[1]->entries[0].flags, ENTRY_REAL | ENTRY_EXPECTED);
  atomic_store(&plane->logs[1]->head, 1);
  cr_expect_eq(team_poll(new, &got), TEAM_FAILED);
  cr_expect_eq(new->failed.how, FAILURE_CORRUPT);
  team_destroy(new);
  planes_destroy(fresh);
}

Test(team_hostile, a_shadow_of_a_rank_that_does_not_claim_the_unit) {
  write_entry(unit(&B), 0, 0); /* this rank: it claims nothing */
  atomic_store(&hostile->head, team->head + 1);
  cr_expect_eq(team_poll(team, &got), TEAM_FAILED);
  cr_expect_eq(team->failed.how, FAILURE_CORRUPT);
}

Test(team_hostile, a_shadow_of_a_rank_that_has_only_shadowed_it_too) {
  write_entry(unit(&B), 0, 1);
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

/* ---- what a text says ---- */

static void expect_corrupt_text(uint32_t position, uint64_t nmembers) {
  write_entry(unit(&B), ENTRY_REAL, position);
  if (position < PLANE_TEXT / 8 - 1) {
    atomic_store(&hostile->text[position], nmembers);
    atomic_store(&hostile->text[position + 1], unit_hash(unit(&B)));
  }
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

Test(team_hostile, a_text_without_members) {
  expect_corrupt_text(100, 0);
}

Test(team_hostile, a_text_without_room_for_its_beginning) {
  expect_corrupt_text(PLANE_TEXT / 8 - 1, 0);
}

Test(team_hostile, a_text_that_reaches_beyond_the_ring) {
  expect_corrupt_text(PLANE_TEXT / 8 - 4, 1);
}

Test(team_hostile, a_text_of_other_members) {
  expect_corrupt_text(100, 1);
}

Test(team_hostile, a_text_of_more_members_than_can_be) {
  write_entry(unit(&B), ENTRY_REAL, 100);
  atomic_store(&hostile->text[100], UINT64_MAX);
  atomic_store(&hostile->head, team->head + 1);
  cr_expect_eq(team_poll(team, &got), TEAM_FAILED);
  cr_expect_eq(team->failed.how, FAILURE_TOO_BIG);
}

/* ---- what a text says of a place ---- */

enum {
  PLACE = 5,
  NODES_AT = 6,
  TEXT_AT = NODES_AT + PLACE_NODES_MAX * sizeof(struct place_node) / 8
}; /* words */

/* Rank 1 claims a unit of a place, and rank 0 another; the test spoils the text in between. */
static _Atomic uint64_t *claim_at_a_place(void) {
  static struct member placed;
  struct place place = {.id = PLACE, .nnodes = PLACE_NODES_MAX, .text = "train.py:1"};
  placed = B;
  placed.number = PLACE;
  for (uint32_t i = 0; i < PLACE_NODES_MAX; i++)
    place.nodes[i] = (struct place_node){.id = 1 + i, .order = 1, .flags = PLACE_LOOP};
  team_claim(honest, unit(&placed), 0, &place);
  place.id = 1 + PLACE;
  place.nodes[PLACE_NODES_MAX - 1].id = 99;
  placed.number = 1 + PLACE;
  team_claim(team, unit(&placed), 0, &place);
  return &hostile->text[atomic_load(&hostile->claim_text) % (PLANE_TEXT / 8)];
}

Test(team_hostile, a_place_of_nodes_that_are_none_is_only_compared) {
  _Atomic uint64_t *text = claim_at_a_place();
  for (uint32_t i = NODES_AT; i < TEXT_AT; i++)
    atomic_store(&text[i], i % 2 ? UINT64_MAX : 0);
  cr_expect_eq(team_poll(team, &got), TEAM_REAL);
  cr_expect_eq(team_poll(honest, &got), TEAM_REAL);
}

static void expect_corrupt_place(uint64_t nodes_and_one) {
  _Atomic uint64_t *text = claim_at_a_place();
  atomic_store(text, 1 | nodes_and_one << 32);
  expect_corrupt();
}

Test(team_hostile, a_place_of_more_nodes_than_can_be) {
  expect_corrupt_place(PLACE_NODES_MAX + 2);
}

Test(team_hostile, a_place_of_as_many_nodes_as_can_be_said) {
  expect_corrupt_place(UINT32_MAX);
}

Test(team_hostile, a_place_that_reaches_beyond_the_ring) {
  uint32_t end = PLANE_TEXT / 8;
  _Atomic uint64_t *text = claim_at_a_place();
  for (uint32_t i = 0; i < 20; i++)
    atomic_store(&hostile->text[end - 20 + i], atomic_load(&text[i]));
  atomic_store(&hostile->claim_text, end - 20);
  expect_corrupt();
}

Test(team_hostile, what_messages_say_of_a_place_ends_and_has_no_control_characters) {
  _Atomic uint64_t *text = claim_at_a_place();
  for (uint32_t i = 0; i < PLACE_TEXT_MAX / 8; i++)
    atomic_store(&text[TEXT_AT + i], UINT64_C(0x0a1b5b7f78780d09));
  atomic_store(&hostile->claim_bytes, UINT64_MAX); /* the larger unit wins */
  cr_expect_neq(team_poll(team, &got), TEAM_FAILED);
  const struct known_place *known = place_table_find(team->places.table, PLACE);
  cr_assert_not_null(known);
  cr_expect_eq(strlen(known->place.text), PLACE_TEXT_MAX - 1);
  for (const char *c = known->place.text; *c != '\0'; c++)
    cr_expect((unsigned char)*c >= 0x20 && *c != 0x7f, "%d", *c);
}

/* What is claimed then stands where the claim says, not its text. */
Test(team_hostile, a_claim_of_another_place_than_its_text) {
  (void)claim_at_a_place();
  atomic_store(&hostile->claim_place, 77);
  cr_expect_neq(team_poll(team, &got), TEAM_FAILED);
}

Test(team_hostile, a_unit_of_a_rank_that_is_not_there) {
  write_entry(unit(&B), ENTRY_REAL, 100);
  atomic_store(&hostile->entries[team->head % PLANE_RING].ranks, UINT32_MAX);
  atomic_store(&hostile->head, team->head + 1);
  expect_corrupt();
}

/* ---- waiting for others ---- */

Test(team_hostile, who_took_part_is_not_waited_for_once_a_rank_has_failed) {
  bool active[RANKS];
  cr_assert(team_commit(team, unit(&A)));
  cr_expect_eq(team_active(team, team_index(team), active), TEAM_PARKED);
  team_end(honest, RANK_FAILED);
  cr_expect_eq(team_active(team, team_index(team), active), TEAM_FAILED);
  cr_expect_eq(team->failed.rank, 1);
}

static int waits;

static void count_wait(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  (void)plane;
  (void)seen;
  (void)milliseconds;
  waits++;
}

Test(team_hostile, nobody_sleeps_for_ranks_that_have_come) {
  team->plane->wait = count_wait;
  team_wait_others(team, team_index(team), 1);
  cr_expect_eq(waits, 0);
  team_wait_others(team, team->head, 1);
  cr_expect_eq(waits, 1);
}

static bool spin_three_times(struct plane *plane, uint64_t *since) {
  (void)plane;
  if (++*since == 3)
    team_commit(honest, unit(&A));
  return *since < 10;
}

Test(team_hostile, who_spins_sees_what_comes_meanwhile_and_does_not_sleep) {
  team->plane->wait = count_wait;
  team->plane->spin = spin_three_times;
  team_claim(team, unit(&B), 0, NULL);
  cr_expect_eq(team_wait(team, &got, 1), TEAM_SHADOW);
  cr_expect(unit_equal(got, unit(&A)));
  cr_expect_eq(waits, 0);
}

/* ---- refusals that there is no reason for ---- */

static bool spoils_nothing(void *context, struct unit of, uint32_t rank) {
  (void)context;
  (void)of;
  (void)rank;
  return false;
}

/* Rank 0 wants B, rank 1, which has done more, wants a strict C. */
static enum team_verdict settle_strict(void) {
  static struct member C;
  C = A;
  C.count = 1000;
  team_claim(team, unit(&B), 0, NULL);
  team_claim(honest, unit(&C), CLAIM_STRICT, NULL);
  return team_poll(team, &got);
}

Test(team_hostile, a_strict_unit_that_no_shadow_spoils_is_issued) {
  team->owner.is_lossy = honest->owner.is_lossy = spoils_nothing;
  cr_expect_eq(settle_strict(), TEAM_SHADOW);
  cr_expect_eq(got.members[0].count, 1000);
}

Test(team_hostile, a_strict_unit_is_issued_where_nobody_can_say_what_is_spoilt) {
  cr_expect_eq(settle_strict(), TEAM_SHADOW);
  cr_expect_eq(got.members[0].count, 1000);
}

/* ---- what was before a LEAVE ---- */

/* Who takes part is looked for across it. */
Test(team_hostile, a_conflict_after_all_have_left_and_come_back) {
  struct team *teams[RANKS] = {team, honest};
  struct member C = A;
  C.count = 3;
  all_issue(&B);
  for (int rank = 0; rank < RANKS; rank++)
    team_claim_leave(teams[rank]);
  for (int rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_poll(teams[rank], &got), TEAM_LEFT);
  all_issue(&A);
  team_claim(team, unit(&C), 0, NULL);
  team_claim(honest, unit(&B), 0, NULL);
  cr_expect_eq(team_poll(team, &got), TEAM_SHADOW);
  cr_expect(unit_equal(got, unit(&B)), "it has been seen before");
  cr_expect_eq(team_poll(honest, &got), TEAM_REAL);
}
