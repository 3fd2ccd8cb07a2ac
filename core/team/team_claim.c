/* What a rank requests at its index, as the others see it (team.h): claims, yields, and that it
 * answers what is posted. */
#include <assert.h>

#include "core/team/settle.h"
#include "core/team/team_private.h"

static uint64_t unit_bytes(struct unit unit) {
  /* Not the same on all ranks. Where nothing else tells it goes first, as what is outside of the
   * sequence does. */
  if (unit_is_exchange(unit))
    return UINT64_MAX;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    uint32_t size = datatype_size(unit.members[i].datatype);
    bytes += unit.members[i].count * (size == 0 ? 1 : size);
  }
  return bytes;
}

bool team_say_answering(struct team *team) {
  if (!peers_are_tracked(team->plane) || log_answering(team->own) == team->head + 1 ||
      !team_is_answering(team))
    return false;
  log_say_answering(team->own, team->head);
  return true;
}

/* Writes a claim, with what this rank has issued so far. */
static void write_claim(struct team *team, struct log_claim claim) {
  claim.reals = team->reals;
  claim.last_real = team->run_real ? team->head : team->head - team->shadows;
  claim.rounds = place_rounds_refuse(claim.rounds, team->places.levels);
  log_write_claim(team->own, &claim);
}

/* In which rounds this rank stands where it claims; of another place that its unit has been taken
 * for those of the loops around both. */
static place_rounds_t rounds_claimed(const struct team *team) {
  place_rounds_t rounds = team->claim.hash == 0 ? 0 : team->claim.own_place.rounds;
  if (team->claim.hash != team->claim.own_hash)
    rounds =
        place_rounds_only(rounds, place_loops_around(&team->claim.own_place, &team->claim.place));
  return place_rounds_refuse(rounds, team->places.levels);
}

/* A reader that looked before sees another index afterwards, and looks again. */
void team_show_claim(struct team *team) {
  if (!team->claim.text_written) {
    if (team->claim.unit.nmembers != 0 && !team_write_text(team))
      return;
    team->claim.text_written = true;
  }
  if (team_is_yielding(team) || team->claim.behind)
    return;
  if (team->claim.written && log_claims(team->own, team->head))
    return;
  uint32_t flags = (team->claim.flags & ~(uint32_t)(CLAIM_APART | CLAIM_EVEN)) |
                   (team_expects_another(team) ? CLAIM_APART : 0) |
                   (team->shadows_total == 0 ? CLAIM_EVEN : 0);
  uint32_t epoch = team_epoch(team); /* of LEAVE none */
  place_rounds_t rounds = rounds_claimed(team);
  if (!team->claim.written || flags != team->claim.flags || epoch != team->claim.epoch ||
      rounds != team->claim.rounds) {
    team->claim.flags = flags;
    team->claim.epoch = epoch;
    team->claim.rounds = rounds;
    write_claim(team, (struct log_claim){.hash = team->claim.hash,
                                         .signature = team->claim.signature,
                                         .mark = unit_mark(team->claim.unit),
                                         .bytes = unit_bytes(team->claim.unit),
                                         .text = team->claim.text,
                                         .flags = team->claim.flags,
                                         .epoch = team->claim.epoch,
                                         .rounds = rounds,
                                         .place = team->claim.place.id});
  }
  team->claim.written = true;
  /* Said before the claim: whoever sees that this rank is parked knows whether it answers. With an
   * exchange it is said after the claim, with the next look: whoever sees that this rank answers
   * knows that it may send, too. */
  if (!unit_is_exchange(team->claim.unit))
    (void)team_say_answering(team);
  log_claim(team->own, team->head);
  /* Others wait until all have come to their index. */
  if (peers_are_tracked(team->plane))
    team_tell(team);
}

void team_yield(struct team *team) {
  assert(!team_is_yielding(team) && !team->claim.open);
  (void)team_say_answering(team);
  team_leave_yield(team, 0);
}

void team_leave_yield(struct team *team, uint32_t flags) {
  team_catch_up(team);
  write_claim(team, (struct log_claim){.flags = CLAIM_YIELD | flags});
  team->yielded = team->head + 1;
  team_expect_nothing(team);
  log_claim(team->own, team->head);
  team_tell(team);
}

void team_stay_behind(struct team *team) {
  (void)team_say_answering(team);
  team->claim.written = false;
  team_leave_yield(team, 0);
}

void team_step_outside(struct team *team) {
  team->claim.open = false;
  if (!team_is_yielding(team)) /* otherwise nobody has seen it */
    team->outside = (struct team_outside){team->head + 1, team->claim.hash, team->claim.text};
  team->yielded = team->head + 1;
  team_expect_nothing(team);
  team_stop_answering(team);
}

static bool copy_looks(struct team *team, struct unit unit, const look_t *looks) {
  bool any = false;
  if (looks == NULL || unit.nmembers > UNIT_MEMBERS_MAX)
    return false;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    any |= looks[i] != 0;
  memcpy(team->claim.looks, looks, unit.nmembers * sizeof(*looks));
  return any;
}

void team_claim_looking(struct team *team, struct unit unit, uint32_t flags,
                        const struct place *place, const look_t *looks) {
  assert(!team->claim.open);
  team_catch_up(team);
  team->ahead.depth = 0;
  team->claim.unit = unit;
  if (unit.nmembers != 0 && unit.nmembers <= UNIT_MEMBERS_MAX) {
    team->claim.unit = team_class(team, unit, team->claim.members);
    if (team->claim.unit.members == unit.members)
      memcpy(team->claim.members, unit.members, unit.nmembers * sizeof(*unit.members));
    team->claim.unit.members = team->claim.members;
  }
  team->claim.own_hash = unit.nmembers == 0 ? 0 : unit_hash(unit);
  team->claim.hash = unit.nmembers == 0 ? 0 : unit_hash(team->claim.unit);
  team->claim.signature = unit.nmembers == 0 ? 0 : unit_signature(unit);
  team_class_place(team, team->claim.unit, place, &team->claim.place);
  place_clean_text(&team->claim.place);
  team->claim.flags = flags | (team->claim.hash == team->claim.own_hash ? CLAIM_OWN_PLACE : 0);
  team->claim.own_place = (struct place){.id = unit_place(unit)};
  if (place != NULL)
    team->claim.own_place = *place;
  team->places.rounds = team->claim.own_place.rounds;
  (void)place_table_add(team->places.own, &team->claim.own_place);
  team->claim.text = 0;
  team->claim.looks_known = copy_looks(team, unit, looks);
  team->claim.open = true;
  team->claim.written = team->claim.text_written = false;
  team->claim.for_room =
      team->crowded == team->head + 1 && unit.nmembers != 0 && !(flags & CLAIM_TOGETHER);
  team->crowded = 0;
  team->claim.left = team->claim.passed = false;
  team->claim.behind = unit.nmembers != 0 && team_is_behind(team) && team_is_answering(team);
  team->claim.clock = CLOCK_UNKNOWN;
  team->claim.posts = NULL;
  if (team->claim.for_room || team->claim.behind)
    log_say_awaits(team->own, true);
  else
    team_show_claim(team);
  /* From here on this rank waits for those who may still sleep through what it has committed. */
  if (plane_is_napping(team->shared))
    team_tell(team);
}

void team_claim(struct team *team, struct unit unit, uint32_t flags, const struct place *place) {
  team_claim_looking(team, unit, flags, place, NULL);
}

void team_claim_posts(struct team *team, const struct posts *posts) {
  team->claim.posts = posts;
}

void team_claim_leave(struct team *team) {
  team_claim(team, (struct unit){NULL, 0}, 0, NULL);
}

void team_give_up(struct team *team) {
  team->claim.open = false;
  log_withdraw_claim(team->own);
  team_stop_answering(team);
}
