/* A program in which some ranks may come to something in front of a loop, and to something behind
 * it, for tests of the winner rule:
 *
 *   for (epoch) {
 *     if (...) front();
 *     for (batch) in_loop();
 *     if (...) behind();
 *   }
 *
 * The loops and the call in the inner one are come to always; nothing is known of what follows
 * what.
 */
#ifndef TESTS_UNIT_FRONT_H
#define TESTS_UNIT_FRONT_H

#include "core/place/place.h"

enum { MAIN = 9, EPOCHS, FRONT, BATCHES, IN_LOOP, BEHIND };

extern struct place front, in_loop, behind;

/* Makes the three places what they are at first. */
void front_program(void);

/* A node with an order, of which nothing more is known. */
struct place_node front_node(uint32_t id, uint16_t order, uint16_t flags);

#endif
