/* Claims of different teams against each other (overlap.h): what ranks have published of them, and
 * the rule of who goes first. */
#include <stddef.h>

#include "core/overlap/overlap_private.h"
#include "core/team/team_private.h"

static int overlap_claims_order(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

bool overlap_goes_before(const struct overlap_claim *a, const struct overlap_claim *b,
                         bool *guess) {
  int by;
  *guess = false;
  if ((by = overlap_claims_order(b->leave, a->leave)) != 0)
    return by > 0;
  if ((by = overlap_compare_loops(a, b)) != 0)
    return by > 0;
  if ((by = overlap_claims_order(a->predicted, b->predicted)) != 0)
    return by > 0;
  if ((by = overlap_claims_order(a->recent, b->recent)) != 0)
    return by > 0;
  if ((by = overlap_claims_order(a->expected, b->expected)) != 0)
    return by > 0;
  if ((by = overlap_claims_order(a->seen, b->seen)) != 0)
    return by > 0;
  *guess = !a->leave;
  if ((by = place_order(&a->place, &b->place, NULL)) != 0)
    return by > 0;
  if ((by = overlap_claims_order(a->bytes, b->bytes)) != 0)
    return by > 0;
  return a->identity < b->identity;
}

int overlap_compare_loops(const struct overlap_claim *a, const struct overlap_claim *b) {
  return place_relate(&a->place, &b->place) == PLACE_OUTSIDE
             ? place_order(&a->place, &b->place, NULL)
             : 0;
}

/* Where a claim's unit stands: as the sequence has it, or as its rank has written. */
static void read_place(struct team *team, const struct plane_log *log,
                       const struct log_claim *claim, struct place *place) {
  const struct known_place *known = team_known_place(team, claim->place);
  struct text text;
  if (known != NULL)
    *place = known->place;
  else if (claim->place != 0 && log == team->own)
    *place = team->claim.place;
  else if (claim->place != 0 && team_read_text(team, log, claim->text, &text) == READ_UNIT &&
           text.place != NULL)
    *place = *text.place;
}

bool overlap_read_claim(struct team *team, uint32_t rank, struct overlap_claim *claim) {
  const struct plane_log *log = log_of(team->plane, rank);
  uint64_t index = team->head;
  struct log_claim said;
  if (log_passed(log) > index || !log_read_claim(log, index, &said) || said.flags & CLAIM_YIELD)
    return false;
  *claim = (struct overlap_claim){
      .leave = said.hash == 0 || (said.mark != 0 && said.mark != MARK_ROUND),
      .predicted = (said.flags & CLAIM_PREDICTED) != 0,
      .expected = (said.flags & CLAIM_EXPECTED) != 0,
      .seen = (said.flags & CLAIM_SEEN) != 0,
      .bytes = said.bytes,
      .reals = said.reals,
  };
  read_place(team, log, &said, &claim->place);
  return log_claims(log, index);
}

void overlap_count_recent(const struct team *team, uint32_t a, uint32_t b,
                          struct overlap_claim *of_a, struct overlap_claim *of_b) {
  const struct plane_log *x = log_of(team->plane, a), *y = log_of(team->plane, b);
  uint64_t x_head = log_passed(x), y_head = log_passed(y);
  uint64_t head = x_head < y_head ? x_head : y_head, end = head;
  uint64_t floor = head >= PLANE_RUN_AHEAD ? head - PLANE_RUN_AHEAD + 1 : 0;
  while (end > floor) {
    bool x_real = log_is_real(x, end - 1), y_real = log_is_real(y, end - 1);
    if (x_real && y_real)
      break;
    end = log_run_start(x_real ? y : x, end - 1);
  }
  if (end < floor)
    end = floor;
  uint32_t recent_a = of_a->reals - log_reals_before(x, end);
  uint32_t recent_b = of_b->reals - log_reals_before(y, end);
  /* Of several teams, the one in which both were together last. */
  if (recent_a + recent_b >= of_a->recent + of_b->recent)
    return;
  of_a->recent = recent_a;
  of_b->recent = recent_b;
}

/* ---- the program's own units ---- */

void overlap_count(struct overlap *overlap) {
  for (uint32_t i = 0; i < overlap->nteams; i++)
    if ((int32_t)(overlap->teams[i]->team->reals - overlap->reals) > 0)
      overlap->reals = overlap->teams[i]->team->reals;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    overlap->teams[i]->team->reals = overlap->reals;
}
