#include "tools/bench/wakes.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <zmq.h>

#include "tools/bench/rows.h"

#define KEY_TEXT 41
#define PORT "29502"

enum { UNMEASURED = 20, PAUSE_US = 10000 };

/* Of one rank: its two threads. */
struct side {
  _Atomic uint32_t bell;
  void *socket;
  unsigned messages;
};

static void ring(struct side *side) {
  atomic_fetch_add(&side->bell, 1);
  syscall(SYS_futex, &side->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Until the bell has rung once more. */
static void wait_for(struct side *side, uint32_t seen) {
  while (atomic_load(&side->bell) == seen)
    syscall(SYS_futex, &side->bell, FUTEX_WAIT, seen, NULL, NULL, 0);
}

static void *send_on(void *context) {
  struct side *side = context;
  char message[64] = "";
  for (uint32_t i = 0; i < side->messages; i++) {
    wait_for(side, i);
    if (zmq_send(side->socket, message, sizeof message, 0) < 0)
      exit(1);
  }
  return NULL;
}

static void *receive_for(void *context) {
  struct side *side = context;
  char message[64];
  for (uint32_t i = 0; i < side->messages; i++) {
    if (zmq_recv(side->socket, message, sizeof message, 0) < 0)
      exit(1);
    ring(side);
  }
  return NULL;
}

/* Rank 0's key is in the memory of all before the other looks for it. */
static bool open_socket(struct area *area, int rank, void *context, void **socket) {
  char public[KEY_TEXT], secret[KEY_TEXT], address[64];
  const char *master = getenv("MASTER_ADDR");
  const int server = rank == 0;
  *socket = zmq_socket(context, ZMQ_PAIR);
  if (*socket == NULL || master == NULL || zmq_curve_keypair(public, secret) != 0)
    return false;
  snprintf(address, sizeof address, "tcp://%s:" PORT, master);
  zmq_setsockopt(*socket, ZMQ_CURVE_SECRETKEY, secret, KEY_TEXT);
  if (rank == 0) {
    memcpy(area->id, public, KEY_TEXT);
    zmq_setsockopt(*socket, ZMQ_CURVE_SERVER, &server, sizeof server);
    bool bound = zmq_bind(*socket, address) == 0;
    area_meet(area);
    return bound;
  }
  area_meet(area);
  zmq_setsockopt(*socket, ZMQ_CURVE_PUBLICKEY, public, KEY_TEXT);
  zmq_setsockopt(*socket, ZMQ_CURVE_SERVERKEY, area->id, KEY_TEXT);
  return zmq_connect(*socket, address) == 0;
}

static void begin_all(struct area *area, struct side *side) {
  for (uint32_t i = 0; i < side->messages; i++) {
    area_sleep_us(PAUSE_US);
    atomic_store(&area->ranks[0].progress, area_now());
    ring(side);
  }
}

static void end_all(struct area *area, struct side *side) {
  for (uint32_t i = 0; i < side->messages; i++) {
    wait_for(side, i);
    uint64_t took = area_now() - atomic_load(&area->ranks[0].progress);
    if (i >= UNMEASURED)
      area_add_sample(area, 1, (double)took / 1000);
  }
}

int wakes_run(struct area *area, int rank) {
  struct side side = {.messages = UNMEASURED + (row_is_quick() ? 8 : 1000)};
  void *context = zmq_ctx_new();
  pthread_t thread;
  if (context == NULL || !open_socket(area, rank, context, &side.socket) ||
      pthread_create(&thread, NULL, rank == 0 ? send_on : receive_for, &side) != 0)
    return 1;
  (rank == 0 ? begin_all : end_all)(area, &side);
  pthread_join(thread, NULL);
  area_meet(area); /* what is under way has come */
  zmq_close(side.socket);
  zmq_ctx_term(context);
  return 0;
}
