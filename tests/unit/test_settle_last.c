/* The winner rule where one unit may be of a rank's last round of a loop, which another one goes
 * round. What shows each step is listed in claims.h. */
#include <criterion/criterion.h>

#include "tests/unit/claims.h"
#include "tests/unit/front.h"

/* Behind in_loop, in its loop. */
static struct place also_in_loop;

static void program(void) {
  begin();
  front_program();
  also_in_loop = in_loop;
  also_in_loop.id = 40;
  also_in_loop.nodes[3] = front_node(40, 5, 0);
}

TestSuite(settle_last, .init = program);

/* Validation after the last batch of a rank, in the loop of batches. */
Test(settle_last, what_nobody_has_come_to_yet_waits_for_the_next_round_and_that_is_a_guess) {
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &also_in_loop, .bytes = 9});
  add((struct claimed){.hash = B, .place = &in_loop, .seen = true, .common = true, .again = true});
  cr_assert_eq(winner()->hash, B);
  cr_assert(is_guess());
  settle.last = &also_in_loop;
  cr_assert_eq(winner()->hash, B, "both go round");
  cr_assert_not(is_guess());
}

/* The batches of a second model, in a loop in which those of the first one were. */
Test(settle_last, not_if_it_stands_in_a_loop_that_ranks_have_been_in) {
  struct place nested = in_loop;
  nested.id = 50;
  nested.nodes[3] = front_node(51, 5, PLACE_LOOP);
  nested.nodes[nested.nnodes++] = front_node(50, 6, 0);
  for (uint32_t along = 3; along <= 4; along++) {
    begin();
    settle.last = &in_loop;
    add((struct claimed){.hash = A, .place = &nested, .along = along});
    add((struct claimed){
        .hash = B, .place = &in_loop, .seen = true, .common = true, .again = true});
    cr_assert_eq(winner()->hash, along == 3 ? B : A);
    cr_assert(is_guess());
  }
}

Test(settle_last, of_one_round_the_earlier_goes_first_and_if_it_is_new_that_is_a_guess) {
  for (int seen = 0; seen < 2; seen++) {
    begin();
    add((struct claimed){.hash = A, .place = &in_loop, .seen = seen});
    add((struct claimed){.hash = B, .place = &also_in_loop, .seen = true, .common = true});
    cr_assert_eq(winner()->hash, A);
    cr_assert_eq(is_guess(), !seen);
  }
}

Test(settle_last, in_the_first_round_it_goes_first_and_that_is_a_guess) {
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &also_in_loop, .bytes = 9});
  add((struct claimed){.hash = B, .place = &in_loop, .seen = true, .common = true});
  cr_assert_eq(winner()->hash, A);
  cr_assert(is_guess(), "all may come to it in the last round, and this rank may have one");
}

Test(settle_last, that_it_goes_first_where_it_has_been_seen_but_is_not_expected_is_a_guess) {
  settle.last = &in_loop;
  add((struct claimed){.hash = A, .place = &also_in_loop, .seen = true, .common = true});
  add((struct claimed){
      .hash = B, .place = &in_loop, .seen = true, .common = true, .expected = true});
  cr_assert_eq(winner()->hash, A);
  cr_assert(is_guess());
}
