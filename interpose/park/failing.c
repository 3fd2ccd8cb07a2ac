/* A rank that fails cleans up (wait_private.h).
 *
 * An exception makes a program destroy its communicators (finally, with, a destructor, atexit), or
 * wait for the others first. That looks like a rank that is out of data, but peers must not go on
 * without it. What tells one from the other is the exception, if that came after the rank's last
 * claim. As long as no peer wants anything of the rank it makes no difference, and nothing is
 * asked: a program whose ranks all raise the same is left alone.
 */
#include "interpose/park/wait_private.h"

#include "interpose/comm/report.h"
#include "interpose/park/outcome.h"
#include "interpose/places/exceptions.h"
#include "interpose/places/python/python_frames.h"

#define EXCEPTION_SIZE 160

/* One thread may drive several ranks. */
static bool is_of_thread(const struct wait *wait, const struct endpoint *asked, uint64_t identity) {
  bool is = asked->identity == identity;
  for (uint32_t i = 0; i < wait->nrequests; i++)
    is |= wait->requests[i].end->identity == identity;
  return is;
}

/* The thread's ranks, in all their teams; their other threads are freed. asked: does not issue what
 * it has passed last. */
static void fail_everywhere(struct wait *wait, const struct endpoint *asked) {
  for (struct endpoint *end = wait->all; end != NULL; end = end->next) {
    if (!is_of_thread(wait, asked, end->identity) || end->state != RANK_PRESENT)
      continue;
    report_event(end, TRACE_FAIL, end->team->head, (struct unit){0}, (int)end->team->plane->rank);
    atomic_store(&end->broken, ncclRemoteError);
    if (end == asked)
      team_end_short(end->team);
    else
      team_end(end->team, RANK_FAILED);
    endpoint_retire(end, RANK_FAILED);
  }
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    struct request *request = &wait->requests[i];
    if (request->settled || atomic_load(&request->end->broken) == ncclSuccess)
      continue;
    outcome_broken(request);
    atomic_store(&request->end->told_failed, ncclSuccess); /* its program knows */
    request->failed = true;
  }
}

void failing_note(struct endpoint *end) {
  uint64_t exception = python_is_present() ? python_exception_at() : 0;
  if (exception != 0 || !atomic_load(&end->user_of_engine)) /* an engine's thread has none */
    end->exception = exception;
}

/* The one that is under way was so when the rank last claimed a call: `except ImportError: main()`.
 */
static bool lives_with_exception(const struct endpoint *end) {
  return end->exception != 0 && python_is_present() && python_exception_at() == end->exception;
}

bool failing_look(struct wait *wait, const struct endpoint *end) {
  const struct request *first = &wait->requests[0];
  char exception[EXCEPTION_SIZE];
  if (wait->looked_for_exception || !wait->begun || first->for_good)
    return false;
  wait->looked_for_exception = true;
  bool leaves = unit_is_leave(first->unit);
  if (unit_is_round(first->unit) || (leaves && lives_with_exception(first->end)))
    return false;
  if (!exception_is_under_way(exception, sizeof exception, leaves))
    return false;
  report_exception(first->end, first->unit, exception);
  if (leaves)
    fail_everywhere(wait, end);
  return leaves;
}
