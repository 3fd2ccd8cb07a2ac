/* Who has no more than the network (hostile.h). */
#include "tests/machines/parts/hostile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "core/machines/frames.h"

/* ZMTP 3.x, RFC 23 and 26: signature, version, mechanism, as-server, filler. */
enum { GREETING = 64, COMMAND_HEAD = 9, AT_ONCE = 256 };

static void write_greeting(unsigned char greeting[GREETING]) {
  memset(greeting, 0, GREETING);
  greeting[0] = 0xff;
  greeting[9] = 0x7f;
  greeting[10] = 3;
  greeting[11] = 1;
  memcpy(greeting + 12, "CURVE", 5);
}

/* ---- a scanner ---- */

static const char *const said_by_scanners[] = {
    "GET / HTTP/1.0\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "SSH-2.0-OpenSSH_9.0\r\n",
    "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    "\r\n\r\n",
    "*1\r\n$4\r\nPING\r\n",
    "",
};

static bool is_answered(const struct sockaddr_in *address, const char *text) {
  char bytes[4096];
  bool ended;
  int connection = hostile_connect(address, 1000);
  if (connection < 0)
    return false;
  (void)send(connection, text, strlen(text), MSG_NOSIGNAL);
  size_t n = hostile_read(connection, bytes, sizeof bytes, 200, &ended);
  close(connection);
  return n > GREETING; /* that is sent to anybody */
}

int hostile_scan(const struct target *target) {
  struct sockaddr_in address = target->root;
  uint32_t open = 0, answered = 0, first = target->board.terms.first_port,
           last = target->board.terms.last_port;
  for (uint32_t port = first; port <= last; port++) {
    address.sin_port = htons((uint16_t)port);
    int connection = hostile_connect(&address, 100);
    if (connection < 0)
      continue;
    close(connection);
    open++;
    for (size_t i = 0; i < sizeof said_by_scanners / sizeof *said_by_scanners; i++)
      answered += is_answered(&address, said_by_scanners[i]);
  }
  hostile_say("has scanned %u ports: %u open, %u answered", last - first + 1, open, answered);
  return open == 0 || answered > 0;
}

/* ---- half-open connections ---- */

static int count_open(struct pollfd *items, int count) {
  int open = 0;
  char byte[256];
  for (int i = 0; i < count; i++) {
    while (items[i].fd >= 0) {
      ssize_t n = recv(items[i].fd, byte, sizeof byte, MSG_DONTWAIT);
      if (n > 0)
        continue;
      if (n == 0 || errno != EAGAIN) {
        close(items[i].fd);
        items[i].fd = -1;
      }
      break;
    }
    open += items[i].fd >= 0;
  }
  return open;
}

/* The beginning of a greeting; or, of every second one, all of it and a command of a handshake that
 * is as long as a frame may be and lacks its last byte. */
static void begin_handshake(int connection, int number) {
  static unsigned char bytes[GREETING + COMMAND_HEAD + FRAME_BYTES_MAX];
  write_greeting(bytes);
  bytes[GREETING] = 6; /* RFC 23: a command whose size has 8 bytes */
  for (int i = 0; i < 8; i++)
    bytes[GREETING + 1 + i] = (unsigned char)((uint64_t)FRAME_BYTES_MAX >> 8 * (7 - i));
  size_t size = number % 2 ? sizeof bytes - 1 : (size_t)(number / 2 % GREETING);
  (void)send(connection, bytes, size, MSG_NOSIGNAL);
}

/* A connection that is closed is made again: it is so many all the time. */
int hostile_half_open(const struct target *target, int count, int seconds) {
  struct pollfd *items = calloc((size_t)count, sizeof *items);
  long made = 0, most = 0;
  struct rlimit limit = {(rlim_t)count + 64, (rlim_t)count + 64};
  if (items == NULL || setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    hostile_say("cannot have %d descriptors", count);
    return 2;
  }
  for (int i = 0; i < count; i++)
    items[i].fd = -1;
  for (double end = hostile_now_s() + seconds; hostile_now_s() < end;) {
    for (int i = 0; i < count && hostile_now_s() < end; i++) {
      if (items[i].fd >= 0)
        continue;
      items[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      (void)connect(items[i].fd, (const struct sockaddr *)&target->root, sizeof target->root);
      items[i].events = POLLOUT;
      made++;
      if (i % AT_ONCE == AT_ONCE - 1)
        hostile_sleep_ms(5);
    }
    (void)poll(items, (nfds_t)count, 0);
    for (int i = 0; i < count; i++)
      if (items[i].revents & POLLOUT) {
        items[i].events = 0; /* once */
        begin_handshake(items[i].fd, i);
      }
    hostile_sleep_ms(100);
    int open = count_open(items, count);
    most = open > most ? open : most;
  }
  hostile_say("has had %ld connections, %ld at once", made, most);
  for (int i = 0; i < count; i++)
    if (items[i].fd >= 0)
      close(items[i].fd);
  free(items);
  return 0;
}

/* ---- replay ---- */

enum { RECORDED = 4096 };
struct record {
  unsigned char bytes[RECORDED];
  size_t size, answered; /* how much the root has said to it */
};

static void set_keys(void *socket, const struct keys *keys) {
  (void)zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, keys->root_public, KEY_TEXT);
  (void)zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->child_public, KEY_TEXT);
  (void)zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->child_secret, KEY_TEXT);
}

/* Passes on what comes, which is kept or counted. False: there is no more. */
static bool pass_on(int from, int to, struct record *record, bool kept) {
  unsigned char bytes[RECORDED];
  ssize_t n = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (n <= 0)
    return n < 0 && errno == EAGAIN;
  record->answered += kept ? 0 : (size_t)n;
  if (kept && record->size + (size_t)n <= RECORDED) {
    memcpy(record->bytes + record->size, bytes, (size_t)n);
    record->size += (size_t)n;
  }
  return send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

/* A child that is let in, over a relay that keeps what it says up to its welcome. */
static bool record_child(const struct target *target, struct record *record) {
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof here;
  unsigned char welcome[4096];
  char endpoint[64];
  int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), none = 0;
  if (bind(door, (struct sockaddr *)&here, sizeof here) != 0 || listen(door, 1) != 0 ||
      getsockname(door, (struct sockaddr *)&here, &size) != 0)
    return false;
  void *context = zmq_ctx_new(), *child = zmq_socket(context, ZMQ_DEALER);
  set_keys(child, &target->keys);
  (void)zmq_setsockopt(child, ZMQ_LINGER, &none, sizeof none);
  snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", ntohs(here.sin_port));
  (void)zmq_connect(child, endpoint);
  struct frame_head hello = frame_head(FRAME_HELLO, 0);
  (void)zmq_send(child, &hello, sizeof hello, 0);
  int inner = accept(door, NULL, NULL), outer = hostile_connect(&target->root, 1000);
  bool welcomed = false, goes_on = inner >= 0 && outer >= 0;
  for (double end = hostile_now_s() + 5; goes_on && !welcomed && hostile_now_s() < end;) {
    goes_on = pass_on(inner, outer, record, true) && pass_on(outer, inner, record, false);
    welcomed = zmq_recv(child, welcome, sizeof welcome, ZMQ_DONTWAIT) > 0;
    hostile_sleep_ms(1);
  }
  close(inner);
  close(outer);
  close(door);
  (void)zmq_close(child);
  (void)zmq_ctx_term(context);
  return welcomed;
}

/* What the root says to anybody is its greeting, and its half of the handshake to who says the
 * first half (WELCOME, RFC 26: 168 bytes and their head). READY would be more, and so is what it
 * has said to the right one. */
static bool is_let_in(const struct target *target, const struct record *record, size_t size) {
  enum { CURVE_WELCOME = 170 };
  unsigned char answer[RECORDED];
  bool ended;
  int connection = hostile_connect(&target->root, 1000);
  if (connection < 0)
    return false;
  (void)send(connection, record->bytes, size, MSG_NOSIGNAL);
  size_t n = hostile_read(connection, answer, sizeof answer, 300, &ended);
  close(connection);
  return n > GREETING + CURVE_WELCOME || n >= record->answered;
}

int hostile_replay(const struct target *target) {
  static struct record record;
  int let_in = 0, tried = 0;
  if (!record_child(target, &record)) {
    hostile_say("cannot record a handshake");
    return 2;
  }
  for (size_t size = 0; size <= record.size; size += size < 80 ? 7 : 41, tried++)
    let_in += is_let_in(target, &record, size);
  for (; tried % 8 != 0; tried++)
    let_in += is_let_in(target, &record, record.size);
  hostile_say("has replayed %zu bytes %d times%s", record.size, tried,
              let_in > 0 ? ": it was let in" : "");
  return let_in > 0;
}
