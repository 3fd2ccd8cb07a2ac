/* What comes before what, where a rank has left a loop of several teams: the others' loop that goes
 * on, or their next one. */
#include <criterion/criterion.h>

#include "core/overlap/overlap.h"
#include "core/transport/plane_memory.h"

#define RANKS 3

enum { ALL, FIRST, SECOND, TEAMS }; /* of all ranks; of 0 and 1; of 1 and 2 */
static const uint64_t members[TEAMS][RANKS] = {{0, 1, 2}, {0, 1}, {1, 2}};
static const uint32_t sizes[TEAMS] = {3, 2, 2};

static struct plane_memory *memories[TEAMS];
static struct team *teams[RANKS][TEAMS];
static struct overlap_team *places[RANKS][TEAMS];
static struct overlap *overlaps[RANKS];

static void start(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    overlaps[rank] = overlap_create(rank);
  for (uint32_t at = 0; at < TEAMS; at++) {
    memories[at] = plane_memory_create(sizes[at]);
    for (uint32_t i = 0; i < sizes[at]; i++) {
      uint64_t rank = members[at][i];
      teams[rank][at] = team_create(plane_memory_rank(memories[at], i));
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
    plane_memory_destroy(memories[at]);
}

TestSuite(overlap_order, .init = start, .fini = stop);

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

/* Ranks 0 and 1 issue their unit, so many times, and then as many of them the one of all. */
static void go_on(uint32_t firsts, uint32_t nranks) {
  for (uint32_t i = 0; i < firsts; i++)
    issue(FIRST, 2);
  issue(ALL, nranks);
}

/* Rank 2 has left the loop, in which each unit of all follows one of the first, and has shadowed
 * one. */
static void leave_the_loop(void) {
  struct unit found;
  for (uint32_t i = 0; i < 12; i++) {
    issue(FIRST, 2);
    issue(ALL, 3);
  }
  claim(2, SECOND, 99);
  go_on(1, 2);
  cr_assert_eq(team_poll(teams[2][ALL], &found), TEAM_SHADOW);
  overlap_issued(overlaps[2], teams[2][ALL], found);
}

static bool follows(uint64_t quiet_ms) {
  overlap_look(overlaps[2], quiet_ms);
  return overlap_answers(places[2][ALL]);
}

Test(overlap_order, who_has_left_a_loop_follows_it_at_once) {
  leave_the_loop();
  go_on(1, 1);
  cr_assert(follows(0));
}

Test(overlap_order, who_has_left_a_loop_does_not_follow_what_may_be_the_next_one) {
  leave_the_loop();
  go_on(2, 1);
  cr_assert_not(follows(0), "rank 0 has issued something else in between");
  cr_assert(follows(overlap_delay(overlaps[2])), "nobody can move");
}
