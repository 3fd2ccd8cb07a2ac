/* The agreed sequence as one rank keeps it (team.h): its life, and one look at what the others have
 * done. The parts have files of their own: team_commit.c what is expected and published,
 * team_claim.c what is requested, team_follow.c what others have passed, team_settle.c what all
 * claim, team_stop.c where all stop.
 *
 * Everything another rank may read is in the plane's logs; everything in struct team is private.
 * What other ranks published is never trusted further than its hash: a text is copied out, measured
 * and hashed before it is used.
 */
#include "core/team/team.h"

#include <stdlib.h>

#include "core/team/settle.h"
#include "core/team/team_private.h"

/* ---- creation ---- */

struct team *team_create(struct plane *plane) {
  struct team *team = calloc(1, sizeof(*team));
  if (team == NULL)
    return NULL;
  team->plane = plane;
  team->own = log_of(plane, plane->rank);
  team->shared = plane_shared(plane);
  team->learner = learner_create();
  team->table = unit_table_create();
  team->peers = peers_create(plane);
  size_t words = rank_set_words(plane->nranks);
  team->settling.sets = calloc(SETTLE_UNITS_MAX * words, sizeof(*team->settling.sets));
  team->settling.issuers = calloc(words, sizeof(*team->settling.issuers));
  team->settling.sum = calloc(1, sizeof(*team->settling.sum));
  team->settling.places = calloc(SETTLE_UNITS_MAX, sizeof(*team->settling.places));
  team->places.table = place_table_create();
  team->places.levels = PLACE_LEVELS;
  team->places.own = place_table_create();
  team->settling.lossy_seen = calloc(plane->nranks, sizeof(*team->settling.lossy_seen));
  team->claim.members = calloc(UNIT_MEMBERS_MAX, sizeof(struct member));
  team->followed.members = calloc(UNIT_MEMBERS_MAX, sizeof(struct member));
  team->claim.looks = calloc(UNIT_MEMBERS_MAX, sizeof(look_t));
  team->followed.looks = calloc(UNIT_MEMBERS_MAX, sizeof(look_t));
  if (team->learner == NULL || team->table == NULL || team->peers == NULL ||
      team->settling.sets == NULL || team->settling.issuers == NULL || team->settling.sum == NULL ||
      team->settling.places == NULL || team->places.table == NULL || team->places.own == NULL ||
      team->settling.lossy_seen == NULL || team->claim.members == NULL ||
      team->followed.members == NULL || team->claim.looks == NULL || team->followed.looks == NULL) {
    team_destroy(team);
    return NULL;
  }
  team->limit = PLANE_RUN_AHEAD;
  team->ahead.foreseen[0] = &team_nothing;
  team->expected = team->ahead.foreseen;
  log_begin(team->own);
  return team;
}

void team_destroy(struct team *team) {
  if (team == NULL)
    return;
  learner_destroy(team->learner);
  unit_table_destroy(team->table);
  peers_destroy(team->peers);
  free(team->settling.sets);
  free(team->settling.issuers);
  free(team->settling.sum);
  free(team->settling.places);
  place_table_destroy(team->places.table);
  place_table_destroy(team->places.own);
  free(team->settling.lossy_seen);
  free(team->claim.members);
  free(team->followed.members);
  free(team->claim.looks);
  free(team->followed.looks);
  free(team);
}

/* ---- polling ---- */

/* Whether a rank that we wait for has ended. It may have passed our index before: then it is to be
 * followed. */
static bool somebody_ended(struct team *team) {
  uint32_t rank = plane_first_ended(team->plane, team->head);
  if (rank == team->plane->nranks ||
      plane_first_past(team->plane, team->head) != team->plane->nranks)
    return false;
  team_fail(team, FAILURE_ENDED, rank, log_passed(log_of(team->plane, rank)));
  return true;
}

/* The number of a mirror is how its peer's buffer looks (peers.h); nobody else is to take it for
 * something. */
static void take_looks(struct team *team, uint32_t nmembers) {
  for (uint32_t i = 0; i < nmembers; i++) {
    struct member *mirror = &team->followed.members[i];
    bool sends = mirror->kind == MEMBER_SEND;
    team->followed.looks[i] =
        look_of(sends ? mirror->number : 0, sends ? 0 : mirror->number, false);
    mirror->number = 0;
  }
  team->followed.looks_of = 0;
  team->followed.handed_out = team->followed.looks;
}

/* Sends and receives that stand before our index: what is to be mirrored, and whether all ranks
 * have come so far. TEAM_REAL: nothing stands against passing the index. */
static enum team_verdict answer_posts(struct team *team, struct unit *unit) {
  if (team_say_answering(team))
    team_tell(team);
  if (log_answering(team->own) != team->head + 1)
    return TEAM_REAL;
  uint32_t nmembers = 0;
  const struct posts *pending = team->claim.open ? team->claim.posts : NULL;
  switch (peers_look(team->peers, team->head, pending, team->followed.members, &nmembers)) {
  case PEERS_PASS:
    return TEAM_REAL;
  case PEERS_HOLD:
    return TEAM_PARKED;
  case PEERS_MET:
    team_step_outside(team);
    return TEAM_OUTSIDE;
  case PEERS_MIRROR:
    break;
  }
  team_tell(team);
  take_looks(team, nmembers);
  *unit = (struct unit){team->followed.members, nmembers};
  return TEAM_MIRROR;
}

/* Asked after it has been seen that the index can be passed: what other ranks did before they came
 * to it is to be seen by then. */
static bool is_held(const struct team *team) {
  return team->owner.is_held != NULL && team->owner.is_held(team->owner.is_held_context);
}

/* Where the ranks stand that have to leave a loop before this one goes on. Whoever goes on in it at
 * our index is followed there. */
static enum peers_stand poll_behind(struct team *team) {
  if (team->claim.open && team->claim.behind && team_say_answering(team))
    team_tell(team); /* others know by that that it announces nothing more */
  enum peers_stand stand = team_look_behind(team);
  if (stand == STAND_LEFT && team->claim.behind)
    log_say_awaits(team->own, false);
  team->claim.behind = stand == STAND_LEFT ? false : team->claim.behind || stand == STAND_AHEAD;
  if (stand == STAND_AHEAD && !log_claims(team->own, team->head))
    team_stay_behind(team);
  return stand;
}

/* What stands in the loop that this rank has left, of ranks that may be in it still. TEAM_REAL:
 * nothing does. */
static enum team_verdict answer_inside(struct team *team, struct unit *unit) {
  uint32_t nmembers = 0;
  switch (peers_look_inside(team->peers, team->followed.members, &nmembers)) {
  case PEERS_MIRROR:
    break;
  case PEERS_HOLD:
    return TEAM_PARKED;
  default:
    return TEAM_REAL;
  }
  team_tell(team);
  take_looks(team, nmembers);
  *unit = (struct unit){team->followed.members, nmembers};
  return TEAM_MIRROR;
}

enum team_verdict team_poll(struct team *team, struct unit *unit) {
  team_catch_up(team);
  for (;;) {
    if (team_look_for_failures(team))
      return team_stop_or_fail(team);
    if (team->claim.open && team->claim.for_room) {
      if (!team_has_room(team))
        return TEAM_PARKED;
      if (team_commit_claimed(team)) {
        *unit = team->claim.unit;
        return TEAM_REAL;
      }
    }
    if (team->behind.held || (team->claim.open && team_is_behind(team))) {
      enum peers_stand stand = poll_behind(team);
      if (team->failed.how != FAILURE_NONE)
        return team_stop_or_fail(team);
      if (stand == STAND_LEFT && team->behind.held)
        return answer_inside(team, unit);
      if (stand == STAND_OPEN && !log_claims(team->own, team->head))
        return answer_inside(team, unit) == TEAM_MIRROR ? TEAM_MIRROR : TEAM_PARKED;
    }
    if (team->claim.open)
      team_show_claim(team);
    /* Without room the slowest rank is on its way to our index: nothing can settle here before. */
    if (!team_has_room(team) || (team->claim.open && !team->claim.text_written))
      return TEAM_PARKED;
    enum team_verdict posts = answer_posts(team, unit);
    if (posts != TEAM_REAL)
      return posts;
    uint64_t before = team->head;
    uint32_t rank;
    struct log_entry entry;
    enum team_verdict verdict = TEAM_PARKED;
    if (team_somebody_passed(team, &rank, &entry)) {
      if (is_held(team))
        return TEAM_PARKED;
      verdict = team_follow(team, rank, &entry, unit);
    } else if (team->claim.open || team_is_yielding(team)) {
      if (team_gather_claims(team))
        verdict = is_held(team) ? TEAM_PARKED : team_settle(team, unit);
      else if (team->claim.open && somebody_ended(team))
        return team_stop_or_fail(team);
    }
    if (team->claim.open && team->head != before)
      team_show_claim(team);
    /* A refused unit is passed without anything to issue: look on. */
    if (verdict != TEAM_PARKED || team->head == before)
      return verdict;
  }
}

enum team_verdict team_wait(struct team *team, struct unit *unit, unsigned milliseconds) {
  enum team_verdict verdict;
  for (uint64_t since = 0; team->plane->spin(team->plane, &since);)
    if ((verdict = team_poll(team, unit)) != TEAM_PARKED)
      return verdict;
  uint32_t bell = plane_bell(team->plane);
  plane_say_waiting(team->shared);
  verdict = team_poll(team, unit);
  if (verdict == TEAM_PARKED)
    team->plane->wait(team->plane, bell, milliseconds);
  return verdict;
}
