/* Random programs of sends, receives and collectives, and a model of the devices they run on: for
 * test_peers_random.c.
 *
 * Every iteration does the same phases in the same order on all ranks; ranks differ in how many
 * iterations they do. Between epochs there may be a unit on which they meet. The device of a rank
 * does one thing after the other, and nothing is done before its partners have begun: stricter than
 * NCCL, which buffers small sends.
 */
#ifndef NCCL_JOIN_TESTS_UNIT_PEERS_PROGRAM_H
#define NCCL_JOIN_TESTS_UNIT_PEERS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/unit/unit.h"

#define PEERS_RANKS_MAX 6
#define PEERS_PHASES_MAX 5
#define PEERS_EPOCHS_MAX 6
#define PEERS_GROUP_MAX 8

enum phase {
  PHASE_RING,       /* one group: send to the right, receive from the left */
  PHASE_HALO,       /* one group: both neighbours, both ways */
  PHASE_PIPELINE,   /* receive from the one before, then send to the one after */
  PHASE_BACKWARD,   /* the other way round */
  PHASE_PAIR,       /* one rank sends to another */
  PHASE_UNIT,       /* a collective */
  PHASE_UNIT_GROUP, /* a collective and a ring exchange as one */
  PHASES,
};

/* What a rank issues as one. */
struct peers_step {
  struct member posts[PEERS_GROUP_MAX]; /* root: the peer */
  uint32_t nposts;
  struct member unit;
  bool has_unit;
  bool synchronises; /* then waits until its device is done */
  uint64_t point;    /* where in the program: the same for steps that belong together */
};

struct peers_program {
  uint32_t nranks, epochs, nphases;
  enum phase phases[PEERS_PHASES_MAX];
  uint32_t pair[PEERS_PHASES_MAX][2];
  bool meets, pipelined; /* pipelined: synchronises nowhere within an epoch */
  uint32_t sync_phase;
  uint32_t iterations[PEERS_EPOCHS_MAX][PEERS_RANKS_MAX];
  uint32_t run_ahead, speed[PEERS_RANKS_MAX];
};

void peers_program_random(struct peers_program *program, uint64_t seed);

/* The steps of a rank; the caller frees them. */
size_t peers_program_steps(const struct peers_program *program, uint32_t rank,
                           struct peers_step **steps);

uint32_t peers_random(uint64_t *state, uint32_t bound);

/* ---- devices ---- */

struct devices;

struct devices *devices_create(uint32_t nranks);
void devices_destroy(struct devices *devices);

/* A group of sends and receives, and a unit. point: 0 for a mirror. */
void devices_issue(struct devices *devices, uint32_t rank, const struct member *posts,
                   uint32_t nposts, uint64_t point);
void devices_issue_unit(struct devices *devices, uint32_t rank, uint64_t index);

/* Lets all devices go on as far as they can. */
void devices_run(struct devices *devices);

/* What a rank has issued that is not done. */
size_t devices_waiting(const struct devices *devices, uint32_t rank);

/* What went wrong: a send has met a receive of another size or type, or one of another place of the
 * program. */
const char *devices_error(const struct devices *devices);

#endif
