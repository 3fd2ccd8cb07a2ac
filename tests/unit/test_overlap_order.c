/* What comes before what, where a rank has left a loop of several teams: the others' loop that goes
 * on, or their next one. */
#include <criterion/criterion.h>

#include "core/overlap/overlap.h"
#include "tests/unit/planes.h"

#define RANKS 3

enum { LOOP, FIRST, SECOND, TEAMS }; /* of 0 and 2, and maybe 1; of 0 and 1; of 1 and 2 */
static const uint64_t members[TEAMS][RANKS] = {{0, 2, 1}, {0, 1}, {1, 2}};
static uint32_t sizes[TEAMS] = {2, 2, 2};

static struct planes *memories[TEAMS];
static struct team *teams[RANKS][TEAMS];
static struct overlap_team *places[RANKS][TEAMS];
static struct overlap *overlaps[RANKS];

static void start(uint32_t nranks_of_the_loop) {
  sizes[LOOP] = nranks_of_the_loop;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    overlaps[rank] = overlap_create(rank);
  for (uint32_t at = 0; at < TEAMS; at++) {
    memories[at] = planes_create(sizes[at]);
    for (uint32_t i = 0; i < sizes[at]; i++) {
      uint64_t rank = members[at][i];
      teams[rank][at] = team_create(planes_rank(memories[at], i));
      places[rank][at] = overlap_add(overlaps[rank], teams[rank][at], members[at]);
    }
  }
}

static void stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    overlap_destroy(overlaps[rank]);
    for (uint32_t at = 0; at < TEAMS; at++)
      team_destroy(teams[rank][at]);
  }
  for (uint32_t at = 0; at < TEAMS; at++)
    planes_destroy(memories[at]);
}

TestSuite(overlap_order, .fini = stop);

static bool commit(uint32_t rank, uint32_t at) {
  struct member of = {.count = 10 + at, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE};
  struct unit unit = {&of, 1};
  if (!overlap_may_commit(overlaps[rank], teams[rank][at]) || !team_commit(teams[rank][at], unit))
    return false;
  overlap_issued(overlaps[rank], teams[rank][at], unit);
  return true;
}

static void claim(uint32_t rank, uint32_t at, uint64_t count) {
  struct member of = {.count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE};
  struct unit unit = {&of, 1};
  overlap_may_commit(overlaps[rank], teams[rank][at]);
  team_claim(teams[rank][at], unit, overlap_claim_flags(overlaps[rank], teams[rank][at], unit),
             NULL);
  overlap_park(overlaps[rank], 0);
}

/* The first ranks of the team issue its unit. */
static void issue(uint32_t at, uint32_t nranks) {
  for (uint32_t i = 0; i < nranks; i++)
    if (!commit((uint32_t)members[at][i], at))
      claim((uint32_t)members[at][i], at, 10 + at);
  for (uint32_t i = 0; i < nranks; i++) {
    uint64_t rank = members[at][i];
    struct unit found;
    if (!teams[rank][at]->claim.open)
      continue;
    cr_assert_eq(team_poll(teams[rank][at], &found), TEAM_REAL, "rank %lu of team %u", rank, at);
    overlap_issued(overlaps[rank], teams[rank][at], teams[rank][at]->claim.unit);
    overlap_return(overlaps[rank]);
  }
}

/* Ranks 0 and 1 issue their unit, so many times, and then as many of the loop's team theirs. */
static void go_on(uint32_t firsts, uint32_t nranks) {
  for (uint32_t i = 0; i < firsts; i++)
    issue(FIRST, 2);
  issue(LOOP, nranks);
}

/* Rank 2 has left the loop, in which each unit of the loop's team follows one of the first, and has
 * shadowed one, which rank 0 has issued. */
static void leave_the_loop(uint32_t nranks) {
  struct unit found;
  start(nranks);
  for (uint32_t i = 0; i < 12; i++)
    go_on(1, nranks);
  claim(2, SECOND, 99);
  go_on(1, 1);
  cr_assert_eq(team_poll(teams[2][LOOP], &found), TEAM_SHADOW);
  overlap_issued(overlaps[2], teams[2][LOOP], found);
}

static bool follows(uint64_t quiet_ms) {
  overlap_look(overlaps[2], quiet_ms);
  return overlap_answers(places[2][LOOP]);
}

Test(overlap_order, who_has_left_a_loop_follows_it_at_once) {
  leave_the_loop(2);
  go_on(1, 1);
  cr_assert(follows(0));
}

Test(overlap_order, who_has_left_a_loop_does_not_follow_what_may_be_the_next_one) {
  leave_the_loop(2);
  go_on(2, 1);
  cr_assert_not(follows(0), "rank 0 has issued something else in between");
  cr_assert(follows(overlap_delay(overlaps[2])), "nobody can move");
}

/* Rank 1 is in both teams: what it comes to first all come to first. */
Test(overlap_order, who_has_left_a_loop_follows_what_its_peers_have_come_to) {
  leave_the_loop(3);
  cr_assert(commit(1, LOOP));
  go_on(1, 1);
  cr_assert_not(follows(0), "rank 1 may leave the loop, too");
  cr_assert(commit(1, LOOP));
  cr_assert(follows(0));
}
