/* Two loops that make the same calls, of which a compiler may have made two of one, or which are
 * two in the program. What shows each step is listed in claims.h. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"

static struct place one, other;
static place_nodes_t counted; /* loops whose rounds all count, if they count any */

/* for (...) { if (...) for (...) sum(); else for (...) sum(); } */
static struct place loop(uint32_t id) {
  struct place_node function = {.id = 9}, outer = {.id = 8, .order = 1}, inner = {.id = id},
                    call = {.id = id + 10, .order = 1, .since = 1, .until = 1, .reach_from = 1};
  outer.flags = inner.flags = PLACE_LOOP | PLACE_ORDERED;
  call.flags = PLACE_ORDERED | PLACE_TWIN | PLACE_TWIN_BRANCH;
  inner.order = inner.since = inner.until = (uint16_t)id;
  inner.reach_from = 1; /* nothing */
  return (struct place){.id = id, .nnodes = 4, .nodes = {function, outer, inner, call}};
}

static void twins(void) {
  begin();
  one = loop(2);
  other = loop(3);
  counted = 1u << 1;
}

TestSuite(settle_twins, .init = twins);

/* common: all have been at one of them before; by their places these are two units then. */
static void claim_them(bool common, bool even, bool has_clock) {
  begin();
  struct claimed claim = {.hash = A,
                          .signature = C,
                          .place = &one,
                          .common = common,
                          .even = even,
                          .clocks = has_clock ? counted : 0,
                          .any = CLAIM_OWN_PLACE};
  add(claim);
  claim.hash = B;
  claim.place = &other;
  claim.common = false;
  add(claim);
}

static void claim_both(bool even, bool has_clock) {
  claim_them(true, even, has_clock);
}

static void flag_both(uint16_t flags) {
  one.nodes[3].flags = other.nodes[3].flags = PLACE_ORDERED | flags;
}

static void call_in_no_loop(void) {
  one.nodes[1].flags = other.nodes[1].flags = PLACE_ORDERED;
}

Test(settle_twins, in_one_round_of_an_even_program_branches_are_one_unit) {
  claim_both(true, true);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
}

Test(settle_twins,
     where_nobody_counts_rounds_and_the_condition_may_change_they_are_one_by_a_guess) {
  claim_them(false, true, false);
  cr_assert(is_unanimous());
  cr_assert(is_guess(), "one may be the next round's");
  claim_them(false, true, true);
  cr_assert_not(is_guess());
  one.nodes[2].flags |= PLACE_FIXED;
  other.nodes[2].flags |= PLACE_FIXED;
  claim_them(false, true, false);
  cr_assert_not(is_guess());
}

Test(settle_twins, not_where_ranks_may_be_in_two_rounds) {
  claim_both(true, false);
  cr_assert_not(is_unanimous());
  call_in_no_loop();
  claim_both(true, false);
  cr_assert(is_unanimous());
}

Test(settle_twins, nor_where_a_rank_has_been_without_data) {
  claim_both(false, true);
  cr_assert_not(is_unanimous());
  cr_assert(is_guess(), "who is in which branch goes first is not known");
}

/* for (...) for (...) { if (...) ... } */
Test(settle_twins, nor_in_loops_in_each_other_whose_rounds_nobody_counts) {
  one.nodes[0].flags = other.nodes[0].flags = PLACE_LOOP;
  counted = 1u << 0;
  claim_both(true, true);
  cr_assert_not(is_unanimous());
}

Test(settle_twins, one_after_the_other_they_may_be_one_loop_and_that_is_told) {
  flag_both(PLACE_TWIN);
  claim_both(true, true);
  cr_assert_not(is_unanimous());
  cr_assert(is_guess());
  cr_assert(settle_may_be_one(&settle.units[0], &settle.units[1]));
  flag_both(0);
  one.nodes[2].until = 3; /* the other one always follows: they are no branches */
  other.nodes[2].flags |= PLACE_ALWAYS;
  other.nodes[3].flags |= PLACE_ALWAYS;
  claim_both(true, true);
  cr_assert_not(is_guess());
}

Test(settle_twins, a_call_behind_the_loop_may_be_its_last_round_and_that_is_told) {
  flag_both(PLACE_TWIN);
  other.nodes[2] = other.nodes[3];
  other.nodes[2].order = 4;
  other.nnodes = 3;
  claim_both(true, true);
  cr_assert_not(is_unanimous());
  cr_assert(is_guess());
  other.nodes[2].flags = PLACE_ORDERED | PLACE_ALWAYS;
  claim_both(true, true);
  cr_assert_not(is_guess());
}

static void call_in_other_branch(void) {
  other.nodes[2] = other.nodes[3];
  other.nodes[2].order = other.nodes[2].since = other.nodes[2].until = 4;
  other.nodes[2].flags = PLACE_ORDERED;
  other.nnodes = 3;
}

/* if (rank == 0) { for (...) sum(); sum(); } else { for (...) sum(); sum(); }, as a compiler makes
 * it of one such loop. */
Test(settle_twins,
     a_call_in_the_other_branch_that_is_in_no_loop_may_be_another_one_and_that_is_told) {
  call_in_other_branch();
  claim_them(false, true, false);
  cr_assert(is_unanimous());
  cr_assert(is_guess());
  flag_both(0);
  call_in_other_branch();
  one.nodes[2].flags |= PLACE_FIXED;
  other.nodes[2].flags |= PLACE_FIXED;
  claim_them(false, true, false);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
}

Test(settle_twins, units_that_look_different_are_no_copies) {
  flag_both(PLACE_TWIN);
  claim_both(true, true);
  settle.units[0].signature = A;
  cr_assert_not(settle_may_be_one(&settle.units[0], &settle.units[1]));
}
