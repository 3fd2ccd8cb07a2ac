/* The children of an agent (links.h): a ROUTER that listens. Who says hello becomes a child while
 * there are less than each agent is to have; then a child is named to it as its parent, the one to
 * which fewest have been sent, where the same happens again. So agents stand in a tree, of which
 * each knows its neighbours alone. Who cannot reach the parent that was named says so, and becomes
 * a child nevertheless, while there are links left.
 */
#include "tools/agent/links_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/agent/agent.h"

#define PORTS_MORE 64 /* so many are tried of who is not the root */

struct peer {
  struct peer *next;
  uint32_t machine;         /* 0: it is no child, but has been sent to one */
  int file;                 /* of its connection */
  bool ended;               /* its connection has, or takes nothing any more */
  bool lost;                /* nothing is heard of it any more */
  uint32_t sent_to;         /* a child's number */
  uint32_t behind;          /* how many have been sent to this one */
  struct frame_place place; /* where it listens; port 0: nowhere */
  size_t id_size;
  unsigned char id[256];
};

/* ---- listening ---- */

void links_write_endpoint(char endpoint[96], const unsigned char address[RENDEZVOUS_ADDRESS_BYTES],
                          uint32_t port) {
  char text[RENDEZVOUS_ADDRESS_TEXT];
  rendezvous_address(address, text);
  snprintf(endpoint, 96, strchr(text, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u", text, port);
}

int links_listen(struct links *links, const unsigned char address[RENDEZVOUS_ADDRESS_BYTES],
                 uint16_t port) {
  char endpoint[96];
  links->down = links_make_socket(links, ZMQ_ROUTER);
  links_set(links->down.socket, ZMQ_CURVE_SERVER, 1);
  links_set(links->down.socket, ZMQ_ROUTER_MANDATORY, 1);
  (void)zmq_setsockopt(links->down.socket, ZMQ_CURVE_SECRETKEY, links->keys.root_secret, KEY_TEXT);
  links_write_endpoint(endpoint, address, port);
  if (zmq_bind(links->down.socket, endpoint) == 0) {
    links->port = port;
    return 0;
  }
  int error = errno;
  links_end_socket(&links->down);
  return error;
}

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

/* This machine's address on the way to the root: nothing is sent. */
static bool find_own_address(const struct links *links,
                             unsigned char own[RENDEZVOUS_ADDRESS_BYTES]) {
  bool ipv4 = memcmp(links->address, mapped, sizeof(mapped)) == 0;
  struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(links->keys.ports[0])};
  struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(links->keys.ports[0])};
  struct sockaddr *at = ipv4 ? (struct sockaddr *)&in : (struct sockaddr *)&in6;
  socklen_t size = ipv4 ? sizeof(in) : sizeof(in6);
  memcpy(&in.sin_addr, links->address + sizeof(mapped), sizeof(in.sin_addr));
  memcpy(&in6.sin6_addr, links->address, sizeof(in6.sin6_addr));
  int file = socket(at->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool found = file >= 0 && connect(file, at, size) == 0 && getsockname(file, at, &size) == 0;
  if (file >= 0)
    close(file);
  memcpy(own, ipv4 ? (const void *)mapped : (const void *)&in6.sin6_addr,
         ipv4 ? sizeof(mapped) : RENDEZVOUS_ADDRESS_BYTES);
  if (ipv4)
    memcpy(own + sizeof(mapped), &in.sin_addr, sizeof(in.sin_addr));
  return found;
}

/* The root's ports first, and then those beside them: what a firewall lets through is the same for
 * all. */
void links_listen_anywhere(struct links *links) {
  unsigned char own[RENDEZVOUS_ADDRESS_BYTES];
  uint32_t count = links->terms.last_port - links->terms.first_port + 1;
  int error = find_own_address(links, own) ? EADDRINUSE : ENETUNREACH;
  for (uint32_t i = 0; error == EADDRINUSE && i < PORTS_MORE; i++) {
    uint32_t offset = links->keys.ports[i % PORTS] - links->terms.first_port + i / PORTS;
    error = links_listen(links, own, (uint16_t)(links->terms.first_port + offset % count));
  }
}

/* ---- who they are ---- */

static struct peer *peer_of_machine(const struct links *links, uint32_t machine) {
  struct peer *peer = links->peers;
  while (peer != NULL && (machine == 0 || peer->machine != machine || peer->lost))
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
  struct peer *peer = calloc(1, sizeof(*peer));
  if (peer == NULL)
    return NULL;
  for (struct peer *other = links->peers; other != NULL; other = other->next)
    if (other->file == file) {
      other->ended = true; /* its descriptor would not be free otherwise */
      other->file = -1;
    }
  peer->file = file;
  peer->id_size = size;
  memcpy(peer->id, id, size);
  peer->next = links->peers;
  links->peers = peer;
  return peer;
}

bool links_tell_lost_children(struct links *links) {
  bool any = false;
  for (struct peer **link = &links->peers; *link != NULL;) {
    struct peer *peer = *link;
    if (!peer->lost) {
      link = &peer->next;
      continue;
    }
    *link = peer->next;
    uint32_t machine = peer->machine;
    free(peer);
    if (machine == 0)
      continue;
    links->children--;
    links->events.lost(links->events.context, machine);
    any = true;
    link = &links->peers; /* the list may be another by now */
  }
  return any;
}

void links_forget_children(struct links *links) {
  while (links->peers != NULL) {
    struct peer *peer = links->peers;
    links->peers = peer->next;
    free(peer);
  }
}

/* ---- sending ---- */

/* Who has ended takes nothing any more, and what it has said last may be in the socket still: that
 * is heard before it counts as lost. */
static bool send_to_peer(struct links *links, struct peer *peer, zmq_msg_t *message) {
  if (peer->ended)
    return false;
  links->down.used = true;
  if (zmq_send(links->down.socket, peer->id, peer->id_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
      zmq_msg_send(message, links->down.socket, ZMQ_DONTWAIT) >= 0)
    return true;
  peer->ended = true;
  return false;
}

bool links_send_to_child(struct links *links, uint32_t machine, zmq_msg_t *message) {
  struct peer *peer = peer_of_machine(links, machine);
  return peer != NULL && send_to_peer(links, peer, message);
}

static void answer(struct links *links, struct peer *peer, const struct frame_head *head,
                   const void *body, size_t size) {
  zmq_msg_t message;
  if (zmq_msg_init_size(&message, sizeof(*head) + size) != 0)
    return;
  memcpy(zmq_msg_data(&message), head, sizeof(*head));
  if (size > 0)
    memcpy((unsigned char *)zmq_msg_data(&message) + sizeof(*head), body, size);
  if (!send_to_peer(links, peer, &message))
    zmq_msg_close(&message);
}

static void refuse(struct links *links, struct peer *peer) {
  const struct frame_head head = frame_head(FRAME_REFUSED, LINKS_PARENT);
  answer(links, peer, &head, NULL, 0);
}

void links_drop_child(struct links *links, uint32_t machine) {
  struct peer *peer = peer_of_machine(links, machine);
  if (peer == NULL)
    return;
  refuse(links, peer);
  peer->lost = true;
}

/* ---- who says hello ---- */

/* Where it listens, as this machine sees it; nowhere, if that cannot be said. */
static void read_place(const struct frame *hello, zmq_msg_t *message, struct frame_place *place) {
  const char *address = zmq_msg_gets(message, "Peer-Address"); /* of the connection */
  memset(place, 0, sizeof(*place));
  frame_read_text(hello, place->host, sizeof(place->host));
  if (address == NULL || hello->head.detail > UINT16_MAX)
    return;
  place->port = hello->head.detail;
  if (inet_pton(AF_INET6, address, place->address) == 1)
    return;
  memcpy(place->address, mapped, sizeof(mapped));
  if (inet_pton(AF_INET, address, place->address + sizeof(mapped)) != 1)
    place->port = 0;
}

/* The one behind which fewest are; NULL: none listens. */
static struct peer *least_child(const struct links *links) {
  struct peer *least = NULL;
  for (struct peer *peer = links->peers; peer != NULL; peer = peer->next)
    if (peer->machine != 0 && !peer->lost && !peer->ended && peer->place.port != 0 &&
        (least == NULL || peer->behind < least->behind ||
         (peer->behind == least->behind && peer->machine < least->machine)))
      least = peer;
  return least;
}

/* The child that a newcomer is to have as its parent; NULL: it is to be a child itself. It says
 * hello again until it hears the answer, which is the same then. */
static struct peer *choose_parent(const struct links *links, struct peer *newcomer, bool returns) {
  struct peer *before = peer_of_machine(links, newcomer->sent_to);
  if (returns) {
    if (before != NULL && before->behind > 0)
      before->behind--;
    newcomer->sent_to = 0;
    return NULL;
  }
  if (before != NULL || links->children < links->terms.children)
    return before;
  struct peer *parent = least_child(links);
  if (parent != NULL) {
    newcomer->sent_to = parent->machine;
    parent->behind++;
  }
  return parent;
}

static void become_child(struct links *links, struct peer *peer) {
  uint32_t most = links->root ? AGENT_LINKS_MAX : AGENT_LINKS_MAX - 1;
  if (links->children >= most || links->next_machine >= FRAME_MACHINES_MAX) {
    refuse(links, peer);
    return;
  }
  peer->machine = links->next_machine++;
  links->children++;
}

static void hear_hello(struct links *links, struct peer *peer, const struct frame *hello,
                       zmq_msg_t *message) {
  bool is_child = peer->machine != 0;
  if (!links->root && !links->linked) {
    refuse(links, peer); /* it has lost its parent */
    return;
  }
  if (!is_child) {
    struct peer *parent = choose_parent(links, peer, hello->head.key != 0);
    if (parent != NULL) {
      const struct frame_head head = frame_head(FRAME_PARENT, LINKS_PARENT);
      answer(links, peer, &head, &parent->place, sizeof(parent->place));
      return;
    }
    read_place(hello, message, &peer->place);
    become_child(links, peer);
    if (peer->machine == 0)
      return;
  }
  struct frame_head head = frame_head(FRAME_WELCOME, peer->machine);
  head.detail = links->terms.children;
  answer(links, peer, &head, NULL, 0);
  if (!is_child)
    links->events.joined(links->events.context, peer->machine);
}

/* ---- receiving ---- */

/* Connections that have ended. What has come over them before is in the socket by then, and is
 * received before they count as lost. */
static void hear_monitor(struct links *links) {
  for (;;) {
    unsigned char event[6], address[256];
    int file;
    if (zmq_recv(links->down.monitor, event, sizeof(event), ZMQ_DONTWAIT) < 0)
      return;
    (void)zmq_recv(links->down.monitor, address, sizeof(address), ZMQ_DONTWAIT);
    memcpy(&file, event + 2, sizeof(file));
    for (struct peer *peer = links->peers; peer != NULL; peer = peer->next)
      peer->ended = peer->ended || peer->file == file;
  }
}

/* From a child, or from who wants to become one. */
static void receive_message(struct links *links, const unsigned char *id, size_t id_size,
                            zmq_msg_t *message) {
  struct peer *peer = peer_of_id(links, id, id_size);
  struct frame frame;
  if (peer != NULL && peer->lost)
    return;
  bool is_child = peer != NULL && peer->machine != 0;
  if (!frame_read(zmq_msg_data(message), zmq_msg_size(message), &frame) ||
      (frame.head.kind != FRAME_HELLO && (!is_child || frame.head.machine != peer->machine))) {
    struct peer stranger = {.id_size = id_size};
    if (!is_child)
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
    if (peer != NULL)
      hear_hello(links, peer, &frame, message);
  } else if (frame.head.kind == FRAME_BYE) {
    peer->lost = true;
  } else {
    links->events.received(links->events.context, peer->machine, &frame);
  }
}

/* One message, if there is one. */
static bool receive(struct links *links) {
  unsigned char id[256];
  zmq_msg_t message;
  int size = zmq_recv(links->down.socket, id, sizeof(id), ZMQ_DONTWAIT);
  if (size < 0)
    return false;
  zmq_msg_init(&message);
  bool received = zmq_msg_recv(&message, links->down.socket, ZMQ_DONTWAIT) >= 0;
  bool more = received && zmq_msg_more(&message);
  if (received && size <= (int)sizeof(id) && !more)
    receive_message(links, id, (size_t)size, &message);
  while (more) { /* of several parts is nothing that agents send */
    received = zmq_msg_recv(&message, links->down.socket, ZMQ_DONTWAIT) >= 0;
    more = received && zmq_msg_more(&message);
  }
  zmq_msg_close(&message);
  return received;
}

bool links_receive_from_children(struct links *links) {
  int count = 0;
  links->down.used = false;
  hear_monitor(links);
  while (count < QUEUE_MESSAGES && receive(links))
    count++;
  if (count == QUEUE_MESSAGES) {
    links->down.used = true; /* there is more: other work first */
    return true;
  }
  for (struct peer *peer = links->peers; peer != NULL; peer = peer->next)
    peer->lost = peer->lost || peer->ended;
  return count > 0;
}
