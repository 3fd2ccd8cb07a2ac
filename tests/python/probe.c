/* What scripts call through ctypes: the functions of interpose/places/python/python_frames.h, by
 * numbers and texts. Also a C program's thread that calls, as PyTorch's engine threads do.
 */
#include "interpose/places/flow/flow.h"
#include "interpose/elf/linker.h"
#include "interpose/places/python/python_frames.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

/* Of the stubs that are not part of this library. */
void *(*linker_dlsym)(void *handle, const char *name) = dlsym;
void *(*linker_dlvsym)(void *handle, const char *name, const char *version) = dlvsym;
void *(*linker_dlopen)(const char *file, int flags) = dlopen;

EXPORT bool probe_is_present(void) {
  return python_is_present();
}

EXPORT uint32_t probe_id(void) {
  return python_id();
}

/* Eight numbers a node: id, order, since, until, is a loop, is ordered (2 more if what leads there
 * changes, 4 more if it is fixed), what it reaches. Returns how
 * many nodes, at most `room`. Nodes of functions are left out: each frame has one, before those of
 * its loops and its call. */
static uint32_t write_nodes(const struct place_node *nodes, uint32_t n, uint32_t *numbers,
                            uint32_t room) {
  uint32_t written = 0;
  for (uint32_t i = 0; i < n && written < room; i++) {
    uint32_t node[8] = {nodes[i].id,
                        nodes[i].order,
                        nodes[i].since,
                        nodes[i].until,
                        (nodes[i].flags & PLACE_LOOP) != 0,
                        (nodes[i].flags & PLACE_ORDERED ? 1u : 0) |
                            (nodes[i].flags >> PLACE_TURN_SHIFT != 0 ? 2u : 0) |
                            (nodes[i].flags & PLACE_FIXED ? 4u : 0) |
                            (nodes[i].flags & PLACE_ALWAYS ? 8u : 0),
                        nodes[i].reach_from,
                        nodes[i].reach_to};
    if (nodes[i].flags == 0)
      continue;
    memcpy(numbers + (size_t)written * 8, node, sizeof(node));
    written++;
  }
  return written;
}

EXPORT uint32_t probe_nodes(uint32_t *numbers, uint32_t room) {
  struct place_node nodes[PLACE_NODES_MAX];
  struct place_round rounds[PLACE_NODES_MAX];
  return write_nodes(nodes, python_nodes(nodes, PLACE_NODES_MAX, rounds), numbers, room);
}

/* Of each loop around the call the round, from 1 on, and how many there are; 0: not known. Returns
 * how many loops. */
EXPORT uint32_t probe_rounds(uint32_t *numbers, uint32_t room) {
  struct place_node nodes[PLACE_NODES_MAX];
  struct place_round rounds[PLACE_NODES_MAX];
  uint32_t written = 0;
  uint32_t n = python_nodes(nodes, PLACE_NODES_MAX, rounds);
  for (uint32_t i = 0; i < n && written < room; i++) {
    if (!(nodes[i].flags & PLACE_LOOP))
      continue;
    numbers[2 * written] = rounds[i].number;
    numbers[2 * written + 1] = rounds[i].total;
    written++;
  }
  return written;
}

/* The outermost loop alone: its round and how many there are, as they are read where the same call
 * was made before (again: as a call of the same id). False: it does not say them. */
static struct python_loop loops_kept[PLACE_LEVELS];

EXPORT bool probe_round(uint32_t *numbers, bool again) {
  struct place_round round = {0};
  if (!again && python_call_loops(loops_kept) == 0)
    return false;
  if (!python_loop_round(&loops_kept[0], &round))
    return false;
  numbers[0] = round.number;
  numbers[1] = round.total;
  return round.number != 0;
}

/* Nanoseconds that it takes again: the least of 100 times 1,000. */
EXPORT double probe_round_cost(void) {
  struct place_round round;
  double least = 1e9;
  for (int times = 0; times < 100; times++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 1000; i++)
      python_loop_round(&loops_kept[0], &round);
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 1000;
    least = took < least ? took : least;
  }
  return least;
}

EXPORT void probe_text(char *text, uint32_t size) {
  python_text(text, size, false);
}

/* What a thread without Python frames is told, while the one that calls this waits for it.
 * `numbers`: two ids and then at most 16 nodes, as above; returns how many nodes. */
struct engine {
  uint32_t *numbers;
  uint32_t n;
  double cost; /* of python_waiting_id, in nanoseconds */
};

static double cost_of(uint32_t (*id)(void)) {
  double least = 1e9;
  for (int round = 0; round < 20; round++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 100; i++)
      id();
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 100;
    least = took < least ? took : least;
  }
  return least;
}

static char engine_text[192];

static void *run_engine(void *argument) {
  struct engine *engine = argument;
  struct place_round rounds[PLACE_NODES_MAX];
  struct place_node nodes[PLACE_NODES_MAX];
  engine->numbers[0] = python_waiting_id();
  engine->numbers[1] = python_id();
  engine->n = write_nodes(nodes, python_waiting_nodes(nodes, PLACE_NODES_MAX, rounds),
                          engine->numbers + 2, 16);
  python_text(engine_text, sizeof engine_text, engine->numbers[0] != 0);
  engine->cost = cost_of(python_waiting_id);
  return NULL;
}

static double engine_cost;

/* On the way into the wait: the engine's thread calls meanwhile. */
static void work_for_a_moment(void) {
  struct timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do
    clock_gettime(CLOCK_MONOTONIC, &now);
  while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 500000);
}

EXPORT uint32_t probe_engine(uint32_t *numbers) {
  struct engine engine = {numbers, 0, 0};
  pthread_t thread;
  pthread_create(&thread, NULL, run_engine, &engine);
  work_for_a_moment();
  pthread_join(thread, NULL);
  engine_cost = engine.cost;
  return engine.n;
}

EXPORT const char *probe_engine_text(void) {
  return engine_text;
}

EXPORT double probe_engine_cost(void) {
  return engine_cost;
}

EXPORT bool probe_exception(char *text, uint32_t size, bool at_end) {
  return python_exception(text, size, at_end);
}

struct asked {
  char *text;
  uint32_t size;
  bool is_under_way;
};

static void *run_asked(void *argument) {
  struct asked *asked = argument;
  asked->is_under_way = python_exception(asked->text, asked->size, true);
  return NULL;
}

/* The same asked by a thread without frames. */
EXPORT bool probe_exception_of_main(char *text, uint32_t size) {
  struct asked asked = {text, size, false};
  pthread_t thread;
  pthread_create(&thread, NULL, run_asked, &asked);
  pthread_join(thread, NULL);
  return asked.is_under_way;
}

/* Nanoseconds a call of python_id: the least of 100 times 1,000. */
EXPORT double probe_cost(void) {
  double least = 1e9;
  for (int round = 0; round < 100; round++) {
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 1000; i++)
      python_id();
    clock_gettime(CLOCK_MONOTONIC, &end);
    double took =
        ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 1000;
    least = took < least ? took : least;
  }
  return least;
}
