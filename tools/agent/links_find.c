/* Becoming the root, or finding a parent (links.h).
 *
 * The root is who can listen at the address that NCCL wrote into the id: an agent of its creator's
 * machine. Of the ports that follow from the secret it takes the first that is free. If one is
 * taken it may be by another agent of the same job, on this machine but with a /dev/shm of its own;
 * so it is asked first. Children ask all ports, one after the other, until one answers: what
 * listens there does not have the root's key, or it is the root, or has found it.
 *
 * Who is asked welcomes this one as its child, or names another agent, which is asked then. If that
 * does not answer for some time, a firewall stands between the two, or it has ended: who was asked
 * first is told so.
 */
#include "tools/agent/links_private.h"

#include <errno.h>
#include <string.h>

#define ASK_MS 1500  /* an agent that has the port already answers in that time */
#define NEXT_MS 300  /* from one port to the next */
#define RETRY_MS 100 /* a root that is not there yet: from one attempt to the next */
#define RETRY_MOST_MS 1000
#define NAMED_MS                                                                                   \
  3000 /* one that has been named answers in that time; a third of the wait, if that is less */
#define NAMED_MOST 16 /* so deep is no tree */

static void key(void *socket, int option, const char *text) {
  (void)zmq_setsockopt(socket, option, text, KEY_TEXT);
}

static struct links_socket
ask_at(struct links *links, const unsigned char address[RENDEZVOUS_ADDRESS_BYTES], uint32_t port) {
  char endpoint[96];
  struct links_socket made = links_make_socket(links, ZMQ_DEALER);
  key(made.socket, ZMQ_CURVE_SERVERKEY, links->keys.root_public);
  key(made.socket, ZMQ_CURVE_PUBLICKEY, links->keys.child_public);
  key(made.socket, ZMQ_CURVE_SECRETKEY, links->keys.child_secret);
  links_set(made.socket, ZMQ_IMMEDIATE, 1); /* nothing is kept for a connection that is not there */
  links_set(made.socket, ZMQ_RECONNECT_IVL, RETRY_MS);
  links_set(made.socket, ZMQ_RECONNECT_IVL_MAX, RETRY_MOST_MS);
  links_set(made.socket, ZMQ_CONNECT_TIMEOUT, RETRY_MOST_MS);
  links_write_endpoint(endpoint, address, port);
  (void)zmq_connect(made.socket, endpoint);
  return made;
}

static void say_hello(const struct links *links, void *socket) {
  unsigned char hello[sizeof(struct frame_head) + FRAME_HOST_BYTES];
  struct frame_head head = frame_head(FRAME_HELLO, LINKS_PARENT);
  head.detail = links->port;
  head.key = links->search.failed;
  memcpy(hello, &head, sizeof(head));
  memcpy(hello + sizeof(head), links->host, FRAME_HOST_BYTES);
  (void)zmq_send(socket, hello, sizeof(hello), ZMQ_DONTWAIT);
}

/* ---- what is answered ---- */

enum heard { HEARD_NOTHING, HEARD_WELCOME, HEARD_PARENT, HEARD_REFUSED };

static enum heard hear_answer(struct links *links, void *socket, struct frame_place *place) {
  unsigned char bytes[sizeof(struct frame_head) + FRAME_TEXT_BYTES];
  struct frame frame;
  int size = zmq_recv(socket, bytes, sizeof(bytes), ZMQ_DONTWAIT);
  if (size < 0 || size > (int)sizeof(bytes))
    return HEARD_NOTHING;
  if (!frame_read(bytes, (size_t)size, &frame)) {
    links_note_version(links, bytes, (size_t)size);
    return HEARD_NOTHING;
  }
  if (frame.head.kind == FRAME_WELCOME && frame.head.machine != LINKS_PARENT) {
    links->machine = frame.head.machine;
    if (frame.head.detail >= 1 && frame.head.detail < links->terms.children)
      links->terms.children = frame.head.detail;
    return HEARD_WELCOME;
  }
  if (frame.head.kind == FRAME_PARENT && frame_read_place(&frame, place))
    return HEARD_PARENT;
  return frame.head.kind == FRAME_REFUSED ? HEARD_REFUSED : HEARD_NOTHING;
}

/* Messages of the monitor from before. If the link broke in this moment, the parent will not know
 * who sends the next message, and refuse it. */
static void forget_past(void *monitor) {
  unsigned char bytes[256];
  while (zmq_recv(monitor, bytes, sizeof(bytes), ZMQ_DONTWAIT) >= 0)
    ;
}

static void link_by(struct links *links, struct links_socket *found) {
  links->up = *found;
  *found = (struct links_socket){.socket = NULL};
  forget_past(links->up.monitor);
  links_find_end(links);
  links->search.failed = false;
  links->linked = links->open = true;
  links->events.linked(links->events.context);
}

/* ---- who has been named ---- */

static void give_up_named(struct links_search *search) {
  links_end_socket(&search->named);
  search->failed = true;
}

static void follow(struct links *links, const struct frame_place *place) {
  struct links_search *search = &links->search;
  int64_t most = links->terms.wait_s * INT64_C(1000) / 3;
  links_end_socket(&search->named);
  search->place = *place;
  search->until_ms = links_now_ms() + (most < NAMED_MS ? most : NAMED_MS);
  search->named = ask_at(links, place->address, place->port);
  if (++search->steps > NAMED_MOST)
    give_up_named(search);
}

static void find_named(struct links *links) {
  struct links_search *search = &links->search;
  struct frame_place place;
  switch (hear_answer(links, search->named.socket, &place)) {
  case HEARD_WELCOME:
    link_by(links, &search->named);
    return;
  case HEARD_PARENT:
    follow(links, &place);
    return;
  case HEARD_REFUSED:
    give_up_named(search);
    return;
  case HEARD_NOTHING:
    break;
  }
  if (links_now_ms() >= search->until_ms)
    give_up_named(search);
  else
    say_hello(links, search->named.socket);
}

/* ---- looking ---- */

void links_find(struct links *links) {
  struct links_search *search = &links->search;
  struct frame_place place;
  if (search->named.socket != NULL) {
    find_named(links);
    return;
  }
  for (int i = 0; i < search->ntried; i++) {
    enum heard heard = hear_answer(links, search->tried[i].socket, &place);
    if (heard == HEARD_WELCOME)
      link_by(links, &search->tried[i]);
    else if (heard == HEARD_PARENT &&
             !search->failed) /* else it has not heard yet that it failed */
      follow(links, &place);
    if (links->linked || search->named.socket != NULL)
      return;
  }
  for (int i = 0; i < search->ntried; i++)
    say_hello(links, search->tried[i].socket);
  if (search->ntried < PORTS && links_now_ms() >= search->next_ms) {
    search->tried[search->ntried] =
        ask_at(links, links->address, links->keys.ports[search->ntried]);
    search->ntried++;
    search->next_ms = links_now_ms() + NEXT_MS;
  }
}

int links_find_items(const struct links *links, zmq_pollitem_t *items) {
  const struct links_search *search = &links->search;
  int count = 0;
  if (search->named.socket != NULL) {
    items[count++] = (zmq_pollitem_t){.socket = search->named.socket, .events = ZMQ_POLLIN};
    return count;
  }
  for (; count < search->ntried; count++)
    items[count] = (zmq_pollitem_t){.socket = search->tried[count].socket, .events = ZMQ_POLLIN};
  return count;
}

void links_find_end(struct links *links) {
  links_end_socket(&links->search.named);
  for (int i = 0; i < links->search.ntried; i++)
    links_end_socket(&links->search.tried[i]);
  links->search.ntried = 0;
}

/* ---- which of both ---- */

/* Somebody has the port: whether it is of the job, so that this agent has a parent, or has been
 * named one. */
static bool find_there(struct links *links, uint16_t port) {
  int64_t end = links_now_ms() + ASK_MS;
  struct links_search *search = &links->search;
  search->tried[search->ntried++] = ask_at(links, links->address, port);
  search->next_ms = INT64_MAX; /* no other port */
  while (!links->linked && search->steps == 0 && links_now_ms() < end) {
    zmq_pollitem_t item = {.socket = search->tried[0].socket, .events = ZMQ_POLLIN};
    (void)zmq_poll(&item, 1, FIND_MS / 4);
    links_find(links);
  }
  if (!links->linked && search->steps == 0)
    links_find_end(links);
  search->next_ms = 0;
  return links->linked || search->steps > 0;
}

/* It listens before it asks, so that who welcomes it knows where. */
void links_begin(struct links *links) {
  int tried = 0, error = EADDRINUSE;
  bool found = false;
  for (; tried < PORTS && error == EADDRINUSE; tried++)
    error = links_listen(links, links->address, links->keys.ports[tried]);
  bool here = error == 0 || error == EADDRINUSE; /* this is the root's machine */
  int others = error == 0 ? tried - 1 : tried;
  for (int i = 0; here && i < others && !found; i++)
    found = find_there(links, links->keys.ports[i]);
  links->root = error == 0 && !found;
  links->open = links->root || links->linked;
  if (links->port == 0)
    links_listen_anywhere(links);
}
