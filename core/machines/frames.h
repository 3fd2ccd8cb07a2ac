/* What the agents of a job send each other: a head of fixed size, and what belongs to its kind.
 * Pure. What comes from another machine is data of a peer: everything is checked here before it is
 * used.
 *
 * Numbers are little-endian, as all processors are that nccl-join runs on.
 */
#ifndef NCCL_JOIN_CORE_FRAMES_H
#define NCCL_JOIN_CORE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/machines/rendezvous.h"
#include "core/transport/attachment.h"

/* Of these frames, and of the logs that they carry. */
#define FRAMES_VERSION (3u << 8 | PLANE_VERSION)
_Static_assert(PLANE_VERSION < 1u << 8, "FRAMES_VERSION");
#define FRAME_BYTES_MAX                                                                            \
  (65536u + 64u) /* a longer one ends the link; AGENT_MESSAGE_MAX and a head */
#define FRAME_NAME_BYTES 40
#define FRAME_HOST_BYTES 48
#define FRAME_TEXT_BYTES 200
#define FRAME_MACHINES_MAX PLANE_RANKS_MAX

enum frame_kind {
  FRAME_HELLO =
      1, /* to the root, or a parent that was named: the host's name as text; `detail` is the port at
                      which it listens, or 0, `key` is 1 if a parent that was named cannot be reached */
  FRAME_WELCOME, /* to a child: its number in `machine`; `detail`: how many children each agent has */
  FRAME_REFUSED, /* to a child: it cannot take part */
  FRAME_ANSWER, /* from the root to all: of a communicator, `detail` is an enum board_answer; text */
  FRAME_TOLD,   /* what core/agent tells: the body is one of its messages */
  FRAME_BYE,    /* the sender's ranks have ended, and so does it */
  FRAME_PARENT, /* to who says hello: another is to be its parent, a struct frame_place */
  FRAME_KINDS,
};

/* Where version and kind are is the same in every version; so is the text of FRAME_HELLO. */
struct frame_head {
  uint16_t version;
  uint8_t kind, zero;
  uint32_t machine; /* whose it is: a child's number at its parent; 0: the parent's */
  uint64_t key;     /* of a communicator, or 0 */
  uint32_t detail, zeros;
};
_Static_assert(sizeof(struct frame_head) == 24, "no padding");

/* A frame as it was received. */
struct frame {
  struct frame_head head;
  const unsigned char *body;
  size_t size; /* of the body */
};

/* Takes a received message apart. False: it is too short or too long, of another version, no kind
 * that there is, or its numbers are out of range. The body stays where it is. */
bool frame_read(const void *message, size_t size, struct frame *frame);

/* Of one that cannot be taken apart: the version of an agent that has another and wants to become a
 * child, or answers who does; 0: it is something else. host (FRAME_HOST_BYTES): of its machine, or
 * "". */
uint32_t frame_other_version(const void *message, size_t size, char *host);

/* A head of this version. */
struct frame_head frame_head(enum frame_kind kind, uint32_t machine);

/* Of a kind with a text: it, ended, and what cannot be printed is a question mark. */
void frame_read_text(const struct frame *frame, char *text, size_t size);

/* Where an agent listens for children. */
struct frame_place {
  unsigned char address[RENDEZVOUS_ADDRESS_BYTES]; /* IPv6, or IPv4 mapped */
  uint32_t port;
  char host[FRAME_HOST_BYTES]; /* its machine's name; ended by zeros */
};
_Static_assert(sizeof(struct frame_place) == 68, "no padding");

/* False: it is malformed. */
bool frame_read_place(const struct frame *frame, struct frame_place *place);

/* What a machine says of a slot of its own (core/agent/agent.h, agent_introduce). */
struct frame_slot {
  uint32_t version;
  uint32_t slots, ranks; /* of the communicator, in all */
  uint32_t zero;
  char name[FRAME_NAME_BYTES]; /* of its segment; ended by zeros */
  char host[FRAME_HOST_BYTES]; /* of the machine */
  struct introduction introduction;
};

/* False: it is malformed, or no slot of that communicator. */
bool frame_read_slot(const void *said, size_t size, uint64_t key, uint32_t number,
                     struct frame_slot *slot);

/* A number for a communicator out of its segment's name; 0 if that is none. */
uint64_t frame_key(const char *name);

#endif
