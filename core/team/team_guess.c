/* What is agreed on without knowledge, and is to be told (team.h). */
#include "core/team/team_private.h"

bool team_is_told(struct team *team) {
  return plane_is_told(team->shared, team->head);
}

/* The same of what this rank alone knows: that somebody has told of a later index says nothing of
 * this one. */
static bool is_told_here(struct team *team) {
  return team_is_told(team) && plane_last_told(team->shared) == team->head + 1;
}

void team_copy_text(char text[PLACE_TEXT_MAX], const struct place *place) {
  memset(text, 0, PLACE_TEXT_MAX);
  if (place != NULL)
    memcpy(text, place->text, PLACE_TEXT_MAX - 1);
}

/* Whether two places that this rank, or another, comes to have become one unit, and it is a guess;
 * or after ranks have been uneven: a collective that each rank comes to by its own count, say, may
 * have met another. */
static bool is_merged_in_doubt(struct team *team, struct unit unit, uint64_t hash, uint32_t flags) {
  bool uneven = team->telling.was_uneven || team->shadows_total != 0 ||
                !(flags & (ENTRY_ALL | ENTRY_EXPECTED));
  return hash != team->claim.own_hash && !team_has_alias(team, hash) && !team_is_split(unit) &&
         (uneven || team_is_doubtful(team, unit, hash, flags));
}

/* Whether the rank has joined, and what it waits for has come without all having been asked; and it
 * cannot be seen whether that is the point of the program where it waits. */
static bool is_hidden(struct team *team, struct unit unit, uint32_t flags) {
  const struct known_place *known = team_known_place(team, unit_place(unit));
  bool seen = known != NULL && known->place.nnodes != 0 && team->claim.own_place.nnodes != 0 &&
              (known->place.id == team->claim.own_place.id ||
               place_relate(&known->place, &team->claim.own_place) != PLACE_UNRELATED);
  return !seen && !team->telling.doubted && team->shadows != 0 && !(flags & ENTRY_ALL);
}

bool team_doubt(struct team *team, struct unit unit, uint64_t hash, uint32_t flags) {
  bool hidden = unit_may_have_place(unit) && is_hidden(team, unit, flags);
  if (!hidden && !(unit_may_have_place(unit) && is_merged_in_doubt(team, unit, hash, flags)))
    return false;
  const struct known_place *known = team_known_place(team, unit_place(unit));
  if (!is_told_here(team)) {
    team->telling.doubted |= hidden;
    team->telling.guessed = true;
  }
  team->telling.guess = (struct team_guess){.kind = GUESS_SAME,
                                            .rank = team->source,
                                            .other = team->plane->rank,
                                            .member = unit.members[0]};
  team_copy_text(team->telling.guess.place, known == NULL ? NULL : &known->place);
  team_copy_text(team->telling.guess.other_place, &team->claim.own_place);
  return true;
}

bool team_doubt_apart(struct team *team, struct unit unit, uint64_t hash, uint32_t flags) {
  const struct known_place *known = team_known_place(team, unit_place(unit));
  if (!team->claim.open || known == NULL || !team_may_be_mine(team, unit, hash, flags))
    return false;
  team->telling.guessed = true;
  team->telling.guess = (struct team_guess){.kind = GUESS_APART,
                                            .rank = team->source,
                                            .other = team->plane->rank,
                                            .member = team->claim.unit.members[0]};
  team_copy_text(team->telling.guess.place, &known->place);
  team_copy_text(team->telling.guess.other_place, &team->claim.own_place);
  return true;
}

bool team_doubt_passed(struct team *team, struct unit unit, uint32_t flags) {
  const struct known_place *before = team_known_place(team, team->places.last);
  const struct known_place *next = team_known_place(team, unit_place(unit));
  const struct place *stands = &team->claim.own_place;
  if (!(flags & ENTRY_EXPECTED) || !team->claim.open || team->claim.passed ||
      !unit_may_have_place(team->claim.unit) || before == NULL || next == NULL ||
      !place_goes_past(&before->place, &next->place, stands))
    return false;
  team->claim.passed = team->telling.guessed = true;
  team->telling.guess = (struct team_guess){.kind = GUESS_ORDER,
                                            .rank = team->source,
                                            .other = team->plane->rank,
                                            .member = team->claim.unit.members[0]};
  team_copy_text(team->telling.guess.place, &next->place);
  team_copy_text(team->telling.guess.other_place, stands);
  return true;
}

void team_tell_blind(struct team *team) {
  if (!team->claim.open || !(team->claim.flags & CLAIM_BLIND) || team->telling.blind)
    return;
  team->telling.blind = true;
  if (team->plane->nranks == 1 || team_is_told(team))
    return;
  team->telling.guessed = true;
  team->telling.guess = (struct team_guess){
      .kind = GUESS_BLIND, .rank = team->plane->rank, .member = team->claim.unit.members[0]};
  team_copy_text(team->telling.guess.place, &team->claim.own_place);
}

void team_tell_hidden(struct team *team, struct unit unit) {
  const struct known_place *known = team_known_place(team, unit_place(unit));
  bool hidden = team->claim.open && unit_may_have_place(team->claim.unit) &&
                team->claim.own_place.nnodes == 0 && (known == NULL || known->place.nnodes == 0);
  if (!hidden || team->telling.doubted || team_is_told(team))
    return;
  team->telling.doubted = team->telling.guessed = true;
  team->telling.guess = (struct team_guess){.kind = GUESS_HIDDEN,
                                            .rank = team->source,
                                            .other = team->plane->rank,
                                            .member = team->claim.unit.members[0]};
}
