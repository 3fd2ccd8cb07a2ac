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
static void read_place(struct team *team, const struct plane_log *log, struct place *place) {
  uint32_t id = atomic_load_explicit(&log->claim_place, memory_order_acquire);
  const struct known_place *known = team_known_place(team, id);
  struct text text;
  if (known != NULL)
    *place = known->place;
  else if (id != 0 && log == team->own)
    *place = team->claim.place;
  else if (id != 0 && team_read_text(team, log, LOAD(log->claim_text), &text) == READ_UNIT &&
           text.place != NULL)
    *place = *text.place;
}

bool overlap_read_claim(struct team *team, uint32_t rank, struct overlap_claim *claim) {
  const struct plane_log *log = team->plane->logs[rank];
  uint64_t index = team->head;
  if (atomic_load(&log->claim) != index + 1 || atomic_load(&log->head) > index)
    return false;
  uint32_t flags = atomic_load_explicit(&log->claim_flags, memory_order_acquire);
  *claim = (struct overlap_claim){
      .leave = atomic_load_explicit(&log->claim_hash, memory_order_acquire) == 0 ||
               flags >> CLAIM_MARK_SHIFT != 0,
      .predicted = (flags & CLAIM_PREDICTED) != 0,
      .expected = (flags & CLAIM_EXPECTED) != 0,
      .seen = (flags & CLAIM_SEEN) != 0,
      .bytes = atomic_load_explicit(&log->claim_bytes, memory_order_acquire),
      .reals = atomic_load_explicit(&log->claim_reals, memory_order_acquire),
  };
  read_place(team, log, &claim->place);
  return !(flags & CLAIM_YIELD) && atomic_load(&log->claim) == index + 1;
}

void overlap_count_recent(const struct team *team, uint32_t a, uint32_t b,
                          struct overlap_claim *of_a, struct overlap_claim *of_b) {
  const struct plane_log *x = team->plane->logs[a], *y = team->plane->logs[b];
  uint64_t x_head = atomic_load(&x->head), y_head = atomic_load(&y->head);
  uint64_t head = x_head < y_head ? x_head : y_head, end = head;
  uint64_t floor = head >= PLANE_RUN_AHEAD ? head - PLANE_RUN_AHEAD + 1 : 0;
  while (end > floor) {
    const struct plane_entry *of_x = &x->entries[(end - 1) % PLANE_RING];
    const struct plane_entry *of_y = &y->entries[(end - 1) % PLANE_RING];
    bool x_real = LOAD(of_x->flags) & ENTRY_REAL, y_real = LOAD(of_y->flags) & ENTRY_REAL;
    if (x_real && y_real)
      break;
    end = log_unwrap(LOAD((x_real ? of_y : of_x)->run_start), end - 1);
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
