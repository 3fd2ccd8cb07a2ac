/* What ranks tell each other outside of NCCL, in programs whose ranks all do the same: a rank comes
 * to a unit only once another has issued one that is as far on in the program, or further. NCCL's
 * calls do not wait for peers, so such a program comes to its end without nccl-join: a rank only
 * waits for lower ones, and these wait for nothing on their devices before they have said it.
 *
 * A call that has to be agreed on does wait, so nobody waits for it to return (docs/limits.md):
 * then the message is taken to have come before. */
#ifndef NCCL_JOIN_TESTS_SIMULATION_MESSAGES_H
#define NCCL_JOIN_TESTS_SIMULATION_MESSAGES_H

#include "tests/simulation/ranks.h"

/* Whether the rank waits for such a message before its next unit. */
bool messages_hold(const struct sim *sim, const struct sim_rank *rank);

#endif
