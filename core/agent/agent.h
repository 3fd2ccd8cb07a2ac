/* What the agents of machines tell each other: the logs of their own ranks, for the ranks of the
 * other machines to read as mirrors (core/transport/mirror.h). Pure: messages and what has changed
 * on this machine come in, messages go out; no thread, no clock, no system call (ringing a team's
 * bell apart).
 *
 * Agents stand in a tree. What one sends to a link comes out at the other end in the order in which
 * it was sent, or the link is cut. All that is told is passed on by every agent to its other links,
 * in the order in which it has heard or said it. So who sees what another has done sees what led to
 * it.
 *
 * While no rank of any machine waits for others (agent_say_waits) nothing is told of what ranks do,
 * but for events: ends, lossy shadows. What there is to be told of them is gathered until somebody
 * behind a link needs it (docs/protocol.md#ranks-on-several-machines), and a message has all of it,
 * in all teams: a rank that sees what another has done in one team, and not what that one did
 * before in another, would not keep the order of the two. A machine where a rank waits for more
 * than a claim or the unit after it looks, and says so to all; while any looks, all tell at once
 * what their ranks do.
 *
 * Not thread-safe: one thread at a time for each agent.
 */
#ifndef NCCL_JOIN_CORE_AGENT_H
#define NCCL_JOIN_CORE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/transport/plane.h"

#define AGENT_LINKS_MAX 32u
#define AGENT_MESSAGE_MAX 65536u     /* bytes of a message */
#define AGENT_INTRODUCTION_MAX 1024u /* of what is said of a slot */
/* What other machines may make an agent know at a time: a link that says more is cut. */
#define AGENT_TEAMS_MAX 16384u
#define AGENT_SLOTS_MAX (16u * PLANE_RANKS_MAX) /* in all of its teams */

struct agent;

/* What an agent asks of its owner. None of them may call the agent. */
struct agent_owner {
  void *context;
  /* A message is gathered up to so many bytes; only what is one thing may be more. At most, and 0
   * is, AGENT_MESSAGE_MAX. */
  size_t gathers;
  /* Sends a message to a link. */
  void (*send)(void *context, uint32_t link, const void *message, size_t size);
  /* What another machine has said of a slot (agent_introduce): it is there, and its log may be
   * written from now on. Once for each slot of each team, also of teams that this machine has no
   * part in. */
  void (*introduced)(void *context, uint64_t team, uint32_t slot, const void *said, size_t size);
  /* The process of a slot of another machine is gone. lost: only because a link is. */
  void (*ended)(void *context, uint64_t team, uint32_t slot, struct plane_fate fate, bool lost);
};

/* A team with slots on this machine and on others. */
struct agent_team {
  uint64_t key; /* the same on all machines, and for no other team */
  struct plane
      *plane; /* a side of the team whose ranks are the slots; must outlive the agent's team */
};

/* NULL without memory. */
struct agent *agent_create(const struct agent_owner *owner);
void agent_destroy(struct agent *agent);

/* A link to a neighbour in the tree, by a number below AGENT_LINKS_MAX that is free: hears all that
 * this agent knows of who is where. False without memory. */
bool agent_add_link(struct agent *agent, uint32_t link);

/* The link is gone, and with it all slots behind it: they have ended for this machine, and for
 * those on its other links, who are told. */
void agent_cut_link(struct agent *agent, uint32_t link);

/* From now on the logs of its slots are told, where they are introduced here, and written, where
 * other machines introduce them. Before either. False: there is no memory, or the key is taken. */
bool agent_add_team(struct agent *agent, const struct agent_team *team);
void agent_remove_team(struct agent *agent, uint64_t key);

/* Which slot each rank of the team has, copied, as soon as that is known: until then a rank is its
 * slot. False without memory. */
bool agent_say_ranks(struct agent *agent, uint64_t team, uint32_t nranks, const uint32_t *slot_of);

/* Tells all machines of a slot of this one, and what its rank says of itself. Before the rank does
 * anything in the team. identity: struct introduction's; what a process does in several teams is
 * told in the order in which it has done it. False without memory. */
bool agent_introduce(struct agent *agent, uint64_t team, uint32_t slot, uint64_t identity,
                     const void *said, size_t size);

/* The process of a slot of this machine is gone, or the slot has been given back. */
void agent_say_ended(struct agent *agent, uint64_t team, uint32_t slot, struct plane_fate fate);

/* Whether a rank of this machine waits for others: it claims, or waits in a call. */
void agent_say_waits(struct agent *agent, bool waits);

/* Whether a rank of this machine waits, or any other machine for one of them, so that the bell of
 * any team must wake this agent: agent_poll then says that it waits (plane_say_waiting), and is to
 * be called every 20 ms as well. */
bool agent_is_awake(const struct agent *agent);

/* A message from a link. False: it is none, and the link is to be cut. */
bool agent_receive(struct agent *agent, uint32_t link, uint64_t now_ms, const void *message,
                   size_t size);

/* Looks at what the ranks of this machine have done, and sends what there is to be told. After any
 * of the above; when the bell of a team has rung; and when a rank of this machine is about to wait.
 */
void agent_poll(struct agent *agent, uint64_t now_ms);

#endif
