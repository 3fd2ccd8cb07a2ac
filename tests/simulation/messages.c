/* Which ranks wait for which messages (messages.h). */
#include "tests/simulation/messages.h"

#include "tests/simulation/random.h"

#define FURTHER_MAX 4u /* units */

/* Whether a rank on its way from one unit to another waits for its device, which waits for the rank
 * at the first: it synchronises, or a stream may be full. Nobody is waited for from one part of the
 * program to the next, whose units do not all go into a stream: or else somebody further on, for
 * whom that rank waits, may not come to them. */
static bool may_wait(const struct sim *sim, const struct sim_rank *rank, uint64_t from,
                     uint64_t to) {
  if (to >= rank->nsteps || from / sim->program->run_ahead != to / sim->program->run_ahead)
    return true;
  for (uint64_t i = from; i < to; i++)
    if (rank->steps[i].synchronise)
      return true;
  return false;
}

bool messages_hold(const struct sim *sim, const struct sim_rank *rank) {
  if (!sim->program->messages || rank->number == 0)
    return false;
  uint64_t random =
      random_seeded(sim->program->data.draws + ((uint64_t)rank->number << 32 | rank->next));
  if (!random_one_in(&random, 4))
    return false;
  const struct sim_rank *from = &sim->ranks[random_below(&random, rank->number)];
  uint64_t until = rank->next + random_below(&random, FURTHER_MAX + 1);
  bool calls = from->mode != MODE_PARKED && from->mode != MODE_ENDED && from->mode != MODE_DEAD;
  return calls && from->next <= until && !may_wait(sim, from, rank->next, until);
}
