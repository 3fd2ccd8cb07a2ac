/* A rank that is waited for, and goes. */
#include "tests/loopback/test/nccl_fixture.h"

#include "tools/loopback/nccl/meeting.h"

#include <stddef.h>
#include <stdio.h>

enum { NRANKS = 3, SLOW_MS = 400 };

/* Of rank 0's view: rank 2 is slow, rank 1 goes while it is looked at. */
static struct {
  _Alignas(SEGMENT_LINE) struct segment_shared shared;
  struct segment_rank ranks[NRANKS];
} memory;

static int64_t begun_ms;
static bool comes, has_come;

static bool reached(void *subject) {
  (void)subject;
  return comes && now_ms() - begun_ms > SLOW_MS;
}

static bool awaits(void *subject, int rank) {
  (void)subject;
  bool awaited = rank != 1 || !has_come;
  if (rank == 1) {
    has_come = comes;
    atomic_store(&memory.ranks[1].presence, PRESENCE_DESTROYED);
  }
  return awaited;
}

static bool cancelled(void *subject) {
  (void)subject;
  return false;
}

static void describe(void *subject, char *text, size_t size) {
  (void)subject;
  snprintf(text, size, "a meeting");
}

static enum meeting_result meet(void) {
  const struct vigil vigil = {NULL, reached, awaits, cancelled, describe};
  const struct segment segment = {.shared = &memory.shared,
                                  .nranks = NRANKS,
                                  .ranks_offset = (size_t)((char *)memory.ranks - (char *)&memory),
                                  .file = -1,
                                  .presence = -1};
  begun_ms = now_ms();
  return meeting_await(&segment, &vigil);
}

Test(nccl_meeting, a_rank_that_comes_and_goes_is_not_lost) {
  comes = true;
  cr_assert_eq(meet(), MEETING_REACHED);
}
Test(nccl_meeting, a_rank_that_goes_is_lost) {
  comes = false;
  cr_assert_eq(meet(), MEETING_LOST);
}
