/* What the files of the links share: links.c has the sockets, the sending and the waiting,
 * links_find.c how an agent becomes the root or finds its parent, links_children.c its children,
 * links_door.c who may come. Not for anybody else. */
#ifndef TOOLS_AGENT_LINKS_PRIVATE_H
#define TOOLS_AGENT_LINKS_PRIVATE_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <zmq.h>

#include "tools/agent/keys.h"
#include "tools/agent/links.h"

#define FIND_MS 200   /* how often a child that looks for its parent does something */
#define FOLLOW_MS 20  /* ... that has been named */
#define ADMIT_MOST 64 /* in one turn */
/* What has come and not been looked at yet: the rest waits at its sender. */
#define QUEUE_HEARD 1024
/* A child that does not take so many messages is lost: it bounds the memory for it. */
#define QUEUE_MESSAGES 16384

/* A socket of ZeroMQ's, and what tells that connections of it have ended.
 *
 * A descriptor says once that something has come (ZMQ_FD in zmq_getsockopt(3)), and does not say it
 * again. So a socket is received from until there is nothing more, and also once it has been sent
 * to: ZeroMQ may have taken what the descriptor said while it sent. */
struct links_socket {
  void *socket, *monitor;
  int file, monitor_file; /* their descriptors */
  bool used;              /* there may be something of which they do not tell */
};

/* Looking for a parent. */
struct links_search {
  struct links_socket tried[PORTS]; /* at each of the root's ports so far */
  int ntried;
  int64_t next_ms;
  struct links_socket named; /* at the place that has been named; else none */
  struct frame_place place;
  int64_t until_ms; /* how long that is tried */
  int steps;        /* places that have been named */
  bool failed;      /* one cannot be reached: `place` */
};

/* What is waited for. Of the thread alone that waits. */
enum {
  AWAIT_FILE,
  AWAIT_DOOR,
  AWAIT_DOWN,
  AWAIT_DOWN_MONITOR,
  AWAIT_UP,
  AWAIT_UP_MONITOR,
  AWAITED
};
struct links_awaited {
  int milliseconds;
  bool looks; /* for a parent */
  struct pollfd items[AWAITED];
  zmq_pollitem_t search[2 + PORTS]; /* where it looks */
  int nsearch;
};

struct peer;

struct links {
  void *context;
  void *door; /* who may come */
  int door_file;
  bool door_used;
  struct links_awaited awaited;
  struct keys keys;
  struct links_terms terms; /* once there is a parent, the root's word of how many children */
  struct links_events events;
  char host[FRAME_HOST_BYTES];
  uint32_t other_version; /* of an agent that has been refused, or has refused this one; 0: none */
  char other_host[FRAME_HOST_BYTES];               /* its machine's, if that is known */
  unsigned char address[RENDEZVOUS_ADDRESS_BYTES]; /* the root's */
  int sockets;                                     /* made so far: their numbers */
  bool root, linked;
  struct links_search search;
  /* To the parent. */
  struct links_socket up;
  bool ended, broken; /* its connection has; nothing is heard of it any more */
  uint32_t machine;   /* this one's number there */
  /* To the children. */
  struct links_socket down; /* none: it does not listen */
  uint32_t port;            /* where it does; 0: nowhere */
  bool open;                /* it is the root, or has been linked: children are heard */
  struct peer *peers;
  uint32_t next_machine, children;
};

int64_t links_now_ms(void);
void links_set(void *socket, int option, int value);
int links_file_of(void *socket);

/* A socket with everything that all have, and its monitor. */
struct links_socket links_make_socket(struct links *links, int type);
void links_end_socket(struct links_socket *socket);

/* Looks whether what cannot be read is of an agent of another version. */
void links_note_version(struct links *links, const void *message, size_t size);

/* ---- looking for a parent ---- */

/* Becomes the root, or begins to look for it. */
void links_begin(struct links *links);

/* A turn; what to wait for; and the end of it. */
void links_find(struct links *links);
int links_find_items(const struct links *links, zmq_pollitem_t *items);
void links_find_end(struct links *links);

/* ---- children ---- */

/* Listens: 0, or an errno. */
int links_listen(struct links *links, const unsigned char address[RENDEZVOUS_ADDRESS_BYTES],
                 uint16_t port);
/* Of who is not the root: at a port that is free, if there is one. */
void links_listen_anywhere(struct links *links);
void links_write_endpoint(char endpoint[96], const unsigned char address[RENDEZVOUS_ADDRESS_BYTES],
                          uint32_t port);

/* A child's message, which is closed unless it has been sent. */
bool links_send_to_child(struct links *links, uint32_t machine, zmq_msg_t *message);
void links_drop_child(struct links *links, uint32_t machine);
/* Whether there was any message. */
bool links_receive_from_children(struct links *links);
/* Tells of those that are lost, from outside of whatever has found that out. */
bool links_tell_lost_children(struct links *links);
void links_forget_children(struct links *links);

/* ---- the door ---- */

bool links_open_door(struct links *links);
void links_admit(struct links *links);

#endif
