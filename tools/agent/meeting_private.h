/* What the files of the meeting share: meeting.c has the links and the turns, communicators.c the
 * communicators, reasons.c what is said where they are not found. Not for anybody else. */
#ifndef TOOLS_AGENT_MEETING_PRIVATE_H
#define TOOLS_AGENT_MEETING_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/agent/agent.h"
#include "core/transport/plane.h"
#include "core/transport/segment_remote.h"
#include "tools/agent/meeting.h"

/* A communicator that a machine has told of, or ranks of this one have written down. */
struct communicator {
  struct communicator *next;
  uint64_t key;
  uint32_t slots, ranks;
  char name[FRAME_NAME_BYTES];
  struct frame_slot **heard; /* by slot; NULL: nothing yet */
  uint32_t nheard;
  bool unequal;                  /* machines do not agree on it */
  enum board_answer answer;      /* BOARD_ASKED: none yet */
  bool again;                    /* a machine that may not have heard the answer asks */
  char reason[FRAME_TEXT_BYTES]; /* of an answer that is not BOARD_FOUND */
  uint32_t wait_s;               /* for machines that have not been heard of */
  int64_t deadline_ms;
  /* Of ranks of this machine. */
  struct board_communicator *asked; /* NULL: it has none of them */
  struct segment_remote *segment;
  bool told;   /* the other machines have been told of them */
  bool *local; /* by slot: lives here */
  uint32_t nlocal;
  struct plane plane;
  bool in_team; /* agent_add_team */
};

struct meeting {
  struct board *board;
  struct links *links;
  struct agent *agent;
  struct rendezvous job;
  char host[FRAME_HOST_BYTES];
  int64_t begun_ms;
  bool in_vain; /* machines have been waited for, and did not come; nor has any since */
  bool lost;    /* had a parent, and has it no more */
  struct communicator *first;
  int waits_ms;                       /* for so long, at most, meeting_await has been told to */
  int64_t looked_ms;                  /* when it was last looked at what nobody rings for */
  uint32_t asked;                     /* the board's, when it was last read */
  int64_t waited_ms;                  /* when a rank of this machine was last seen to wait */
  uint32_t machines[AGENT_LINKS_MAX]; /* by number of a link: plus one; 0: free */
  bool failed;                        /* it cannot go on: what it said would not be true */
};

int64_t meeting_now_ms(void);

/* Whether what is told now reaches the root. */
static inline bool meeting_is_linked(const struct meeting *meeting) {
  return links_is_root(meeting->links) || links_is_linked(meeting->links);
}

/* Whether a rank of this machine waits, or another machine looks at a team of it. */
bool communicators_are_awake(const struct meeting *meeting);

/* What another machine has said of a slot; that it has ended. For core/agent. */
void communicators_introduced(void *meeting, uint64_t key, uint32_t slot, const void *said,
                              size_t size);
void communicators_ended(void *meeting, uint64_t key, uint32_t slot, struct plane_fate fate,
                         bool lost);

/* The root's answer, which goes on to the children; and of the root, of all communicators that it
 * is time for. */
void communicators_answered(struct meeting *meeting, uint64_t key, enum board_answer answer,
                            const char *reason);
void communicators_decide(struct meeting *meeting);

/* What has been answered, to a child that has just come. */
void communicators_repeat(struct meeting *meeting, uint32_t machine);

/* What ranks have written down, and who waits. all: of what nobody tells, too: that a rank has
 * ended. */
void communicators_read_board(struct meeting *meeting, bool all);
void communicators_look(struct meeting *meeting, bool all);

/* The way to the root is lost: what it has not answered will not be. */
void communicators_lose_parent(struct meeting *meeting);

/* Why ranks are not found: some have not been heard of; this machine has no way to the root. */
void reason_missing(const struct meeting *meeting, const struct communicator *one,
                    char reason[FRAME_TEXT_BYTES]);
void reason_alone(const struct meeting *meeting, const struct communicator *one,
                  char reason[FRAME_TEXT_BYTES]);

void communicators_end(struct meeting *meeting);

#endif
