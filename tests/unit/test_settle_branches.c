/* Two branches of one condition in a loop, with collectives that look alike: ranks may take them by
 * their own data, or one of them is the end of the loop. What shows each step is listed in
 * claims.h. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"

static struct place then, otherwise;

/* for (...) if (...) then(); else otherwise(); */
static struct place way(uint32_t id) {
  struct place_node function = {.id = 9}, loop = {.id = 8, .order = 1, .flags = PLACE_LOOP};
  struct place_node call = {.id = id, .order = (uint16_t)id, .since = (uint16_t)id};
  call.until = (uint16_t)id;
  call.reach_from = 1; /* nothing */
  loop.flags |= PLACE_ORDERED;
  call.flags = PLACE_ORDERED;
  return (struct place){.id = id, .nnodes = 3, .nodes = {function, loop, call}};
}

static void branches(void) {
  begin();
  then = way(2);
  otherwise = way(3);
}

TestSuite(settle_branches, .init = branches);

static void claim_both(bool all_have_been_at_one, bool all_have_been_at_the_other) {
  begin();
  add((struct claimed){.hash = A,
                       .signature = C,
                       .place = &then,
                       .common = all_have_been_at_one,
                       .any = CLAIM_OWN_PLACE});
  add((struct claimed){.hash = B,
                       .signature = C,
                       .place = &otherwise,
                       .common = all_have_been_at_the_other,
                       .any = CLAIM_OWN_PLACE});
}

Test(settle_branches, to_take_one_for_the_other_is_a_guess) {
  for (uint32_t common = 0; common <= 3; common++) {
    claim_both((common & 1) != 0, (common & 2) != 0);
    cr_assert(is_unanimous());
    cr_assert(is_guess());
  }
}

Test(settle_branches, but_not_where_there_is_no_loop_to_end) {
  then.nodes[1].flags = otherwise.nodes[1].flags = PLACE_ORDERED;
  claim_both(true, true);
  cr_assert(is_unanimous());
  cr_assert_not(is_guess());
}

/* if (rank == root) broadcast(); else broadcast(); */
Test(settle_branches, nor_where_one_is_the_roots_unless_all_have_been_there) {
  for (uint32_t i = 0; i <= 1; i++) {
    claim_both(false, false);
    settle.units[i].by_root = true;
    cr_assert_not(is_guess());
    settle.units[1 - i].common = true;
    cr_assert(is_guess());
  }
}
