/* Three ranks in several teams (crossing.h). */
#include "tests/unit/crossing.h"

#include <criterion/criterion.h>

struct group crossing_groups[TEAMS];
struct team *crossing_teams[RANKS][TEAMS];
struct overlap_team *crossing_places[RANKS][TEAMS];
struct overlap *crossing_overlaps[RANKS];

void crossing_add(uint32_t at, uint32_t nranks, const uint32_t *ranks) {
  struct group *group = &crossing_groups[at];
  uint64_t identities[RANKS];
  *group = (struct group){.nranks = nranks, .memory = planes_create(nranks)};
  for (uint32_t i = 0; i < nranks; i++)
    identities[i] = group->ranks[i] = ranks[i];
  for (uint32_t i = 0; i < nranks; i++) {
    uint32_t rank = ranks[i];
    if (crossing_overlaps[rank] == NULL)
      crossing_overlaps[rank] = overlap_create(rank);
    crossing_teams[rank][at] = team_create(planes_rank(group->memory, i));
    crossing_places[rank][at] =
        overlap_add(crossing_overlaps[rank], crossing_teams[rank][at], identities);
  }
}

void crossing_stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    overlap_destroy(crossing_overlaps[rank]);
    for (uint32_t at = 0; at < TEAMS; at++)
      team_destroy(crossing_teams[rank][at]);
  }
  for (uint32_t at = 0; at < TEAMS; at++)
    if (crossing_groups[at].memory != NULL)
      planes_destroy(crossing_groups[at].memory);
}

struct member crossing_member(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

void crossing_claim_at(uint32_t rank, uint32_t at, uint64_t count, const struct place *where) {
  struct member of = crossing_member(count);
  struct unit unit = {&of, 1};
  if (where != NULL)
    of.number = where->id;
  overlap_may_commit(crossing_overlaps[rank], crossing_teams[rank][at]);
  team_claim(crossing_teams[rank][at], unit,
             overlap_claim_flags(crossing_overlaps[rank], crossing_teams[rank][at], unit), where);
  overlap_park(crossing_overlaps[rank], 0);
}

void crossing_claim(uint32_t rank, uint32_t at, uint64_t count) {
  crossing_claim_at(rank, at, count, NULL);
}

enum team_verdict crossing_poll(uint32_t rank, uint32_t at) {
  struct unit unit;
  enum team_verdict verdict = team_poll(crossing_teams[rank][at], &unit);
  if (verdict == TEAM_REAL || verdict == TEAM_SHADOW || verdict == TEAM_LEFT)
    overlap_issued(crossing_overlaps[rank], crossing_teams[rank][at],
                   verdict == TEAM_SHADOW ? unit : crossing_teams[rank][at]->claim.unit);
  return verdict;
}

bool crossing_answers(uint32_t rank, uint32_t at, uint64_t quiet_ms) {
  overlap_look(crossing_overlaps[rank], quiet_ms);
  return overlap_answers(crossing_places[rank][at]);
}

void crossing_pair(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){0, 1});
}

void crossing_issue(uint32_t at, uint64_t count) {
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
    crossing_claim(crossing_groups[at].ranks[i], at, count);
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
    cr_assert_eq(crossing_poll(crossing_groups[at].ranks[i], at), TEAM_REAL);
}

bool crossing_commit(uint32_t at, uint64_t count) {
  struct member of = crossing_member(count);
  struct unit unit = {&of, 1};
  bool both = true;
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++) {
    uint32_t rank = crossing_groups[at].ranks[i];
    struct team *team = crossing_teams[rank][at];
    bool may = overlap_may_commit(crossing_overlaps[rank], team) && team_commit(team, unit);
    if (may)
      overlap_issued(crossing_overlaps[rank], team, unit);
    else
      crossing_claim(rank, at, count);
    both &= may;
  }
  for (uint32_t i = 0; i < crossing_groups[at].nranks; i++)
    if (crossing_teams[crossing_groups[at].ranks[i]][at]->claim.open)
      cr_assert_eq(crossing_poll(crossing_groups[at].ranks[i], at), TEAM_REAL);
  return both;
}

void crossing_chain(void) {
  crossing_add(0, 2, (const uint32_t[]){0, 1});
  crossing_add(1, 2, (const uint32_t[]){1, 2});
  crossing_add(2, 2, (const uint32_t[]){0, 2});
  crossing_claim(0, 0, 4);
  crossing_claim(1, 1, 4);
  crossing_claim(2, 2, 4);
}
