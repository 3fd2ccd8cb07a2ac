/* Places of a team's units (team.h, place.h).
 *
 * In the agreed sequence a unit has one place: that of whose unit it was. Ranks that come to it
 * from another place of their own remember what that has been taken for, and are expected there as
 * well. What is known of places is told from the sequence alone, so that all ranks know the same.
 */
#include "core/team/settle.h"
#include "core/team/team_private.h"

struct known_place *team_known_place(const struct team *team, uint32_t id) {
  return place_table_find(team->places.table, id);
}

/* ---- what places of this rank are taken for ---- */

static struct team_alias *find_alias(struct team *team, uint64_t own, uint64_t taken) {
  for (uint32_t i = 0; i < TEAM_ALIASES; i++)
    if (team->places.aliases[i].own == own &&
        (taken == 0 || team->places.aliases[i].taken == taken))
      return &team->places.aliases[i];
  return NULL;
}

/* Whether the second of two alone stands in a loop: a rank comes to it again, and not to the first.
 */
static bool is_in_front(const struct place *place, const struct place *in_loop) {
  return place_leaves_loop(in_loop, place) && !place_leaves_loop(place, in_loop);
}

/* The only unit that one of this rank has been taken for. One that is in the sequence itself is
 * taken for nothing; nor is one for a unit whose place is forgotten, since nobody could be told
 * where that is. */
static const struct team_alias *only_alias(struct team *team, uint64_t own) {
  const struct team_alias *alias = find_alias(team, own, 0);
  if (alias == NULL || unit_table_find_hash(team->table, own) != SYMBOL_NONE)
    return NULL;
  for (uint32_t i = 0; i < TEAM_ALIASES; i++)
    if (team->places.aliases[i].own == own && &team->places.aliases[i] != alias)
      return NULL;
  const struct known_place *taken = team_known_place(team, alias->place),
                           *stands = place_table_find(team->places.own, alias->place_own);
  const struct known_unit *expected = unit_table_known(team->table, team->symbol_expected);
  bool is_expected = expected != NULL && expected->hash == alias->taken;
  if (taken == NULL ||
      (stands != NULL && !is_expected && is_in_front(&taken->place, &stands->place)))
    return NULL;
  return alias;
}

struct unit team_class(struct team *team, struct unit unit, struct member *members) {
  const struct team_alias *alias = NULL;
  if (team->places.naliases != 0 && unit_may_have_place(unit) && unit.nmembers <= UNIT_MEMBERS_MAX)
    alias = only_alias(team, unit_hash(unit));
  if (alias == NULL)
    return unit;
  memcpy(members, unit.members, unit.nmembers * sizeof(*members));
  members[0].number = alias->place;
  return (struct unit){members, unit.nmembers};
}

uint64_t team_class_hash(struct team *team, struct unit unit) {
  uint64_t own = unit_hash(unit);
  const struct team_alias *alias = team->places.naliases == 0 ? NULL : only_alias(team, own);
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

bool team_knows_exchange(struct team *team, struct unit exchange) {
  uint64_t own = unit_hash(exchange);
  return unit_table_find_hash(team->table, own) != SYMBOL_NONE ||
         team_class_hash(team, exchange) != own;
}

bool team_has_alias(struct team *team, uint64_t hash) {
  return find_alias(team, team->claim.own_hash, hash) != NULL;
}

/* Counts as far as it matters: whether a place is come to again and again. */
static void count_use(uint32_t *uses) {
  *uses += *uses < UINT32_MAX;
}

bool team_is_taken_for(struct team *team, struct unit unit, const struct known_unit *expected) {
  if (team->places.naliases == 0 || unit.nmembers != expected->nmembers ||
      !unit_may_have_place(unit))
    return false;
  uint64_t own = unit_hash(unit);
  if (unit_table_find_hash(team->table, own) != SYMBOL_NONE)
    return false;
  struct team_alias *alias = find_alias(team, own, expected->hash);
  if (alias != NULL)
    count_use(&alias->uses);
  return alias != NULL;
}

static void note_alias(struct team *team, struct unit unit, uint64_t hash) {
  struct team_alias *alias = find_alias(team, team->claim.own_hash, hash);
  if (alias == NULL) {
    alias = &team->places.aliases[team->places.naliases++ % TEAM_ALIASES];
    *alias = (struct team_alias){.own = team->claim.own_hash,
                                 .taken = hash,
                                 .place = unit_place(unit),
                                 .place_own = team->claim.own_place.id};
  }
  count_use(&alias->uses);
}

/* Whether this rank comes to a unit of G from a place of its own. */
static bool is_taken(const struct team *team, uint64_t hash) {
  for (uint32_t i = 0; i < TEAM_ALIASES && team->places.naliases != 0; i++)
    if (team->places.aliases[i].taken == hash)
      return true;
  return false;
}

void team_note_use(struct team *team, struct unit unit, uint64_t hash) {
  struct known_place *known = team_known_place(team, unit_place(unit));
  if (known != NULL && !is_taken(team, hash))
    count_use(&known->uses);
}

void team_note_issued(struct team *team, struct unit unit, uint64_t hash) {
  if (!unit_may_have_place(unit))
    return;
  if (team->claim.own_hash == hash)
    team_note_use(team, unit, hash);
  else if (team->claim.own_place.id != 0 && unit_place(unit) != 0)
    note_alias(team, unit, hash);
}

/* Rounds after a meeting in which what is not known of all ranks is asked. */
#define SHARED_ROUNDS 4u

static bool has_met_lately(const struct team *team) {
  return team->places.met_at != 0 &&
         team->head - team->places.met_at <=
             SHARED_ROUNDS * (uint64_t)learner_body_length(team->learner);
}

bool team_must_be_shared(const struct team *team, const struct known_place *known) {
  return has_met_lately(team) && (!known->common || (known->asked_at <= team->places.met_at &&
                                                     place_may_be_passed(&known->place)));
}

bool team_may_be_stood_at(const struct team *team) {
  const struct known_place *known;
  if (!has_met_lately(team))
    return false;
  for (uint32_t at = 0; (known = place_table_next(team->places.table, &at)) != NULL;)
    if (!known->shared)
      return true;
  return false;
}

/* How many units after the last one of a lone place it is asked for. */
#define LONE_UNITS 4096u

/* Whether ranks may be about to come to a place: not all of them have yet; or they have again and
 * again, and not all together since they last met. */
static bool may_be_come_to(const struct team *team, const struct known_place *known) {
  return !known->shared || (known->again && known->all_at <= team->places.met_at);
}

bool team_passes_lone_places(const struct team *team) {
  return team->places.lone_at != 0 && team->head - team->places.lone_at <= LONE_UNITS;
}

bool team_passes_by(const struct team *team, uint32_t before, const struct known_place *to) {
  const struct known_place *from = team_known_place(team, before), *other;
  bool lately = has_met_lately(team);
  bool asks = team_passes_lone_places(team) && team->head - team->places.asked_at >= TEAM_LONE_ROOM;
  if (from == NULL || !(lately || asks) || !place_goes_round(&from->place, &to->place))
    return false;
  for (uint32_t at = 0; (other = place_table_next(team->places.table, &at)) != NULL;)
    if (((lately && may_be_come_to(team, other)) || (asks && !other->shared)) &&
        place_passes_by(&from->place, &to->place, &other->place))
      return true;
  return false;
}

/* ---- what units stand where ---- */

static struct claimed team_at(const struct place *place, uint64_t hash, bool common) {
  return (struct claimed){
      .hash = hash, .signature = 1, .place = place->nnodes == 0 ? NULL : place, .common = common};
}

/* Whether two places of this rank's own program are two points of it. Not where it has come by
 * either of two branches to a loop that does the same. */
static bool are_apart(const struct team *team, const struct place *a, const struct place *b) {
  struct claimed x = team_at(a, 1, true), y = team_at(b, 2, true);
  x.even = y.even = team->shadows_total == 0 && !team->telling.was_uneven;
  return settle_is_distinct(&x, &y) && !place_are_twin_branches(a, b);
}

/* What is done once may be done in another way by other ranks, or elsewhere. */
#define OFTEN 2u

/* Whether this rank, which claims a unit, knows that one of equal signature is not that, since it
 * comes to it elsewhere in its own program. */
static bool comes_to_it_elsewhere(struct team *team, const struct known_place *known,
                                  uint64_t hash) {
  if (find_alias(team, team->claim.own_hash, hash) != NULL)
    return false;
  if (known != NULL && known->uses >= OFTEN)
    return are_apart(team, &team->claim.own_place, &known->place);
  uint32_t apart = 0;
  for (uint32_t i = 0; i < TEAM_ALIASES; i++) {
    const struct team_alias *alias = &team->places.aliases[i];
    if (alias->own == 0 || alias->taken != hash || alias->uses < OFTEN)
      continue;
    const struct known_place *own = place_table_find(team->places.own, alias->place_own);
    if (own == NULL || !are_apart(team, &team->claim.own_place, &own->place))
      return false;
    apart++;
  }
  return apart != 0;
}

bool team_comes_by_ways(const struct known_place *known) {
  return known != NULL && known->shared && !known->common;
}

/* Whether this rank may be the root that sends what others expect: settle_is_sent. */
static bool may_send(const struct team *team, const struct known_place *known) {
  return team_comes_by_ways(known) && (team->claim.flags & CLAIM_ROOT) && team->shadows_total == 0;
}

bool team_expects_another(struct team *team) {
  const struct known_unit *expected = unit_table_known(team->table, team->symbol_expected);
  if (expected == NULL || team->claim.hash == 0 || expected->hash == team->claim.hash)
    return false;
  struct unit unit = {expected->members, expected->nmembers};
  if (!unit_may_have_place(unit) || unit_signature(unit) != team->claim.signature)
    return false;
  const struct known_place *known = team_known_place(team, unit_place(unit));
  return !may_send(team, known) && comes_to_it_elsewhere(team, known, expected->hash);
}

/* What this rank claims. */
static struct claimed own_claim(struct team *team) {
  const struct known_place *known = team_known_place(team, team->claim.place.id);
  struct claimed own = team_at(known == NULL ? &team->claim.place : &known->place, team->claim.hash,
                               known != NULL && known->common);
  own.by_ways = team_comes_by_ways(known);
  return own;
}

/* Whether it is doubtful that two places are two ways to one unit, to which all ranks have come. */
static bool are_two_units(const struct place *a, const struct place *b) {
  struct claimed x = team_at(a, 1, false), y = team_at(b, 2, false);
  x.shared = true;
  return a->id != b->id && settle_is_doubtful(&x, &y);
}

/* The same of where this rank stands, and from where it has come to the unit before; and of that
 * unit, and what this one has been taken for. What stands in a row may be the rounds of a loop
 * elsewhere. */
static bool has_come_another_way(struct team *team, const struct known_place *known,
                                 uint64_t hash) {
  const struct place *stands = &team->claim.own_place;
  if (place_relate(stands, &known->place) == PLACE_OUTSIDE)
    return false;
  if (known->uses != 0 && are_two_units(stands, &known->place))
    return true;
  if (team->claim.place.id != stands->id && are_two_units(&team->claim.place, &known->place))
    return true;
  for (uint32_t i = 0; i < TEAM_ALIASES; i++) {
    const struct team_alias *alias = &team->places.aliases[i];
    const struct known_place *own =
        alias->taken != hash ? NULL : place_table_find(team->places.own, alias->place_own);
    if (own != NULL && are_two_units(stands, &own->place))
      return true;
  }
  return false;
}

bool team_is_doubtful(struct team *team, struct unit unit, uint64_t hash, uint32_t flags) {
  const struct known_place *known = team_known_place(team, unit_place(unit));
  const struct known_place *taken = team_known_place(team, team->claim.place.id);
  const struct known_place *own = team_known_place(team, team->claim.own_place.id);
  if (known == NULL)
    return false;
  /* Where it stands, not what that has been taken for. */
  struct claimed stands =
      team_at(&team->claim.own_place, team->claim.own_hash, own != NULL && own->common);
  struct claimed other = team_at(&known->place, hash, known->common);
  stands.shared = taken != NULL && taken->shared;
  /* Who settles knows where the claimants stand, and who of them is the root; who commits does so
   * from the place, mostly. */
  other.shared = known->shared && (flags & ENTRY_EXPECTED);
  stands.by_root = unit.members->root != ROOT_NONE && !(flags & ENTRY_EXPECTED) &&
                   (team->claim.flags & CLAIM_OWN_PLACE);
  return settle_is_doubtful(&stands, &other) || has_come_another_way(team, known, hash);
}

place_nodes_t team_clocks(const struct team *team, const struct place *place, bool even) {
  place_nodes_t clocks = 0;
  uint32_t at = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (other->common)
      clocks |= place_counts_rounds(&other->place, place);
  const struct known_place *last = team_known_place(team, team->places.last);
  if (even && last != NULL && place_leaves_loop(place, &last->place))
    clocks |= place_loop_around(place, &last->place);
  return clocks;
}

/* Whether no rank has shadowed anything before an entry of these flags. Where nobody was asked:
 * neither this one nor who has passed the index. */
static bool is_even(const struct team *team, uint32_t flags) {
  if (!(flags & ENTRY_EXPECTED))
    return (flags & ENTRY_EVEN) != 0;
  uint32_t rank = plane_first_past(team->plane, team->head);
  if (team->shadows_total != 0 || rank == team->plane->nranks)
    return false;
  const struct plane_log *log = log_of(team->plane, rank);
  return log_is_real(log, team->head) && log_run_start(log, team->head) == 0;
}

/* Of this rank's claim, and of a unit in G with these flags: what tells whether they are one in an
 * even program. Of one hash nothing needs to. */
static void add_even(struct team *team, struct claimed *own, struct claimed *other,
                     uint32_t flags) {
  if (own->hash == other->hash || own->place == NULL || other->place == NULL ||
      !is_even(team, flags))
    return;
  own->even = other->even = true;
  own->by_root = (team->claim.flags & CLAIM_ROOT) != 0;
  if (place_is_twin(own->place))
    own->clocks = team_clocks(team, own->place, true);
  if (place_is_twin(other->place))
    other->clocks = team_clocks(team, other->place, true);
}

bool team_may_be_mine(struct team *team, struct unit unit, uint64_t hash, uint32_t flags) {
  const struct known_place *known = team_known_place(team, unit_place(unit));
  if (team->claim.hash == 0 || !unit_may_have_place(unit) || known == NULL ||
      unit_signature(unit) != team->claim.signature)
    return false;
  struct claimed own = own_claim(team), other = team_at(&known->place, hash, known->common);
  other.by_ways = team_comes_by_ways(known);
  add_even(team, &own, &other, flags);
  /* Who commits it does so from the place, mostly. */
  own.any = team->claim.flags;
  other.any = CLAIM_OWN_PLACE;
  if (settle_is_same(&own, &other)) /* though not to this rank, which comes to it elsewhere */
    return own.even;
  return settle_may_be_one(&own, &other);
}

bool team_is_mine(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                  const struct place *place) {
  if (team->claim.hash == 0 || !unit_may_have_place(unit) ||
      unit_signature(unit) != team->claim.signature)
    return false;
  const struct known_place *known = team_known_place(team, unit_place(unit));
  const struct known_unit *expected = unit_table_known(team->table, team->symbol_expected);
  struct place nowhere = {.id = unit_place(unit)};
  place = known != NULL ? &known->place : place != NULL ? place : &nowhere;
  struct claimed own = own_claim(team);
  own.apart = (team->claim.flags & CLAIM_APART) ||
              ((flags & ENTRY_APART) && team_is_said_apart(team, own.hash));
  own.expected = expected != NULL && expected->hash == team->claim.hash;
  struct claimed other = team_at(place, hash, known != NULL && known->common);
  other.apart = (flags & ENTRY_APART) && team_is_said_apart(team, hash);
  other.expected = expected != NULL && expected->hash == hash;
  other.by_ways = team_comes_by_ways(known);
  /* Where it is the same to all, it may have been committed from elsewhere. */
  own.any = team->claim.flags;
  other.any = flags & ENTRY_ALL ? 0 : CLAIM_OWN_PLACE;
  other.by_root =
      (flags & ENTRY_ALL) && !(flags & ENTRY_EXPECTED) && unit.members->root != ROOT_NONE;
  add_even(team, &own, &other, flags);
  /* Of what nobody was asked for each rank decides by what it knows itself. */
  return settle_is_same(&own, &other) &&
         (!(flags & ENTRY_EXPECTED) || settle_is_sent(&own, &other) ||
          !comes_to_it_elsewhere(team, known, hash));
}

bool team_asks_for_ends(const struct team *team, const struct known_place *to) {
  uint64_t steady = (uint64_t)TEAM_STEADY_ROUNDS * learner_body_length(team->learner);
  return to->met || team->places.unsteady || team->head - team->places.steady_since < steady;
}

bool team_leaves_loop(const struct team *team, uint32_t before, const struct known_unit *next) {
  const struct known_place *from = team_known_place(team, before);
  const struct known_place *to = team_known_place(team, unit_place(known_unit(next)));
  return from != NULL && to != NULL && place_leaves_loop(&from->place, &to->place) &&
         team_asks_for_ends(team, to);
}

bool team_is_left(const struct team *team, struct unit unit, uint32_t flags) {
  const struct known_place *before = team_known_place(team, team->places.last);
  const struct known_place *end = team_known_place(team, unit_place(unit));
  const struct place *stands = &team->claim.own_place;
  return team->claim.open && (flags & ENTRY_EXPECTED) && team->run_real && before != NULL &&
         end != NULL && place_ends_loop(&end->place, &before->place) &&
         place_ends_loop(&end->place, stands) && !place_leaves_loop(&before->place, stands);
}

void team_learn_place(struct team *team, struct unit unit, uint32_t flags) {
  struct known_place *known = team_known_place(team, unit_place(unit));
  bool as_expected = (flags & ENTRY_ALL) && !(flags & (ENTRY_DEVIATION | ENTRY_MEETING));
  if (!(flags & ENTRY_EXPECTED) && !as_expected)
    team->places.steady_since = team->head;
  if (!(flags & ENTRY_EXPECTED))
    team->places.asked_at = team->head;
  team->telling.was_uneven |=
      !(flags & (ENTRY_EXPECTED | ENTRY_ALL)) || (flags & ENTRY_MEETING) != 0;
  if (known == NULL)
    return;
  if (flags & ENTRY_MEETING)
    team->places.met_at = team->head;
  known->again |= known->common && (flags & ENTRY_COMMON) != 0;
  known->common |= (flags & ENTRY_COMMON) != 0;
  known->shared |= (flags & ENTRY_ALL) != 0;
  if (flags & ENTRY_ALL)
    known->all_at = team->head;
  if (!known->shared)
    team->places.lone_at = team->head;
  if (!(flags & ENTRY_EXPECTED))
    known->asked_at = team->head;
  if ((flags & ENTRY_COUNTED_WITHIN) || ((flags & ENTRY_COUNTED) && known->counted == 0))
    known->counted = flags & ENTRY_COUNTED_WITHIN ? 2 : 1;
  known->met |= (flags & ENTRY_MEETING) != 0;
  if (known->place.nnodes != 0)
    team->places.last = known->place.id;
}
