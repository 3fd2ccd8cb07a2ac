/* The links between agents (links.h): a DEALER to the parent, and a ROUTER to the children
 * (links_children.c). How an agent becomes the root or finds its parent is in links_find.c.
 *
 * ZeroMQ connects again by itself, and what was under way is lost then; so a link is lost with its
 * connection. The socket's monitor tells of that by the number of a descriptor, which every message
 * that has come over it has, too (ZMQ_SRCFD).
 */
#include "tools/agent/links_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINGER_MS 2000
#define HANDSHAKE_MS 5000
#define BEAT_MS 1000 /* at most */

int64_t links_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

void links_set(void *socket, int option, int value) {
  (void)zmq_setsockopt(socket, option, &value, sizeof(value));
}

int links_file_of(void *socket) {
  int file = -1;
  size_t size = sizeof(file);
  (void)zmq_getsockopt(socket, ZMQ_FD, &file, &size);
  return file;
}

/* ZeroMQ's own time begins with the first beat that is not answered. A tenth is for who waits then:
 * to be told, and to end. */
static void set_heartbeat(void *socket, int silence_ms) {
  int beat_ms = silence_ms / 10 < BEAT_MS ? silence_ms / 10 : BEAT_MS;
  links_set(socket, ZMQ_HEARTBEAT_IVL, beat_ms);
  links_set(socket, ZMQ_HEARTBEAT_TIMEOUT, silence_ms - beat_ms - silence_ms / 10);
}

struct links_socket links_make_socket(struct links *links, int type) {
  char address[64];
  struct links_socket made = {.socket = zmq_socket(links->context, type)};
  int64_t most = FRAME_BYTES_MAX;
  links_set(made.socket, ZMQ_LINGER, LINGER_MS);
  links_set(made.socket, ZMQ_SNDHWM, QUEUE_MESSAGES);
  links_set(made.socket, ZMQ_RCVHWM, QUEUE_HEARD);
  links_set(made.socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_MS);
  set_heartbeat(made.socket, (int)links->terms.silence_s * 1000);
  links_set(made.socket, ZMQ_IPV6, 1);
  (void)zmq_setsockopt(made.socket, ZMQ_MAXMSGSIZE, &most, sizeof(most));
  (void)zmq_setsockopt(made.socket, ZMQ_ZAP_DOMAIN, "nccl-join", strlen("nccl-join"));
  snprintf(address, sizeof(address), "inproc://monitor%d", links->sockets++);
  (void)zmq_socket_monitor(made.socket, address, ZMQ_EVENT_DISCONNECTED);
  made.monitor = zmq_socket(links->context, ZMQ_PAIR);
  links_set(made.monitor, ZMQ_LINGER, 0);
  (void)zmq_connect(made.monitor, address);
  made.file = links_file_of(made.socket);
  made.monitor_file = links_file_of(made.monitor);
  made.used = true;
  return made;
}

void links_end_socket(struct links_socket *socket) {
  if (socket->monitor != NULL) {
    (void)zmq_socket_monitor(socket->socket, NULL, 0);
    (void)zmq_close(socket->monitor);
  }
  if (socket->socket != NULL)
    (void)zmq_close(socket->socket);
  *socket = (struct links_socket){.socket = NULL};
}

/* ---- sending ---- */

static bool send_to_parent(struct links *links, zmq_msg_t *message) {
  if (!links->linked || links->broken)
    return false;
  links->up.used = true;
  bool sent = zmq_msg_send(message, links->up.socket, ZMQ_DONTWAIT) >= 0;
  links->broken = !sent;
  return sent;
}

static bool is_parent(const struct links *links, uint32_t machine) {
  return machine == LINKS_PARENT && !links->root;
}

void links_send(struct links *links, uint32_t machine, const struct frame_head *head,
                const void *body, size_t size) {
  bool up = is_parent(links, machine);
  struct frame_head own = *head;
  zmq_msg_t message;
  own.machine = up ? links->machine : LINKS_PARENT;
  if (zmq_msg_init_size(&message, sizeof(own) + size) != 0)
    return;
  memcpy(zmq_msg_data(&message), &own, sizeof(own));
  if (size > 0)
    memcpy((unsigned char *)zmq_msg_data(&message) + sizeof(own), body, size);
  if (up ? !send_to_parent(links, &message) : !links_send_to_child(links, machine, &message))
    zmq_msg_close(&message);
}

void links_drop(struct links *links, uint32_t machine) {
  if (is_parent(links, machine))
    links->broken = true;
  else
    links_drop_child(links, machine);
}

/* ---- receiving ---- */

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

static void hear_parent(struct links *links, zmq_msg_t *message) {
  struct frame frame;
  if (links->broken)
    return;
  if (!frame_read(zmq_msg_data(message), zmq_msg_size(message), &frame) ||
      frame.head.machine != (frame.head.kind == FRAME_WELCOME ? links->machine : LINKS_PARENT) ||
      frame.head.kind == FRAME_REFUSED)
    links->broken = true;
  else if (frame.head.kind != FRAME_WELCOME) /* it may come twice */
    links->events.received(links->events.context, LINKS_PARENT, &frame);
}

/* One message, if there is one. */
static bool receive(struct links *links) {
  zmq_msg_t message;
  zmq_msg_init(&message);
  bool received = zmq_msg_recv(&message, links->up.socket, ZMQ_DONTWAIT) >= 0;
  bool more = received && zmq_msg_more(&message);
  if (received && !more)
    hear_parent(links, &message);
  while (more) { /* of several parts is nothing that agents send */
    received = zmq_msg_recv(&message, links->up.socket, ZMQ_DONTWAIT) >= 0;
    more = received && zmq_msg_more(&message);
  }
  zmq_msg_close(&message);
  return received;
}

/* Whether there was any message. */
static bool receive_from_parent(struct links *links) {
  unsigned char event[256];
  int count = 0;
  links->up.used = false;
  while (zmq_recv(links->up.monitor, event, sizeof(event), ZMQ_DONTWAIT) >= 0)
    links->ended = true;
  while (count < QUEUE_MESSAGES && receive(links))
    count++;
  if (count == QUEUE_MESSAGES)
    links->up.used = true; /* there is more: other work first */
  else
    links->broken = links->broken || links->ended;
  return count > 0;
}

/* Tells of those that are lost, from outside of whatever has found that out. Whether there are any.
 */
static bool tell_lost(struct links *links) {
  bool any = links_tell_lost_children(links);
  if (!links->broken || !links->linked)
    return any;
  links->linked = false;
  links->events.lost(links->events.context, LINKS_PARENT);
  return true;
}

/* ---- waiting ---- */

static bool looks_for_parent(const struct links *links) {
  return !links->root && !links->open;
}

static bool hears_children(const struct links *links) {
  return links->open && links->down.socket != NULL;
}

static void prepare_search(struct links *links, int file) {
  struct links_awaited *awaited = &links->awaited;
  int most = links->search.named.socket != NULL ? FOLLOW_MS : FIND_MS;
  awaited->search[0] = (zmq_pollitem_t){.fd = file, .events = ZMQ_POLLIN};
  awaited->search[1] = (zmq_pollitem_t){.socket = links->door, .events = ZMQ_POLLIN};
  awaited->nsearch = 2 + links_find_items(links, awaited->search + 2);
  if (awaited->milliseconds > most)
    awaited->milliseconds = most;
}

bool links_are_used(const struct links *links) {
  if (looks_for_parent(links))
    return false;
  return links->door_used || (hears_children(links) && links->down.used) ||
         (links->linked && links->up.used);
}

void links_prepare(struct links *links, int file, int milliseconds) {
  bool down = hears_children(links), up = links->linked;
  const int files[AWAITED] = {[AWAIT_FILE] = file,
                              [AWAIT_DOOR] = links->door_file,
                              [AWAIT_DOWN] = down ? links->down.file : -1,
                              [AWAIT_DOWN_MONITOR] = down ? links->down.monitor_file : -1,
                              [AWAIT_UP] = up ? links->up.file : -1,
                              [AWAIT_UP_MONITOR] = up ? links->up.monitor_file : -1};
  struct links_awaited *awaited = &links->awaited;
  awaited->milliseconds = milliseconds;
  awaited->looks = looks_for_parent(links);
  for (int i = 0; i < AWAITED; i++)
    awaited->items[i] = (struct pollfd){.fd = files[i], .events = POLLIN};
  if (awaited->looks)
    prepare_search(links, file);
  else if (links_are_used(links))
    awaited->milliseconds = 0;
}

/* Not by zmq_poll where it need not be: that makes some twenty system calls for sockets that have
 * nothing. */
void links_await(struct links *links) {
  struct links_awaited *awaited = &links->awaited;
  if (awaited->looks)
    (void)zmq_poll(awaited->search, awaited->nsearch, awaited->milliseconds);
  else
    (void)poll(awaited->items, AWAITED, awaited->milliseconds);
}

static bool is_ready(const struct links *links, int item) {
  return links->awaited.items[item].revents != 0;
}

/* Those of which a descriptor has told count as used. */
static void hear_awaited(struct links *links) {
  if (links->awaited.looks) {
    links_admit(links);
    links_find(links);
    return;
  }
  links->door_used |= is_ready(links, AWAIT_DOOR);
  links->down.used |= is_ready(links, AWAIT_DOWN) || is_ready(links, AWAIT_DOWN_MONITOR);
  links->up.used |= is_ready(links, AWAIT_UP) || is_ready(links, AWAIT_UP_MONITOR);
}

/* Whether there was anything. Who looks for a parent may be waiting, in another thread, with the
 * door. */
static bool hear_used(struct links *links) {
  if (looks_for_parent(links))
    return false;
  bool heard = links->door_used;
  if (links->door_used)
    links_admit(links);
  if (links->linked && links->up.used)
    heard |= receive_from_parent(links);
  if (hears_children(links) && links->down.used)
    heard |= links_receive_from_children(links);
  return heard;
}

bool links_hear(struct links *links, bool awaited) {
  if (awaited)
    hear_awaited(links);
  bool heard = hear_used(links);
  return tell_lost(links) || heard;
}

/* ---- life ---- */

bool links_is_root(const struct links *links) {
  return links->root;
}

bool links_is_linked(const struct links *links) {
  return links->linked;
}

const struct frame_place *links_unreachable(const struct links *links) {
  return links->search.failed ? &links->search.place : NULL;
}

uint32_t links_children(const struct links *links) {
  return links->children;
}

struct links *links_open(const struct rendezvous *job, const struct links_terms *terms,
                         const struct links_events *events, char *reason) {
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
  links->next_machine = LINKS_PARENT + 1;
  snprintf(links->host, sizeof(links->host), "%s", terms->host);
  memcpy(links->address, job->address, sizeof(links->address));
  if (!links_open_door(links)) {
    snprintf(reason, FRAME_TEXT_BYTES, "ZeroMQ: %s", zmq_strerror(errno));
    links_close(links);
    return NULL;
  }
  links_begin(links);
  return links;
}

void links_close(struct links *links) {
  if (links == NULL)
    return;
  if (links->linked && !links->broken) {
    struct frame_head head = frame_head(FRAME_BYE, links->machine);
    links_send(links, LINKS_PARENT, &head, NULL, 0);
  }
  links_find_end(links);
  links_end_socket(&links->up);
  links_end_socket(&links->down);
  if (links->door != NULL)
    (void)zmq_close(links->door);
  links_forget_children(links);
  if (links->context != NULL)
    (void)zmq_ctx_term(links->context); /* waits for what is under way: LINGER_MS */
  free(links);
}
