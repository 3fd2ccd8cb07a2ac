/* What is asked of groups that do not ask this rank (core/p2p/peers_follow.c): less than of those
 * that do. */
#include <criterion/criterion.h>

#include "tests/unit/trio.h"

TestSuite(peers_linked, .init = trio_start, .fini = trio_stop);

static struct member on(uint8_t kind, uint32_t peer) {
  return (struct member){.count = 64,
                         .comm = 7,
                         .root = (int32_t)peer,
                         .reduction = REDUCTION_NONE,
                         .kind = kind,
                         .datatype = 7};
}

static void post(uint32_t rank, const struct member *members, uint32_t nmembers) {
  cr_assert_eq(team_post(teams[rank], &(struct posts){.members = members, .nmembers = nmembers}),
               POST_DONE);
}

/* Rank 1 has sent to rank 2, whose group waits for a second send; then it sends to rank 0. */
Test(peers_linked, a_post_is_over_although_its_partners_group_is_not) {
  const struct member to_2 = on(MEMBER_SEND, 2), to_0 = on(MEMBER_SEND, 0),
                      from_1[] = {on(MEMBER_RECEIVE, 1), on(MEMBER_RECEIVE, 1)};
  struct unit got;
  team_claim_leave(teams[0]);
  post(1, &to_2, 1);
  post(1, &to_0, 1);
  post(2, from_1, 2);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_MIRROR);
  cr_assert_eq(got.nmembers, 1);
  cr_assert_eq(got.members[0].kind, MEMBER_RECEIVE);
  cr_assert_eq(got.members[0].root, 1);
}
