/* What links.c and links_find.c share. Not for anybody else. */
#ifndef TOOLS_AGENT_LINKS_PRIVATE_H
#define TOOLS_AGENT_LINKS_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include <zmq.h>

#include "tools/agent/keys.h"
#include "tools/agent/links.h"

#define FIND_MS 200 /* how often a child that looks for the root does something */

struct peer;

struct links {
  void *context;
  void *socket, *monitor; /* the root's, or a linked child's */
  void *door;             /* the root's: who may come */
  struct keys keys;
  struct links_terms terms;
  struct links_events events;
  char host[FRAME_HOST_BYTES];
  uint32_t other_version; /* of an agent that has been refused, or has refused this one; 0: none */
  char other_host[FRAME_HOST_BYTES];         /* its machine's, if that is known */
  char address[RENDEZVOUS_ADDRESS_TEXT + 2]; /* in brackets if it has colons */
  bool root, linked;
  bool ended, broken; /* of a child's link: its connection has; nothing is heard of it any more */
  uint32_t machine;
  /* Of a child that looks for the root: a socket for each port that it has tried. */
  void *tried[PORTS], *tried_monitors[PORTS];
  int ntried, sockets; /* sockets made so far: their numbers */
  int64_t next_ms;
  /* Of the root. */
  struct peer *peers;
  uint32_t next_machine, children;
};

/* A socket with everything that all have, and its monitor. */
void *links_socket(struct links *links, int type, int number, void **monitor);
void links_end_socket(void **socket, void **monitor);
bool links_open_door(struct links *links);

/* Looks whether what cannot be read is of an agent of another version. */
void links_note_version(struct links *links, const void *message, size_t size);

/* Looking for the root: a turn; what to wait for; and the end of it. */
void links_find(struct links *links);
int links_find_items(const struct links *links, zmq_pollitem_t *items);
void links_find_end(struct links *links);

#endif
