/* Places of a team's units (team.h, place.h).
 *
 * In the agreed sequence a unit has one place: that of whose unit it was. Ranks that come to it
 * from another place of their own remember what that has been taken for, and are expected there as
 * well. What is known of places is told from the sequence alone, so that all ranks know the same.
 */
#include "core/settle.h"
#include "core/team_private.h"

/* A loop that has gone round so often in the same way, with nobody waiting, that its end needs no
 * meeting: the buckets of an iteration, rather than the batches of an epoch. */
#define STEADY_ROUNDS 64u

struct known_place *team_known_place(const struct team *team, uint32_t id) {
  return place_table_find(team->places, id);
}

/* ---- what places of this rank are taken for ---- */

static const struct team_alias *find_alias(const struct team *team, uint64_t own, uint64_t taken) {
  for (uint32_t i = 0; i < TEAM_ALIASES; i++)
    if (team->aliases[i].own == own && (taken == 0 || team->aliases[i].taken == taken))
      return &team->aliases[i];
  return NULL;
}

/* The only unit that one of this rank has been taken for. One that is in the sequence itself is
 * taken for nothing; nor is one for a unit whose place is forgotten, since nobody could be told
 * where that is. */
static const struct team_alias *only_alias(const struct team *team, uint64_t own) {
  const struct team_alias *alias = find_alias(team, own, 0);
  if (alias == NULL || unit_table_find_hash(team->table, own) != SYMBOL_NONE)
    return NULL;
  for (uint32_t i = 0; i < TEAM_ALIASES; i++)
    if (team->aliases[i].own == own && &team->aliases[i] != alias)
      return NULL;
  return team_known_place(team, alias->place) == NULL ? NULL : alias;
}

struct unit team_class(const struct team *team, struct unit unit, struct member *members) {
  const struct team_alias *alias = NULL;
  if (team->naliases != 0 && unit_may_have_place(unit) && unit.nmembers <= UNIT_MEMBERS_MAX)
    alias = only_alias(team, unit_hash(unit));
  if (alias == NULL)
    return unit;
  memcpy(members, unit.members, unit.nmembers * sizeof(*members));
  members[0].number = alias->place;
  return (struct unit){members, unit.nmembers};
}

uint64_t team_class_hash(const struct team *team, struct unit unit) {
  uint64_t own = unit_hash(unit);
  const struct team_alias *alias = team->naliases == 0 ? NULL : only_alias(team, own);
  return alias == NULL ? own : alias->taken;
}

void team_class_place(const struct team *team, struct unit class, const struct place *own,
                      struct place *place) {
  uint32_t id = unit_place(class);
  const struct known_place *known = team_known_place(team, id);
  if (known != NULL)
    *place = known->place;
  else if (own != NULL && own->id == id)
    *place = *own;
  else
    *place = (struct place){.id = id};
}

bool team_is_taken_for(const struct team *team, struct unit unit,
                       const struct known_unit *expected) {
  if (team->naliases == 0 || unit.nmembers != expected->nmembers || !unit_may_have_place(unit))
    return false;
  uint64_t own = unit_hash(unit);
  return unit_table_find_hash(team->table, own) == SYMBOL_NONE &&
         find_alias(team, own, expected->hash) != NULL;
}

void team_note_alias(struct team *team, struct unit unit, uint64_t hash) {
  if (!unit_may_have_place(unit) || find_alias(team, team->claim_own, hash) != NULL)
    return;
  team->aliases[team->naliases++ % TEAM_ALIASES] =
      (struct team_alias){team->claim_own, hash, unit_place(unit)};
}

/* ---- what units stand where ---- */

static struct claimed describe(const struct team *team, uint64_t hash, const struct place *place) {
  const struct known_place *known = team_known_place(team, place->id);
  place = known == NULL ? place : &known->place;
  return (struct claimed){.hash = hash,
                          .signature = team->claim_signature,
                          .place = place->nnodes == 0 ? NULL : place,
                          .common = known != NULL && known->common};
}

bool team_is_mine(struct team *team, struct unit unit, uint64_t hash, const struct place *place) {
  if (team->claim_hash == 0 || !unit_may_have_place(unit) ||
      unit_signature(unit) != team->claim_signature)
    return false;
  struct place nowhere = {.id = unit_place(unit)};
  struct claimed own = describe(team, team->claim_hash, &team->claim_place);
  struct claimed other = describe(team, hash, place == NULL ? &nowhere : place);
  return settle_is_same(&own, &other);
}

bool team_leaves_loop(const struct team *team, uint32_t before, const struct known_unit *next) {
  const struct known_place *from = team_known_place(team, before);
  const struct known_place *to =
      team_known_place(team, unit_place((struct unit){next->members, next->nmembers}));
  uint64_t steady = (uint64_t)STEADY_ROUNDS * learner_body_length(team->learner);
  return from != NULL && to != NULL && place_leaves_loop(&from->place, &to->place) &&
         (to->met || team->head - team->steady_since < steady);
}

void team_learn_place(struct team *team, struct unit unit, uint32_t flags) {
  struct known_place *known = team_known_place(team, unit_place(unit));
  bool as_expected = (flags & ENTRY_ALL) && !(flags & (ENTRY_DEVIATION | ENTRY_MEETING));
  if (!(flags & ENTRY_EXPECTED) && !as_expected)
    team->steady_since = team->head;
  if (known == NULL)
    return;
  known->common |= (flags & ENTRY_COMMON) != 0;
  known->met |= (flags & ENTRY_MEETING) != 0;
  if (known->place.nnodes != 0)
    team->place_last = known->place.id;
}
