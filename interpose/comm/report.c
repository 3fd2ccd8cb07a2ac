/* What a rank says of its wait in a call: lines and records (report.h). */
#include "interpose/comm/report.h"

#include <inttypes.h>

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "hooks/contribution.h"
#include "interpose/comm/lossy_policy.h"
#include "interpose/comm/report_private.h"
#include "interpose/self/environment.h"

/* When a joined rank can send zeros, and what to do if it cannot. */
#define ZEROS_ADVICE                                                                               \
  "Set NCCL_JOIN_LOSSY=%s:zero where zeros count for nothing, as in SyncBatchNorm; where "         \
  "parameters are in shards (FSDP, ZeRO), give all ranks as many iterations, or stop them "        \
  "together (NCCL_JOIN_EARLY_EXIT=throw)"

void report_event(struct endpoint *end, enum trace_event event, uint64_t index, struct unit unit,
                  int peer) {
  if (end->trace == NULL)
    return;
  char text[DESCRIPTION];
  trace_event(end->trace, event, index, report_describe(unit, text), peer);
}

/* What team_doubt or team_doubt_passed has found: of the guess only its kind and the places are of
 * interest. */
static void report_unsure(const struct endpoint *end, const char *own) {
  const struct team *team = end->team;
  const struct team_guess *guess = &team->telling.guess;
  char place[PLACE_TEXT_MAX + 8], other[PLACE_TEXT_MAX + 8];
  if (guess->kind == GUESS_MIXED) {
    report_mixed(end, guess, true);
    return;
  }
  if (guess->kind == GUESS_ORDER || guess->kind == GUESS_BEHIND || guess->kind == GUESS_BESIDE) {
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u stands at %s%s, at collective %llu, while rank %u goes on in the same loop%s, "
        "and nothing tells which goes first: rank %u stops (NCCL_JOIN_UNSURE=stop): "
        "ncclRemoteError. Let all ranks come to a collective at the end of each epoch, call "
        "nccl_join_leave where a loop ends, or let the others go on (NCCL_JOIN_UNSURE=warn)",
        team->plane->rank, own, report_at(guess->other_place, other),
        (unsigned long long)team->failed.index, team->failed.rank, report_at(guess->place, place),
        team->plane->rank);
    return;
  }
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "%s of rank %u%s, at collective %llu, looks like that of rank %u%s, which is issued, "
              "and nothing tells "
              "whether they are one: rank %u stops (NCCL_JOIN_UNSURE=stop): ncclRemoteError. Call "
              "nccl_join_leave where a loop ends, or let nccl-join take them for one "
              "(NCCL_JOIN_UNSURE=warn)",
              own, team->plane->rank, report_at(guess->other_place, other),
              (unsigned long long)team->failed.index, team->failed.rank,
              report_at(guess->place, place), team->plane->rank);
}

void report_failure(const struct endpoint *end, struct unit wanted) {
  const struct team *team = end->team;
  char text[DESCRIPTION], how[REPORT_HOW], count[REPORT_COUNT];
  const char *own = report_describe(wanted, text);
  uint32_t rank = team->plane->rank;
  switch (team->failed.how) {
  case FAILURE_RANK:
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "rank %u failed after %s%s; rank %u, parked in %s after %llu, is "
                "released%s",
                team->failed.rank, report_count(end, team->failed.rank, team->failed.index, count),
                report_end_of(end, team->failed.rank, true, how), rank, own,
                (unsigned long long)team->head,
                unit_is_exit_point(wanted) ? "" : " with ncclRemoteError");
    break;
  case FAILURE_ENDED:
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u has ended, but rank %u still wants %s: the ranks of this program do not end "
        "together; ncclRemoteError. Let each end after the same collectives",
        team->failed.rank, rank, own);
    break;
  case FAILURE_MEMORY:
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u is out of memory and cannot follow the others; ncclRemoteError. Leave it more "
        "host memory",
        rank);
    break;
  case FAILURE_TOO_BIG:
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u cannot stand in for a group of more than %d collectives that rank %u issued; "
        "ncclRemoteError. Make groups smaller",
        rank, UNIT_MEMBERS_MAX, team->failed.rank);
    break;
  case FAILURE_UNSURE:
    report_unsure(end, own);
    break;
  case FAILURE_CORRUPT:
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "what rank %u published at index %llu cannot be right (another version of nccl-join, "
        "or memory overwritten); rank %u stops with ncclRemoteError. Start all ranks with the same "
        "libnccl-join.so",
        team->failed.rank, (unsigned long long)team->failed.index, rank);
    break;
  case FAILURE_NONE:
    break;
  }
}

void report_lost(const struct endpoint *end, uint32_t rank, uint64_t issued) {
  const struct team *team = end->team;
  char how[REPORT_HOW];
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u failed after %llu collectives%s; rank %u has issued %llu, and is told by "
              "ncclCommGetAsyncError: ncclRemoteError",
              rank, (unsigned long long)issued, report_end_of(end, rank, false, how),
              team->plane->rank, (unsigned long long)team_passed(team));
}

/* As in NCCL_JOIN_LOSSY. */
static const char *kind_name(uint8_t kind) {
  return lossy_kind_name(contribution_lossy_kind(kind));
}

void report_refused(const struct endpoint *end, struct unit wanted) {
  char text[DESCRIPTION];
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "%s needs data of rank %u, which has joined: ncclInvalidUsage on every rank that called "
      "it. " ZEROS_ADVICE,
      report_describe(wanted, text), team_refused_for(end->team),
      kind_name(lossy_strict_member(wanted)->kind));
}

void report_exception(const struct endpoint *end, struct unit wanted, const char *exception) {
  char text[DESCRIPTION];
  uint32_t rank = end->team->plane->rank;
  if (unit_is_leave(wanted))
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "rank %u leaves with an exception under way (%s), and others go on: a failure, not "
                "a join. If that exception says that there is no more data, leave after it has "
                "been handled: behind the except, finally, with or catch",
                rank, exception);
  else
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "rank %u comes to %s with an exception under way (%s), and others are in their "
                "loop: it counts as out of data, and answers for them. A rank that has failed must "
                "end without this call",
                rank, report_describe(wanted, text), exception);
}

/* As the program has it: ranks in the communicator. */
static const char *describe_in(const struct communicator *comm, struct member member,
                               char text[DESCRIPTION]) {
  member.root = communicator_rank_of(comm, (uint32_t)member.root);
  member.comm = 0;
  return report_describe((struct unit){&member, 1}, text);
}

/* What is wrong with it, and why. */
static const char *unequal_text(enum unequal_how how) {
  switch (how) {
  case UNEQUAL_SIZES:
    return "although their sizes differ: NCCL wants the same on both sides, and what arrives is "
           "undefined. Ranks are at different points of the program, mostly since one has left a "
           "loop of sends and receives that others go on with";
  case UNEQUAL_WE_LEFT:
    return "although this rank has left a loop of sends and receives that the other goes on with: "
           "if it has run out of data, ranks are at different points of the program, and what "
           "arrives is not what is wanted (stages of a pipeline may do so by design)";
  case UNEQUAL_THEY_LEFT:
    return "although that rank has left a loop of sends and receives that this one goes on with: "
           "if it has run out of data, ranks are at different points of the program, and what "
           "arrives is not what is wanted (stages of a pipeline may do so by design)";
  }
  return "";
}

void report_unequal(struct communicator *comm, const struct unequal *unequal,
                    const struct unequal_places *places, bool refused) {
  char own[DESCRIPTION], other[DESCRIPTION];
  char place[PLACE_TEXT_MAX + 8], other_place[PLACE_TEXT_MAX + 8];
  if (atomic_exchange(&comm->told_unequal, true) && !refused)
    return;
  log_line_of(
      communicator_subject(comm), LOG_LEVEL_WARN,
      "%s of rank %d%s meets %s of rank %d%s%s, %s. Call nccl_join_leave where that loop ends%s",
      describe_in(comm, unequal->ours, own), comm->rank, report_at(places->ours, place),
      describe_in(comm, unequal->theirs, other),
      communicator_rank_of(comm, (uint32_t)unequal->ours.root),
      report_at(places->theirs, other_place), places->same ? " at the same place" : "",
      unequal_text(unequal->how),
      refused ? ". It is not issued (NCCL_JOIN_UNSURE=stop): ncclInvalidUsage" : "");
}

void report_stop(struct endpoint *end, struct unit wanted) {
  report_guess(end, wanted);
  const struct team *team = end->team;
  unsigned long long index = (unsigned long long)team_index(team);
  char text[DESCRIPTION];
  const char *own = report_describe(wanted, text);
  report_event(end, TRACE_STOP, team_index(team), wanted, (int)team->stop.rank);
  if (join_settings()->early_exit != EARLY_EXIT_THROW)
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "ranks want different collectives, and nothing tells which goes first: all stop after %llu "
        "collectives, and %s of rank %u is not issued (NCCL_JOIN_UNSURE=stop): ncclInvalidUsage. "
        "Call nccl_join_leave where a loop ends, or let nccl-join choose (NCCL_JOIN_UNSURE=warn)",
        index, own, team->plane->rank);
  else if (team->stop.exhausted)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "Rank %u exhausted all inputs. All ranks stop after %llu collectives "
                "(NCCL_JOIN_EARLY_EXIT=throw): ncclInvalidUsage",
                team->plane->rank, index);
  else
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "Detected at least one rank that exhausted inputs. Throwing across all ranks: rank %u "
        "%s, and %s of rank %u is not issued, after %llu collectives "
        "(NCCL_JOIN_EARLY_EXIT=throw): ncclInvalidUsage",
        team->stop.rank,
        team->stop.elsewhere ? "was stopped in another communicator" : "has left its loop", own,
        team->plane->rank, index);
}

void report_sharded(const struct communicator *comm, uint64_t index, int root, int joined) {
  log_line_of(
      communicator_subject(comm), LOG_LEVEL_WARN,
      "rank %d has joined, but broadcasts come from it and from other ranks in turn: what "
      "each sends, such as its shard of ZeRO's parameters, nobody else has. ncclInvalidUsage "
      "from collective %llu (broadcast from rank %d) on. Give all ranks as many iterations, "
      "stop them together (NCCL_JOIN_EARLY_EXIT=throw), or set NCCL_JOIN_LOSSY=allgather:last "
      "to go on with that shard as it was",
      joined, (unsigned long long)index, root);
}

/* The first shadow: this rank has joined. */
void report_shadow(struct endpoint *end, uint64_t index, struct unit unit) {
  if (end->shadows++ == 0) {
    report_event(end, TRACE_JOIN, index, unit, -1);
    log_line_of(endpoint_subject(end), LOG_LEVEL_INFO,
                "rank %u has joined: it answers for its peers from collective %llu on",
                end->team->plane->rank, (unsigned long long)index);
  }
  report_joined(end, unit);
  report_guess(end, unit);
  report_event(end, TRACE_SHADOW, index, unit, (int)end->team->source);
  report_skew(end);
}

/* Whether anything of it is asked for is not known yet, so it may not have joined. */
void report_exchange(struct endpoint *end, struct unit unit) {
  report_joined(end, unit);
  report_event(end, TRACE_SHADOW, team_index(end->team), unit, (int)end->team->source);
}

void report_return(struct endpoint *end, uint64_t index) {
  report_active(end);
  log_line_of(endpoint_subject(end), LOG_LEVEL_INFO,
              "rank %u is active again from collective %llu on, shadows since it joined: %llu",
              end->team->plane->rank, (unsigned long long)index, (unsigned long long)end->shadows);
}

void report_missed_rejoin(const struct endpoint *end) {
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u had joined, but the others have not waited for it at collective %llu, which "
              "came as regularly as their loop: buffers are resynchronised, and post hooks called, "
              "where the ranks next wait for each other. Mark the end of the loop with "
              "nccl_join_leave",
              end->team->plane->rank, (unsigned long long)team_index(end->team));
}

void report_guess(const struct endpoint *end, struct unit won) {
  struct team *team = end->team;
  const struct team_guess *guess = &team->telling.guess;
  if (!team->telling.guessed)
    return;
  team->telling.guessed = false;
  char ours[DESCRIPTION], theirs[DESCRIPTION];
  char place[PLACE_TEXT_MAX + 8], other[PLACE_TEXT_MAX + 8];
  unsigned long long index = team_index(team);
  report_at(guess->place, place);
  report_at(guess->other_place, other);
  if (guess->kind == GUESS_EPOCH)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "rank %u%s is %u epochs behind rank %u: they have been out of step since nccl-join "
                "chose between them. It goes on alone until they are in one epoch again. Call "
                "nccl_join_leave where a loop ends, so that nothing is to be chosen",
                guess->rank, place, guess->epochs, guess->other);
  else if (guess->kind == GUESS_MIXED)
    report_mixed(end, guess, false);
  else if (guess->kind == GUESS_BLIND)
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "where in the program %s of rank %u%s stands cannot be seen (docs/places.md says why): it "
        "is "
        "known by its kind, type, size and order alone. That makes no difference while all ranks "
        "have equally many batches. Otherwise collectives after a loop that look like some of the "
        "loop may meet those: call nccl_join_leave where a loop ends",
        report_describe((struct unit){&guess->member, 1}, theirs), guess->rank, place);
  else if (guess->kind == GUESS_HIDDEN)
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u has joined at collective %llu, parked in %s, and where in the program calls stand "
        "cannot be "
        "seen (docs/places.md says why). Collectives after the loop that look like some of the "
        "loop may meet those: call nccl_join_leave where a loop ends",
        guess->other, index, report_describe((struct unit){&guess->member, 1}, theirs));
  else if (guess->kind == GUESS_APART)
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u%s waits at collective %llu for rank %u%s: %s of both look alike, but are "
        "taken for different points of the program: rank %u counts as out of data. That is wrong "
        "if ranks have equally many batches, and come to one collective in both ways (or a "
        "compiler has made two calls of one): then each sums alone from here on, and "
        "NCCL_JOIN_PLACES=0 leaves the program alone; not where a rank may ever run out of data. "
        "nccl_join_leave where a loop ends says which it is",
        guess->other, other, index, guess->rank, place,
        report_describe((struct unit){&guess->member, 1}, theirs), guess->other);
  else if (guess->kind == GUESS_BEHIND || guess->kind == GUESS_BESIDE)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "rank %u has left a loop, and sends or receives%s, while rank %u goes on in it%s. "
                "Nothing has told "
                "yet in which order their program does both: rank %u %s. If that is wrong, let a "
                "collective of "
                "all ranks come between (a barrier), or call nccl_join_leave where a loop ends",
                guess->other, other, guess->rank, place, guess->other,
                guess->kind == GUESS_BEHIND
                    ? "waits until the other has left the loop, too"
                    : "goes on, as they are on different communicators and streams");
  else if (guess->kind == GUESS_SAME)
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "%s of rank %u%s, at collective %llu, is taken for that of rank %u%s, since they "
                "look alike. If they "
                "are different points of the program, call nccl_join_leave where a loop ends",
                report_describe((struct unit){&guess->member, 1}, theirs), guess->other, other,
                index, guess->rank, place);
  else
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "ranks want different collectives at collective %llu, and nothing tells which goes first: "
        "%s of rank "
        "%u%s does, %s of rank %u%s waits. If that is wrong, ranks meet at different points of "
        "the program; then call nccl_join_leave where a loop ends",
        index, report_describe(won, ours), guess->rank, place,
        report_describe((struct unit){&guess->member, 1}, theirs), guess->other, other);
}

static void report_lossy_receive(const struct endpoint *end, uint32_t receiver, uint32_t joined,
                                 bool issued) {
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u has joined and %s to ncclRecv of rank %u: ncclInvalidUsage. Set "
              "NCCL_JOIN_LOSSY=send:zero to let joined ranks send zeros",
              joined, issued ? "could only send zeros" : "has nothing to send", receiver);
}

void report_yield(const struct endpoint *end) {
  struct unit requested;
  struct member member;
  char ours[DESCRIPTION], theirs[DESCRIPTION];
  if (!overlap_guessed(end->overlap, &requested, &member))
    return;
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "ranks of overlapping communicators wait for each other, and little tells who goes first: "
      "rank %u, parked in %s, stands in for itself in %s of its peers. If that is wrong, ranks "
      "meet at different places of the program",
      end->team->plane->rank, report_describe(requested, ours),
      report_describe((struct unit){&member, 1}, theirs));
}

void report_lossy_event(const struct endpoint *end, const struct lossy_event *event) {
  if (event->kind == LOSSY_HOOK) {
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "a plug-in of NCCL_JOIN_HOOK has failed on rank %u, which has joined, at collective "
        "%llu: what changes nothing was sent instead; ncclInvalidUsage. That rank's log says "
        "which plug-in",
        event->rank, (unsigned long long)event->index);
    return;
  }
  if (event->kind == MEMBER_SEND) {
    report_lossy_receive(end, event->peer, event->rank, true);
    return;
  }
  if (event->kind == MEMBER_RECEIVE) {
    report_lossy_receive(end, event->rank, event->peer, false);
    return;
  }
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u has joined and could only send zeros to collective %llu (%s): "
              "ncclInvalidUsage. " ZEROS_ADVICE,
              event->rank, (unsigned long long)event->index, member_kind_name(event->kind),
              kind_name(event->kind));
}

void report_no_last(const struct endpoint *end, struct unit unit, uint32_t position,
                    const char *reason) {
  const struct member *member = &unit.members[position];
  char text[DESCRIPTION];
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u has joined and sends zeros in %s, which is an error on the active ranks: "
              "NCCL_JOIN_LOSSY=%s:last, but %s",
              end->team->plane->rank, report_describe((struct unit){member, 1}, text),
              kind_name(member->kind), reason);
}

void report_last_untold(const struct endpoint *end, struct unit unit, uint32_t position) {
  char text[DESCRIPTION];
  log_once_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "rank %u has joined and sends from its own buffer in %s: its calls have used several, "
      "none of them twice, so nothing tells which; the last one is taken (NCCL_JOIN_LOSSY)",
      end->team->plane->rank, report_describe((struct unit){&unit.members[position], 1}, text));
}

void report_not_rebuilt(const struct endpoint *end, struct unit unit, bool stops) {
  char text[DESCRIPTION];
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u has had no batch before the others went on to their second one, where "
              "DistributedDataParallel may have put their gradients into another order: its first "
              "ones, %s at "
              "collective %" PRIu64
              ", may be summed with those of other parameters. To do: a batch for each "
              "rank in the first epoch, or find_unused_parameters=True%s",
              end->team->plane->rank, report_describe(unit, text), end->team->head,
              stops ? "; NCCL_JOIN_UNSURE=warn goes on all the same" : "");
}

void report_shadow_failure(struct log_subject subject, struct unit unit, const char *reason) {
  char text[DESCRIPTION];
  log_line_of(
      subject, LOG_LEVEL_WARN,
      "a shadow of %s failed: %s. Its peers get ncclRemoteError: NCCL's own log (NCCL_DEBUG=WARN) "
      "says more",
      report_describe(unit, text), reason);
}
