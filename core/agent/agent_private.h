/* What the files of an agent (agent.h) share: agent.c is its life and what it is told by its owner,
 * agent_known.c who it knows, agent_messages.c what it hears from links, agent_tell.c what it tells
 * of this machine's ranks and in which order, agent_stand.c how far the ranks of a team are, and
 * when that is told, agent_out.c what goes out. Not for anybody else.
 *
 * A message: AGENT_VERSION, then items. An item: a byte that says which, then what is below;
 * numbers are LEB128. Items of a team follow one that names it.
 *   LOOK       1: somebody there looks for all that is done; 0: nobody does any more
 *   TEAM       8 bytes: its key
 *   FRAME      slot, size, the frame (mirror.h)
 *   SAME       which frame of the message, counted back from the last FRAME; the first slot, how many more follow
 *              it: each of them says just that. What ranks do alike is told once
 *   SHARED     what the ranks of the team share (struct mirror_team)
 *   INTRODUCE  slot, size, what is said of it
 *   ENDED      slot, how, number (struct plane_fate), whether only a link was lost
 *   STAND      top, slow, dry, asks (struct agent_stand) of all ranks of the team that are not behind the link
 *              over which it is said, as of what has been said before
 */
#ifndef NCCL_JOIN_CORE_AGENT_PRIVATE_H
#define NCCL_JOIN_CORE_AGENT_PRIVATE_H

#include "core/agent/agent.h"
#include "core/transport/logs.h"
#include "core/transport/mirror.h"

#define AGENT_VERSION 4u

/* A rank that waits so long while nothing moves looks for all that is done: it has been forgotten,
 * or people are to be told what the others do. Less than the least NCCL_JOIN_TIMEOUT, 1 s: whose
 * fault a wait is depends on where the others are. */
#define AGENT_STILL_MS 500u
#define AGENT_ASK_MS                                                                               \
  2u /* after which one is asked that is not known to be at work (agent_stand.c) */

enum agent_item {
  ITEM_LOOK = 1,
  ITEM_TEAM,
  ITEM_FRAME,
  ITEM_SAME,
  ITEM_SHARED,
  ITEM_INTRODUCE,
  ITEM_ENDED,
  ITEM_STAND,
};
#define AGENT_ITEM_HEAD 64u  /* of an item without its bytes */
#define AGENT_FRAMES_BACK 8u /* so many frames of a message may be meant by ITEM_SAME */
#define AGENT_SAME_MAX (4u * PLANE_RANKS_MAX) /* slots that ITEM_SAME may stand for, in a message */
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

/* How far some ranks of a team are. slow: UINT64_MAX if there are none. */
struct agent_stand {
  uint64_t top, slow; /* units that the first and the last of them have passed */
  bool dry;           /* all of them are parked at top, which nobody is known to have passed */
  bool asks;          /* as said over a link: some are, and need to hear of what is behind it */
};

/* A team of which this agent has heard. */
struct agent_known {
  uint64_t key;
  struct plane *plane;       /* NULL: this machine has no part in it */
  uint32_t *slot_of, nranks; /* NULL: a rank is its slot */
  uint32_t nslots, room;     /* of `slots`: how many it has, and may have */
  struct agent_slot *slots;
  uint32_t *here, nhere;            /* those of this machine, in their order */
  uint32_t links;                   /* bits by link: slots are there */
  uint32_t behind[AGENT_LINKS_MAX]; /* so many of them */
  uint32_t pending;       /* bits by link: there is something of the team that has not been sent */
  uint32_t wants;         /* bits by link: who is parked there needs what has not been told */
  uint32_t asked;         /* a link, plus one: of several that are not dry; 0: none */
  uint64_t stuck_at;      /* nobody moves here at this index, plus one ... */
  uint64_t stuck_ms;      /* ... since then */
  struct agent_stand own; /* of this machine's ranks */
  struct agent_stand there[AGENT_LINKS_MAX]; /* behind each link, as heard */
  struct agent_stand told[AGENT_LINKS_MAX];  /* of all the others, as told to it */
  bool heard;                /* something is applied that waiters have not been rung for */
  bool event;                /* the same */
  plane_calm_t calm;         /* events that have been told */
  struct mirror_team shared; /* as told, or heard */
};

/* The last frames of a message; none at first. */
struct agent_frames {
  uint32_t count; /* of all */
  struct agent_frame {
    const unsigned char *bytes;
    size_t size;
  } last[AGENT_FRAMES_BACK]; /* by number, modulo */
};

/* What ITEM_SAME says, and where. */
struct agent_same {
  uint32_t frame; /* its number in the message */
  uint32_t first, count;
  size_t at; /* 0: the last item is another one */
};

struct agent_link {
  bool used;
  /* Of the message in `bytes`; meaningless where there is none. */
  uint64_t team; /* named last */
  struct agent_frames frames;
  struct agent_same same;
  uint32_t nsame; /* slots of all ITEM_SAME */
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
  uint32_t looks, told_looks;    /* bits by link: somebody there looks; has heard that we do */
  uint32_t urgent;               /* bits by link: something is to be sent at once */
  bool waits;                    /* a rank of this machine */
  bool looks_here;               /* ... for more than is told where a side is dry */
  uint64_t moved_ms;             /* when a message came, or a rank was seen to move */
  struct agent_known **teams;    /* in the order of their keys */
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
/* It is of this machine, or behind a link. False without memory. */
bool agent_use_slot_here(struct agent_known *team, uint32_t slot);
void agent_use_slot_there(struct agent_known *team, uint32_t slot, uint32_t link);
void agent_free_slot(struct agent_known *team, uint32_t slot);
void agent_free_team(struct agent_known *team);

/* Keeps what is said of a slot. False without memory. */
bool agent_keep_said(struct agent_slot *slot, const void *said, size_t size);

/* Whether any machine looks for all that is done. */
static inline bool agent_looks(const struct agent *agent) {
  return agent->looks_here || agent->looks != 0;
}

/* A slot of another machine has ended: says so to the owner, and to the ranks of this machine. */
void agent_end_there(struct agent *agent, struct agent_known *team, uint32_t slot,
                     struct plane_fate fate, bool lost);

/* Wakes the ranks of this machine for what they have not been woken for. */
void agent_wake(struct agent_known *team);

static inline void agent_keep_frame(struct agent_frames *frames, const struct agent_frame *frame) {
  frames->last[frames->count++ % AGENT_FRAMES_BACK] = *frame;
}

/* ---- going out (agent_out.c) ---- */

#define ALL_LINKS UINT32_MAX
#define NO_TEAM UINT64_MAX /* no team's key */

/* Puts an item into what goes to each link of a set, behind what is there; team: NULL: it is of
 * none; head: what stands before the bytes. */
struct agent_head {
  enum agent_item item;
  uint32_t nnumbers;
  uint64_t numbers[4];
};
void agent_put(struct agent *agent, uint32_t links, struct agent_known *team,
               const struct agent_head *head, const void *bytes, size_t size);

/* The same of a slot's frame. */
void agent_put_frame(struct agent *agent, uint32_t links, struct agent_known *team, uint32_t slot,
                     const struct agent_frame *frame);

/* What has been put to some links goes out. */
void agent_flush(struct agent *agent, uint32_t links);

/* Tells links that somebody here, or behind another link, looks, or that nobody does any more. */
void agent_tell_looks(struct agent *agent);

/* Tells all that a slot has ended; but the link from which that was heard. */
void agent_tell_ended(struct agent *agent, struct agent_known *team, uint32_t slot,
                      struct plane_fate fate, bool lost, uint32_t but);
void agent_tell_introduced(struct agent *agent, uint32_t links, struct agent_known *team,
                           uint32_t slot);
void agent_tell_shared(struct agent *agent, struct agent_known *team, uint32_t links);

/* ---- how far they are (agent_stand.c) ---- */

/* Of this machine's ranks: as they are, or as they have been read and told (mirror_read). */
void agent_read_stand(struct agent_known *team, bool told, uint64_t now_ms);

/* The links to which something is due. */
uint32_t agent_links_due(const struct agent *agent);

/* Says to some links how far all others are: behind what they are told. */
void agent_tell_stands(struct agent *agent, uint32_t links);

void agent_hear_stand(struct agent_known *team, uint32_t link, const struct agent_stand *stand);

/* ---- of this machine's ranks (agent_tell.c) ---- */

/* What they have done in all teams, if a link is to be told of any of it, or if something has
 * happened that is for all: the links that are to be told now. */
uint32_t agent_tell_ranks(struct agent *agent, uint64_t now_ms);

#endif
