/* What a rank says is another unit than the expected one, though both look alike: it comes to that
 * elsewhere in its own program. */
#include <criterion/criterion.h>

#include "core/transport/plane.h"
#include "tests/unit/claims.h"

TestSuite(settle_apart, .init = begin);

/* Nothing tells how they stand to each other. */
static const struct place one = {.id = 1, .nnodes = 1, .nodes = {{.id = 1}}},
                          other = {.id = 2, .nnodes = 1, .nodes = {{.id = 2}}};

static void claim_apart(uint32_t apart, const struct place *a, const struct place *b) {
  begin();
  add((struct claimed){
      .hash = A, .signature = C, .place = a, .apart = apart == A, .expected = apart == B});
  add((struct claimed){
      .hash = B, .signature = C, .place = b, .apart = apart == B, .expected = apart == A});
}

Test(settle_apart, what_a_rank_says_is_apart_from_the_expected_unit_is_another) {
  for (uint32_t apart = A; apart <= B; apart++) {
    claim_apart(apart, &one, &other);
    cr_assert_not(is_unanimous());
  }
  claim_apart(A, &one, &other);
  settle.units[0].expected = settle.units[1].expected = false;
  cr_assert(is_unanimous(), "what is not expected may be the same");
}

Test(settle_apart, what_has_no_place_is_apart_from_nothing_that_looks_like_it) {
  for (uint32_t apart = A; apart <= B; apart++) {
    claim_apart(apart, &one, NULL);
    cr_assert(is_unanimous());
    claim_apart(apart, NULL, &one);
    cr_assert(is_unanimous());
  }
}
