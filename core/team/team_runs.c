/* Runs: units in a row that stand in one innermost loop (team_private.h).
 *
 * Of a loop that goes on each rank decides for itself, without asking, as it does of all that is
 * expected. But a rank without data in a whole epoch is in the epoch's last loop again, where that has
 * just ended. So it asks where the loop has had as many units as before.
 */
#include "core/team/team_private.h"

bool team_run_goes_on(const struct team *team, uint32_t from, uint32_t to) {
  if (from == to)
    return true;
  const struct known_place *before = team_known_place(team, from),
                           *after = team_known_place(team, to);
  return before != NULL && after != NULL && !place_leaves_loop(&before->place, &after->place) &&
         !place_leaves_loop(&after->place, &before->place);
}

void team_run_pass(struct team *team, uint32_t from, uint32_t to) {
  if (team_run_goes_on(team, from, to)) {
    team->places.run++;
    return;
  }
  const struct known_place *before = team_known_place(team, from),
                           *after = team_known_place(team, to);
  struct known_place *begin = team_known_place(team, team->places.run_begin);
  if (begin != NULL && before != NULL && after != NULL &&
      place_leaves_loop(&before->place, &after->place)) {
    begin->run = team->places.run;
    if (begin->run_least == 0 || begin->run < begin->run_least)
      begin->run_least = begin->run;
  }
  team->places.run_begin = to;
  team->places.run = 1;
}

void team_run_pass_many(struct team *team, uint32_t count, bool in_loop) {
  team->places.run += count;
  if (!in_loop)
    team->places.run_begin = 0;
}

bool team_run_is_full_within(const struct team *team, uint32_t count) {
  const struct known_place *begin = team_known_place(team, team->places.run_begin);
  uint32_t run = team->places.run;
  return begin != NULL && ((begin->run >= run && begin->run - run < count) ||
                           (begin->run_least >= run && begin->run_least - run < count));
}

bool team_run_is_full(const struct team *team, uint32_t more) {
  const struct known_place *begin = team_known_place(team, team->places.run_begin);
  uint32_t run = team->places.run + more;
  return begin != NULL && (begin->run == run || begin->run_least == run);
}
