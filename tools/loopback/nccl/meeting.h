/* Waiting for other ranks in a communicator's shared memory.
 *
 * One bell per segment. A rank that changed something another may wait for rings it; a rank that
 * waits tries again after every ring. Waiting spins briefly, then yields, then sleeps on a
 * process-shared futex. Every wait of the loopback NCCL goes through meeting_await, which also
 * notices that the wait was cancelled, that a rank waited for is gone, that another rank stopped
 * the run, and that it has been long.
 */
#ifndef LOOPBACK_NCCL_MEETING_H
#define LOOPBACK_NCCL_MEETING_H

#include "segment.h"

enum meeting_result {
  MEETING_REACHED,
  MEETING_CANCELLED, /* the caller's own cancelled() said so */
  MEETING_LOST,      /* a rank waited for has left or died; report_error has been called */
};

/* What is waited for. Callbacks run on the waiting thread and get subject. */
struct vigil {
  void *subject;
  bool (*reached)(void *subject);          /* called often; may do work and ring the bell */
  bool (*awaits)(void *subject, int rank); /* is this rank one of those still missing */
  bool (*cancelled)(void *subject);
  void (*describe)(void *subject, char *text,
                   size_t size); /* for diagnostics: "unit #3 allreduce(...)" */
};

enum meeting_result meeting_await(const struct segment *segment, const struct vigil *vigil);

/* Wakes whoever waits in this segment, in any process. */
void meeting_ring(const struct segment *segment);

/* Ends the run: this process now, the others at their next wait, all with the same text. */
_Noreturn void meeting_stop(const struct segment *segment, const char *text);

#endif
