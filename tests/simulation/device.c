/* Device time of simulated ranks (device.h): streams are rings of units; a unit counts the ranks
 * that have it at the head of a stream. */
#include "tests/simulation/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAM_RING 128u /* more than any stream may hold */
#define TEAM_RING 4096u  /* more than ranks are ever apart */

struct queued {
  uint64_t index;
  uint16_t team;
};

struct stream {
  uint32_t first, count;
  struct queued units[STREAM_RING];
};

struct device {
  const struct program *program;
  struct stream *streams; /* of each rank: for real units by axis, then for shadows by axis */
  uint16_t *arrived[PROGRAM_TEAMS_MAX]; /* ring by index: ranks that have it at the head */
  uint8_t
      *stream_of[PROGRAM_TEAMS_MAX]; /* ring by index, then by rank of the team: is it a shadow */
};

/* Streams are numbered by the rank's axis. */
static uint32_t axis_of(const struct program *program, uint32_t rank, uint32_t team) {
  uint32_t axis = 0;
  while (axis < AXES && (!program->has_axis[axis] || program->team_of[axis][rank] != team))
    axis++;
  return axis;
}

static struct stream *find_stream(const struct device *device, uint32_t rank, uint32_t team,
                                  bool real) {
  uint32_t at = axis_of(device->program, rank, team);
  if (real && device->program->one_stream)
    at = 0;
  return &device->streams[rank * 2 * AXES + at + (real ? 0 : AXES)];
}

struct device *device_create(const struct program *program) {
  struct device *device = calloc(1, sizeof(*device));
  if (device == NULL)
    abort();
  device->program = program;
  device->streams = calloc((size_t)program->nranks * 2 * AXES, sizeof(*device->streams));
  if (device->streams == NULL)
    abort();
  for (uint32_t team = 0; team < program->nteams; team++) {
    device->arrived[team] = calloc(TEAM_RING, sizeof(uint16_t));
    device->stream_of[team] = malloc((size_t)TEAM_RING * program->nranks);
    if (device->arrived[team] == NULL || device->stream_of[team] == NULL)
      abort();
  }
  return device;
}

void device_destroy(struct device *device) {
  for (uint32_t team = 0; team < device->program->nteams; team++) {
    free(device->arrived[team]);
    free(device->stream_of[team]);
  }
  free(device->streams);
  free(device);
}

static void arrive(struct device *device, const struct queued *unit);

static void complete(struct device *device, const struct queued *unit) {
  const struct program_team *team = &device->program->teams[unit->team];
  const uint8_t *real =
      &device->stream_of[unit->team][unit->index % TEAM_RING * device->program->nranks];
  for (uint32_t i = 0; i < team->nranks; i++) {
    struct stream *stream = find_stream(device, team->ranks[i], unit->team, real[team->ranks[i]]);
    stream->first = (stream->first + 1) % STREAM_RING;
    stream->count--;
  }
  for (uint32_t i = 0; i < team->nranks; i++) {
    struct stream *stream = find_stream(device, team->ranks[i], unit->team, real[team->ranks[i]]);
    struct queued next = stream->units[stream->first];
    if (stream->count > 0)
      arrive(device, &next);
  }
}

/* The unit has come to the head of a stream. */
static void arrive(struct device *device, const struct queued *unit) {
  uint16_t *arrived = &device->arrived[unit->team][unit->index % TEAM_RING];
  if (++*arrived < device->program->teams[unit->team].nranks)
    return;
  *arrived = 0;
  complete(device, unit);
}

void device_issue(struct device *device, uint32_t rank, uint32_t team, uint64_t index, bool real) {
  struct stream *stream = find_stream(device, rank, team, real);
  device->stream_of[team][index % TEAM_RING * device->program->nranks + rank] = real;
  struct queued unit = {index, (uint16_t)team};
  if (stream->count == STREAM_RING)
    abort();
  stream->units[(stream->first + stream->count++) % STREAM_RING] = unit;
  if (stream->count == 1)
    arrive(device, &unit);
}

bool device_is_full(const struct device *device, uint32_t rank, uint32_t team, bool real) {
  return find_stream(device, rank, team, real)->count >= device->program->run_ahead;
}

bool device_is_idle(const struct device *device, uint32_t rank) {
  for (uint32_t axis = 0; axis < AXES; axis++)
    if (device->streams[rank * 2 * AXES + axis].count != 0)
      return false;
  return true;
}

void device_print(const struct device *device) {
  for (uint32_t i = 0; i < device->program->nranks * 2 * AXES; i++) {
    const struct stream *stream = &device->streams[i];
    if (stream->count == 0)
      continue;
    printf("rank %2u  stream %u%s:", i / (2 * AXES), i % AXES,
           i % (2 * AXES) < AXES ? "" : " of shadows");
    for (uint32_t k = 0; k < stream->count; k++) {
      const struct queued *unit = &stream->units[(stream->first + k) % STREAM_RING];
      printf(" %u[%llu]", unit->team, (unsigned long long)unit->index);
    }
    printf("\n");
  }
}
