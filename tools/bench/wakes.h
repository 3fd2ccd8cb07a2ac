/* The way that a unit takes from a rank to a rank of another machine, with nothing in it but what
 * wakes and what carries: a futex wakes a thread, which sends a message by ZeroMQ with CURVE over
 * TCP; there another thread receives it, and a futex wakes who waits. No nccl-join is in it.
 *
 * With agents that sleep in the kernel while nothing happens, nccl-join cannot be quicker than
 * this. How long it takes until each of these threads runs is the machine's business.
 */
#ifndef NCCL_JOIN_TOOLS_BENCH_WAKES_H
#define NCCL_JOIN_TOOLS_BENCH_WAKES_H

#include "tools/bench/area.h"

/* For ranks 0 and 1 of a benchmark, each on a machine of its own, of which MASTER_ADDR is rank 0's
 * address; port 29502. Samples of rank 1: microseconds from rank 0's begin until rank 1 runs, one
 * each 10 ms (BENCH_QUICK: 8, else 1,000; the first 20 are none). Uses the area's id for a key.
 * Starts a thread, which has ended when it returns.
 *
 * Returns 0; or 1, if there is no socket or no thread. Ends the process if a message cannot be sent
 * or received.
 */
int wakes_run(struct area *area, int rank);

#endif
