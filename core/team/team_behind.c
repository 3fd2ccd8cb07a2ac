/* Sends and receives behind a loop of collectives (team.h, peers.h): this rank waits until the
 * ranks that are linked with it have left the loop, too, and answers those that go on in it. */
#include "core/team/team_private.h"

#include <string.h>

/* The place of the last unit that had one, whether it has been learnt or not. */
static uint32_t place_of_last(const struct team *team) {
  for (struct known_unit **at = team->expected; at-- != team->ahead.foreseen;) {
    uint32_t place = unit_place(known_unit(*at));
    if (place != 0)
      return place;
  }
  return team->places.last;
}

/* A place of G as this rank comes to it in its own program. */
static const struct place *own_place(const struct team *team, uint32_t id) {
  const struct known_place *known = NULL;
  for (uint32_t i = 0; i < TEAM_ALIASES && team->places.naliases != 0 && known == NULL; i++)
    if (team->places.aliases[i].place == id)
      known = place_table_find(team->places.own, team->places.aliases[i].place_own);
  if (known == NULL)
    known = team_known_place(team, id);
  return known == NULL ? NULL : &known->place;
}

/* Whether a place stands in a loop that is passed by on the way from one place to the next. */
static bool is_between(const struct place *place, const struct place *from,
                       const struct place *to) {
  return from->nnodes != 0 && place_leaves_loop(place, to) &&
         (place_shares_loop(from, to) || place_goes_first(from, place)) &&
         place_order(place, to, from) > 0;
}

/* Whether a rank that comes from one place to another has left a loop, or has passed by one that
 * ranks have been in. */
static bool leaves_loop(const struct team *team, uint32_t from, uint32_t to) {
  struct place place;
  const struct place *last = own_place(team, from);
  if (last == NULL || !peers_place(team->peers, to, &place) || place_roots_differ(last, &place))
    return false;
  bool leaves = place_leaves_loop(last, &place);
  const struct known_place *known;
  for (uint32_t at = 0; !leaves && (known = place_table_next(team->places.table, &at)) != NULL;)
    leaves = !place_roots_differ(&known->place, &place) && is_between(&known->place, last, &place);
  return leaves;
}

bool team_is_behind(const struct team *team) {
  return team->behind.some && team->behind.reals == team->reals;
}

bool team_leaves_by(struct team *team, uint32_t place) {
  struct team_behind *behind = &team->behind;
  /* Whatever it has shadowed since it left the loop. */
  uint32_t last = team_is_behind(team) ? behind->loop : place_of_last(team);
  if (last == 0 || place == 0)
    return false;
  /* Places that are new may be of a loop that lies between. */
  uint32_t added = place_table_added(team->places.table);
  struct team_way *way =
      &behind->ways[(last * UINT32_C(0x9e3779b1) ^ place) % (sizeof(behind->ways) / sizeof(*way))];
  if (way->from != last || way->to != place || (!way->leaves && way->added != added))
    *way = (struct team_way){last, place, added, leaves_loop(team, last, place)};
  return way->leaves;
}

static uint32_t *calm_at(struct team *team, uint32_t place) {
  uint32_t room = sizeof(team->behind.calm) / sizeof(*team->behind.calm);
  uint32_t at = place % room;
  if (team->behind.calm[at].place != place) {
    team->behind.calm[at].place = place;
    team->behind.calm[at].times = 0;
  }
  return &team->behind.calm[at].times;
}

/* Whether the last unit is on a communicator: NCCL wants both in one order on all ranks then. */
static bool shares_communicator(const struct team *team, uint32_t comm) {
  const struct known_unit *last = unit_table_known(team->table, team->symbol_last);
  return last != NULL && last->nmembers > 0 && last->members[0].comm == comm;
}

/* `place` comes next. again: behind what has been announced since this rank issued a unit for real.
 */
static void keep_before(struct team_behind *behind, bool again, uint32_t place) {
  if (!again)
    behind->nbefore = 0;
  if (!again || behind->place.id == place)
    return;
  behind->nbefore += behind->nbefore < TEAM_BEHIND_PLACES;
  memmove(&behind->before[1], &behind->before[0],
          (behind->nbefore - 1) * sizeof(behind->before[0]));
  behind->before[0] = behind->place;
}

bool team_stand_behind(struct team *team, const struct posts *posts, bool in_stream, bool strict) {
  struct team_behind *behind = &team->behind;
  team_catch_up(team);
  bool again = team_is_behind(team);
  uint32_t loop = again ? behind->loop : place_of_last(team);
  if (!peers_announce(team->peers, posts, team->head, own_place(team, loop)))
    return false;
  keep_before(behind, again, posts->place);
  behind->some = true;
  behind->reals = team->reals;
  behind->loop = loop;
  behind->ahead = behind->was_ahead = behind->goes_on = behind->told = false;
  behind->strict = strict;
  behind->in_order = in_stream || shares_communicator(team, posts->members[0].comm);
  if (!peers_place(team->peers, posts->place, &behind->place))
    behind->place = (struct place){.id = posts->place};
  team_tell(team);
  return *calm_at(team, posts->place) < TEAM_STEADY_ROUNDS;
}

void team_hold(struct team *team) {
  team->behind.held = true;
  peers_hold(team->peers);
  log_say_awaits(team->own, true);
}

bool team_has_left_together(struct team *team) {
  return team_look_behind(team) == STAND_LEFT && !peers_are_asked_inside(team->peers);
}

void team_release(struct team *team, bool left) {
  uint32_t *calm = calm_at(team, team->behind.place.id);
  *calm = team->behind.was_ahead ? 0 : *calm + 1;
  team->behind.held = false;
  peers_release(team->peers, left && !team->behind.goes_on);
  log_say_awaits(team->own, false);
  team_expect_nothing(team);
}

static bool stands_in(const struct team *team, const struct place *place) {
  const struct known_place *loop = team_known_place(team, team->behind.loop);
  return loop != NULL && place != NULL && place->nnodes != 0 &&
         !place_leaves_loop(&loop->place, place);
}

bool team_stands_in_left(const struct team *team, struct unit unit) {
  const struct known_place *known = team_known_place(team, unit_place(unit));
  return known != NULL && stands_in(team, &known->place);
}

/* Whether it stands in a loop that this rank has passed by since it issued a unit for real. Who
 * claims something may have passed that by as well: what it has passed before is of a round before,
 * then. */
static bool is_skipped(const struct team *team, const struct place *place) {
  const struct team_behind *behind = &team->behind;
  const struct place *to = &behind->place;
  for (uint32_t i = 0; i < behind->nbefore; to = &behind->before[i++]) {
    if (!behind->held && is_between(&team->claim.own_place, &behind->before[i], to))
      return false;
    if (is_between(place, &behind->before[i], to))
      return true;
  }
  return false;
}

/* Whether it stands in a loop that this rank has passed by before it announced anything. */
static bool is_skipped_first(const struct team *team, const struct place *place) {
  const struct team_behind *behind = &team->behind;
  const struct place *last = own_place(team, behind->loop);
  const struct place *first =
      behind->nbefore == 0 ? &behind->place : &behind->before[behind->nbefore - 1];
  return behind->held && last != NULL && place != NULL && is_between(place, last, first);
}

/* A unit that another rank claims, or has issued, at our index. */
struct their_unit {
  uint64_t hash;
  uint32_t place, text; /* as far as its rank says; 0: it does not */
  const struct plane_log *log;
};

static uint32_t id_of_their(const struct team *team, const struct their_unit *unit) {
  const struct known_unit *known =
      unit_table_known(team->table, unit_table_find_hash(team->table, unit->hash));
  uint32_t id = known == NULL ? 0 : unit_place(known_unit(known));
  return id != 0 ? id : unit->place;
}

/* Where it stands, as its rank says, if nobody has been there before. NULL: it does not say that.
 */
static const struct place *read_their(struct team *team, const struct their_unit *unit,
                                      struct text *text) {
  return unit->text != 0 && team_read_text(team, unit->log, unit->text, text) == READ_UNIT &&
                 text->hash == unit->hash
             ? text->place
             : NULL;
}

static enum peers_stand stand_of_their(struct team *team, const struct their_unit *unit) {
  struct text text;
  const struct known_place *known = team_known_place(team, id_of_their(team, unit));
  const struct place *place = known != NULL ? &known->place : read_their(team, unit, &text);
  return stands_in(team, place) || is_skipped_first(team, place) ? STAND_AHEAD : STAND_LEFT;
}

static enum peers_stand skipped_of_their(struct team *team, const struct their_unit *unit) {
  struct text text;
  const struct place *place = own_place(team, id_of_their(team, unit));
  if (place == NULL)
    place = read_their(team, unit, &text);
  return place != NULL && is_skipped(team, place) ? STAND_AHEAD : STAND_LEFT;
}

/* What a rank does at our index. STAND_AHEAD: *unit is it. */
static enum peers_stand find_their_unit(const struct team *team, uint32_t rank,
                                        struct their_unit *unit) {
  const struct plane_log *log = log_of(team->plane, rank);
  *unit = (struct their_unit){.log = log};
  if (log_passed(log) > team->head) {
    struct log_entry entry = log_entry(log, team->head);
    struct unit expected;
    if (!(entry.flags & ENTRY_REAL) || (entry.flags & ENTRY_NO_UNIT))
      return STAND_LEFT;
    bool known = !(entry.flags & ENTRY_EXPECTED) ||
                 unit_table_get(team->table, team->symbol_expected, &expected);
    if (known)
      unit->hash = entry.flags & ENTRY_EXPECTED ? unit_hash(expected) : entry.hash;
    unit->text = log_text(log, team->head);
    return known ? STAND_AHEAD : STAND_LEFT;
  }
  struct log_claim claim;
  if (!log_read_claim(log, team->head, &claim))
    return STAND_OPEN;
  if ((claim.flags & CLAIM_YIELD) || claim.hash == 0)
    return STAND_LEFT;
  unit->hash = claim.hash;
  unit->place = claim.place;
  unit->text = claim.text;
  return STAND_AHEAD;
}

static enum peers_stand stand_of_unit(void *context, uint32_t rank) {
  struct their_unit unit;
  enum peers_stand stand = find_their_unit(context, rank, &unit);
  return stand == STAND_AHEAD ? stand_of_their(context, &unit) : stand;
}

static enum peers_stand stand_of_skipped(void *context, uint32_t rank) {
  struct their_unit unit;
  enum peers_stand stand = find_their_unit(context, rank, &unit);
  return stand == STAND_AHEAD ? skipped_of_their(context, &unit) : stand;
}

/* Another rank goes on in the loop, at our index. Whether this one waits for it. */
static bool waits_for(struct team *team, uint32_t rank) {
  struct team_behind *behind = &team->behind;
  if (behind->goes_on)
    return false;
  bool same = behind->in_order;
  if (peers_are_ordered(team->peers, same) || behind->told)
    return true;
  behind->told = true;
  behind->goes_on = !same;
  const struct known_place *loop = team_known_place(team, behind->loop);
  team->telling.guessed = true;
  team->telling.guess = (struct team_guess){
      .kind = same ? GUESS_BEHIND : GUESS_BESIDE, .rank = rank, .other = team->plane->rank};
  team_copy_text(team->telling.guess.place, loop == NULL ? NULL : &loop->place);
  team_copy_text(team->telling.guess.other_place, &behind->place);
  if (behind->strict)
    team_fail(team, FAILURE_UNSURE, rank, team->head);
  return same;
}

enum peers_stand team_look_behind(struct team *team) {
  struct team_behind *behind = &team->behind;
  const struct standing standing = {stand_of_unit, stand_of_skipped, team->behind.nbefore != 0,
                                    team};
  uint32_t rank = team->plane->rank;
  enum peers_stand stand = peers_stand(team->peers, team->head, &standing, &rank);
  if (stand == STAND_AHEAD && !waits_for(team, rank))
    stand = STAND_LEFT;
  behind->ahead = stand == STAND_AHEAD;
  behind->was_ahead |= behind->ahead;
  return stand;
}
