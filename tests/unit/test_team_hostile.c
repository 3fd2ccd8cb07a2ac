/* The agreed sequence beside a peer whose log holds what cannot be: an overwritten segment, or
 * another version. Rank 0 is under test; the tests write rank 1's log. The fuzz target `segment`
 * does the same at random. */
#include <criterion/criterion.h>

#include "core/plane_memory.h"
#include "core/team.h"

enum { RANKS = 2 };

static struct plane_memory *memory;
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
      team_claim(teams[rank], unit(of), 0);
  for (int rank = 0; rank < RANKS; rank++)
    if (teams[rank]->claimed)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

/* Both ranks run a loop of A until A is expected. */
static void start(void) {
  memory = plane_memory_create(RANKS);
  team = team_create(plane_memory_rank(memory, 0));
  honest = team_create(plane_memory_rank(memory, 1));
  hostile = plane_memory_rank(memory, 0)->logs[1];
  A = (struct member){.count = 1, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
  B = A;
  B.count = 2;
  for (int i = 0; i < 8; i++)
    all_issue(&A);
}

static void stop(void) {
  team_destroy(team);
  team_destroy(honest);
  plane_memory_destroy(memory);
}

TestSuite(team_hostile, .init = start, .fini = stop);

/* The entry at the index where all stand now. */
static void write_entry(struct unit of, uint32_t flags, uint32_t above) {
  struct plane_entry *entry = &hostile->entries[team->head % PLANE_RING];
  atomic_store(&entry->hash, unit_hash(of));
  atomic_store(&entry->flags, above << ENTRY_FLAG_BITS | flags);
}

static void expect_corrupt(void) {
  cr_assert_eq(team_poll(team, &got), TEAM_FAILED);
  cr_expect_eq(team->failure, FAILURE_CORRUPT);
  cr_expect_eq(team->failure_rank, 1, "rank %u is named", team->failure_rank);
}

Test(team_hostile, a_rank_that_is_ahead_further_than_any_can_be_is_not_followed, .timeout = 20) {
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
  team_claim(honest, unit(&B), 0);
  atomic_fetch_xor(&hostile->claim_hash, 1);
  team_claim(team, unit(&A), 0);
  expect_corrupt();
}
