/* The links between agents (links.h): a ROUTER at the root, a DEALER at each child. How a child finds the
 * root is in links_find.c.
 *
 * ZeroMQ connects again by itself, and what was under way is lost then; so a link is lost with its
 * connection. The socket's monitor tells of that by the number of a descriptor, which every message that
 * has come over it has, too (ZMQ_SRCFD).
 */
#include "tools/agent/links_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A child that does not take so many messages is lost: it bounds the memory for it. */
#define QUEUE_MESSAGES 16384
/* What has come and not been looked at yet: the rest waits at its sender. */
#define QUEUE_HEARD 1024
#define LINGER_MS 2000
#define HANDSHAKE_MS 5000
#define BEAT_MS 1000 /* at most */

struct peer {
  struct peer *next;
  uint32_t machine;
  int file;                 /* of its connection */
  bool joined, ended, lost; /* ended: its connection has; lost: nothing is heard of it any more */
  size_t id_size;
  unsigned char id[256];
};

static void set(void *socket, int option, int value) {
  (void)zmq_setsockopt(socket, option, &value, sizeof(value));
}

/* ZeroMQ's own time begins with the first beat that is not answered. A tenth is for who waits then: to be
 * told, and to end. */
static void set_heartbeat(void *socket, int silence_ms) {
  int beat_ms = silence_ms / 10 < BEAT_MS ? silence_ms / 10 : BEAT_MS;
  set(socket, ZMQ_HEARTBEAT_IVL, beat_ms);
  set(socket, ZMQ_HEARTBEAT_TIMEOUT, silence_ms - beat_ms - silence_ms / 10);
}

void *links_socket(struct links *links, int type, int number, void **monitor) {
  char address[64];
  void *socket = zmq_socket(links->context, type);
  int64_t most = FRAME_BYTES_MAX;
  set(socket, ZMQ_LINGER, LINGER_MS);
  set(socket, ZMQ_SNDHWM, QUEUE_MESSAGES);
  set(socket, ZMQ_RCVHWM, QUEUE_HEARD);
  set(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
  set_heartbeat(socket, (int)links->terms.silence_s * 1000);
  set(socket, ZMQ_IPV6, 1);
  (void)zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof(most));
  (void)zmq_setsockopt(socket, ZMQ_ZAP_DOMAIN, "nccl-join", strlen("nccl-join"));
  snprintf(address, sizeof(address), "inproc://monitor%d", number);
  (void)zmq_socket_monitor(socket, address, ZMQ_EVENT_DISCONNECTED);
  *monitor = zmq_socket(links->context, ZMQ_PAIR);
  set(*monitor, ZMQ_LINGER, 0);
  (void)zmq_connect(*monitor, address);
  return socket;
}

void links_end_socket(void **socket, void **monitor) {
  if (*monitor != NULL) {
    (void)zmq_socket_monitor(*socket, NULL, 0);
    (void)zmq_close(*monitor);
  }
  if (*socket != NULL)
    (void)zmq_close(*socket);
  *socket = *monitor = NULL;
}

/* ---- peers of the root ---- */

static struct peer *peer_of_machine(const struct links *links, uint32_t machine) {
  struct peer *peer = links->peers;
  while (peer != NULL && (peer->machine != machine || peer->lost))
    peer = peer->next;
  return peer;
}

static struct peer *peer_of_id(const struct links *links, const unsigned char *id, size_t size) {
  struct peer *peer = links->peers;
  while (peer != NULL && (peer->id_size != size || memcmp(peer->id, id, size) != 0))
    peer = peer->next;
  return peer;
}

static struct peer *add_peer(struct links *links, const unsigned char *id, size_t size, int file) {
  struct peer *peer = links->next_machine < FRAME_MACHINES_MAX ? calloc(1, sizeof(*peer)) : NULL;
  if (peer == NULL)
    return NULL;
  for (struct peer *other = links->peers; other != NULL; other = other->next)
    if (other->file == file) {
      other->ended = true; /* its descriptor would not be free otherwise */
      other->file = -1;
    }
  peer->machine = links->next_machine++;
  peer->file = file;
  peer->id_size = size;
  memcpy(peer->id, id, size);
  peer->next = links->peers;
  links->peers = peer;
  links->children++;
  return peer;
}

/* Tells of those that are lost, from outside of whatever has found that out. */
static void tell_lost(struct links *links) {
  for (struct peer **link = &links->peers; *link != NULL;) {
    struct peer *peer = *link;
    if (!peer->lost) {
      link = &peer->next;
      continue;
    }
    *link = peer->next;
    links->children--;
    links->events.lost(links->events.context, peer->machine);
    free(peer);
    link = &links->peers; /* the list may be another by now */
  }
  if (links->broken && links->linked) {
    links->linked = false;
    links->events.lost(links->events.context, LINKS_ROOT);
  }
}

/* ---- sending ---- */

static bool send_to_peer(struct links *links, struct peer *peer, zmq_msg_t *message) {
  if (zmq_send(links->socket, peer->id, peer->id_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
      zmq_msg_send(message, links->socket, ZMQ_DONTWAIT) >= 0)
    return true;
  peer->lost = true;
  return false;
}

static void send_message(struct links *links, uint32_t machine, zmq_msg_t *message) {
  bool sent = false;
  if (links->root) {
    struct peer *peer = peer_of_machine(links, machine);
    sent = peer != NULL && send_to_peer(links, peer, message);
  } else if (links->linked && !links->broken) {
    sent = zmq_msg_send(message, links->socket, ZMQ_DONTWAIT) >= 0;
    links->broken = !sent;
  }
  if (!sent)
    zmq_msg_close(message);
}

void links_send(struct links *links, uint32_t machine, const struct frame_head *head,
                const void *body, size_t size) {
  zmq_msg_t message;
  if (zmq_msg_init_size(&message, sizeof(*head) + size) != 0)
    return;
  memcpy(zmq_msg_data(&message), head, sizeof(*head));
  if (size > 0)
    memcpy((unsigned char *)zmq_msg_data(&message) + sizeof(*head), body, size);
  send_message(links, machine, &message);
}

static void refuse(struct links *links, struct peer *peer) {
  struct frame_head head = frame_head(FRAME_REFUSED, LINKS_ROOT);
  zmq_msg_t message;
  if (zmq_msg_init_size(&message, sizeof(head)) != 0)
    return;
  memcpy(zmq_msg_data(&message), &head, sizeof(head));
  if (!send_to_peer(links, peer, &message))
    zmq_msg_close(&message);
}

void links_drop(struct links *links, uint32_t machine) {
  struct peer *peer = links->root ? peer_of_machine(links, machine) : NULL;
  if (peer != NULL) {
    refuse(links, peer);
    peer->lost = true;
  } else if (!links->root) {
    links->broken = true;
  }
}

/* ---- receiving ---- */

/* Connections that have ended. What has come over them before is in the socket by then, and is received
 * before they count as lost. */
static void hear_monitor(struct links *links) {
  for (;;) {
    unsigned char event[6], address[256];
    int file;
    if (zmq_recv(links->monitor, event, sizeof(event), ZMQ_DONTWAIT) < 0)
      return;
    (void)zmq_recv(links->monitor, address, sizeof(address), ZMQ_DONTWAIT);
    memcpy(&file, event + 2, sizeof(file));
    for (struct peer *peer = links->peers; peer != NULL; peer = peer->next)
      peer->ended = peer->ended || peer->file == file;
    links->ended = links->ended || !links->root;
  }
}

void links_note_version(struct links *links, const void *message, size_t size) {
  char host[FRAME_HOST_BYTES];
  uint32_t version = frame_other_version(message, size, host);
  if (version == 0)
    return;
  links->other_version = version;
  memcpy(links->other_host, host, sizeof(host));
}

uint32_t links_other_version(const struct links *links, const char **host) {
  *host = links->other_host;
  return links->other_version;
}

/* A message of the root's socket: from a child, or from who wants to become one. */
static void root_receives(struct links *links, const unsigned char *id, size_t id_size,
                          zmq_msg_t *message) {
  struct peer *peer = peer_of_id(links, id, id_size);
  struct frame frame;
  if (peer != NULL && peer->lost)
    return;
  if (!frame_read(zmq_msg_data(message), zmq_msg_size(message), &frame) ||
      (peer == NULL && frame.head.kind != FRAME_HELLO) ||
      (peer != NULL && frame.head.kind != FRAME_HELLO && frame.head.machine != peer->machine)) {
    struct peer stranger = {.id_size = id_size};
    if (peer == NULL)
      links_note_version(links, zmq_msg_data(message), zmq_msg_size(message));
    memcpy(stranger.id, id, id_size);
    refuse(links, &stranger);
    if (peer != NULL)
      peer->lost = true;
    return;
  }
  if (frame.head.kind == FRAME_HELLO) {
    if (peer == NULL) {
      hear_monitor(links); /* another connection may have had its descriptor, and ended */
      peer = add_peer(links, id, id_size, zmq_msg_get(message, ZMQ_SRCFD));
    }
    if (peer == NULL)
      return;
    struct frame_head head = frame_head(FRAME_WELCOME, peer->machine);
    links_send(links, peer->machine, &head, NULL, 0);
    if (!peer->joined)
      links->events.joined(links->events.context, peer->machine);
    peer->joined = true;
  } else if (frame.head.kind == FRAME_BYE) {
    peer->lost = true;
  } else {
    links->events.received(links->events.context, peer->machine, &frame);
  }
}

static void child_receives(struct links *links, zmq_msg_t *message) {
  struct frame frame;
  if (links->broken)
    return;
  if (!frame_read(zmq_msg_data(message), zmq_msg_size(message), &frame) ||
      frame.head.kind == FRAME_REFUSED)
    links->broken = true;
  else if (frame.head.kind != FRAME_WELCOME) /* it may come twice */
    links->events.received(links->events.context, LINKS_ROOT, &frame);
}

/* One message, if there is one. */
static bool receive(struct links *links) {
  unsigned char id[256];
  int size = 0;
  zmq_msg_t message;
  if (links->root && (size = zmq_recv(links->socket, id, sizeof(id), ZMQ_DONTWAIT)) < 0)
    return false;
  zmq_msg_init(&message);
  bool received = zmq_msg_recv(&message, links->socket, ZMQ_DONTWAIT) >= 0;
  bool more = received && zmq_msg_more(&message);
  if (received && links->root && size <= (int)sizeof(id) && !more)
    root_receives(links, id, (size_t)size, &message);
  else if (received && !links->root && !more)
    child_receives(links, &message);
  while (more) { /* of several parts is nothing that agents send */
    received = zmq_msg_recv(&message, links->socket, ZMQ_DONTWAIT) >= 0;
    more = received && zmq_msg_more(&message);
  }
  zmq_msg_close(&message);
  return received;
}

static void receive_all(struct links *links) {
  int count = 0;
  hear_monitor(links);
  while (count < QUEUE_MESSAGES && links->socket != NULL && receive(links))
    count++;
  if (count == QUEUE_MESSAGES)
    return; /* there is more: other work first */
  for (struct peer *peer = links->peers; peer != NULL; peer = peer->next)
    peer->lost = peer->lost || peer->ended;
  links->broken = links->broken || links->ended;
}

/* ---- who may come (RFC 27, ZAP): whoever has the children's key ---- */

static bool part(void *socket, unsigned char *bytes, size_t size, int *length) {
  int more = 0;
  size_t more_size = sizeof(more);
  *length = zmq_recv(socket, bytes, size, ZMQ_DONTWAIT);
  (void)zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &more_size);
  return more != 0;
}

static void admit(struct links *links) {
  unsigned char parts[8][256] = {{0}};
  unsigned char wanted[32];
  int lengths[8] = {0}, count = 0;
  while (count < 7 && part(links->door, parts[count], sizeof(parts[0]), &lengths[count]))
    count++;
  if (lengths[0] < 0)
    return;
  /* version, request, domain, address, identity, mechanism, key */
  bool known = count == 6 && lengths[5] == 5 && memcmp(parts[5], "CURVE", 5) == 0 &&
               lengths[6] == 32 && zmq_z85_decode(wanted, links->keys.child_public) != NULL &&
               memcmp(parts[6], wanted, 32) == 0;
  int id_size = lengths[1] < 0 || lengths[1] > (int)sizeof(parts[1]) ? 0 : lengths[1];
  (void)zmq_send(links->door, "1.0", 3, ZMQ_SNDMORE);
  (void)zmq_send(links->door, parts[1], (size_t)id_size, ZMQ_SNDMORE);
  (void)zmq_send(links->door, known ? "200" : "400", 3, ZMQ_SNDMORE);
  (void)zmq_send(links->door, "", 0, ZMQ_SNDMORE);
  (void)zmq_send(links->door, "", 0, ZMQ_SNDMORE);
  (void)zmq_send(links->door, "", 0, 0);
}

bool links_open_door(struct links *links) {
  links->door = zmq_socket(links->context, ZMQ_REP);
  set(links->door, ZMQ_LINGER, 0);
  return zmq_bind(links->door, "inproc://zeromq.zap.01") == 0;
}

/* ---- waiting ---- */

bool links_wait(struct links *links, int file, int milliseconds) {
  zmq_pollitem_t items[4 + PORTS] = {{.fd = file, .events = ZMQ_POLLIN}};
  int count = 1;
  if (links->door != NULL)
    items[count++] = (zmq_pollitem_t){.socket = links->door, .events = ZMQ_POLLIN};
  if (links->root || links->linked) {
    items[count++] = (zmq_pollitem_t){.socket = links->monitor, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = links->socket, .events = ZMQ_POLLIN};
  } else {
    count += links_find_items(links, items + count);
    milliseconds = milliseconds < FIND_MS ? milliseconds : FIND_MS;
  }
  (void)zmq_poll(items, count, milliseconds);
  if (links->door != NULL)
    admit(links);
  if (!links->root && !links->linked) {
    links_find(links);
  } else {
    receive_all(links);
  }
  tell_lost(links);
  return (items[0].revents & ZMQ_POLLIN) != 0;
}

bool links_is_root(const struct links *links) {
  return links->root;
}

bool links_is_linked(const struct links *links) {
  return links->linked;
}

uint32_t links_machine(const struct links *links) {
  return links->machine;
}

uint32_t links_children(const struct links *links) {
  return links->children;
}

void links_close(struct links *links) {
  if (links == NULL)
    return;
  if (links->linked && !links->broken) {
    struct frame_head head = frame_head(FRAME_BYE, links->machine);
    links_send(links, LINKS_ROOT, &head, NULL, 0);
  }
  links_find_end(links);
  links_end_socket(&links->socket, &links->monitor);
  if (links->door != NULL)
    (void)zmq_close(links->door);
  while (links->peers != NULL) {
    struct peer *peer = links->peers;
    links->peers = peer->next;
    free(peer);
  }
  if (links->context != NULL)
    (void)zmq_ctx_term(links->context); /* waits for what is under way: LINGER_MS */
  free(links);
}
