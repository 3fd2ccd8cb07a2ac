/* Leaving (leaving.h), and the last thing a process does (leave.h).
 */
#include "interpose/exits/leaving.h"

#include <stdlib.h>
#include <time.h>

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "hooks/plugins.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/exits/exit_points.h"
#include "interpose/self/environment.h"
#include "interpose/exits/leave.h"
#include "interpose/park/orphans.h"
#include "interpose/nccl/real.h"
#include "interpose/park/transaction.h"

/* Of ranks on other machines: for an answer of their agents, and in all. A watchdog that aborts
 * waits for no longer than that. */
#define NEWS_MS 20
#define NEWS_PATIENCE_MS 1000

/* The communicator that stands for its driver and team in a request. */
struct departure {
  struct request *requests;
  uint32_t nrequests, room;
};

static void log_departure(const struct endpoint *end, void *unused) {
  (void)unused;
  const struct team *team = end->team;
  log_line_of(endpoint_subject(end), LOG_LEVEL_INFO,
              "rank %u has left after %llu collectives; it answers for the others until all have",
              team->plane->rank, (unsigned long long)team->head);
}

/* All that was issued in the rank's name must be done before what it runs on goes away. All ranks
 * have issued their part. */
static void finish_shadows(struct endpoint *end) {
  if (end->shadow == NULL)
    return;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct shadow_limit limit = {.until_ns = (uint64_t)now.tv_sec * 1000000000 +
                                           join_settings()->timeout_s * 1000000000};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_wait(end->shadow, &limit, reason);
  if (result != ncclSuccess)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "shadows of rank %u are not done: %s. A peer that waits for them on its device may "
                "wait for ever: look at what the others do",
                end->team->plane->rank,
                result == ncclInProgress ? "NCCL_JOIN_TIMEOUT has passed" : reason);
}

/* The identity of the rank that gave up last; 0: none since communicators were last made. Its other
 * communicators are given up with the one. */
static _Atomic uint64_t given_up;

/* tag: of the communicator that is left, or 0 if all are. ncclInvalidUsage if other ranks are still
 * in their loops, and all stop. */
static ncclResult_t leaving_depart(struct departure *departure, uint32_t tag,
                                   ncclResult_t *notice) {
  struct transaction transaction = {.kind = TRANSACTION_LEAVE,
                                    .tag = tag,
                                    .requests = departure->requests,
                                    .nrequests = departure->nrequests,
                                    .room = departure->room,
                                    .entered = log_departure};
  /* What has gone wrong has been said; it does not keep the rank from leaving. */
  (void)transaction_make(&transaction);
  departure->nrequests = transaction.nrequests;
  ncclResult_t result = ncclSuccess;
  for (uint32_t i = 0; i < departure->nrequests; i++) {
    struct endpoint *end = departure->requests[i].end;
    if (departure->requests[i].result != ncclSuccess)
      result = departure->requests[i].result;
    if (departure->requests[i].stopped)
      result = ncclInvalidUsage;
    if (departure->requests[i].failed)
      atomic_store(&given_up, end->identity);
    if (departure->requests[i].notice != ncclSuccess)
      *notice = departure->requests[i].notice;
    if (end->state != RANK_PRESENT)
      continue;
    finish_shadows(end);
    if (departure->requests[i].stopped)
      continue;
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_INFO,
        "all ranks have left; rank %u goes on after %llu collectives, shadows among them: %llu",
        end->team->plane->rank, (unsigned long long)team_collectives(end->team),
        (unsigned long long)end->team->shadows_total);
    if (end->trace != NULL)
      trace_flush(end->trace);
  }
  return result;
}

/* What happens to the rank after it has left with all communicators of a team is nobody's loss: the
 * others may not have seen yet that all have left. */
static bool has_left(const struct endpoint *end) {
  for (const struct communicator *comm = end->comms; comm != NULL; comm = comm->next_in_team)
    if (!comm->left)
      return false;
  return true;
}

static int by_ranks(const void *a, const void *b) {
  const struct request *x = a, *y = b;
  uint32_t left = x->end->team->plane->nranks, right = y->end->team->plane->nranks;
  return (left > right) - (left < right);
}

/* for_good: the process ends. A small team leaves to a larger one to tell of it. */
static void sum_up(struct departure *departure, bool for_good) {
  qsort(departure->requests, departure->nrequests, sizeof(struct request), by_ranks);
  for (uint32_t i = 0; i < departure->nrequests; i++) {
    const struct request *request = &departure->requests[i];
    if (request->result == ncclSuccess && !request->stopped &&
        request->end->state == RANK_PRESENT && (for_good || has_left(request->end)))
      report_uneven(request->end);
  }
}

static bool has_request(const struct departure *departure, const struct endpoint *end) {
  for (uint32_t i = 0; i < departure->nrequests; i++)
    if (departure->requests[i].end == end)
      return true;
  return false;
}

/* Those that another thread makes only now are left out. */
static void add_request(struct departure *departure, struct endpoint *end, bool for_good) {
  if (departure->nrequests == departure->room || has_request(departure, end))
    return;
  departure->requests[departure->nrequests++] = (struct request){.end = end, .for_good = for_good};
}

/* Room for a request of each communicator; false without memory. */
static bool make_room(struct departure *departure) {
  *departure = (struct departure){.room = 1};
  for (struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next)
    departure->room++;
  departure->requests = calloc(departure->room, sizeof(struct request));
  return departure->requests != NULL;
}

/* Ranks made in one call may be driven by one thread, which cannot leave with each in turn, or by a
 * thread each. Who has issued something tells; where nobody has, only the thread that made them
 * leaves with all. */
bool leaves_with(const struct communicator *comm, const struct communicator *other) {
  const struct thread *user = atomic_load(&comm->end->user);
  if (comm == other)
    return true;
  return other->state == COMM_JOINED && !other->left && other->driver == comm->driver &&
         other->tag == comm->tag && atomic_load(&other->end->user) == user &&
         (user != NULL || comm->creator == endpoint_this_thread());
}

ncclResult_t leave_communicator(struct communicator *comm, ncclResult_t *notice) {
  *notice = ncclSuccess;
  if (communicator_find_ready(comm->handle) == NULL || comm->left)
    return ncclSuccess;
  if (comm->end->state != RANK_PRESENT)
    return comm->end->state == RANK_FAILED ? ncclRemoteError : ncclSuccess;
  struct departure departure;
  if (!make_room(&departure))
    return ncclSystemError;
  for (struct communicator *other = communicator_first(); other != NULL; other = other->next)
    if (leaves_with(comm, other) || orphans_is_one(comm, other))
      add_request(&departure, other->end, false);
  ncclResult_t result = leaving_depart(&departure, comm->tag, notice);
  for (struct communicator *other = communicator_first(); other != NULL; other = other->next)
    if (other != comm && other->tag == comm->tag && has_request(&departure, other->end))
      other->left = result != ncclInvalidUsage;
  comm->left = result == ncclSuccess;
  sum_up(&departure, false);
  free(departure.requests);
  return result;
}

void leave_failed(struct communicator *comm) {
  if (comm->state != COMM_JOINED)
    return;
  struct endpoint *end = comm->end;
  endpoint_retire(end, RANK_FAILED);
  atomic_store(&end->broken, ncclInvalidUsage);
  team_end(end->team, RANK_FAILED);
}

bool leaving_has_given_up(const struct communicator *comm) {
  return comm->state == COMM_JOINED && comm->end->state == RANK_FAILED &&
         atomic_load(&given_up) == comm->end->identity;
}

static bool has_error(const struct communicator *comm) {
  ncclResult_t error;
  return real.CommGetAsyncError(comm->handle, &error) != ncclSuccess ||
         (error != ncclSuccess && error != ncclInProgress);
}

void leaving_begins_anew(void) {
  atomic_store(&given_up, 0);
}

static bool is_peer_behind(const struct endpoint *end) {
  const struct plane *plane = end->team->plane;
  bool behind = false;
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    behind |= plane_passed(plane, rank) < team_passed(end->team);
  return behind;
}

/* Whether a peer of the rank has yet to come to what the rank has issued. Then there is work on the
 * device that cannot be done: who aborts in this moment does not end, but gives up. */
static bool is_somebody_behind(uint64_t identity) {
  bool behind = false;
  for (struct endpoint *end = communicator_hold_endpoints(); end != NULL; end = end->next)
    behind |= end->identity == identity && is_peer_behind(end);
  communicator_release_endpoints();
  return behind;
}

/* How far ranks of other machines are is not known while nobody waits. Waits a moment for one that
 * seems to be behind; false if there is none. */
static bool hear_of_other_machines(uint64_t identity) {
  bool waited = false;
  for (struct endpoint *end = communicator_hold_endpoints(); end != NULL && !waited;
       end = end->next) {
    waited =
        end->identity == identity && attachment_is_beyond(end->attachment) && is_peer_behind(end);
    if (waited)
      team_wait_others(end->team, team_passed(end->team) - 1, NEWS_MS);
  }
  communicator_release_endpoints();
  return waited;
}

static bool stays_somebody_behind(uint64_t identity) {
  bool behind = is_somebody_behind(identity);
  uint64_t until = now_ms() + NEWS_PATIENCE_MS;
  while (behind && now_ms() < until && hear_of_other_machines(identity))
    behind = is_somebody_behind(identity);
  return behind;
}

/* Whether an abort of the communicator is how its rank ends. */
static bool is_clean(const struct communicator *comm) {
  struct endpoint *end = comm->end;
  if (end->state != RANK_PRESENT || has_error(comm) || atomic_load(&given_up) == end->identity ||
      stays_somebody_behind(end->identity) || !endpoint_enter_if_free(end))
    return false;
  bool between = team_is_between_iterations(end->team);
  endpoint_exit(end);
  return between;
}

enum rank_state leave_by_abort(struct communicator *comm, ncclResult_t *result) {
  *result = ncclSuccess;
  if (communicator_find_ready(comm->handle) == NULL || comm->left)
    return RANK_DONE;
  struct endpoint *end = comm->end;
  if (is_clean(comm)) {
    ncclResult_t notice;
    if (leave_communicator(comm, &notice) == ncclInvalidUsage || notice != ncclSuccess)
      *result = ncclInvalidUsage;
    return leaving_has_given_up(comm) ? RANK_FAILED : RANK_DONE;
  }
  char count[REPORT_COUNT];
  log_line_of(communicator_subject(comm), LOG_LEVEL_WARN,
              "rank %u aborts its communicator inside an iteration or after an error, after %s: "
              "the others are not to wait for it. A rank that has no more data and "
              "is to join calls ncclCommDestroy, or ends",
              end->team->plane->rank,
              report_count(end, end->team->plane->rank, team_passed(end->team), count));
  atomic_store(&given_up, end->identity);
  leave_failed(comm);
  /* A parked thread returns to the program before its team goes. */
  for (int ms = 0; atomic_load(&end->inside) > 0 && ms < 10000; ms++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return RANK_FAILED;
}

/* ---- the end of the process ---- */

static enum rank_state end_of(const struct endpoint *end, enum rank_state how) {
  return end->state == RANK_FAILED ? RANK_FAILED : has_left(end) ? RANK_DONE : how;
}

static void end_all(enum rank_state how) {
  for (struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next) {
    if (comm->state == COMM_JOINED)
      team_end(comm->end->team, end_of(comm->end, how));
    /* Handlers that run after us may still use it. */
    comm->state = COMM_OFF;
  }
}

static void fail_all(int status) {
  char count[REPORT_COUNT];
  for (struct endpoint *end = communicator_endpoints(); end != NULL; end = end->next)
    if (end->state == RANK_PRESENT && !end->stopped && !has_left(end)) {
      uint32_t rank = end->team->plane->rank;
      log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                  "rank %u ends with status %d after %s: a failure, not a join. One "
                  "that has no more data ends with status 0",
                  rank, status, report_count(end, rank, team_passed(end->team), count));
      trace_event(end->trace, TRACE_FAIL, team_passed(end->team), NULL, (int)rank);
    }
  end_all(RANK_FAILED);
}

static int leave_with(int status) {
  if (status != 0) {
    fail_all(status);
    plugins_finalize();
    return status;
  }
  communicator_endpoints();
  struct departure departure;
  if (!make_room(&departure))
    return status;
  for (struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next) {
    if (comm->state != COMM_JOINED || comm->left)
      continue;
    if (atomic_load(&comm->end->inside) > 0)
      leave_failed(
          comm); /* another thread is parked there: it will never come back to its program */
    else
      add_request(&departure, comm->end, true);
  }
  ncclResult_t notice = ncclSuccess;
  ncclResult_t result = leaving_depart(&departure, 0, &notice);
  sum_up(&departure, true);
  free(departure.requests);
  end_all(RANK_DONE);
  plugins_finalize();
  bool stops = result != ncclSuccess && result != ncclRemoteError;
  return stops || notice != ncclSuccess ? 1 : status;
}

/* One line for each of its ranks that is not. */
bool leave_is_over(void) {
  bool over = true;
  communicator_hold_endpoints();
  for (struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next) {
    if (comm->state != COMM_JOINED || comm->left || comm->end->state != RANK_PRESENT ||
        is_clean(comm))
      continue;
    over = false;
    log_line_of(
        communicator_subject(comm), LOG_LEVEL_WARN,
        "rank %u ends by _exit inside an iteration, or with work left on its streams, after "
        "%llu collectives: a failure, not a join. Wait for the streams before, or end by exit",
        comm->end->team->plane->rank, (unsigned long long)team_passed(comm->end->team));
  }
  communicator_release_endpoints();
  return over;
}

int leave_process(int status) {
  if (join_settings() == NULL)
    return status;
  communicator_hold_endpoints();
  int left_with = leave_with(status);
  communicator_release_endpoints();
  exit_points_close();
  return left_with;
}
