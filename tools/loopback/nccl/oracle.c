/* Publishing and comparing descriptors. */
#include "oracle.h"

#include "meeting.h"
#include "report.h"
#include "settings.h"

#include <stdio.h>
#include <unistd.h>

static struct segment_descriptor *descriptor(struct ncclComm *comm, int rank, uint64_t unit) {
  return &segment_rank(&comm->segment, rank)->descriptor[unit % 2];
}

void oracle_publish(struct ncclComm *comm, const struct unit *unit) {
  struct segment_descriptor *own = descriptor(comm, comm->rank, unit->index);
  own->hash = unit->hash;
  own->unit = unit->index;
  snprintf(own->text, sizeof own->text, "%s", unit->text);
  atomic_store(&segment_rank(&comm->segment, comm->rank)->units, unit->index + 1);
}

void oracle_mismatch(struct ncclComm *comm, const char *where, int rank_a, const char *a,
                     int rank_b, const char *b) {
  char text[SEGMENT_STOP_BYTES];
  snprintf(text, sizeof text,
           "MISMATCH on communicator %016llx, %s\n"
           "  rank %d: %.2048s\n"
           "  rank %d: %.2048s",
           (unsigned long long)comm->hash, where, rank_a, a, rank_b, b);
  if (!settings_get()->mismatch_hangs)
    meeting_stop(&comm->segment, text);
  report_line("%s", text);
  /* Kernels that wait for something else than what their peers send. */
  for (;;)
    pause();
}

void oracle_compare(struct ncclComm *comm, const struct unit *unit) {
  for (int rank = 0; rank < comm->nranks; rank++) {
    struct segment_descriptor *theirs = descriptor(comm, rank, unit->index);
    if (theirs->hash == unit->hash && theirs->unit == unit->index)
      continue;
    char where[64];
    snprintf(where, sizeof where, "unit #%llu", (unsigned long long)unit->index);
    oracle_mismatch(comm, where, comm->rank, unit->text, rank, theirs->text);
  }
}
