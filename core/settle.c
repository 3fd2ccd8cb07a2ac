/* The winner rule (settle.h), written as one comparison so that its order can be read off. */
#include "core/settle.h"

static uint32_t claimants(const struct claim *claims, uint32_t nranks, uint64_t hash) {
  uint32_t count = 0;
  for (uint32_t rank = 0; rank < nranks; rank++)
    count += claims[rank].hash == hash;
  return count;
}

/* The most recent reals among those who claim the same unit: one rank still in the loop is enough.
 */
static uint32_t most_recent(const struct claim *claims, uint32_t nranks, uint64_t hash) {
  uint32_t most = 0;
  for (uint32_t rank = 0; rank < nranks; rank++)
    if (claims[rank].hash == hash && claims[rank].recent > most)
      most = claims[rank].recent;
  return most;
}

/* Whether all who claim a's unit have issued b's before, and all who claim b's have skipped a's. */
static bool is_skipped(const struct claim *claims, uint32_t nranks, uint32_t a, uint32_t b) {
  const struct claim *x = &claims[a], *y = &claims[b];
  if (x->unit == 0 || y->unit == 0)
    return false;
  for (uint32_t rank = 0; rank < nranks; rank++) {
    const struct claim *claim = &claims[rank];
    if ((claim->hash == x->hash && !(claim->issued & y->unit)) ||
        (claim->hash == y->hash && !(claim->skipped & x->unit)))
      return false;
  }
  return true;
}

static bool ends_what_goes_on(const struct claim *x, const struct claim *y) {
  return x->is_barrier && y->goes_on;
}

static uint32_t most_elsewhere(const struct claim *claims, uint32_t nranks, uint64_t hash) {
  uint32_t most = 0;
  for (uint32_t rank = 0; rank < nranks; rank++)
    if (claims[rank].hash == hash && claims[rank].recent_elsewhere > most)
      most = claims[rank].recent_elsewhere;
  return most;
}

static bool on_course(const struct claim *claims, uint32_t nranks, uint64_t hash) {
  for (uint32_t rank = 0; rank < nranks; rank++)
    if (claims[rank].hash == hash && claims[rank].on_course)
      return true;
  return false;
}

static int order(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

/* LEAVE, then the marks, then all that is to be issued. */
static uint32_t standing(const struct claim *claim) {
  return claim->mark != 0 ? claim->mark : claim->hash != 0 ? UINT32_MAX : 0;
}

/* Above 0 if a's claim goes before b's. */
static int compare(const struct claim *claims, uint32_t nranks, uint32_t a, uint32_t b) {
  const struct claim *x = &claims[a], *y = &claims[b];
  int by;
  if ((by = order(standing(x), standing(y))) != 0)
    return by;
  if (x->hash == y->hash)
    return 0;
  if ((by = order(most_recent(claims, nranks, x->hash), most_recent(claims, nranks, y->hash))) != 0)
    return by;
  if ((by = order(is_skipped(claims, nranks, a, b), is_skipped(claims, nranks, b, a))) != 0)
    return by;
  if ((by = order(ends_what_goes_on(y, x), ends_what_goes_on(x, y))) != 0)
    return by;
  if ((by = order(y->order, x->order)) != 0)
    return by;
  if ((by = order(x->expected, y->expected)) != 0)
    return by;
  if ((by = order(x->seen, y->seen)) != 0)
    return by;
  if ((by = order(on_course(claims, nranks, x->hash), on_course(claims, nranks, y->hash))) != 0)
    return by;
  if ((by = order(most_elsewhere(claims, nranks, x->hash),
                  most_elsewhere(claims, nranks, y->hash))) != 0)
    return by;
  if ((by = order(x->bytes, y->bytes)) != 0)
    return by;
  return order(claimants(claims, nranks, x->hash), claimants(claims, nranks, y->hash));
}

uint32_t settle_winner(const struct claim *claims, uint32_t nranks) {
  uint32_t winner = 0;
  for (uint32_t rank = 1; rank < nranks; rank++)
    if (compare(claims, nranks, rank, winner) > 0)
      winner = rank;
  return winner;
}

bool settle_is_guess(const struct claim *claims, uint32_t nranks, uint32_t winner,
                     uint32_t *loser) {
  const struct claim *won = &claims[winner];
  for (uint32_t rank = 0; rank < nranks; rank++) {
    const struct claim *lost = &claims[rank];
    if (lost->hash == 0 || lost->mark != 0 || lost->hash == won->hash ||
        is_skipped(claims, nranks, winner, rank) || ends_what_goes_on(lost, won) ||
        (lost->order != won->order && lost->times <= won->times) ||
        on_course(claims, nranks, lost->hash) != on_course(claims, nranks, won->hash) ||
        most_recent(claims, nranks, lost->hash) != most_recent(claims, nranks, won->hash))
      continue;
    *loser = rank;
    return true;
  }
  return false;
}

bool settle_is_unanimous(const struct claim *claims, uint32_t nranks) {
  for (uint32_t rank = 1; rank < nranks; rank++)
    if (claims[rank].hash != claims[0].hash)
      return false;
  return true;
}
