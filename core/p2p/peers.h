/* Point to point: what a rank sends to and receives from each other rank, outside the agreed
 * sequence, and how a rank that has joined answers it.
 *
 * NCCL matches the sends of a to b on a communicator with the receives of b from a in order. Every
 * rank posts its operations in its log before it issues them, counted by pair (communicator, peer,
 * direction), and so each can see which have met a partner. A rank that is parked mirrors those
 * directed at it that have none: it receives what is sent to it, and sends where a peer receives.
 * Why that is right: NCCL wants operations in the same order on all ranks ("Using multiple NCCL
 * communicators concurrently", NCCL user guide). A rank parked at index i has done all that its
 * program does before i, and what a peer has posted before its own i belongs there.
 *
 * When: a mirror must never wait on the device for one that comes later, for a communicator does
 * one thing after the other. So an operation is mirrored only once everything before it on its
 * rank's device will come to its end; which follows from all posts (peers_follow.c). And the rank
 * must not pass i before all ranks have come to i, for until then they may post more before it.
 *
 * Structures belong to one rank. Any thread may post, also while another one is parked: there is a
 * lock inside, held for a look at most.
 */
#ifndef NCCL_JOIN_CORE_PEERS_H
#define NCCL_JOIN_CORE_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/place/place.h"
#include "core/transport/plane.h"

struct peers;

/* NULL if there is no memory. The plane stays the caller's. */
struct peers *peers_create(struct plane *plane);
void peers_destroy(struct peers *peers);

/* Whether anything is posted and mirrored in the team (enum posting). */
bool peers_are_tracked(const struct plane *plane);

enum post_result {
  POST_DONE,
  POST_FULL, /* the ring is full of operations that their peers have not issued: wait, try again */
  POST_LOST, /* this team's point to point is not tracked: issue it without */
};

/* Why an operation of this rank and the one of its peer that it meets are not taken for those that
 * belong together. */
enum unequal_how {
  /* One moves more bytes. NCCL wants as many on both sides (nccl.h, ncclSend and ncclRecv: the same
   * datatype and the same count). Datatypes of one size may differ: NCCL copies bytes. */
  UNEQUAL_SIZES,
  /* One rank has left a loop of such operations, and the other has gone round one once more. The
   * stages of a pipeline may do so by design, in loops of as many rounds as there are stages. */
  UNEQUAL_WE_LEFT,
  UNEQUAL_THEY_LEFT,
};
struct unequal {
  bool found;
  /* Nothing found yet, but one of them leaves a loop, and meets one that a peer on another machine
   * has not been heard to post: of two ranks that post at the same time neither may see it. Ask
   * again (peers_look_again) before it is issued. */
  bool open;
  uint64_t end; /* for that */
  enum unequal_how how;
  struct member ours, theirs; /* root: each other's rank in the team */
  uint32_t place;             /* of their group; 0: not known */
};

/* Operations that are issued as one: members of kind MEMBER_SEND or MEMBER_RECEIVE, root the peer's
 * rank in the team, never the own one, number how the buffer looks (enum look_buffer). */
struct posts {
  const struct member *members;
  uint32_t nmembers;
  uint32_t place; /* id of where they stand in the program; 0: not known */
  bool exchanged; /* they are a unit that has been agreed on (MEMBER_EXCHANGE) */
  /* Gets the first of them that meets one that is not taken for its other side (enum unequal_how),
   * if its peer has posted that before: of two ranks that post at the same time at least one sees
   * it. NULL: nobody wants to know. */
  struct unequal *unequal;
};

/* Posts operations that are about to be issued. index: how many units this rank has issued. Those
 * of a group with a unit in it, or that is one, are posted when that has settled, and stand behind
 * it: NCCL does a group's collectives first (enqueue.cc, ncclLaunchPrepare).
 *
 * The ring is as long as a rank's launch queue is for small groups: who finds it full is far ahead
 * of a peer's program, and its device could do nothing sooner if it were not held up here. */
enum post_result peers_post(struct peers *peers, const struct posts *posts, uint64_t index);

/* Looks once more, after POST_DONE, where the answer was open. */
void peers_look_again(struct peers *peers, const struct posts *posts);

/* Whether a place from which this rank posts has been described, and does so: nnodes 0 if nothing
 * is known of it. Asked for each post, and mostly answered without a lock. */
bool peers_know_place(struct peers *peers, uint32_t place);
void peers_learn_place(struct peers *peers, const struct place *place);

/* ---- behind a loop of collectives (peers_announced.c, peers_behind.c) ----
 *
 * A rank that has left a loop of collectives, and sends or receives next, does so where its peers
 * have left the loop, too. Others may still be in it. What it issued before they have left would
 * stand in the way on its device of what it has to shadow for them; and they would take what it
 * does next for their next round. So it announces the operations, and posts them when it has seen
 * that all ranks with which they link it have left the loop. */

/* Announces operations that are about to be posted. index: how many units this rank has issued;
 * loop: where a unit of the loop stands, or NULL. Until it issues another for real, its peers see
 * that it has left the loop. False: there is no room, or nothing is tracked; nothing has been
 * announced then. */
bool peers_announce(struct peers *peers, const struct posts *posts, uint64_t index,
                    const struct place *loop);

/* Whether a rank had announced something when it stood at an index, or has done so there now, since
 * it last issued a unit for real. */
bool peers_has_left(const struct peers *peers, uint32_t rank, uint64_t index);

/* Where the ranks stand that are linked with this one at an index: the peers of what it has
 * announced, their peers likewise, and so on. While it holds something back (peers_hold):
 *   - what has been posted links nobody, as its rank cannot take it back;
 *   - it goes on if its peers have announced the other sides; or if nobody does: each waits for a
 *     peer that does something else first then, as NCCL's buffers allow.
 * When it is about to issue what comes behind that, all of them must also have come to that, or be
 * parked: they may have more to announce before. In the order of what counts more. */
enum peers_stand {
  STAND_LEFT,  /* all have left the loop */
  STAND_OPEN,  /* of one it is not known yet */
  STAND_AHEAD, /* one has come to the index without leaving the loop: it goes on in it there */
};

/* Asked of a rank that claims, or has passed, the index, and has announced nothing: STAND_AHEAD if
 * its unit there stands in the loop. STAND_LEFT if it does not: then it has left that, too, and
 * neither sends nor receives. STAND_OPEN: it is just passing the index. */
struct standing {
  enum peers_stand (*of_unit)(void *context, uint32_t rank);
  /* Likewise, but of a loop that this rank has passed by since it issued a unit for real: between
   * two places at which it has announced something. */
  enum peers_stand (*of_skipped)(void *context, uint32_t rank);
  bool skips; /* there are two such places */
  void *context;
};

/* ahead: gets a rank of which STAND_AHEAD is so. STAND_LEFT without memory. */
enum peers_stand peers_stand(struct peers *peers, uint64_t index, const struct standing *standing,
                             uint32_t *ahead);

/* This rank waits until they have left. Meanwhile it answers nothing of ranks that have: it is
 * about to post the other side itself. in_order: what it posts next comes after all have left the
 * loop. */
void peers_hold(struct peers *peers);
void peers_release(struct peers *peers, bool in_order);

/* Whether it is known of each announced operation that both sides come to it only after they have
 * left the loop. It is known, if it was so before; or if the operation is a receive, and this
 * rank's device does what comes next in the loop behind it (in_order): then its peer must send
 * before that. Of a send it is not: NCCL's buffers may take it before its peer receives. */
bool peers_are_ordered(struct peers *peers, bool in_order);

/* What is known of a place (peers_learn_place). False: nothing. */
bool peers_place(struct peers *peers, uint32_t id, struct place *place);

/* The first post of a team comes: from here on ranks that are parked answer. */
void peers_begin(struct peers *peers);

/* Whether a group from this place has been issued as part of no unit although it might have been
 * one. */
bool peers_are_apart(struct peers *peers, uint32_t place);

/* The first of these receives (members as above, not posted yet) to which its peer will only send
 * zeros: that rank is parked and has not sent it. Not those of no elements, and not those of a rank
 * that waits for an exchange: it may be about to. unit: they are about to be agreed on as an
 * exchange, where a rank without a claim may still come to it. -1: none. */
int peers_find_lossy(struct peers *peers, const struct member *members, uint32_t nmembers,
                     uint64_t index, bool unit);

enum peers_verdict {
  PEERS_PASS,   /* nothing stands against passing the index */
  PEERS_HOLD,   /* a rank may still post something that belongs before it */
  PEERS_MIRROR, /* mirrors to be issued as one, posted already: then look again */
  PEERS_MET,    /* a peer has issued its side of `pending` outside of the sequence */
};

/* One look of a rank that is parked at an index, in this team or in another one, and has said so in
 * log_say_answering. mirrors: UNIT_MEMBERS_MAX of them, nmirrors how many; number: how the
 * buffer looks that is answered. pending: the rank's own group, which is a unit and claimed there;
 * or NULL. */
enum peers_verdict peers_look(struct peers *peers, uint64_t index, const struct posts *pending,
                              struct member *mirrors, uint32_t *nmirrors);

/* The same of a rank that has left a loop, and does not know yet where its peers stand: only what
 * stands in that loop is answered, for its rank may have to issue that before it comes to a unit.
 * PEERS_HOLD: there is something that cannot be answered yet. */
enum peers_verdict peers_look_inside(struct peers *peers, struct member *mirrors,
                                     uint32_t *nmirrors);

/* Whether there is something to be answered there. */
bool peers_are_asked_inside(struct peers *peers);

/* Whether a rank has posted something directed at this one, which stands at an index, that has not
 * been answered. */
bool peers_is_asked_by(struct peers *peers, uint32_t rank, uint64_t index);

#endif
