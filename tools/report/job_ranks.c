/* The ranks of a communicator of some of the job's processes, as the job numbers them (tracks.h).
 */
#include "tools/report/tracks.h"

#include <string.h>

struct team {
  struct track *first;
  size_t count;
};

static bool is_same_process(const struct track *a, const struct track *b) {
  return a->pid == b->pid && a->pid != 0 && strcmp(a->host, b->host) == 0;
}

/* The only track of a process in a team; NULL: there is none, or several. */
static const struct track *only_one(struct team team, const struct track *process) {
  const struct track *found = NULL;
  for (size_t i = 0; i < team.count; i++) {
    if (!is_same_process(&team.first[i], process))
      continue;
    if (found != NULL)
      return NULL;
    found = team.first + i;
  }
  return found;
}

static bool are_given(struct team team) {
  for (size_t i = 0; i < team.count; i++) {
    if (team.first[i].given_rank < 0)
      return false;
    for (size_t before = 0; before < i; before++)
      if (team.first[before].given_rank == team.first[i].given_rank)
        return false;
  }
  return true;
}

static bool contains(struct team larger, struct team team) {
  for (size_t i = 0; i < team.count; i++)
    if (only_one(larger, &team.first[i]) == NULL || only_one(team, &team.first[i]) == NULL)
      return false;
  return true;
}

static void find_of_team(const struct tracks *tracks, struct team team) {
  struct team best = team;
  bool given = are_given(team);
  for (size_t first = 0, count; !given && first < tracks->count; first += count) {
    count = tracks_of_team(tracks, first);
    struct team other = {&tracks->all[first], count};
    if (count > best.count && contains(other, team))
      best = other;
  }
  for (size_t i = 0; i < team.count; i++) {
    struct track *track = &team.first[i];
    const struct track *there = best.first != team.first ? only_one(best, track) : track;
    track->job_rank = given ? track->given_rank : there->rank;
  }
}

void job_ranks_find(struct tracks *tracks) {
  for (size_t first = 0, count; first < tracks->count; first += count) {
    count = tracks_of_team(tracks, first);
    find_of_team(tracks, (struct team){&tracks->all[first], count});
  }
}
