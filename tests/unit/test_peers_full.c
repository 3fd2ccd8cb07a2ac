/* A ring of sends and receives without room for more. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/operation.h"
#include "tests/unit/trio.h"

static struct unit got;
static struct member one;
static const struct posts posts = {.members = &one, .nmembers = 1};

static void start(void) {
  trio_start();
  one = operation_member(MEMBER_SEND, 7, 0, 64);
}

TestSuite(peers_full, .init = start, .fini = trio_stop);

static void fill(void) {
  for (uint32_t i = 0; i < PLANE_OPERATIONS; i++)
    cr_assert_eq(team_post_later(teams[1], &posts, 0), POST_DONE);
}

Test(peers_full, it_waits_for_the_peer_and_loses_nothing) {
  fill();
  cr_assert_eq(team_post(teams[1], &posts), POST_FULL);
  cr_assert_eq(team_post_later(teams[1], &posts, 0), POST_FULL);
  team_claim_leave(teams[0]);
  uint32_t mirrored = 0;
  while (team_poll(teams[0], &got) == TEAM_MIRROR)
    mirrored += got.nmembers;
  cr_assert_eq(mirrored, PLANE_OPERATIONS);
  cr_assert_eq(team_post(teams[1], &posts), POST_DONE);
  cr_assert_eq(team_poll(teams[0], &got), TEAM_MIRROR);
}

static uint32_t waits;

static void count_wait(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  (void)plane, (void)seen, (void)milliseconds;
  waits++;
}

Test(peers_full, who_posts_waits_only_then) {
  teams[1]->plane->wait = count_wait;
  fill();
  cr_assert_eq(waits, 0);
  cr_assert_eq(team_post_later(teams[1], &posts, 0), POST_FULL);
  cr_assert_eq(waits, 1);
}
