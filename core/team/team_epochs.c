/* Whether ranks are in step: in the same round of the outermost loop of their program (team.h).
 *
 * Some loops say it themselves (place_rounds.h): a rank says where it began its round.
 *
 * A point that each round comes to once is a clock of rounds: each rank counts how often it has
 * issued it for real, and says so where it claims it. Ranks that guessed wrong once, and are a
 * round apart from then on, are told by it.
 *
 * Code does not show all ways: a call through a pointer may go elsewhere in another round, an
 * exception or longjmp may skip the point, and the loop may be gone into again and again from where
 * nobody looks (a thread for each epoch). So each rank looks whether its own counts fit each other,
 * and says nothing where they do not. */
#include "core/team/team_private.h"

/* How often this rank has issued something outside the outermost loop around a place. */
static uint32_t team_outside(const struct team *team, const struct place *place) {
  uint32_t at = 0, times = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (!place_shares_epoch(place, &other->place))
      times += other->epochs;
  return times;
}

void team_count_epoch(struct team *team, uint32_t place, uint32_t times) {
  struct known_place *known = team_known_place(team, place);
  if (known == NULL)
    return;
  if (known->epochs == 0 && place_is_of_each_epoch(&known->place))
    known->epochs_outside = team_outside(team, &known->place);
  known->epochs += times;
}

/* Of a rank that stands at a point of each round: whether it has come to another point of the loop
 * as often as it should. It has no mark at the beginning of some rounds. What is in no loop within comes at most once in a round. */
static bool team_fits(const struct known_place *known, const struct known_place *other) {
  const struct place *place = &other->place;
  if (other == known || place_is_begin(place) || !place_shares_epoch(&known->place, place) ||
      !place_is_in_one_loop(place))
    return true;
  int32_t ahead = (int32_t)(other->epochs - known->epochs);
  int32_t least = place_goes_first(place, &known->place), most = 1;
  if (place_goes_first(&known->place, place))
    most = 0;
  return ahead <= most && (ahead >= least || !place_is_of_each_epoch(place));
}

/* The same of all other points; and whether it has stayed in the loop since it first came here. */
static bool fits_other_counts(const struct team *team, const struct known_place *known) {
  uint32_t at = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (!team_fits(known, other))
      return false;
  return known->epochs == 0 || team_outside(team, &known->place) == known->epochs_outside;
}

uint32_t team_epoch(struct team *team) {
  const struct known_place *known = team_known_place(team, unit_place(team->claim.unit));
  if (!unit_may_have_place(team->claim.unit) || unit_is_round(team->claim.unit) || known == NULL ||
      !known->common || !team->telling.was_uneven || team->claim.clock == CLOCK_NONE ||
      !place_is_of_each_epoch(&known->place))
    return 0;
  if (team->claim.clock == CLOCK_UNKNOWN)
    team->claim.clock = fits_other_counts(team, known) ? CLOCK_FITS : CLOCK_NONE;
  return team->claim.clock == CLOCK_FITS ? known->epochs + 1 : 0;
}

void team_begin_round(struct team *team, uint32_t number) {
  team->places.begins = plane_is_mixed(team->shared) ? 0 : number;
}

bool team_begins_round(const struct team *team) {
  return team->places.begins != 0;
}

/* Where a round has begun, as a word: at which place, and of how many; its number; and the low bits of the index. */
enum { INDEX_BITS = 22, ROUND_BITS = 10, WHICH_SHIFT = INDEX_BITS + ROUND_BITS };
_Static_assert(PLACE_EPOCHS_MAX < 1u << ROUND_BITS, "all numbers of rounds");

static uint64_t begun_here(const struct team *team) {
  const struct place *place = &team->claim.own_place;
  struct place_round round = place_epoch(place->rounds);
  uint64_t which = place->id ^ round.total * UINT32_C(0x9e3779b1);
  return which << WHICH_SHIFT | (uint64_t)round.number << INDEX_BITS |
         (team->head & ((UINT64_C(1) << INDEX_BITS) - 1));
}

static uint32_t begun_round(uint64_t begun) {
  return (uint32_t)(begun >> INDEX_BITS) & ((1u << ROUND_BITS) - 1);
}

/* The index next to the head of which these are the low bits. */
static uint64_t begun_index(const struct team *team, uint64_t begun) {
  uint32_t behind = (uint32_t)(team->head - begun) << (32 - INDEX_BITS);
  return team->head - (uint64_t)((int32_t)behind >> (32 - INDEX_BITS));
}

/* Whether the round that begins here is not the other rank's: it has begun this one, or a later one, elsewhere, or claims the same
 * here in an earlier one. */
static bool is_in_another(const struct team *team, uint32_t rank, uint32_t *round,
                          uint64_t *begun) {
  const struct plane_log *log = log_of(team->plane, rank);
  uint64_t own = begun_here(team);
  struct log_claim claim;
  *begun = log_begun(log);
  *round = begun_round(*begun);
  if (*begun >> WHICH_SHIFT == own >> WHICH_SHIFT && *begun != own && *round >= begun_round(own))
    return true;
  struct place_round epoch = place_epoch(team->claim.own_place.rounds);
  if (!log_read_claim(log, team->head, &claim) || claim.hash != team->claim.hash)
    return false;
  struct place_round other = place_epoch(claim.rounds);
  *begun = 0;
  *round = other.number;
  return other.total == epoch.total && other.number < epoch.number;
}

bool team_round_begun(struct team *team) {
  uint32_t rank = 0, round = 0;
  uint64_t begun = 0;
  if (team->places.begins == 0)
    return false;
  team->places.begins = 0;
  log_say_begun(team->own, begun_here(team));
  if (team->owner.may_mix)
    return false;
  while (rank < team->plane->nranks &&
         (rank == team->plane->rank || !is_in_another(team, rank, &round, &begun)))
    rank++;
  if (rank == team->plane->nranks)
    return false;
  bool told = plane_say_mixed(team->shared);
  team->telling.guessed |= !told;
  team->telling.guess =
      (struct team_guess){.kind = GUESS_MIXED,
                          .rank = team->plane->rank,
                          .other = rank,
                          .round = begun_round(begun_here(team)),
                          .other_round = round,
                          .begun = team->head,
                          .other_begun = begun == 0 ? 0 : begun_index(team, begun) + 1,
                          .member = team->claim.unit.members[0]};
  team_copy_text(team->telling.guess.place, &team->claim.own_place);
  return true;
}

bool team_counts_rounds(const struct team *team, const struct place *place) {
  uint32_t at = 0;
  for (const struct known_place *other;
       (other = place_table_next(team->places.table, &at)) != NULL;)
    if (other->counted && place_shares_epoch(place, &other->place))
      return true;
  return false;
}
