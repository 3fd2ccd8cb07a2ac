/* Ranks of the quartet (quartet.h) that have been in its loop, HEAD, and send and receive behind
 * that, at AFTER.
 */
#ifndef TESTS_UNIT_BEHIND_H
#define TESTS_UNIT_BEHIND_H

#include <stdbool.h>

#include "core/p2p/peers.h"
#include "tests/unit/quartet.h"

/* What a rank sends or receives: good until the next call of any of these. kind: MEMBER_SEND or
 * MEMBER_RECEIVE; comm: that of the loop is 0. */
const struct posts *one_side(uint8_t kind, uint32_t peer, uint32_t comm);
const struct posts *sends(uint32_t peer);
const struct posts *receives(uint32_t peer);
const struct posts *receives_from_others(void); /* of rank 0: a group */

/* Each rank knows where its own operations stand. */
void learn_places(void);

/* And all have been in the loop. */
void behind_begin(void);

void hold(uint32_t rank, const struct posts *behind);

/* What it holds back may be posted, and is. */
void post(uint32_t rank, const struct posts *behind);

/* All send to rank 0. */
void gather_all(void);

/* The next that each rank hears, whichever looks last. TEAM_PARKED: nothing, or it is not asked. */
void expect_verdicts(const enum team_verdict verdicts[RANKS]);
void expect_all_issue(void);

bool shows_claim(uint32_t rank);

#endif
