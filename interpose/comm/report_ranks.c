/* Where ranks are, and how they have ended: for those who wait for them (report.h). */
#include <signal.h>
#include <stdio.h>

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report_private.h"
#include "interpose/self/environment.h"

const char *report_describe(struct unit unit, char text[DESCRIPTION]) {
  if (unit_is_exit_point(unit))
    return exit_point_name((uint32_t)unit_mark(unit));
  return unit_describe(unit, text, DESCRIPTION);
}

void report_not_counted(const struct endpoint *end, const char *place) {
  char at[PLACE_TEXT_MAX + 8];
  log_once_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "NCCL_JOIN_EPOCHS=wait: rank %u begins another round of the outermost loop%s, but "
      "not all ranks "
      "have been seen to count its rounds alike (one goes over something else than a range "
      "or a list, leaves out rounds that others do not, or had nothing to do in the first "
      "round of this loop): epochs may mix, unless the program calls nccl_join_leave after each",
      end->team->plane->rank, report_at(place, at));
}

void report_mixed(const struct endpoint *end, const struct team_guess *guess, bool stops) {
  char text[DESCRIPTION], at[PLACE_TEXT_MAX + 8], begun[64] = "";
  char round[32] = "another round", other[32];
  bool is_earlier = guess->other_round < guess->round;
  const char *loop = guess->level == 0 ? "outermost loop" : "loop within the outermost one";
  bool waits = join_settings()->epochs == EPOCHS_WAIT;
  if (guess->other_begun != 0)
    snprintf(begun, sizeof(begun), " at collective %llu",
             (unsigned long long)guess->other_begun - 1);
  snprintf(other, sizeof(other), is_earlier ? "an earlier one" : "a later one");
  if (!guess->are_left) {
    snprintf(round, sizeof(round), "round %u", guess->round);
    snprintf(other, sizeof(other), "round %u", guess->other_round);
  }
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "rank %u begins %s of the %s around %s%s at collective %llu, "
      "rank %u %s %s%s: %s. %s",
      guess->rank, round, loop, report_describe((struct unit){&guess->member, 1}, text),
      report_at(guess->place, at), (unsigned long long)guess->begun, guess->other,
      is_earlier ? "is in" : "has begun", other, begun,
      stops ? "the rank stops (NCCL_JOIN_UNSURE=stop): ncclRemoteError" : "they mix",
      waits ? "NCCL_JOIN_EPOCHS=wait does not hold in that loop (docs/places.md says where): call "
              "nccl_join_leave after each round"
      : guess->level == 0
          ? "If rounds of the outermost loop are epochs, set NCCL_JOIN_EPOCHS=wait; if each rank "
            "has its "
            "own, such as files, NCCL_JOIN_EPOCHS=mix says that that is meant"
          : "If all ranks are to be in one round of that loop, as of models that are trained one "
            "after the other, set NCCL_JOIN_EPOCHS=wait; if each rank has its own, such as files, "
            "NCCL_JOIN_EPOCHS=mix says that that is meant");
}

const char *report_at(const char *place, char text[PLACE_TEXT_MAX + 8]) {
  size_t length = 0;
  while (place[length] >= ' ' && place[length] < 127)
    length++;
  (void)snprintf(text, PLACE_TEXT_MAX + 8, length == 0 ? "%.*s" : " at %.*s", (int)length, place);
  return text;
}

const char *report_count(const struct endpoint *end, uint32_t rank, uint64_t collectives,
                         char text[REPORT_COUNT]) {
  uint64_t operations = plane_operations(end->team->plane, rank);
  char more[56] = "";
  if (operations > 0)
    snprintf(more, sizeof(more), " and %llu send%s", (unsigned long long)operations,
             operations == 1 ? " or receive" : "s and receives");
  snprintf(text, REPORT_COUNT, "%llu collective%s%s", (unsigned long long)collectives,
           collectives == 1 ? "" : "s", more);
  return text;
}

void report_skew(struct endpoint *end) {
  uint32_t body = learner_body_length(end->team->learner);
  uint64_t limit = join_settings()->skew_warn;
  if (limit == 0 || end->skew_warned || end->team->shadows < limit * (body == 0 ? 1 : body))
    return;
  char text[DESCRIPTION], at[PLACE_TEXT_MAX + 8];
  const struct team *team = end->team;
  const char *waits_in =
      team->claim.open ? "the call by which it leaves" : "a call on another communicator";
  if (team->claim.open && team->claim.unit.nmembers > 0)
    waits_in = report_describe(team->claim.unit, text);
  end->skew_warned = true;
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u has been joined for more than %llu iterations, parked in %s%s: the ranks' "
              "inputs are "
              "very uneven, and its device only stands in (NCCL_JOIN_SKEW_WARN)",
              team->plane->rank, (unsigned long long)limit, waits_in,
              report_at(team->claim.open ? team->claim.own_place.text : "", at));
}

/* ---- how one has ended ---- */

static const char *signal_name(int number) {
  switch (number) {
  case SIGKILL:
    return "killed by signal 9 (SIGKILL: somebody, its launcher, or the kernel for lack of memory)";
  case SIGTERM:
    return "killed by signal 15 (SIGTERM: its launcher, or somebody)";
  case SIGINT:
    return "killed by signal 2 (SIGINT)";
  case SIGSEGV:
    return "crashed: signal 11 (SIGSEGV)";
  case SIGBUS:
    return "crashed: signal 7 (SIGBUS)";
  case SIGABRT:
    return "aborted: signal 6 (SIGABRT)";
  case SIGFPE:
    return "crashed: signal 8 (SIGFPE)";
  case SIGILL:
    return "crashed: signal 4 (SIGILL)";
  default:
    return NULL;
  }
}

static int write_how(const struct plane *plane, uint32_t rank, char how[REPORT_HOW]) {
  struct plane_fate fate = plane_fate(plane, rank);
  const char *name = fate.how == END_SIGNAL ? signal_name(fate.number) : NULL;
  if (fate.how == END_STATUS)
    return snprintf(how, REPORT_HOW, ", ended with status %d", fate.number);
  if (name != NULL)
    return snprintf(how, REPORT_HOW, ", %s", name);
  if (fate.how == END_SIGNAL)
    return snprintf(how, REPORT_HOW, ", killed by signal %d", fate.number);
  if (plane->alive((struct plane *)plane, rank))
    return snprintf(how, REPORT_HOW, ", its process goes on");
  if (plane_has_given_up(plane, rank))
    return snprintf(how, REPORT_HOW, ", gave up (its own WARN says why)");
  if (plane_machine(plane, rank) != NULL && plane->stopped(plane, rank))
    return snprintf(how, REPORT_HOW,
                    ", out of reach, as the agent of this machine is stopped (nccl-join-agent: "
                    "SIGSTOP, or a debugger)");
  if (plane_machine(plane, rank) != NULL)
    return snprintf(how, REPORT_HOW,
                    ", killed or crashed (its launcher knows), or its machine is out of reach");
  return snprintf(how, REPORT_HOW, ", killed or crashed (its launcher knows)");
}

/* Where it was, if that is another machine, first. */
static int write_fate(const struct plane *plane, uint32_t rank, char how[REPORT_HOW]) {
  const char *machine = plane_machine(plane, rank);
  char fate[REPORT_HOW];
  write_how(plane, rank, fate);
  return machine == NULL ? snprintf(how, REPORT_HOW, "%s", fate)
                         : snprintf(how, REPORT_HOW, " on %s%.400s", machine, fate);
}

/* What it waits in, or has issued last: " in allreduce(...) at train.py:41". */
static const char *write_last(const struct endpoint *end, uint32_t rank, char text[REPORT_HOW]) {
  struct team_last last;
  char unit[DESCRIPTION], place[PLACE_TEXT_MAX + 8];
  if (!team_last_unit(end->team, rank, &last))
    return "";
  snprintf(text, REPORT_HOW, "%s %s%s", last.parked ? " in" : " after",
           report_describe(last.unit, unit), report_at(last.place, place));
  return text;
}

const char *report_end_of(const struct endpoint *end, uint32_t rank, bool entered,
                          char how[REPORT_HOW]) {
  char did[REPORT_HOW];
  int used = write_fate(end->team->plane, rank, how);
  if (entered && used > 0 && (size_t)used < REPORT_HOW)
    snprintf(how + used, REPORT_HOW - (size_t)used, "%s%s",
             plane_is_parked(end->team->plane, rank) ? ", parked" : "", write_last(end, rank, did));
  return how;
}

/* ---- where all are ---- */

/* " for 61 s", of a rank that waits. */
static const char *write_since(const struct plane *plane, uint32_t rank, char text[32]) {
  uint64_t since = plane_parked_since(plane, rank), now = now_ms();
  text[0] = '\0';
  if (since != 0 && now >= since)
    snprintf(text, 32, " for %llu s", (unsigned long long)((now - since) / 1000));
  return text;
}

/* What a rank does in this moment, as far as it can be seen from outside. */
static const char *report_doing(const struct plane *plane, uint32_t rank) {
  bool parked = plane_is_parked(plane, rank);
  if (plane->stopped(plane, rank))
    return parked ? "parked, its process stopped (SIGSTOP, Ctrl-Z or a debugger)"
                  : "stopped (SIGSTOP, Ctrl-Z or a debugger)";
  return parked ? "parked" : "running its program";
}

/* The caller has entered the endpoint. */
static void log_who_is_where(const struct endpoint *end, enum log_level level) {
  const struct plane *plane = end->team->plane;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    bool parked = plane_is_parked(plane, rank);
    char last[REPORT_HOW], since[32];
    log_line(level, "  rank %u: %llu collectives issued, %s%s%s", rank,
             (unsigned long long)plane_passed(plane, rank), report_doing(plane, rank),
             write_last(end, rank, last), parked ? write_since(plane, rank, since) : "");
  }
}

/* What becomes of the call of a rank that is released. */
static const char *report_outcome(struct unit wanted) {
  if (unit_is_leave(wanted))
    return "it goes on, and answers the others no more";
  return unit_is_exit_point(wanted) ? "it goes on" : "ncclRemoteError";
}

void report_timeout(const struct endpoint *end, struct unit wanted) {
  const struct team *team = end->team;
  char text[DESCRIPTION];
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "rank %u has waited for NCCL_JOIN_TIMEOUT=%llu s in %s; %s. Raise NCCL_JOIN_TIMEOUT if "
      "ranks may be that far apart",
      team->plane->rank, (unsigned long long)join_settings()->timeout_s,
      report_describe(wanted, text), report_outcome(wanted));
  log_who_is_where(end, LOG_LEVEL_WARN);
}

void report_slow(struct endpoint *end, struct unit wanted) {
  char text[DESCRIPTION];
  if (end->slow_told)
    return;
  end->slow_told = true;
  bool holds_up = overlap_holds_up(end->overlap);
  enum log_level level = holds_up ? LOG_LEVEL_WARN : LOG_LEVEL_INFO;
  log_line_of(
      endpoint_subject(end), level,
      "rank %u has waited for NCCL_JOIN_TIMEOUT=%llu s in %s; no rank has joined or left, so "
      "it waits on, as it would without nccl-join%s",
      end->team->plane->rank, (unsigned long long)join_settings()->timeout_s,
      report_describe(wanted, text),
      holds_up ? ". Ranks of another communicator have gone on without it: if they wait for "
                 "it on their devices, nobody can go on"
               : "");
  log_who_is_where(end, level);
}

void report_goes_on(struct endpoint *end, const struct endpoint *behind, uint64_t waited_ms) {
  if (end->ahead_told)
    return;
  end->ahead_told = true;
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_INFO,
      "rank %u has waited %llu ms with a collective for ranks that have not come yet to what it "
      "has issued in communicator %08x. Nobody has joined, so it goes on, as they may wait for it "
      "outside of NCCL; where that happens again it will wait less",
      end->team->plane->rank, (unsigned long long)waited_ms, behind->tag);
  log_who_is_where(behind, LOG_LEVEL_INFO);
}

void report_held_in_vain(const struct endpoint *end, const struct posts *posts,
                         uint64_t waited_ms) {
  struct place place;
  char at[PLACE_TEXT_MAX + 8];
  bool known = peers_place(end->team->peers, posts->place, &place);
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u has left a loop, and has waited %llu ms with what it sends or receives%s "
              "for ranks that "
              "have not come there: it goes on. If they are in the loop still, they meet what "
              "comes behind it. "
              "Let a collective of all ranks come first (a barrier), or call nccl_join_leave where "
              "a loop ends",
              end->team->plane->rank, (unsigned long long)waited_ms,
              report_at(known ? place.text : "", at));
  log_who_is_where(end, LOG_LEVEL_WARN);
}

/* "rank 1 has", "ranks 1, 2, 5 and 3 more have". */
static const char *write_missing(const struct late_missing *missing, char text[160]) {
  int used = snprintf(text, 160, "rank%s", missing->count == 1 ? "" : "s");
  uint32_t named = missing->count < LATE_NAMED ? missing->count : LATE_NAMED;
  for (uint32_t i = 0; i < named; i++)
    used +=
        snprintf(text + used, 160 - (size_t)used, "%s %u", i == 0 ? "" : ",", missing->ranks[i]);
  if (missing->count > named)
    used += snprintf(text + used, 160 - (size_t)used, " and %u more", missing->count - named);
  (void)snprintf(text + used, 160 - (size_t)used, missing->count == 1 ? " has" : " have");
  return text;
}

void report_late(const struct endpoint *end, const struct late_report *late) {
  char missing[160];
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "nothing has moved for %llu s: rank %u waits inside of %s for communicator %08x of "
              "%u ranks, to "
              "which %s not come. %s: call nccl_join_leave after the loop, before %s",
              (unsigned long long)late->seconds, end->team->plane->rank, late->function, late->tag,
              late->nranks, write_missing(&late->missing, missing),
              late->uneven ? "Others are still in a loop that it has left, and wait for it there, "
                             "so that nobody can "
                             "go on"
                           : "If others are still in a loop that it has left (NCCL_JOIN_STALL_WARN "
                             "has passed), nobody "
                             "can go on",
              late->function);
  log_who_is_where(end, LOG_LEVEL_WARN);
}

void report_stuck_posts(const struct endpoint *end) {
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u is %u sends and receives ahead of a peer that has failed, or does not come "
              "along for NCCL_JOIN_TIMEOUT=%llu s; ncclRemoteError",
              end->team->plane->rank, PLANE_OPERATIONS,
              (unsigned long long)join_settings()->timeout_s);
  log_who_is_where(end, LOG_LEVEL_WARN);
}

/* "1, 2, 5 and 3 more": those that are not parked, and of them those that are stopped or those that
 * are not. How many they are. */
static uint32_t write_active(const struct plane *plane, bool stopped, char text[96]) {
  enum { NAMED = 8 };
  uint32_t named = 0, more = 0;
  int used = 0;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    if (plane_is_parked(plane, rank) || plane->stopped(plane, rank) != stopped)
      continue;
    if (named == NAMED)
      more++;
    else
      used += snprintf(text + used, 96 - (size_t)used, "%s%u", named++ == 0 ? "" : ", ", rank);
  }
  if (more > 0)
    snprintf(text + used, 96 - (size_t)used, " and %u more", more);
  return named + more;
}

/* ", ranks 1, 2 run their programs, and rank 3 is stopped (...)". */
static const char *write_others(const struct plane *plane, char text[400]) {
  char active[96], stopped[96];
  uint32_t nactive = write_active(plane, false, active);
  uint32_t nstopped = write_active(plane, true, stopped);
  int used = snprintf(text, 400, "%s", nactive + nstopped == 0 ? ", and all others wait, too" : "");
  if (nactive > 0)
    used += snprintf(text + used, 400 - (size_t)used, "%s rank%s %s run%s program%s",
                     nstopped == 0 ? " while" : ",", nactive == 1 ? "" : "s", active,
                     nactive == 1 ? "s its" : " their", nactive == 1 ? "" : "s");
  if (nstopped > 0)
    snprintf(text + used, 400 - (size_t)used,
             ", and rank%s %s %s stopped (SIGSTOP, Ctrl-Z or a debugger; kill -CONT lets %s go on)",
             nstopped == 1 ? "" : "s", stopped, nstopped == 1 ? "is" : "are",
             nstopped == 1 ? "it" : "them");
  return text;
}

void report_stall(const struct endpoint *end, struct unit wanted, const struct stall *stall) {
  char text[DESCRIPTION], others[400], ring[240] = "";
  if (stall->ring_s != 0)
    snprintf(ring, sizeof ring,
             ". Ranks of another of its communicators have gone on without it, and may wait for it "
             "there on their devices, which cannot be seen: it %s in %llu s, after %s"
             "NCCL_JOIN_TIMEOUT",
             stall->leaves ? "leaves" : "answers them", (unsigned long long)stall->ring_s,
             stall->leaves ? "" : "half of ");
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "nothing has moved in communicator %08x for %llu s: rank %u waits %s %s%s%s%s. Look at what "
      "they do (py-spy dump, gdb -p); if ranks may be that far apart, raise "
      "NCCL_JOIN_STALL_WARN",
      end->tag, (unsigned long long)stall->seconds, end->team->plane->rank,
      stall->before ? "with" : "in", report_describe(wanted, text),
      stall->before ? " until all have come to what it has issued here" : "",
      write_others(end->team->plane, others), ring);
  log_who_is_where(end, LOG_LEVEL_WARN);
}
