/* How the ranks of a communicator come together: the other half of the seam behind which every
 * transport lies (plane.h is what they have then). Of the two interpose/ attaches by this alone.
 *
 * Life of an attachment:
 *   1. Before its real ncclCommInit… each rank attaches under a name that is equal on all ranks and
 *      for no other communicator, and says what others must know of it.
 *   2. That call returns only once all ranks have entered it. So afterwards every rank can read
 *      what all have said, or knows at once that some rank is out of reach, or runs without
 *      nccl-join. No timeout is needed for that.
 *   3. Ranks of the communicator whose set of processes has no team yet make its plane their
 *      team's.
 *   4. The attachment is complete when nobody else is to come: who uses the name later begins anew.
 *   5. A rank detaches. To the others it looks from then on as if its process had ended.
 *
 * Slots are numbered before the ranks of the communicator may be known (ncclCommSplit): the plane
 * is made with a map from rank to slot.
 */
#ifndef NCCL_JOIN_CORE_ATTACHMENT_H
#define NCCL_JOIN_CORE_ATTACHMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/transport/plane.h"

#define ATTACHMENT_NAME_SIZE 33    /* 32 hexadecimal digits, and the terminator */
#define ATTACHMENT_REASON_SIZE 256 /* room for a sentence */

#define INTRODUCTION_COMMS_MAX 60   /* communicators that a rank lists */
#define INTRODUCTION_TELLS_SIZE 232 /* text that a rank compares with the others */

/* What a rank tells the others of itself when it attaches. */
struct introduction {
  uint64_t identity; /* random; equal for all communicators of one device of one process, and for
                        nothing else */
  int32_t key;       /* ncclCommSplit: orders the ranks; 0 otherwise */
  uint32_t world;    /* how many ranks there are in all, as the launcher has told; 0: it has not */
  uint32_t ncomms;   /* tags of the communicators that the rank has, the latest of them */
  uint32_t comms[INTRODUCTION_COMMS_MAX];
  char
      tells[INTRODUCTION_TELLS_SIZE]; /* what must be alike on all ranks (interpose/comm/alike.h) */
};

/* The number by which messages call the communicator of a name; not 0. */
uint32_t attachment_tag(const char *name);

/* A rank's slot among those of a communicator. */
struct attachment {
  const struct transport *transport;
};

/* Takes a slot under a name, where so many slots are (1 to PLANE_RANKS_MAX). Several slots may be
 * of one process: one call each. name: 32 hexadecimal digits. expected: how many slots will be
 * taken in all; whoever takes the last one completes the attachment. 0: not known,
 * attachment_complete is called later.
 *
 * NULL on failure, with a sentence in reason (ATTACHMENT_REASON_SIZE bytes) that says what happened
 * and what to do: no memory, no permission, another version, a slot taken twice, another number of
 * slots. A slot is taken once: not again after its rank has died or detached. errno is EPROTO for
 * another version, and 0 otherwise; the ranks that are there are told of that
 * (attachment_stranger).
 *
 * What a dead job has left under the same name is no hindrance. Thread-safe. */
struct attachment *attachment_make(const char *name, uint32_t slots, uint32_t slot,
                                   uint32_t expected, const struct introduction *me, char *reason);

/* What the rank in a slot said; false if the slot is not taken. ncomms is at most
 * INTRODUCTION_COMMS_MAX; the rest is what the peer wrote. */
bool attachment_read(const struct attachment *attachment, uint32_t slot,
                     struct introduction *introduction);

/* Whether a rank with another PLANE_VERSION has come: reason says which. */
bool attachment_stranger(const struct attachment *attachment, char *reason);

/* Nobody else is to come. May be called by several ranks, several times; thread-safe. */
void attachment_complete(struct attachment *attachment);

/* This slot's side of a team over the logs of slots: nranks of them, slot_of[rank], which is
 * copied; slot_of[rank] is the attachment's own. All slots of the team must be taken. Owned by the
 * attachment, which has one. NULL if there is no memory, or an argument is not as said.
 *
 * Of the plane, ring, wait and alive may be called by any thread until attachment_detach. */
struct plane *attachment_plane(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                               const uint32_t *slot_of);

/* The same before all have come: who has not is alive, and has issued nothing (RANK_ABSENT). */
struct plane *attachment_plane_early(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                                     const uint32_t *slot_of);

/* Whether a slot has been taken for a rank of another machine. */
bool attachment_is_beyond(const struct attachment *attachment);

/* The agent that writes the logs of ranks on other machines. What is pointed to stays as long as
 * the process. */
struct attachment_beyond {
  _Atomic uint32_t *bell;  /* a futex: rung when ranks of this machine ring, or begin to wait */
  _Atomic uint32_t *turns; /* changes with each of the agent's turns; NULL: it tells of none */
  uint32_t silence_ms; /* after which without a turn all ranks on other machines count as dead */
};

/* Ranks of other machines are in the team. To be called before there is a plane. */
void attachment_reach_beyond(struct attachment *attachment, const struct attachment_beyond *beyond);

/* Lets go of the slot, and frees the attachment and its plane; what the last one of all leaves is
 * nothing. NULL is allowed. Thread-safe. */
void attachment_detach(struct attachment *attachment);

/* This process is about to end with a status: its peers hear that from their planes (fate).
 * Async-signal-safe. */
void attachment_say_end(int status);

/* In a forked child: lets go of what was inherited without touching what is the parent's.
 * Attachments and planes from before are inert (alive says true, detach only frees); new ones may
 * be made. Async-signal-safe. */
void attachment_forget_all(void);

/* ---- transports ---- */

/* What a transport is made of: as the functions above, and the plane that it gives. */
struct transport {
  struct attachment *(*make)(const char *name, uint32_t slots, uint32_t slot, uint32_t expected,
                             const struct introduction *me, char *reason);
  bool (*read)(const struct attachment *attachment, uint32_t slot,
               struct introduction *introduction);
  bool (*stranger)(const struct attachment *attachment, char *reason);
  void (*complete)(struct attachment *attachment);
  struct plane *(*plane)(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                         const uint32_t *slot_of, bool early);
  bool (*is_beyond)(const struct attachment *attachment); /* NULL: never; and the next one */
  void (*reach_beyond)(struct attachment *attachment, const struct attachment_beyond *beyond);
  void (*detach)(struct attachment *attachment);
  void (*forget_all)(void);
  void (*say_end)(int status); /* NULL: nobody hears it */
};

extern const struct transport transport_shm;    /* processes of one machine: plane_shm.h */
extern const struct transport transport_memory; /* one thread's, no lock inside: for tests */

/* That of attachments made from now on: transport_shm unless a test says another. */
void attachment_use(const struct transport *transport);

#endif
