/* Ranks of the quartet that send and receive behind their loop (behind.h). */
#include "tests/unit/behind.h"

#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/operation.h"
#include "tests/unit/quartet.h"

static struct member sides[RANKS];
static struct posts posts;

const struct posts *one_side(uint8_t kind, uint32_t peer, uint32_t comm) {
  sides[0] = operation_member(kind, comm, peer, 64);
  posts = (struct posts){.members = sides, .nmembers = 1, .place = AFTER};
  return &posts;
}

const struct posts *sends(uint32_t peer) {
  return one_side(MEMBER_SEND, peer, 0);
}

const struct posts *receives(uint32_t peer) {
  return one_side(MEMBER_RECEIVE, peer, 0);
}

const struct posts *receives_from_others(void) {
  for (uint32_t peer = 1; peer < RANKS; peer++)
    sides[peer - 1] = operation_member(MEMBER_RECEIVE, 0, peer, 64);
  posts = (struct posts){.members = sides, .nmembers = RANKS - 1, .place = AFTER};
  return &posts;
}

void learn_places(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    for (uint32_t id = HEAD; id <= AFTER; id++) {
      struct place place = place_of(id);
      peers_learn_place(quartet[rank]->peers, &place);
    }
}

void behind_begin(void) {
  learn_places();
  all_issue_at(HEAD, SUM);
}

void hold(uint32_t rank, const struct posts *behind) {
  cr_assert(team_leaves_by(quartet[rank], AFTER));
  cr_assert(team_stand_behind(quartet[rank], behind, true, false));
  team_hold(quartet[rank]);
}

void post(uint32_t rank, const struct posts *behind) {
  expect_verdict(rank, TEAM_REAL);
  team_release(quartet[rank], true);
  cr_assert_eq(team_post(quartet[rank], behind), POST_DONE);
}

void expect_verdicts(const enum team_verdict verdicts[RANKS]) {
  enum team_verdict heard[RANKS] = {TEAM_PARKED, TEAM_PARKED, TEAM_PARKED, TEAM_PARKED};
  for (int looks = 0; looks < 4; looks++)
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (heard[rank] == TEAM_PARKED && verdicts[rank] != TEAM_PARKED)
        heard[rank] = team_poll(quartet[rank], &got);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(heard[rank], verdicts[rank], "rank %u: %d", rank, (int)heard[rank]);
}

void expect_all_issue(void) {
  expect_verdicts((enum team_verdict[]){TEAM_REAL, TEAM_REAL, TEAM_REAL, TEAM_REAL});
}

bool shows_claim(uint32_t rank) {
  return log_claims(quartet[rank]->own, quartet[rank]->head);
}

void gather_all(void) {
  hold(0, receives_from_others());
  for (uint32_t rank = 1; rank < RANKS; rank++)
    hold(rank, sends(0));
  post(0, receives_from_others());
  for (uint32_t rank = 1; rank < RANKS; rank++)
    post(rank, sends(0));
}
