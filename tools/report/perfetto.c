/* The run as a trace that the Perfetto UI opens (perfetto.h), in its protobuf format
 * (perfetto.proto), by protobuf-c. */
#include "tools/report/perfetto.h"
#include "tools/report/replace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/report/perfetto.pb-c.h"

enum { CLOCK_REAL = 1, CLOCK_MONO = 3, SEQUENCE = 1 };

/* protobuf-c's texts are not const; it only reads them. */
#define TEXT(text) ((char *)(text))

struct writer {
  FILE *out;
  bool real_time, failed;
};

/* ---- numbers that mean the same in each packet ---- */

/* FNV-1a over texts and numbers; never 0, which is nobody's. */
static uint64_t hash_text(uint64_t hash, const char *text) {
  for (; *text != '\0'; text++)
    hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

static uint64_t hash_number(uint64_t hash, uint64_t number) {
  char text[24];
  snprintf(text, sizeof text, "/%" PRIu64, number);
  hash = hash_text(hash, text);
  return hash != 0 ? hash : 1;
}

#define HASH_BEGIN 14695981039346656037u

static uint64_t process_of(const struct track *track) {
  return hash_number(hash_text(HASH_BEGIN, track->host), track->pid);
}

static uint64_t track_of(const struct track *track) {
  return hash_number(hash_text(process_of(track), track->team), (uint64_t)track->rank);
}

static uint64_t flow_of(const struct track *track, uint64_t index) {
  return hash_number(track_of(track), index);
}

/* ---- packets ---- */

static void write_packet(struct writer *writer, TracePacket *packet) {
  TracePacket *packets[] = {packet};
  Trace trace = TRACE__INIT;
  trace.n_packet = 1;
  trace.packet = packets;
  packet->has_trusted_packet_sequence_id = true;
  packet->trusted_packet_sequence_id = SEQUENCE;
  size_t size = trace__get_packed_size(&trace);
  uint8_t *bytes = malloc(size);
  if (bytes == NULL || fwrite(bytes, 1, trace__pack(&trace, bytes), writer->out) != size)
    writer->failed = true;
  free(bytes);
}

/* Of the first track with this one's host, so that ranks of one machine stay in the order of its
 * clock. */
static const struct track *first_of_host(const struct tracks *tracks, const struct track *track) {
  size_t i = 0;
  while (strcmp(tracks->all[i].host, track->host) != 0)
    i++;
  return &tracks->all[i];
}

static uint64_t time_of(const struct writer *writer, const struct track *host, uint64_t at) {
  return writer->real_time ? at - host->start_ns + host->start_unix_ns : at;
}

static void write_clocks(struct writer *writer, const struct track *first) {
  ClockSnapshot__Clock real = CLOCK_SNAPSHOT__CLOCK__INIT, mono = CLOCK_SNAPSHOT__CLOCK__INIT;
  ClockSnapshot__Clock *clocks[] = {&mono, &real};
  ClockSnapshot snapshot = CLOCK_SNAPSHOT__INIT;
  TracePacket packet = TRACE_PACKET__INIT;
  real.has_clock_id = mono.has_clock_id = real.has_timestamp = mono.has_timestamp = true;
  real.clock_id = CLOCK_REAL;
  real.timestamp = first->start_unix_ns;
  mono.clock_id = CLOCK_MONO;
  mono.timestamp = first->start_ns;
  snapshot.clocks = clocks;
  snapshot.n_clocks = writer->real_time ? 2 : 1;
  snapshot.has_primary_trace_clock = true;
  snapshot.primary_trace_clock = writer->real_time ? CLOCK_REAL : CLOCK_MONO;
  packet.clock_snapshot = &snapshot;
  write_packet(writer, &packet);
}

static void write_event(struct writer *writer, TrackEvent *event, uint64_t track, uint64_t at) {
  TracePacket packet = TRACE_PACKET__INIT;
  event->has_type = event->has_track_uuid = true;
  event->track_uuid = track;
  packet.has_timestamp = packet.has_timestamp_clock_id = true;
  packet.timestamp = at;
  packet.timestamp_clock_id = writer->real_time ? CLOCK_REAL : CLOCK_MONO;
  packet.track_event = event;
  write_packet(writer, &packet);
}

/* ---- tracks ---- */

/* A process, as other profiles name it: by its number, if that is of one process of the run. */
static void write_process(struct writer *writer, const struct tracks *tracks,
                          const struct track *track) {
  char name[160];
  bool unique = true;
  for (size_t i = 0; i < tracks->count; i++)
    unique &= tracks->all[i].pid != track->pid || strcmp(tracks->all[i].host, track->host) == 0;
  snprintf(name, sizeof name, "rank %d (%s, %" PRIu64 ")", track->job_rank, track->host,
           track->pid);
  ProcessDescriptor process = PROCESS_DESCRIPTOR__INIT;
  TrackDescriptor descriptor = TRACK_DESCRIPTOR__INIT;
  TracePacket packet = TRACE_PACKET__INIT;
  process.has_pid = true;
  process.pid = (int32_t)track->pid;
  process.process_name = name;
  descriptor.has_uuid = true;
  descriptor.uuid = process_of(track);
  if (unique)
    descriptor.process = &process;
  else
    descriptor.name = name;
  packet.track_descriptor = &descriptor;
  write_packet(writer, &packet);
}

static void write_track(struct writer *writer, const struct track *track) {
  char name[160];
  snprintf(name, sizeof name, "rank %d of communicator %s", track->rank, track_team(track));
  TrackDescriptor descriptor = TRACK_DESCRIPTOR__INIT;
  TracePacket packet = TRACE_PACKET__INIT;
  descriptor.has_uuid = descriptor.has_parent_uuid = true;
  descriptor.uuid = track_of(track);
  descriptor.parent_uuid = process_of(track);
  descriptor.name = name;
  packet.track_descriptor = &descriptor;
  write_packet(writer, &packet);
}

static void write_spans(struct writer *writer, const struct track *host,
                        const struct track *track) {
  static const char *const names[] = {"its own", "waits", "joined"};
  for (uint64_t i = 0; i < track->nspans; i++) {
    const struct span *span = &track->spans[i];
    TrackEvent begin = TRACK_EVENT__INIT, end = TRACK_EVENT__INIT;
    begin.type = TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN;
    begin.name = TEXT(names[span->doing]);
    end.type = TRACK_EVENT__TYPE__TYPE_SLICE_END;
    write_event(writer, &begin, track_of(track), time_of(writer, host, span->from_ns));
    write_event(writer, &end, track_of(track), time_of(writer, host, span->to_ns));
  }
}

static void write_warnings(struct writer *writer, const struct track *host,
                           const struct track *track) {
  char *category = TEXT("warning");
  for (uint64_t i = 0; i < track->nwarnings; i++) {
    char *text = strdup(track->warnings[i].text);
    TrackEvent event = TRACK_EVENT__INIT;
    DebugAnnotation said = DEBUG_ANNOTATION__INIT, *all[] = {&said};
    if (text == NULL)
      continue;
    track_unescape(text);
    said.name = TEXT("text");
    said.string_value = text;
    event.type = TRACK_EVENT__TYPE__TYPE_INSTANT;
    event.name = TEXT("WARN");
    event.n_categories = 1;
    event.categories = &category;
    event.n_debug_annotations = 1;
    event.debug_annotations = all;
    write_event(writer, &event, track_of(track), time_of(writer, host, track->warnings[i].at_ns));
    free(text);
  }
}

/* ---- collectives, and what leads from one to its shadows ---- */

struct flow {
  const struct issued *from;
  uint64_t id;
};

static int compare_flows(const void *left, const void *right) {
  const struct flow *a = left, *b = right;
  return (a->from > b->from) - (a->from < b->from);
}

/* The call that a shadow follows; NULL: not known. Indices grow. */
static const struct issued *find_source(const struct track *first, size_t count,
                                        const struct issued *shadow) {
  size_t i = 0;
  while (i < count && (first[i].rank != shadow->peer || &first[i].issued[0] == shadow))
    i++;
  if (!shadow->shadow || i == count || shadow->unit == NULL)
    return NULL;
  uint64_t low = 0, high = first[i].nissued;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (first[i].issued[middle].index < shadow->index)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < first[i].nissued && first[i].issued[low].index == shadow->index; low++) {
    const struct issued *own = &first[i].issued[low];
    if (!own->shadow && own->unit != NULL && strcmp(own->unit, shadow->unit) == 0)
      return own;
  }
  return NULL;
}

/* Of a team, in the order of the calls that they begin at. NULL: there are none. */
static struct flow *find_flows(const struct track *first, size_t count, size_t *nflows) {
  size_t shadows = 0;
  for (size_t i = 0; i < count; i++)
    for (uint64_t j = 0; j < first[i].nissued; j++)
      shadows += first[i].issued[j].shadow;
  struct flow *flows = shadows > 0 ? calloc(shadows, sizeof *flows) : NULL;
  *nflows = 0;
  for (size_t i = 0; i < count && flows != NULL; i++)
    for (uint64_t j = 0; j < first[i].nissued; j++) {
      const struct issued *from = find_source(first, count, &first[i].issued[j]);
      if (from != NULL)
        flows[(*nflows)++] = (struct flow){from, flow_of(&first[i], from->index)};
    }
  if (*nflows > 0)
    qsort(flows, *nflows, sizeof *flows, compare_flows);
  return flows;
}

/* From the first of them that begins at a call on. */
static size_t first_flow(const struct flow *flows, size_t nflows, const struct issued *from) {
  size_t low = 0, high = nflows;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (flows[middle].from < from)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int job_rank_of(const struct track *first, size_t count, int rank) {
  for (size_t i = 0; i < count; i++)
    if (first[i].rank == rank)
      return first[i].job_rank;
  return rank;
}

struct team {
  const struct track *first;
  size_t count;
  const struct flow *flows;
  size_t nflows;
};

static void write_issued(struct writer *writer, const struct track *host, const struct team *team,
                         const struct track *track, const struct issued *issued) {
  char name[256], *category = TEXT(issued->shadow ? "shadow" : "own");
  TrackEvent event = TRACK_EVENT__INIT;
  DebugAnnotation index = DEBUG_ANNOTATION__INIT, peer = DEBUG_ANNOTATION__INIT;
  DebugAnnotation *all[] = {&index, &peer};
  const struct issued *source = find_source(team->first, team->count, issued);
  uint64_t ids[256], at = issued->at_ns;
  size_t nids = 0;
  snprintf(name, sizeof name, "%s", issued->unit != NULL ? issued->unit : "collective");
  track_unescape(name);
  index.name = TEXT("collective");
  index.has_uint_value = peer.has_uint_value = true;
  index.uint_value = issued->index;
  if (issued->shadow && issued->peer >= 0) {
    peer.name = TEXT("of rank");
    peer.uint_value = (uint64_t)job_rank_of(team->first, team->count, issued->peer);
  }
  if (source != NULL) {
    /* A rank's record comes after what its peers see of it. */
    at = at > source->at_ns ? at : source->at_ns + 1;
    ids[nids++] = flow_of(track, issued->index);
  }
  for (size_t i = first_flow(team->flows, team->nflows, issued);
       i < team->nflows && team->flows[i].from == issued && nids < sizeof ids / sizeof ids[0]; i++)
    ids[nids++] = team->flows[i].id;
  event.type = TRACK_EVENT__TYPE__TYPE_INSTANT;
  event.name = name;
  event.n_categories = 1;
  event.categories = &category;
  event.n_debug_annotations = peer.name != NULL && *peer.name != '\0' ? 2 : 1;
  event.debug_annotations = all;
  event.n_flow_ids = nids;
  event.flow_ids = ids;
  write_event(writer, &event, track_of(track), time_of(writer, host, at));
}

static void write_team(struct writer *writer, const struct tracks *tracks, size_t from,
                       size_t count) {
  struct team team = {.first = &tracks->all[from], .count = count};
  struct flow *flows = find_flows(team.first, count, &team.nflows);
  team.flows = flows;
  for (size_t i = 0; i < count; i++) {
    const struct track *track = &team.first[i], *host = first_of_host(tracks, track);
    write_process(writer, tracks, track);
    write_track(writer, track);
    write_spans(writer, host, track);
    for (uint64_t j = 0; j < track->nissued; j++)
      write_issued(writer, host, &team, track, &track->issued[j]);
    write_warnings(writer, host, track);
  }
  free(flows);
}

bool perfetto_write(const char *path, const struct tracks *tracks) {
  struct replace replace;
  replace_begin(&replace, path);
  struct writer writer = {.out = replace.out, .real_time = true};
  for (size_t i = 0; i < tracks->count; i++)
    writer.real_time &= tracks->all[i].start_unix_ns != 0;
  if (writer.out != NULL) {
    write_clocks(&writer, tracks->all);
    for (size_t first = 0, count; first < tracks->count; first += count) {
      count = tracks_of_team(tracks, first);
      write_team(&writer, tracks, first, count);
    }
  }
  bool written = replace_end(&replace, writer.failed);
  if (!written)
    fprintf(stderr, "nccl-join: cannot write %s: %s\n", path, strerror(errno));
  return written;
}
