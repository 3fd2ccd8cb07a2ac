/* Claims of one index, summed up. See claims.h. */
#include "tests/unit/claims.h"

struct settle settle;

void add(struct claimed claim) {
  claim.rank = settle.nranks;
  claim.claimants = 1;
  claim.all = claim.any;
  if (claim.signature == 0)
    claim.signature = claim.hash;
  settle_add(&settle, &claim);
}

void begin(void) {
  settle = (struct settle){.nunits = 0};
}

const struct claimed *winner(void) {
  return &settle.units[settle_winner(&settle)];
}

bool is_guess(void) {
  uint32_t loser;
  return settle_is_guess(&settle, settle_winner(&settle), &loser);
}

bool is_unanimous(void) {
  return settle_is_unanimous(&settle, settle_winner(&settle));
}
