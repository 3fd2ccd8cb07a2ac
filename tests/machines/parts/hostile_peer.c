/* Who speaks ZeroMQ, without the keys or with them (hostile.h). */
#include "tests/machines/parts/hostile.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

#include "core/agent/agent_private.h"
#include "core/machines/frames.h"

/* A message of core/agent: nobody looks there. */
static const unsigned char nobody_looks[] = {AGENT_VERSION, ITEM_LOOK, 0},
                           of_another[] = {AGENT_VERSION + 1, ITEM_LOOK, 0};

enum { ANSWER_MS = 2000, SHORT_MS = 200, MESSAGE_MAX = 80000 };

struct peer {
  void *context, *socket;
  uint32_t machine;
};

static void set_number(void *socket, int option, int value) {
  (void)zmq_setsockopt(socket, option, &value, sizeof value);
}

static struct peer open_peer(const struct target *target) {
  struct peer peer = {.context = zmq_ctx_new()};
  (void)target;
  peer.socket = zmq_socket(peer.context, ZMQ_DEALER);
  set_number(peer.socket, ZMQ_LINGER, SHORT_MS);
  set_number(peer.socket, ZMQ_IMMEDIATE, 1);
  return peer;
}

static void use_keys(const struct peer *peer, const char *server, const char *public,
                     const char *secret) {
  (void)zmq_setsockopt(peer->socket, ZMQ_CURVE_SERVERKEY, server, KEY_TEXT);
  (void)zmq_setsockopt(peer->socket, ZMQ_CURVE_PUBLICKEY, public, KEY_TEXT);
  (void)zmq_setsockopt(peer->socket, ZMQ_CURVE_SECRETKEY, secret, KEY_TEXT);
}

static void connect_peer(const struct peer *peer, const struct target *target) {
  char endpoint[64], address[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &target->root.sin_addr, address, sizeof address);
  snprintf(endpoint, sizeof endpoint, "tcp://%s:%u", address, ntohs(target->root.sin_port));
  (void)zmq_connect(peer->socket, endpoint);
}

static void close_peer(struct peer *peer) {
  (void)zmq_close(peer->socket);
  (void)zmq_ctx_term(peer->context);
}

static void send_bytes(const struct peer *peer, const void *bytes, size_t size) {
  (void)zmq_send(peer->socket, bytes, size, ZMQ_DONTWAIT);
}

static void send_frame(const struct peer *peer, struct frame_head head, const void *body,
                       size_t size) {
  static unsigned char bytes[MESSAGE_MAX];
  memcpy(bytes, &head, sizeof head);
  if (size > 0)
    memcpy(bytes + sizeof head, body, size);
  send_bytes(peer, bytes, sizeof head + size);
}

/* A frame of one of these kinds, as bits, within some milliseconds. */
static bool hears(struct peer *peer, unsigned kinds, int milliseconds) {
  static unsigned char bytes[MESSAGE_MAX];
  struct frame frame;
  for (double end = hostile_now_s() + milliseconds / 1e3; hostile_now_s() < end;) {
    int n = zmq_recv(peer->socket, bytes, sizeof bytes, ZMQ_DONTWAIT);
    if (n >= 0 && n <= (int)sizeof bytes && frame_read(bytes, (size_t)n, &frame) &&
        (kinds >> frame.head.kind & 1)) {
      peer->machine = frame.head.kind == FRAME_WELCOME ? frame.head.machine : peer->machine;
      return true;
    }
    if (n < 0)
      hostile_sleep_ms(5);
  }
  return false;
}

/* Says hello until it is welcome. */
static bool is_welcome(struct peer *peer, int milliseconds) {
  for (double end = hostile_now_s() + milliseconds / 1e3; hostile_now_s() < end;) {
    send_frame(peer, frame_head(FRAME_HELLO, 0), NULL, 0);
    if (hears(peer, 1U << FRAME_WELCOME, SHORT_MS))
      return true;
  }
  return false;
}

/* ---- the wrong keys ---- */

static bool try_keys(const struct target *target, const char *what, const char *server,
                     const char *public, const char *secret) {
  struct peer peer = open_peer(target);
  if (server != NULL)
    use_keys(&peer, server, public, secret);
  connect_peer(&peer, target);
  bool in = is_welcome(&peer, ANSWER_MS);
  hostile_say("%s: %s", what, in ? "let in" : "kept out");
  close_peer(&peer);
  return in;
}

int hostile_wrong_key(const struct target *target) {
  const struct keys *right = &target->keys;
  struct rendezvous other = target->board.job;
  struct keys wrong;
  char own_public[KEY_TEXT], own_secret[KEY_TEXT];
  other.secret[0] ^= 1;
  if (!keys_derive(&other, target->board.terms.first_port, target->board.terms.last_port, &wrong) ||
      zmq_curve_keypair(own_public, own_secret) != 0)
    return 2;
  bool in = try_keys(target, "no key", NULL, NULL, NULL);
  in |= try_keys(target, "the keys of another secret", wrong.root_public, wrong.child_public,
                 wrong.child_secret);
  in |= try_keys(target, "the root's public key and one of its own", right->root_public, own_public,
                 own_secret);
  in |= try_keys(target, "the children's keys and another root's", wrong.root_public,
                 right->child_public, right->child_secret);
  bool let_in = try_keys(target, "the right keys", right->root_public, right->child_public,
                         right->child_secret);
  return in ? 1 : let_in ? 0 : 2;
}

/* ---- here and gone ---- */

/* Many that say hello, and do not wait for what is said to them. */
int hostile_fleeting(const struct target *target) {
  enum { PEERS = 60, AT_ONCE = 6 };
  for (int n = 0; n < PEERS; n += AT_ONCE) {
    struct peer peers[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) {
      peers[i] = open_peer(target);
      use_keys(&peers[i], target->keys.root_public, target->keys.child_public,
               target->keys.child_secret);
      connect_peer(&peers[i], target);
    }
    for (int i = 0; i < AT_ONCE; i++) {
      struct frame_head hello = frame_head(FRAME_HELLO, 0);
      set_number(peers[i].socket, ZMQ_SNDTIMEO, ANSWER_MS);
      (void)zmq_send(peers[i].socket, &hello, sizeof hello, 0);
    }
    for (int i = 0; i < AT_ONCE; i++)
      close_peer(&peers[i]);
  }
  hostile_say("has said hello %d times", PEERS);
  return 0;
}

/* ---- what is no frame ---- */

/* One that has been let in sends something. Whether it still is. */
static bool visit(const struct target *target, void (*act)(const struct peer *peer)) {
  struct peer peer = open_peer(target);
  use_keys(&peer, target->keys.root_public, target->keys.child_public, target->keys.child_secret);
  connect_peer(&peer, target);
  if (!is_welcome(&peer, 5 * ANSWER_MS)) {
    hostile_say("is not welcome with the right keys");
    close_peer(&peer);
    return true;
  }
  act(&peer);
  hostile_sleep_ms(SHORT_MS);
  /* Who has been dropped is a stranger, and its number is nobody's: what it says is refused. */
  bool stays = true;
  for (int tries = 0; stays && tries < 3; tries++) {
    send_frame(&peer, frame_head(FRAME_TOLD, peer.machine), nobody_looks, 3);
    stays = !hears(&peer, 1U << FRAME_REFUSED, SHORT_MS);
  }
  close_peer(&peer);
  return stays;
}

static void send_right(const struct peer *peer) {
  send_frame(peer, frame_head(FRAME_TOLD, peer->machine), nobody_looks, 3);
}
static void send_nothing(const struct peer *peer) {
  send_bytes(peer, "", 0);
}
static void send_short(const struct peer *peer) {
  send_bytes(peer, "short", 5);
}
static void send_other_version(const struct peer *peer) {
  struct frame_head head = frame_head(FRAME_TOLD, peer->machine);
  head.version++;
  send_frame(peer, head, nobody_looks, 3);
}
static void send_no_kind(const struct peer *peer) {
  struct frame_head head = frame_head(FRAME_TOLD, peer->machine);
  head.kind = FRAME_KINDS;
  send_frame(peer, head, NULL, 0);
}
static void send_as_another(const struct peer *peer) {
  send_frame(peer, frame_head(FRAME_TOLD, peer->machine - 1), nobody_looks, 3);
}
static void send_as_the_root(const struct peer *peer) {
  struct frame_head head = frame_head(FRAME_ANSWER, peer->machine);
  head.detail = BOARD_OFF;
  send_frame(peer, head, "off", 3);
}
static void send_as_a_parent(const struct peer *peer) {
  struct frame_place place = {.address = {[10] = 0xff, 0xff, 10, 77, 0, 9}, .port = 61000};
  send_frame(peer, frame_head(FRAME_PARENT, peer->machine), &place, sizeof place);
}
static void send_told_nothing(const struct peer *peer) {
  send_frame(peer, frame_head(FRAME_TOLD, peer->machine), NULL, 0);
}
static void send_other_messages(const struct peer *peer) {
  send_frame(peer, frame_head(FRAME_TOLD, peer->machine), of_another, 3);
}
static void send_random(const struct peer *peer) {
  unsigned char bytes[3000];
  for (size_t at = 0; at < sizeof bytes; at += 250)
    (void)getrandom(bytes + at, 250, 0);
  bytes[0] = AGENT_VERSION;
  send_frame(peer, frame_head(FRAME_TOLD, peer->machine), bytes, sizeof bytes);
}
static void send_oversized(const struct peer *peer) {
  static unsigned char bytes[MESSAGE_MAX - 64];
  send_frame(peer, frame_head(FRAME_TOLD, peer->machine), bytes, sizeof bytes);
}
/* In two parts: not looked at, and not passed on. */
static void send_parts(const struct peer *peer) {
  struct frame_head head = frame_head(FRAME_TOLD, peer->machine);
  (void)zmq_send(peer->socket, &head, sizeof head, ZMQ_SNDMORE | ZMQ_DONTWAIT);
  send_bytes(peer, "\x07\x07", 2);
}

int hostile_malformed(const struct target *target) {
  enum { DROPPED, STAYS, EITHER };
  static const struct {
    const char *what;
    void (*act)(const struct peer *peer);
    int wanted;
  } acts[] = {
      {"a right message", send_right, STAYS},
      {"an empty frame", send_nothing, DROPPED},
      {"a short frame", send_short, DROPPED},
      {"another version", send_other_version, DROPPED},
      {"no kind", send_no_kind, DROPPED},
      {"another machine's number", send_as_another, DROPPED},
      {"the root's answer", send_as_the_root, DROPPED},
      {"a parent's word", send_as_a_parent, DROPPED},
      {"no message", send_told_nothing, DROPPED},
      {"a message of another version", send_other_messages, DROPPED},
      {"random bytes", send_random, DROPPED},
      {"an oversized frame", send_oversized, EITHER}, /* its connection ends; this is a new one */
      {"two parts", send_parts, EITHER},
  };
  int wrong = 0;
  for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
    bool stays = visit(target, acts[i].act);
    hostile_say("%s: %s", acts[i].what, stays ? "stays" : "dropped");
    wrong += acts[i].wanted == (stays ? DROPPED : STAYS);
  }
  return wrong > 0;
}

/* ---- another job with the same id ---- */

static const struct target *stolen_from;

/* LEB128, as core/agent/agent_private.h has them. */
static unsigned char *put(unsigned char *at, uint64_t number) {
  for (; number >= 0x80; number >>= 7)
    *at++ = (unsigned char)(number | 0x80);
  *at++ = (unsigned char)number;
  return at;
}

static unsigned char *put_team(unsigned char *at, uint64_t key) {
  *at++ = ITEM_TEAM;
  memcpy(at, &key, sizeof key);
  return at + sizeof key;
}

static unsigned char *put_slot(unsigned char *at, const struct board_communicator *of,
                               uint32_t slot) {
  struct frame_slot said = {.version = FRAMES_VERSION, .slots = of->slots, .ranks = of->ranks};
  snprintf(said.name, sizeof said.name, "%s", of->name);
  snprintf(said.host, sizeof said.host, "thief");
  *at++ = ITEM_INTRODUCE;
  at = put(put(at, slot), sizeof said);
  memcpy(at, &said, sizeof said);
  return at + sizeof said;
}

/* The communicators of the job: those that are written down on this machine. */
static void tell_of_each(const struct peer *peer,
                         unsigned char *(*tell)(unsigned char *at,
                                                const struct board_communicator *of)) {
  static unsigned char bytes[MESSAGE_MAX];
  for (int i = 0; i < BOARD_COMMUNICATORS; i++) {
    const struct board_communicator *of = &stolen_from->board.communicators[i];
    if (of->answer != BOARD_FOUND)
      continue;
    bytes[0] = AGENT_VERSION;
    unsigned char *end = tell(put_team(bytes + 1, frame_key(of->name)), of);
    send_frame(peer, frame_head(FRAME_TOLD, peer->machine), bytes, (size_t)(end - bytes));
  }
}

static unsigned char *tell_own_ranks(unsigned char *at, const struct board_communicator *of) {
  for (uint32_t slot = 0; slot < of->ranks; slot++)
    at = put_slot(at, of, slot);
  return at;
}
static unsigned char *tell_a_rank_more(unsigned char *at, const struct board_communicator *of) {
  return put_slot(at, of, of->slots - 1);
}
/* Of other machines' ranks first: the last ones. */
static unsigned char *tell_ends(unsigned char *at, const struct board_communicator *of) {
  for (uint32_t slot = of->ranks; slot > 0; slot--) {
    *at++ = ITEM_ENDED;
    at = put(put(put(put(at, slot - 1), 2), 9), 0);
  }
  return at;
}
static void introduce_own(const struct peer *peer) {
  tell_of_each(peer, tell_own_ranks);
}
static void introduce_more(const struct peer *peer) {
  tell_of_each(peer, tell_a_rank_more);
}
static void end_others(const struct peer *peer) {
  tell_of_each(peer, tell_ends);
}

int hostile_stolen(const struct target *target) {
  stolen_from = target;
  bool stays[] = {visit(target, introduce_own), visit(target, introduce_more),
                  visit(target, end_others)};
  hostile_say("its ranks where others are: %s; where nobody is: %s; ends of others: %s",
              stays[0] ? "stays" : "dropped", stays[1] ? "stays" : "dropped",
              stays[2] ? "stays" : "dropped");
  return stays[0] || stays[1] || stays[2];
}

/* ---- as much as can be named ---- */

static void flood(const struct peer *peer) {
  enum { MESSAGES = 300, TEAMS = 7000 };
  static unsigned char bytes[MESSAGE_MAX];
  uint64_t key = 1;
  for (int message = 0; message < MESSAGES; message++) {
    unsigned char *at = bytes;
    *at++ = AGENT_VERSION;
    for (int team = 0; team < TEAMS; team++)
      at = put_team(at, key++ << 20);
    if (message % 2) { /* each with the largest slot that there is */
      struct board_communicator of = {.slots = PLANE_RANKS_MAX, .ranks = PLANE_RANKS_MAX};
      at = bytes + 1;
      for (int team = 0; team < 60; team++) {
        snprintf(of.name, sizeof of.name, "%016llx%016d", (unsigned long long)(key << 20), 0);
        at = put_slot(put_team(at, key++ << 20), &of, PLANE_RANKS_MAX - 1);
      }
    }
    send_frame(peer, frame_head(FRAME_TOLD, peer->machine), bytes, (size_t)(at - bytes));
    hostile_sleep_ms(2);
  }
}

int hostile_flood(const struct target *target) {
  bool stays = visit(target, flood);
  hostile_say("a flood of teams: %s", stays ? "stays" : "dropped");
  return stays;
}
