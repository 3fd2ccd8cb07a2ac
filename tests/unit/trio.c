/* Three ranks of a team in memory (trio.h). */
#include "tests/unit/trio.h"

#include <criterion/criterion.h>

struct plane_memory *memory;
struct team *teams[RANKS];

void trio_start(void) {
  memory = plane_memory_create(RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    teams[rank] = team_create(plane_memory_rank(memory, rank));
}

void trio_stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_destroy(teams[rank]);
  plane_memory_destroy(memory);
}

struct member member(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

struct member A, B, C;

void units(void) {
  A = member(100);
  B = member(200);
  C = member(3);
}

void all_issue(struct member *of) {
  struct unit got;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(teams[rank], unit(of)))
      team_claim(teams[rank], unit(of), 0, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (teams[rank]->claim.open)
      cr_assert_eq(team_poll(teams[rank], &got), TEAM_REAL);
}

void learn_loop(void) {
  units();
  for (int i = 0; i < 8; i++)
    all_issue(&A);
}
