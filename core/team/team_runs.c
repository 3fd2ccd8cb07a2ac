/* Runs: units in a row that stand in one innermost loop (team_private.h).
 *
 * Of a loop that goes on each rank decides for itself, without asking, as it does of all that is
 * expected. But a rank without data in a whole epoch is in the epoch's last loop again, where that
 * has just ended. So it asks where the loop has had as many units as before; and before that is
 * known it looks in which round of the loops around that one it stands, if they say it
 * (place_rounds.h).
 */
#include "core/team/team_private.h"

#include "core/transport/operations.h"

bool team_run_goes_on(const struct team *team, uint32_t from, uint32_t to) {
  if (from == to)
    return true;
  const struct known_place *before = team_known_place(team, from),
                           *after = team_known_place(team, to);
  return before != NULL && after != NULL && !place_leaves_loop(&before->place, &after->place) &&
         !place_leaves_loop(&after->place, &before->place);
}

void team_run_restart(struct team *team) {
  struct known_place *begin = team_known_place(team, team->places.run_begin);
  if (begin != NULL && team->places.run != 0) {
    begin->run = team->places.run;
    if (begin->run_least == 0 || begin->run < begin->run_least)
      begin->run_least = begin->run;
  }
  team->places.run = 0;
}

void team_run_pass(struct team *team, uint32_t from, uint32_t to) {
  if (team_run_goes_on(team, from, to)) {
    team->places.run++;
    return;
  }
  const struct known_place *before = team_known_place(team, from),
                           *after = team_known_place(team, to);
  if (before != NULL && after != NULL && place_leaves_loop(&before->place, &after->place))
    team_run_restart(team);
  team->places.run_begin = to;
  team->places.run = 1;
}

void team_run_pass_many(struct team *team, uint32_t count, bool in_loop) {
  team->places.run += count;
  if (!in_loop)
    team->places.run_begin = 0;
}

/* A longer loop is taken for one of batches, to which no rank comes again at once in the next epoch
 * with as many units behind it. To look takes microseconds. */
#define RUN_WATCHED 1024u

bool team_posts(const struct team *team) {
  return plane_posting(team->plane) != POSTING_UNUSED;
}

/* Whether how many units the loop has is not known yet, and this rank's rounds may tell. Not where
 * ranks send and receive: a peer may receive in the next round what belongs to this one, and where
 * ranks wait for each other in between that counts as not received (core/p2p/peers.h). */
static bool is_watched(const struct team *team, const struct known_place *begin) {
  place_rounds_t rounds = team->places.rounds;
  return begin->run == 0 && team->places.run <= RUN_WATCHED && !team_posts(team) &&
         place_rounds_turn(&begin->place, rounds, rounds) == TURN_SAME;
}

bool team_run_may_end_within(const struct team *team, uint32_t count) {
  const struct known_place *begin = team_known_place(team, team->places.run_begin);
  uint32_t run = team->places.run;
  if (begin == NULL)
    return false;
  bool ends = (begin->run >= run && begin->run - run < count) ||
              (begin->run_least >= run && begin->run_least - run < count);
  return (ends && team_asks_for_ends(team, begin)) || is_watched(team, begin);
}

bool team_run_may_be_over(const struct team *team, uint32_t more, enum place_turn turn) {
  const struct known_place *begin = team_known_place(team, team->places.run_begin);
  uint32_t run = team->places.run + more;
  if (begin == NULL)
    return false;
  bool full = begin->run == run || begin->run_least == run;
  if (full)
    return turn != TURN_SAME && team_asks_for_ends(team, begin);
  return turn == TURN_ROUND && is_watched(team, begin);
}
