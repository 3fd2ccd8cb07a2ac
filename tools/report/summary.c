/* Adding tracks up (summary.h). */
#include "tools/report/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

unsigned summary_percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : (unsigned)((part * 100 + whole / 2) / whole);
}

uint64_t summary_joined_ns(const struct track *track) {
  uint64_t joined = 0;
  for (uint64_t i = 0; i < track->nspans; i++)
    if (track->spans[i].doing == DOES_SHADOW)
      joined += track->spans[i].to_ns - track->spans[i].from_ns;
  return joined;
}

/* ---- what there is ---- */

static void find_bounds(struct summary *summary) {
  summary->from = summary->start_ns = UINT64_MAX;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    uint64_t end = track->base + track->nparts;
    if (track->nparts > 0 && track->base < summary->from)
      summary->from = track->base;
    if (track->nparts > 0 && end > summary->end)
      summary->end = end;
    if (track->nspans > 0 && track->spans[0].from_ns < summary->start_ns)
      summary->start_ns = track->spans[0].from_ns;
    if (track->nspans > 0 && track->spans[track->nspans - 1].to_ns > summary->end_ns)
      summary->end_ns = track->spans[track->nspans - 1].to_ns;
  }
}

static void add_ranks(struct summary *summary) {
  summary->most = summary->least = summary->tracks;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    summary->own += track->own;
    summary->joined_ns += summary_joined_ns(track);
    if (track->own > summary->most->own)
      summary->most = track;
    if (track->own < summary->least->own)
      summary->least = track;
  }
  summary->even = (summary->own + summary->count - 1) / summary->count;
}

/* ---- epochs ---- */

/* Whether all ranks issue an index, and one of them had joined until then. */
static bool is_rejoin(const struct summary *summary, uint64_t index) {
  bool joined = false;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    if (track_part(track, index) != PART_OWN)
      return false;
    joined |= index > 0 && track_part(track, index - 1) == PART_SHADOW;
  }
  return joined;
}

static uint64_t count_own(const struct track *track, uint64_t from, uint64_t end) {
  uint64_t own = 0;
  for (uint64_t index = from; index < end; index++)
    own += track_part(track, index) == PART_OWN;
  return own;
}

static bool has_shadow(const struct summary *summary, uint64_t index) {
  for (size_t i = 0; i < summary->count; i++)
    if (track_part(&summary->tracks[i], index) == PART_SHADOW)
      return true;
  return false;
}

static void add_epoch(struct summary *summary, uint64_t from, uint64_t end) {
  struct epoch *epoch = &summary->epochs[summary->nepochs++];
  uint64_t first = from;
  *epoch = (struct epoch){.from = from, .end = end, .least = UINT64_MAX};
  while (first < end && !has_shadow(summary, first))
    first++;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    uint64_t own = count_own(track, from, end);
    if (own > epoch->most || i == 0) {
      epoch->most = own;
      epoch->most_rank = track->rank;
    }
    if (own < epoch->least) {
      epoch->least = own;
      epoch->least_rank = track->rank;
    }
    summary->after_first += count_own(track, first, end);
  }
}

static bool find_epochs(struct summary *summary) {
  size_t room = 1;
  for (uint64_t index = summary->from + 1; index < summary->end; index++)
    room += is_rejoin(summary, index);
  summary->epochs = calloc(room, sizeof *summary->epochs);
  uint64_t from = summary->from;
  for (uint64_t index = from + 1; summary->epochs != NULL && index < summary->end; index++)
    if (is_rejoin(summary, index)) {
      add_epoch(summary, from, index);
      from = index;
    }
  if (summary->epochs != NULL)
    add_epoch(summary, from, summary->end);
  return summary->epochs != NULL;
}

bool summary_make(struct summary *summary, const struct track *first, size_t count) {
  *summary = (struct summary){.tracks = first, .count = count};
  find_bounds(summary);
  if (summary->from >= summary->end)
    return false;
  if (summary->start_ns > summary->end_ns)
    summary->start_ns = summary->end_ns = 0; /* nothing has a time */
  add_ranks(summary);
  return find_epochs(summary);
}

void summary_free(struct summary *summary) {
  free(summary->epochs);
}

/* ---- advice ---- */

size_t summary_advise(const struct summary *summary, char advice[ADVICE_MAX][ADVICE_SIZE]) {
  uint64_t length = summary->end - summary->from;
  double seconds = (double)(summary->end_ns - summary->start_ns) / 1e9;
  const struct track *most = summary->most, *least = summary->least;
  size_t count = 0;
  if (most->own == least->own) {
    snprintf(advice[count++], ADVICE_SIZE,
             "All ranks had as many collectives of their own: nothing to gain.");
    return count;
  }
  snprintf(advice[count++], ADVICE_SIZE,
           "Rebalance: rank %d has the most data (%" PRIu64
           " collectives of its own) and rank %d the "
           "least (%" PRIu64 "). With %" PRIu64
           " on each rank (%u %% of rank %d's moved away) the run would "
           "have taken %" PRIu64 " collectives and not %" PRIu64 ": about %.1f s and not %.1f s.",
           most->rank, most->own, least->rank, least->own, summary->even,
           summary_percent(most->own - summary->even, most->own), most->rank, summary->even, length,
           seconds * (double)summary->even / (double)length, seconds);
  snprintf(
      advice[count++], ADVICE_SIZE,
      "Cost of waiting: joined ranks only answered for %.1f s, %u %% of the time of all ranks "
      "(%zu x %.1f s).",
      (double)summary->joined_ns / 1e9,
      summary_percent(summary->joined_ns, (summary->end_ns - summary->start_ns) * summary->count),
      summary->count, seconds);
  snprintf(advice[count++], ADVICE_SIZE,
           "Stopping all ranks where the first one has no data (NCCL_JOIN_EARLY_EXIT=throw, or "
           "dropping what is left) would have lost %" PRIu64 " of %" PRIu64
           " collectives with data, %u %%. "
           "Waiting without nccl-join would have hung there.",
           summary->after_first, summary->own, summary_percent(summary->after_first, summary->own));
  return count;
}
