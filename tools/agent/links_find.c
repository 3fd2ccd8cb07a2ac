/* Becoming the root, or finding it (links.h).
 *
 * The root is who can listen at the address that NCCL wrote into the id: an agent of its creator's
 * machine. Of the ports that follow from the secret it takes the first that is free. If one is taken it
 * may be by another agent of the same job, on this machine but with a /dev/shm of its own; so it is
 * asked first. Children ask all ports, one after the other, until one answers: what listens there does not
 * have the root's key, or it is the root.
 */
#include "tools/agent/links_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ASK_MS 1500  /* an agent that has the port already answers in that time */
#define NEXT_MS 300  /* from one port to the next */
#define RETRY_MS 100 /* a root that is not there yet: from one attempt to the next */
#define RETRY_MOST_MS 1000

static int64_t find_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void set(void *socket, int option, int value) {
  (void)zmq_setsockopt(socket, option, &value, sizeof(value));
}

static void key(void *socket, int option, const char *text) {
  (void)zmq_setsockopt(socket, option, text, KEY_TEXT);
}

/* ---- the root ---- */

/* 0, or an errno. */
static int listen_at(struct links *links, uint16_t port) {
  char endpoint[96];
  links->socket = links_socket(links, ZMQ_ROUTER, links->sockets++, &links->monitor);
  set(links->socket, ZMQ_CURVE_SERVER, 1);
  set(links->socket, ZMQ_ROUTER_MANDATORY, 1);
  key(links->socket, ZMQ_CURVE_SECRETKEY, links->keys.root_secret);
  snprintf(endpoint, sizeof(endpoint), "tcp://%s:%u", links->address, port);
  if (zmq_bind(links->socket, endpoint) == 0)
    return 0;
  int error = errno;
  links_end_socket(&links->socket, &links->monitor);
  return error;
}

/* ---- a child ---- */

static void ask_at(struct links *links, uint16_t port) {
  char endpoint[96];
  void **monitor = &links->tried_monitors[links->ntried];
  void *socket = links_socket(links, ZMQ_DEALER, links->sockets++, monitor);
  key(socket, ZMQ_CURVE_SERVERKEY, links->keys.root_public);
  key(socket, ZMQ_CURVE_PUBLICKEY, links->keys.child_public);
  key(socket, ZMQ_CURVE_SECRETKEY, links->keys.child_secret);
  set(socket, ZMQ_IMMEDIATE, 1); /* nothing is kept for a connection that is not there */
  set(socket, ZMQ_RECONNECT_IVL, RETRY_MS);
  set(socket, ZMQ_RECONNECT_IVL_MAX, RETRY_MOST_MS);
  set(socket, ZMQ_CONNECT_TIMEOUT, RETRY_MOST_MS);
  snprintf(endpoint, sizeof(endpoint), "tcp://%s:%u", links->address, port);
  (void)zmq_connect(socket, endpoint);
  links->tried[links->ntried++] = socket;
}

static void say_hello(struct links *links, void *socket) {
  unsigned char hello[sizeof(struct frame_head) + FRAME_HOST_BYTES];
  struct frame_head head = frame_head(FRAME_HELLO, LINKS_ROOT);
  memcpy(hello, &head, sizeof(head));
  memcpy(hello + sizeof(head), links->host, FRAME_HOST_BYTES);
  (void)zmq_send(socket, hello, sizeof(hello), ZMQ_DONTWAIT);
}

/* Whether the root has answered on this socket, and given this machine its number. */
static bool is_welcome(struct links *links, void *socket) {
  unsigned char bytes[sizeof(struct frame_head) + FRAME_TEXT_BYTES];
  struct frame frame;
  int size = zmq_recv(socket, bytes, sizeof(bytes), ZMQ_DONTWAIT);
  if (size < 0 || size > (int)sizeof(bytes))
    return false;
  if (!frame_read(bytes, (size_t)size, &frame) || frame.head.kind != FRAME_WELCOME) {
    links_note_version(links, bytes, (size_t)size);
    return false;
  }
  links->machine = frame.head.machine;
  return true;
}

/* Messages of the monitor from before. If the link broke in this moment, the root will not know who sends
 * the next message, and refuse it. */
static void forget_past(void *monitor) {
  unsigned char bytes[256];
  while (zmq_recv(monitor, bytes, sizeof(bytes), ZMQ_DONTWAIT) >= 0)
    ;
}

void links_find(struct links *links) {
  int64_t now = find_now_ms();
  if (links->broken)
    return;
  for (int i = 0; i < links->ntried; i++) {
    if (!is_welcome(links, links->tried[i]))
      continue;
    links->socket = links->tried[i];
    links->monitor = links->tried_monitors[i];
    links->tried[i] = links->tried_monitors[i] = NULL;
    forget_past(links->monitor);
    links_find_end(links);
    links->linked = true;
    links->events.linked(links->events.context, links->machine);
    return;
  }
  for (int i = 0; i < links->ntried; i++)
    say_hello(links, links->tried[i]);
  if (links->ntried < PORTS && now >= links->next_ms) {
    ask_at(links, links->keys.ports[links->ntried]);
    links->next_ms = now + NEXT_MS;
  }
}

int links_find_items(const struct links *links, zmq_pollitem_t *items) {
  for (int i = 0; i < links->ntried; i++)
    items[i] = (zmq_pollitem_t){.socket = links->tried[i], .events = ZMQ_POLLIN};
  return links->ntried;
}

void links_find_end(struct links *links) {
  for (int i = 0; i < links->ntried; i++)
    links_end_socket(&links->tried[i], &links->tried_monitors[i]);
  links->ntried = 0;
}

/* ---- which of both ---- */

/* Somebody has the port: whether it is the job's root, which this agent has found then. */
static bool find_there(struct links *links, uint16_t port) {
  int64_t end = find_now_ms() + ASK_MS;
  ask_at(links, port);
  links->next_ms = INT64_MAX; /* no other port */
  while (!links->linked && find_now_ms() < end) {
    zmq_pollitem_t item = {.socket = links->tried[0], .events = ZMQ_POLLIN};
    (void)zmq_poll(&item, 1, FIND_MS / 4);
    links_find(links);
  }
  if (!links->linked)
    links_find_end(links);
  links->next_ms = 0;
  return links->linked;
}

static void become_root_or_child(struct links *links) {
  for (int i = 0; i < PORTS && !links->root && !links->linked; i++) {
    int error = listen_at(links, links->keys.ports[i]);
    links->root = error == 0;
    if (error != 0 && (error != EADDRINUSE || find_there(links, links->keys.ports[i])))
      return;
  }
}

struct links *links_open(const struct rendezvous *job, const struct links_terms *terms,
                         const struct links_events *events, char *reason) {
  char address[RENDEZVOUS_ADDRESS_TEXT];
  struct links *links = calloc(1, sizeof(*links));
  reason[0] = '\0';
  if (links == NULL || (links->context = zmq_ctx_new()) == NULL ||
      !keys_derive(job, terms->first_port, terms->last_port, &links->keys)) {
    snprintf(reason, FRAME_TEXT_BYTES, "no memory, or no keys");
    links_close(links);
    return NULL;
  }
  links->terms = *terms;
  links->events = *events;
  links->next_machine = LINKS_ROOT + 1;
  snprintf(links->host, sizeof(links->host), "%s", terms->host);
  rendezvous_address(job, address);
  snprintf(links->address, sizeof(links->address), strchr(address, ':') ? "[%s]" : "%s", address);
  if (!links_open_door(links)) {
    snprintf(reason, FRAME_TEXT_BYTES, "ZeroMQ: %s", zmq_strerror(errno));
    links_close(links);
    return NULL;
  }
  become_root_or_child(links);
  return links;
}
