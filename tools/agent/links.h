/* The links between the agents of a job, which stand in a tree: one is the root, and each other one
 * has a link to its parent. All listen. Over ZeroMQ with CURVE (RFC 26): who has not the job's
 * secret gets no further than its handshake.
 *
 * A link keeps the order of what is sent over it, and loses nothing; one that breaks, or is silent
 * for too long, is lost for good. One thread at a time, but for links_await.
 */
#ifndef TOOLS_AGENT_LINKS_H
#define TOOLS_AGENT_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/machines/frames.h"
#include "core/machines/rendezvous.h"

#define LINKS_PARENT 0u /* the parent's number; this machine's children have others */

struct links;

struct links_terms {
  uint32_t first_port, last_port;
  uint32_t wait_s; /* for the other machines, when a communicator is made */
  uint32_t silence_s;
  uint32_t children; /* how many each agent has, where all can reach each other */
  const char *host;  /* of this machine */
};

/* What happens on the links; called by links_hear. A number is never used twice. */
struct links_events {
  void *context;
  void (*linked)(void *context);                   /* to the parent */
  void (*joined)(void *context, uint32_t machine); /* a child */
  void (*received)(void *context, uint32_t machine, const struct frame *frame);
  void (*lost)(void *context, uint32_t machine);
};

/* Begins to listen, and to look for a parent unless it is the root. NULL: reason (FRAME_TEXT_BYTES)
 * says why. */
struct links *links_open(const struct rendezvous *job, const struct links_terms *terms,
                         const struct links_events *events, char *reason);

bool links_is_root(const struct links *links);

/* Of who is not the root: whether it has a parent. */
bool links_is_linked(const struct links *links);

/* Of who has no parent yet: who was to be it, and cannot be reached; NULL: nobody has been named.
 */
const struct frame_place *links_unreachable(const struct links *links);

/* How many children it has. */
uint32_t links_children(const struct links *links);

/* The version of an agent of another one that has tried to be the child or was asked to be the
 * parent; 0: there was none. *host: its machine's name, or "". */
uint32_t links_other_version(const struct links *links, const char **host);

/* Sends to a machine that has a link with this one; the head's machine is filled in. What cannot be
 * sent makes the link lost. */
void links_send(struct links *links, uint32_t machine, const struct frame_head *head,
                const void *body, size_t size);

/* Ends a link: its other side is told, and links_hear says that it is lost. */
void links_drop(struct links *links, uint32_t machine);

/* A wait has three steps. links_prepare says what for: that something happens on a link, that a
 * file can be read (-1: none), or that so many milliseconds pass. links_await waits; another thread
 * may call all other functions meanwhile, but for links_close and these two. links_hear hears what
 * has come: with `awaited` after links_await, and without it at any time, of links alone that are
 * used (links_are_used). It returns whether anything has happened. */
void links_prepare(struct links *links, int file, int milliseconds);
void links_await(struct links *links);
bool links_hear(struct links *links, bool awaited);

/* Whether some link has been used since it was last heard: what has come on it may not end a
 * links_await that has begun. One that begins later does not wait. */
bool links_are_used(const struct links *links);

/* Ends all links, after what is under way has been sent. NULL is allowed. */
void links_close(struct links *links);

#endif
