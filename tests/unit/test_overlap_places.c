/* Ranks of several teams that wait in a chain: which of them gives way is told by where they stand
 * in the program (core/overlap/overlap.c:delay_of). */
#include <criterion/criterion.h>

#include "tests/unit/crossing.h"

TestSuite(overlap_places, .fini = crossing_stop);

/* for (epoch) { for (batch) BATCH; AFTER; LAST; } */
enum { BATCH = 20, AFTER, LAST };

static struct place_node node(uint32_t id, uint16_t order, uint16_t loop) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order == 9 ? 8 : order,
                             .until = order,
                             .flags = (uint16_t)(loop | PLACE_ORDERED)};
}

static struct place place_of(uint32_t id) {
  struct place place = {
      .id = id, .nnodes = 3, .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP)}};
  if (id == BATCH) {
    place.nodes[2] = node(1002, 6, PLACE_LOOP);
    place.nodes[place.nnodes++] = node(2000 + id, 7, 0);
  } else {
    place.nodes[2] = node(2000 + id, id == AFTER ? 8 : 9, 0);
  }
  return place;
}

static void claim_here(uint32_t rank, uint32_t at, uint32_t id) {
  struct place place = place_of(id);
  crossing_claim_at(rank, at, id, &place);
}

/* 0 waits for 1 in {0, 1}, 1 for 2 in {1, 2}, 2 for 0 in {0, 2}. */
static void chain(uint32_t of_0, uint32_t of_1, uint32_t of_2) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){1, 2});
  crossing_add(2, 2, (const uint32_t[]){0, 2});
  if (of_0 != 0)
    claim_here(0, 0, of_0);
  claim_here(1, 1, of_1);
  claim_here(2, 2, of_2);
}

/* How many steps a rank lets pass before it gives way. */
static uint64_t steps(uint32_t rank) {
  return overlap_delay(crossing_overlaps[rank]) / OVERLAP_STEP_MS;
}

Test(overlap_places, who_has_left_the_loop_gives_way_before_who_is_in_it) {
  chain(AFTER, BATCH, BATCH);
  cr_assert_eq(steps(0), 2, "after who leaves, before who wants something new");
  cr_assert_lt(overlap_delay(crossing_overlaps[0]), overlap_delay(crossing_overlaps[1]));
  cr_assert_lt(overlap_delay(crossing_overlaps[0]), overlap_delay(crossing_overlaps[2]));
}

Test(overlap_places, who_comes_to_it_next_gives_way_last) {
  chain(AFTER, LAST, LAST);
  cr_assert_eq(steps(0), 7);
  cr_assert_gt(overlap_delay(crossing_overlaps[0]), overlap_delay(crossing_overlaps[1]));
  cr_assert_gt(overlap_delay(crossing_overlaps[0]), overlap_delay(crossing_overlaps[2]));
}

Test(overlap_places, who_is_in_the_loop_gives_way_last) {
  chain(BATCH, AFTER, AFTER);
  cr_assert_eq(steps(0), 7);
}

/* Rank 0 has left the loop of rank 2, which then leaves it too. */
Test(overlap_places, who_answers_a_loop_waits_for_what_it_comes_to_itself) {
  chain(AFTER, BATCH, BATCH);
  uint64_t delay = overlap_delay(crossing_overlaps[0]);
  cr_assert(crossing_answers(0, 2, delay));
  cr_assert_eq(crossing_poll(2, 2), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 2), TEAM_SHADOW);
  claim_here(2, 2, BATCH);
  cr_assert(crossing_answers(0, 2, 0), "the loop goes on");
  cr_assert_eq(crossing_poll(2, 2), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, 2), TEAM_SHADOW);
  claim_here(2, 2, LAST);
  cr_assert_not(crossing_answers(0, 2, delay), "it is to come there, once rank 1 has");
  cr_assert_gt(overlap_delay(crossing_overlaps[0]), delay);
}

/* A loop in the loop: who has come past it may have done so before who is in it, or after. */
Test(overlap_places, who_leaves_gives_way_before_who_may_have_left_a_loop) {
  chain(0, AFTER, BATCH);
  overlap_may_commit(crossing_overlaps[0], crossing_teams[0][0]);
  team_claim_leave(crossing_teams[0][0]);
  overlap_park(crossing_overlaps[0], 0);
  uint64_t leaves = overlap_delay(crossing_overlaps[0]);
  cr_assert_lt(leaves + OVERLAP_STAGGER, OVERLAP_STEP_MS * 2);
  team_give_up(crossing_teams[0][0]);
  claim_here(0, 0, AFTER);
  cr_assert_gt(overlap_delay(crossing_overlaps[0]), leaves + OVERLAP_STAGGER);
}
