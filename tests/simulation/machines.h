/* Machines of a simulation: each has copies of the logs of the teams that its ranks are in, and an
 * agent (core/agent), which stands in a tree of them. What agents send takes a while on each link,
 * a link's messages come in order, and each may come in parts: ranks move between any two of them.
 *
 * An agent looks when it would be woken: a bell of its machine has rung, a message has come, a rank
 * is about to wait.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_MACHINES_H
#define NCCL_JOIN_TESTS_SIMULATION_MACHINES_H

#include "core/transport/plane.h"
#include "tests/simulation/program.h"

struct layout {
  uint32_t nmachines; /* 1: no agents */
  uint32_t fanout;    /* of the tree */
  uint16_t machine_of[PROGRAM_RANKS_MAX];
  bool in_parts;      /* one thing a message */
  uint32_t slowness;  /* of links: up to so many chances pass before a message comes; at least 1 */
  uint32_t ms_a_turn; /* of the agents' clock, which else goes on when nothing is under way */
  bool by_bell;       /* ranks that are parked sleep; of one team, without failures */
  uint32_t steps_a_turn; /* chances for agents and links while each rank has one */
};

/* As many machines, or as few as there are ranks; how ranks are spread, and all else, by the seed.
 */
struct layout layout_random(const struct program *program, uint32_t nmachines, uint64_t seed);

/* What was sent, in all. */
struct traffic {
  uint64_t messages, bytes;
  uint64_t
      stills; /* how often nobody could move until agents looked for what they had not been told */
};

struct machines;
struct machines *machines_create(const struct program *program, const struct layout *layout,
                                 uint64_t seed);
void machines_destroy(struct machines *machines);

/* A rank's side of a team of the program; by rank of the team. */
struct plane *machines_plane(struct machines *machines, uint32_t team, uint32_t rank);

/* A rank of the program, by number: whether it waits now; it is about to wait; it is killed. */
void machines_say_waits(struct machines *machines, uint32_t number, bool waits);
void machines_wait(struct machines *machines, uint32_t number);
void machines_kill(struct machines *machines, uint32_t number);

/* A few chances for messages to come, and for agents to look. */
void machines_step(struct machines *machines);

/* All that is under way comes. False if there was nothing. */
bool machines_drain(struct machines *machines);

struct traffic machines_traffic(const struct machines *machines);

#endif
