/* What a run's traces say of how it ended, and of how to do better (summary.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tools/report/summary.h"

struct sentences {
  char (*texts)[ADVICE_SIZE];
  size_t count;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentences *out, const char *format,
                                                      ...) {
  va_list arguments;
  va_start(arguments, format);
  if (out->count < ADVICE_MAX)
    vsnprintf(out->texts[out->count++], ADVICE_SIZE, format, arguments);
  va_end(arguments);
}

/* ---- how it ended ---- */

/* What track_end says of these. */
static const struct track no_end = {0}, was_ended = {.was_ended = true},
                          still_open = {.still_open = true};

/* "rank 1", "ranks 0, 2": those whose traces end so; returns how many. */
static int name_ranks(const struct summary *summary, const char *end, char *text, size_t size) {
  int count = 0;
  for (size_t i = 0; i < summary->count; i++)
    count += track_end(&summary->tracks[i]) == end;
  size_t used = (size_t)snprintf(text, size, "%s", count == 1 ? "rank" : "ranks");
  const char *before = " ";
  for (size_t i = 0; i < summary->count && used < size; i++)
    if (track_end(&summary->tracks[i]) == end) {
      used +=
          (size_t)snprintf(text + used, size - used, "%s%d", before, summary->tracks[i].job_rank);
      before = ", ";
    }
  return count;
}

static const struct track *first_stopped(const struct summary *summary) {
  for (size_t i = 0; i < summary->count; i++)
    if (summary->tracks[i].stopped && !summary->tracks[i].ended)
      return &summary->tracks[i];
  return NULL;
}

/* One that names whom it failed because of, if there is one. */
static const struct track *first_failed(const struct summary *summary) {
  const struct track *failed = NULL;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    if (track->failed && (failed == NULL || (failed->because_of < 0 && track->because_of >= 0)))
      failed = track;
  }
  return failed;
}

/* What nccl-join run has said of it. */
static const char *why_ended(const struct summary *summary) {
  for (size_t i = 0; i < summary->count; i++)
    if (summary->tracks[i].why != NULL)
      return summary->tracks[i].why;
  return NULL;
}

static bool has_failed(const struct summary *summary, int rank) {
  for (size_t i = 0; i < summary->count; i++)
    if (summary->tracks[i].rank == rank)
      return summary->tracks[i].failed;
  return false;
}

/* nccl-join run may see another rank end first: what the rank does while it ends may take longer.
 */
static void write_first(const struct summary *summary, const struct track *failed, const char *why,
                        char *first, size_t size) {
  int named = -1, rank = -1;
  if (failed != NULL && failed->because_of >= 0)
    rank = summary_rank(summary, failed->because_of);
  first[0] = '\0';
  if (sscanf(why, "rank %d ", &named) == 1 && rank >= 0 && rank != named)
    snprintf(first, size, "rank %d ended with an error, then ", rank);
}

static void say_failure(const struct summary *summary, const struct track *failed,
                        struct sentences *out) {
  char ranks[160], first[64];
  const char *why = why_ended(summary);
  bool ended = name_ranks(summary, track_end(&was_ended), ranks, sizeof ranks) > 0;
  if (why != NULL) {
    write_first(summary, failed, why, first, sizeof first);
    say(out,
        "The run did not come to its end: %s%.220s%s%s. What follows is of the time before that.",
        first, why, ended ? ", and nccl-join run ended " : "", ended ? ranks : "");
  } else if (failed->because_of < 0)
    say(out,
        "The run failed: rank %d gave up. What follows is of the time before that, and its warning "
        "says for whom it waited.",
        failed->job_rank);
  else if (failed->because_of == failed->rank && has_failed(summary, failed->rank))
    say(out,
        "The run failed: rank %d ended with an error, and its warning says how. What follows is of "
        "the time before that.",
        failed->job_rank);
  else
    say(out,
        "The run failed: rank %d had, and the others were released with an error. What follows is "
        "of the time before that.",
        summary_rank(summary, failed->because_of));
}

/* Whether all have left. known: gets whether that is so of what they did, or they do it still. */
static bool say_end(const struct summary *summary, bool *known, struct sentences *out) {
  const struct track *failed = first_failed(summary), *stopped = first_stopped(summary);
  char ranks[160];
  if (failed != NULL || why_ended(summary) != NULL)
    say_failure(summary, failed, out);
  if (stopped != NULL && stopped->because_of >= 0)
    say(out,
        "All ranks stopped at collective %" PRIu64
        ", because of rank %d; the warnings say why. What the others had left to do is not in the "
        "traces.",
        summary->end, summary_rank(summary, stopped->because_of));
  int open = name_ranks(summary, track_end(&still_open), ranks, sizeof ranks);
  if (open > 0)
    say(out,
        "The run goes on in %s: nccl-join status shows where. What follows is of what there is by "
        "now.",
        ranks);
  int count = name_ranks(summary, track_end(&no_end), ranks, sizeof ranks);
  *known = count == 0;
  if (count > 0)
    say(out,
        "The trace%s of %s ha%s no end: %s killed, %s crashed, or still run%s. What follows is of "
        "what there is.",
        count == 1 ? "" : "s", ranks, count == 1 ? "s" : "ve", count == 1 ? "it was" : "they were",
        count == 1 ? "has" : "have", count == 1 ? "s" : "");
  return failed == NULL && stopped == NULL && count + open == 0 && why_ended(summary) == NULL;
}

/* Whether there are traces of all ranks, from the first collective on. */
static bool say_missing(const struct summary *summary, bool *some_ranks, struct sentences *out) {
  uint64_t nranks = summary->tracks[0].nranks;
  *some_ranks = nranks > summary->count;
  if (*some_ranks)
    say(out,
        "Traces are missing: these are of %zu of %" PRIu64
        " ranks. What the others had and did is not known; was there room where they were written?",
        summary->count, nranks);
  if (summary->from > 0)
    say(out,
        "The first %" PRIu64 " collectives are not in the traces, which became too large "
        "(NCCL_JOIN_TRACE_SIZE), or found no "
        "more room where they were written. What follows is of the rest.",
        summary->from);
  return !*some_ranks && summary->from == 0;
}

/* ---- how to do better ---- */

static const char *write_percent(uint64_t part, uint64_t whole, char text[24]) {
  unsigned percent = summary_percent(part, whole);
  if (percent == 0 && part > 0)
    return "less than 1 %";
  snprintf(text, 24, "%u %%", percent);
  return text;
}

static void say_rebalance(const struct summary *summary, struct sentences *out) {
  uint64_t length = summary->collectives, ns = summary->end_ns - summary->start_ns;
  const struct track *most = summary->most, *least = summary->least;
  char then[SUMMARY_TIME], now[SUMMARY_TIME], moved[24];
  summary_time(ns, now);
  summary_time((uint64_t)((double)ns * (double)summary->even / (double)length), then);
  if (summary->even >= length) {
    say(out,
        "Nothing to rebalance: with as many collectives on each rank the run would have taken "
        "%" PRIu64 " all the same.",
        length);
    return;
  }
  if (most->own == least->own)
    say(out,
        "Rebalance: all ranks had as many collectives of their own (%" PRIu64
        "), but not in the same epochs. With as many on each rank in each epoch the run would have "
        "taken %" PRIu64 " collectives and not %" PRIu64 ": about %s and not %s.",
        most->own, summary->even, length, then, now);
  else if (summary->even >= most->own)
    say(out,
        "Rebalance within each epoch: with as many collectives on each rank in each of them the "
        "run "
        "would have taken %" PRIu64 " collectives and not %" PRIu64 ": about %s and not %s.",
        summary->even, length, then, now);
  else
    say(out,
        "Rebalance: rank %d has the most data (%" PRIu64
        " collectives of its own) and rank %d the least (%" PRIu64 "). With %" PRIu64
        " on each rank (%s of rank %d's moved away) the run would have taken %" PRIu64
        " collectives and not %" PRIu64 ": about %s and not %s.",
        most->job_rank, most->own, least->job_rank, least->own, summary->even,
        write_percent(most->own - summary->even, most->own, moved), most->job_rank, summary->even,
        length, then, now);
}

static void say_cost(const struct summary *summary, struct sentences *out) {
  char joined[SUMMARY_TIME], run[SUMMARY_TIME];
  uint64_t ns = summary->end_ns - summary->start_ns;
  say(out,
      "Cost of waiting: joined ranks only answered for %s, %u %% of the time of all ranks "
      "(%zu x %s).",
      summary_time(summary->joined_ns, joined),
      summary_percent(summary->joined_ns, ns * summary->count), summary->count,
      summary_time(ns, run));
}

/* Of one epoch both are the same. */
static void say_stop(const struct summary *summary, struct sentences *out) {
  char dropped[80] = "";
  if (summary->after_first != summary->after_any)
    snprintf(dropped, sizeof dropped, "; dropping the rest of each epoch, %" PRIu64 " (%u %%)",
             summary->after_first, summary_percent(summary->after_first, summary->own));
  say(out,
      "Stopping all ranks where the first one has no data (NCCL_JOIN_EARLY_EXIT=throw) would have "
      "lost %" PRIu64 " of %" PRIu64
      " collectives with data, %u %%%s. Waiting without nccl-join would have hung there.",
      summary->after_any, summary->own, summary_percent(summary->after_any, summary->own), dropped);
}

static void say_answers(const struct summary *summary, struct sentences *out) {
  char ranks[240] = "";
  size_t used = 0;
  for (size_t i = 0; i < summary->count && used < sizeof ranks; i++)
    if (summary->tracks[i].answers > 0)
      used += (size_t)snprintf(ranks + used, sizeof ranks - used, "%srank %d %" PRIu64,
                               used > 0 ? ", " : "", summary->tracks[i].job_rank,
                               summary->tracks[i].answers);
  say(out,
      "Ranks without data answered sends and receives of the others, which are no collectives: %s. "
      "To rebalance, give those ranks more rounds.",
      ranks);
}

/* By the words of the warning (report_ranks.c, report_mixed). */
static bool have_mixed(const struct summary *summary) {
  for (size_t i = 0; i < summary->count; i++)
    for (uint64_t j = 0; j < summary->tracks[i].nwarnings; j++)
      if (strstr(summary->tracks[i].warnings[j].text, ": they mix. ") != NULL)
        return true;
  return false;
}

static void say_mixed(struct sentences *out) {
  say(out,
      "Ranks were in different rounds of their outermost loop when they met in a collective. If "
      "rounds are epochs, sums of two epochs were added up, and ranks without data went on with "
      "the "
      "next one instead of waiting. The warnings say where, and what to set; what follows is of "
      "the "
      "run as it was.");
}

size_t summary_advise(const struct summary *summary, char advice[ADVICE_MAX][ADVICE_SIZE]) {
  struct sentences out = {advice, 0};
  bool known, some_ranks, well = say_end(summary, &known, &out),
                          whole = say_missing(summary, &some_ranks, &out);
  bool advises = known && whole && summary->shadows > 0, mixed = have_mixed(summary);
  if (mixed)
    say_mixed(&out);
  if (advises && summary->collectives > 0)
    say_rebalance(summary, &out);
  if (summary->answers > 0)
    say_answers(summary, &out);
  if (!some_ranks && (summary->joined_ns > 0 || summary->shadows + summary->answers > 0))
    say_cost(summary, &out);
  if (advises)
    say_stop(summary, &out);
  else if (summary->shadows > 0)
    say(&out,
        "How the ranks had better share their data cannot be told of a part of what they did.");
  if (summary->shadows + summary->answers > 0)
    return out.count;
  if (!well)
    say(&out, "Until then no rank had joined.");
  else if (!whole)
    say(&out, "In what there is, no rank has joined.");
  else if (summary->collectives == 0)
    say(&out, "There is no collective in the traces, and no rank has joined. Sends and receives of "
              "the program's own are not recorded.");
  else if (mixed)
    say(&out, "No rank has joined: all had as many collectives of their own, over all rounds.");
  else
    say(&out, "No rank has joined, so all had as many collectives of their own: nothing to gain.");
  return out.count;
}
