/* What the files of an agent (agent.h) share: agent.c is its life and what it is told by its owner,
 * agent_known.c who it knows, agent_messages.c what it hears from links, agent_tell.c what it tells of this machine's ranks and in
 * which order, agent_out.c what goes out. Not for anybody else.
 *
 * A message: AGENT_VERSION, then items. An item: a byte that says which, then what is below; numbers are
 * LEB128. Items of a team follow one that names it.
 *   LOOK       1: somebody there looks; 0: nobody does any more
 *   TEAM       8 bytes: its key
 *   FRAME      slot, size, the frame (mirror.h)
 *   SHARED     what the ranks of the team share (struct mirror_team)
 *   INTRODUCE  slot, size, what is said of it
 *   ENDED      slot, how, number (struct plane_fate), whether only a link was lost
 */
#ifndef NCCL_JOIN_CORE_AGENT_PRIVATE_H
#define NCCL_JOIN_CORE_AGENT_PRIVATE_H

#include "core/agent/agent.h"
#include "core/transport/logs.h"
#include "core/transport/mirror.h"

#define AGENT_VERSION 1u

enum agent_item {
  ITEM_LOOK = 1,
  ITEM_TEAM,
  ITEM_FRAME,
  ITEM_SHARED,
  ITEM_INTRODUCE,
  ITEM_ENDED,
};
#define AGENT_ITEM_HEAD 64u /* of an item without its bytes */
#define AGENT_FRAME_MAX                                                                            \
  (AGENT_MESSAGE_MAX - AGENT_ITEM_HEAD) /* with the item that names its team */

enum agent_where { SLOT_FREE, SLOT_HERE, SLOT_THERE };

struct agent_slot {
  enum agent_where where;
  bool ending; /* of this machine: its end is to be told */
  uint32_t link;
  uint64_t identity;
  struct plane_fate fate;
  struct mirror *mirror; /* of this machine */
  unsigned char *said;
  size_t said_bytes;
};

/* A team of which this agent has heard. */
struct agent_known {
  uint64_t key;
  struct plane *plane;       /* NULL: this machine has no part in it */
  uint32_t *slot_of, nranks; /* NULL: a rank is its slot */
  uint32_t nslots;           /* of `slots` */
  struct agent_slot *slots;
  uint32_t links;            /* bits by link: slots are there */
  bool heard;                /* something is applied that waiters have not been rung for */
  bool event;                /* the same */
  plane_calm_t calm;         /* events that have been told */
  struct mirror_team shared; /* as told, or heard */
};

struct agent_link {
  bool used;
  uint64_t team; /* named last in `bytes`; meaningless where there are none */
  size_t size;
  unsigned char *bytes; /* AGENT_MESSAGE_MAX, a message that has not been sent */
};

/* A log that has something to tell. */
struct agent_telling {
  struct agent_known *team;
  uint32_t slot;
};

struct agent {
  struct agent_owner owner;
  struct agent_link links[AGENT_LINKS_MAX];
  uint32_t looks, told_looks; /* bits by link: somebody there looks; has heard that we do */
  bool waits;                 /* a rank of this machine */
  struct agent_known **teams;
  uint32_t nteams, nslots;       /* nslots: of all teams */
  struct agent_known unknown;    /* the team of a message that nobody has introduced a slot of */
  bool emptied;                  /* a slot has ended since agent_forget_teams */
  struct agent_telling *telling; /* room for all slots of this machine */
  uint32_t ntelling, room;
  unsigned char *frame; /* AGENT_FRAME_MAX */
};

/* The team of a key; made if it is not there: NULL without memory. */
struct agent_known *agent_know(struct agent *agent, uint64_t key);
struct agent_known *agent_find(const struct agent *agent, uint64_t key);

/* Lets go of the teams that have no slot and no part of this machine any more. */
void agent_forget_teams(struct agent *agent);

/* A slot of a team, which may not have had it before; NULL: no memory, or there is no such slot. */
struct agent_slot *agent_slot(struct agent *agent, struct agent_known *team, uint32_t slot);
void agent_free_slot(struct agent_slot *slot);
void agent_free_team(struct agent_known *team);

/* Keeps what is said of a slot. False without memory. */
bool agent_keep_said(struct agent_slot *slot, const void *said, size_t size);

static inline bool agent_looks(const struct agent *agent) {
  return agent->waits || agent->looks != 0;
}

/* A slot of another machine has ended: says so to the owner, and to the ranks of this machine. */
void agent_end_there(struct agent *agent, struct agent_known *team, uint32_t slot,
                     struct plane_fate fate, bool lost);

/* Wakes the ranks of this machine for what they have not been woken for. */
void agent_wake(struct agent_known *team);

/* ---- going out (agent_out.c) ---- */

#define ALL_LINKS UINT32_MAX

/* Puts an item into what goes to each link of a set, behind what is there; head: what stands before the
 * bytes. */
#define NO_TEAM UINT64_MAX /* of what is of none */
struct agent_head {
  enum agent_item item;
  uint32_t nnumbers;
  uint64_t numbers[4];
};
void agent_put(struct agent *agent, uint32_t links, uint64_t team, const struct agent_head *head,
               const void *bytes, size_t size);

/* What has been put to a link goes out. */
void agent_flush(struct agent *agent);

/* Tells links that somebody here, or behind another link, looks, or that nobody does any more. */
void agent_tell_looks(struct agent *agent);

/* Tells all that a slot has ended; but the link from which that was heard. */
void agent_tell_ended(struct agent *agent, const struct agent_known *team, uint32_t slot,
                      struct plane_fate fate, bool lost, uint32_t but);
void agent_tell_introduced(struct agent *agent, uint32_t links, const struct agent_known *team,
                           uint32_t slot);
void agent_tell_shared(struct agent *agent, const struct agent_known *team, uint32_t links);

/* ---- of this machine's ranks (agent_tell.c) ---- */

/* What they have done in all teams that are looked at, or that have something for all. */
void agent_tell_ranks(struct agent *agent, uint64_t now_ms);

#endif
