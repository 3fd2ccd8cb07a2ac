/* Who is at work, and yet cannot go on: three ranks in a ring of three teams. */
#include <criterion/criterion.h>

#include "core/overlap/overlap.h"
#include "tests/unit/planes.h"

#define RANKS 3

/* Ranks at and (at + 1) % RANKS of a team. */
static struct planes *memories[RANKS];
static struct team *teams[RANKS][RANKS]; /* by rank and team */
static struct overlap_team *places[RANKS][RANKS];
static struct overlap *overlaps[RANKS];

static void add(uint32_t at) {
  const uint64_t identities[] = {at, (at + 1) % RANKS};
  memories[at] = planes_create(2);
  for (uint32_t i = 0; i < 2; i++) {
    uint64_t rank = identities[i];
    teams[rank][at] = team_create(planes_rank(memories[at], i));
    places[rank][at] = overlap_add(overlaps[rank], teams[rank][at], identities);
  }
}

static void start(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    overlaps[rank] = overlap_create(rank);
  for (uint32_t at = 0; at < RANKS; at++)
    add(at);
}

static void stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    overlap_destroy(overlaps[rank]);
  for (uint32_t at = 0; at < RANKS; at++) {
    team_destroy(teams[at][at]);
    team_destroy(teams[(at + 1) % RANKS][at]);
    planes_destroy(memories[at]);
  }
}

TestSuite(overlap_held, .init = start, .fini = stop);

static bool commit(uint32_t rank, uint32_t at, struct unit unit) {
  struct team *team = teams[rank][at];
  if (!overlap_may_commit(overlaps[rank], team) || !team_commit(team, unit))
    return false;
  overlap_issued(overlaps[rank], team, unit);
  return true;
}

static void claim(uint32_t rank, uint32_t at, struct unit unit, uint64_t now) {
  overlap_may_commit(overlaps[rank], teams[rank][at]);
  team_claim(teams[rank][at], unit, overlap_claim_flags(overlaps[rank], teams[rank][at], unit),
             NULL);
  overlap_park(overlaps[rank], now);
}

static struct member member(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

/* Ranks 1 and 2 of team 1 repeat a unit until it is committed. */
static void learn(struct unit unit) {
  for (uint32_t i = 0; i < 12; i++) {
    bool committed = commit(1, 1, unit);
    for (uint32_t rank = committed ? 2 : 1; rank <= 2; rank++)
      if (!committed || !commit(2, 1, unit))
        claim(rank, 1, unit, 0);
    for (uint32_t rank = 1; rank <= 2; rank++) {
      struct unit found;
      if (!teams[rank][1]->claim.open)
        continue;
      cr_assert_eq(team_poll(teams[rank][1], &found), TEAM_REAL);
      overlap_issued(overlaps[rank], teams[rank][1], unit);
      overlap_return(overlaps[rank]);
    }
  }
}

/* Rank 0 waits for rank 1, which is at work, and rank 2 for rank 0. Ahead: rank 1 has issued what
 * rank 2 has not. */
static void ring(bool ahead) {
  struct member of = member(3), other = member(4);
  struct unit unit = {&of, 1};
  learn(unit);
  if (ahead)
    cr_assert(commit(1, 1, unit));
  claim(0, 0, (struct unit){&other, 1}, 0);
  claim(2, 2, (struct unit){&other, 1}, 0);
}

/* How long it has been quiet for those two, after they have looked every millisecond. */
static void look(uint64_t from, uint64_t to, uint64_t *of_0, uint64_t *of_2) {
  for (uint64_t now = from; now < to; now++) {
    *of_0 = overlap_quiet(overlaps[0], now);
    *of_2 = overlap_quiet(overlaps[2], now);
  }
}

Test(overlap_held, who_waits_for_its_device_does_not_keep_others_from_yielding) {
  uint64_t of_0, of_2;
  ring(true);
  look(1, 500, &of_0, &of_2);
  cr_assert_geq(of_0, 490);
  cr_assert_geq(of_2, 490);
  overlap_look(overlaps[2], of_2);
  cr_assert(overlap_answers(places[2][1]), "what rank 1 waits for");
}

Test(overlap_held, who_waits_asks_in_all_its_teams) {
  ring(true);
  overlap_quiet(overlaps[0], 1);
  cr_assert_eq(log_asks_about(teams[0][0]->own), 2, "about rank 1: its number plus one");
  cr_assert_eq(log_asks_about(teams[0][2]->own), 2);
}

Test(overlap_held, who_is_at_work_and_ahead_of_nobody_does) {
  uint64_t of_0, of_2;
  ring(false);
  look(1, 500, &of_0, &of_2);
  cr_assert_leq(of_0, 1);
  cr_assert_leq(of_2, 2);
}

Test(overlap_held, what_a_rank_has_said_counts_until_it_moves) {
  uint64_t of_0, of_2;
  struct unit unit;
  ring(true);
  look(1, 500, &of_0, &of_2);
  overlap_look(overlaps[2], of_2);
  cr_assert(overlap_answers(places[2][1]));
  cr_assert_eq(team_poll(teams[2][1], &unit), TEAM_SHADOW);
  overlap_issued(overlaps[2], teams[2][1], unit);
  overlap_moved(overlaps[2], 500);
  look(500, 1000, &of_0, &of_2);
  cr_assert_leq(of_0, 1, "nobody is behind rank 1 any more");
}

Test(overlap_held, who_has_come_back_to_its_program_holds_nobody_up) {
  uint64_t of_0, of_2;
  ring(true);
  look(1, 500, &of_0, &of_2);
  overlap_return(overlaps[2]);
  cr_assert_leq(overlap_quiet(overlaps[0], 501), 1);
}
