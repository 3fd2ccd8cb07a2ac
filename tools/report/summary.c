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

int summary_rank(const struct summary *summary, int rank) {
  for (size_t i = 0; i < summary->count; i++)
    if (summary->tracks[i].rank == rank)
      return summary->tracks[i].job_rank;
  return rank;
}

const char *summary_time(uint64_t ns, char text[SUMMARY_TIME]) {
  double ms = (double)ns / 1e6;
  if (ns == 0)
    snprintf(text, SUMMARY_TIME, "0 s");
  else if (ms < 1000)
    snprintf(text, SUMMARY_TIME, ms < 10 ? "%.1f ms" : "%.0f ms", ms < .1 ? .1 : ms);
  else
    snprintf(text, SUMMARY_TIME, ms < 10000 ? "%.2f s" : "%.1f s", ms / 1000);
  return text;
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
  if (summary->from > summary->end)
    summary->from = summary->end;
}

static void add_ranks(struct summary *summary) {
  summary->most = summary->least = summary->tracks;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    summary->own += track->own;
    summary->shadows += track->shadows;
    summary->answers += track->answers;
    summary->joined_ns += summary_joined_ns(track);
    if (track->own > summary->most->own)
      summary->most = track;
    if (track->own < summary->least->own)
      summary->least = track;
  }
}

/* ---- epochs ---- */

/* Whether all ranks issue an index, and one of them had joined until then. */
static bool is_rejoin(const struct summary *summary, uint64_t index) {
  bool joined = false;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    enum part part = track_part(track, index);
    if (part != PART_OWN && part != PART_MARK)
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

static bool is_mark(const struct summary *summary, uint64_t index) {
  for (size_t i = 0; i < summary->count; i++)
    if (track_part(&summary->tracks[i], index) == PART_MARK)
      return true;
  return false;
}

/* One that has marks alone is none. */
static void add_epoch(struct summary *summary, uint64_t from, uint64_t end) {
  struct epoch *epoch = &summary->epochs[summary->nepochs++];
  uint64_t first = from, all = 0;
  bool uneven = summary->after_any > 0; /* an epoch before this one was */
  *epoch = (struct epoch){.from = from, .end = end, .least = UINT64_MAX};
  while (first < end && !has_shadow(summary, first))
    first++;
  for (size_t i = 0; i < summary->count; i++) {
    const struct track *track = &summary->tracks[i];
    uint64_t own = count_own(track, from, end);
    all += own;
    if (own > epoch->most || i == 0) {
      epoch->most = own;
      epoch->most_rank = track->job_rank;
    }
    if (own < epoch->least) {
      epoch->least = own;
      epoch->least_rank = track->job_rank;
    }
    summary->after_first += count_own(track, first, end);
    summary->after_any += uneven ? own : count_own(track, first, end);
  }
  if (all == 0 && first == end) {
    summary->nepochs--;
    return;
  }
  if (summary->count != 0) /* for clang's analyzer: a run without traces has no epochs */
    summary->even += (all + summary->count - 1) / summary->count;
}

static bool find_epochs(struct summary *summary) {
  size_t room = 1;
  for (uint64_t index = summary->from; index < summary->end; index++)
    summary->collectives += !is_mark(summary, index);
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

/* Nothing but warnings has a time: since the traces were opened. */
static void find_begin(struct summary *summary) {
  for (size_t i = 0; i < summary->count; i++)
    if (summary->tracks[i].start_ns < summary->start_ns)
      summary->start_ns = summary->tracks[i].start_ns;
  summary->end_ns = summary->start_ns;
}

static bool is_empty(const struct summary *summary) {
  uint64_t records = summary->end - summary->from;
  for (size_t i = 0; i < summary->count; i++)
    records += summary->tracks[i].nspans + summary->tracks[i].nwarnings;
  return records == 0;
}

bool summary_make(struct summary *summary, const struct track *first, size_t count) {
  *summary = (struct summary){.tracks = first, .count = count};
  find_bounds(summary);
  if (is_empty(summary))
    return false;
  if (summary->start_ns > summary->end_ns)
    find_begin(summary);
  add_ranks(summary);
  return find_epochs(summary);
}

void summary_free(struct summary *summary) {
  free(summary->epochs);
}
