/* Traffic: what the ranks of a simulated team read and write of each other, counted access by
 * access (counted.h), as if each rank had a cache of its own.
 *
 * One team at a time, and one thread.
 */
#ifndef TOOLS_BENCH_TRAFFIC_H
#define TOOLS_BENCH_TRAFFIC_H

#include <stdint.h>

#include "core/transport/plane.h"

struct traffic {
  uint64_t reads;    /* loads of a word that another rank may write */
  uint64_t messages; /* of these, those for which a cache line had to come from another rank, which
                        had written it since this one last had it */
  uint64_t bytes;    /* written for others to read */
};

/* Counts for the ranks of this plane; the logs must lie one behind the other. Ends the program if
 * there is no memory. */
void traffic_begin(const struct plane *plane);
void traffic_end(void);

/* The rank that runs from now on. */
void traffic_set_rank(uint32_t rank);

/* Since traffic_begin. */
struct traffic traffic_so_far(void);

#endif
