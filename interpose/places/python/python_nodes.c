/* Nodes of frames, remembered by what the frames count as (python_chain.h).
 */
#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_loops.h"
#include "interpose/places/python/python_rounds.h"
#include "interpose/places/python/python_thread.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What is known of a frame in view of how the call made there ends. */
struct frame_seen {
  bool throws;                        /* python_loops_nodes */
  char folder[PYTHON_FOLDER_MAX];     /* python_code_folder */
  uint8_t iterators[PLACE_NODES_MAX]; /* python_rounds.h */
};

/* Of a function's frame at one instruction, in view of how the call made there ends. Never changed
 * once it can be found, never freed. */
struct way {
  uint64_t hash;
  struct way *next; /* in the same bucket */
  uint32_t n;
  bool thrown;
  struct frame_seen seen;
  struct place_node nodes[];
};

enum { BUCKETS = 2048, WAYS_MAX = 16384 };
static struct way *_Atomic buckets[BUCKETS];
static _Atomic uint32_t nkept;

static const struct way *python_nodes_find(uint64_t hash, bool thrown) {
  const struct way *way = atomic_load_explicit(&buckets[hash % BUCKETS], memory_order_acquire);
  while (way != NULL && (way->hash != hash || way->thrown != thrown))
    way = way->next;
  return way;
}

/* Two threads may keep the same way at once; the copies are equal. */
static void python_nodes_keep(uint64_t hash, bool thrown, const struct place_node *nodes,
                              uint32_t n, const struct frame_seen *seen) {
  if (atomic_load_explicit(&nkept, memory_order_relaxed) >= WAYS_MAX)
    return;
  struct way *way = malloc(sizeof(*way) + n * sizeof(nodes[0]));
  if (way == NULL)
    return;
  atomic_fetch_add_explicit(&nkept, 1, memory_order_relaxed);
  way->hash = hash;
  way->thrown = thrown;
  way->seen = *seen;
  way->n = n;
  memcpy(way->nodes, nodes, n * sizeof(nodes[0]));
  struct way *_Atomic *bucket = &buckets[hash % BUCKETS];
  way->next = atomic_load_explicit(bucket, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(bucket, &way->next, way, memory_order_release,
                                                memory_order_relaxed))
    continue;
}

/* All nodes of the frame, as far as a place has room for any. */
static uint32_t python_make(const struct python_layout *layout, const struct python_frame *frame,
                            uint64_t hash, bool thrown, struct place_node nodes[PLACE_NODES_MAX],
                            struct frame_seen *seen) {
  struct python_code *code = python_code_read(layout, frame->code);
  uint32_t n = 0;
  *seen = (struct frame_seen){.throws = false};
  if (code != NULL && python_frame_hash_of(layout, code, frame->where) == hash) {
    nodes[0] = (struct place_node){.id = python_loops_function(code)};
    n = 1 + python_loops_nodes(layout, code, python_code_instruction(layout, code, frame->where),
                               thrown, nodes + 1, seen->iterators + 1, PLACE_NODES_MAX - 1,
                               &seen->throws);
    python_code_folder(code, seen->folder);
    for (uint32_t i = 1; i < n && i < PLACE_NODES_MAX; i++)
      if (!(nodes[i].flags & PLACE_ORDERED))
        nodes[i].flags |= PLACE_OPAQUE;
  }
  python_code_free(code);
  return n < PLACE_NODES_MAX ? n : PLACE_NODES_MAX;
}

static uint32_t python_copy(const struct place_node *nodes, uint32_t n, struct place_node *to,
                            uint32_t room) {
  n = n < room ? n : room;
  if (n > 0)
    memcpy(to, nodes, n * sizeof(nodes[0]));
  return n;
}

/* 0: the code cannot be read, or is no longer the one that the hash was made of. */
static uint32_t frame_nodes(const struct python_layout *layout, const struct python_frame *frame,
                            uint64_t hash, bool thrown, struct frame_seen *seen,
                            struct place_node *nodes, uint32_t room) {
  const struct way *way = python_nodes_find(hash, thrown);
  if (way != NULL) {
    *seen = way->seen;
    return python_copy(way->nodes, way->n, nodes, room);
  }
  struct place_node made[PLACE_NODES_MAX];
  uint32_t n = python_make(layout, frame, hash, thrown, made, seen);
  if (n > 0)
    python_nodes_keep(hash, thrown, made, n, seen);
  return python_copy(made, n, nodes, room);
}

void python_outermost_of(struct python_outermost *outermost, uint64_t thread) {
  outermost->counts = python_thread_counts(thread);
  outermost->thread = thread == (uint64_t)getpid() ? 0 : thread;
}

void python_outermost_add(struct python_outermost *outermost, const struct python_frame *frame,
                          uint64_t hash) {
  if (hash == PYTHON_FRAME_RUNNER)
    return;
  uint32_t at = outermost->came++ % PLACE_NODES_MAX;
  outermost->frames[at] = *frame;
  outermost->hashes[at] = hash;
}

/* What is known of a frame by those further in. */
struct frame_known {
  bool thrown; /* the call made there ends in an exception */
  /* It is the library's that calls NCCL: of an installed package, as all frames further in, and in
   * the folder of the innermost one, or one around that. */
  bool is_library;
};

/* By frame, beginning with the innermost one that there is. Of what lies further in nothing is
 * known. */
static void find_known(const struct python_layout *layout, const struct python_outermost *outermost,
                       uint32_t nframes, struct frame_known known[PLACE_NODES_MAX]) {
  struct frame_seen innermost = {.throws = false}, seen = {.throws = false};
  bool is_installed = outermost->came == nframes;
  for (uint32_t i = 0; i < nframes; i++) {
    uint32_t at = (outermost->came - nframes + i) % PLACE_NODES_MAX;
    known[i].thrown = seen.throws;
    (void)frame_nodes(layout, &outermost->frames[at], outermost->hashes[at], known[i].thrown, &seen,
                      NULL, 0);
    if (i == 0)
      innermost = seen;
    is_installed &= seen.folder[0] != '\0';
    known[i].is_library =
        is_installed && strncmp(innermost.folder, seen.folder, strlen(seen.folder)) == 0;
  }
}

/* What a library's function decides by, before it calls NCCL, is how it is called: whether the rank
 * is in the group, say. Which rank has data the program decides, further out. */
static void always_call(struct place_node *nodes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (nodes[i].flags & PLACE_LOOP)
      return;
  if (nodes[n - 1].flags & PLACE_ORDERED)
    nodes[n - 1].flags |= PLACE_ALWAYS;
}

uint32_t python_outermost_nodes(const struct python_layout *layout,
                                const struct python_outermost *outermost, struct place_node *nodes,
                                uint32_t room, struct place_round *rounds) {
  uint32_t n = 0;
  uint32_t nframes = outermost->came < PLACE_NODES_MAX ? outermost->came : PLACE_NODES_MAX;
  struct frame_known known[PLACE_NODES_MAX];
  find_known(layout, outermost, nframes, known);
  for (uint32_t i = 0; i < nframes && n < room; i++) {
    uint32_t at = (outermost->came - 1 - i) % PLACE_NODES_MAX;
    const struct frame_known *frame = &known[nframes - 1 - i];
    struct frame_seen seen;
    uint32_t more = frame_nodes(layout, &outermost->frames[at], outermost->hashes[at],
                                frame->thrown, &seen, nodes + n, room - n);
    if (more == 0)
      return 0;
    if (frame->is_library && more < room - n)
      always_call(nodes + n, more);
    if (rounds != NULL && outermost->counts)
      python_rounds(layout, &outermost->frames[at], seen.iterators, more, rounds + n);
    else if (rounds != NULL)
      memset(rounds + n, 0, more * sizeof(*rounds));
    n += more;
  }
  return n;
}

uint32_t python_outermost_loops(const struct python_layout *layout,
                                const struct python_outermost *outermost,
                                struct python_loop loops[PLACE_LEVELS]) {
  uint32_t nframes = outermost->came < PLACE_NODES_MAX ? outermost->came : PLACE_NODES_MAX;
  uint32_t level = 0;
  struct frame_known known[PLACE_NODES_MAX];
  find_known(layout, outermost, nframes, known);
  for (uint32_t i = 0; i < nframes; i++) {
    uint32_t at = (outermost->came - 1 - i) % PLACE_NODES_MAX;
    struct place_node nodes[PLACE_NODES_MAX];
    struct frame_seen seen;
    uint32_t n = frame_nodes(layout, &outermost->frames[at], outermost->hashes[at],
                             known[nframes - 1 - i].thrown, &seen, nodes, PLACE_NODES_MAX);
    for (uint32_t node = 0; node < n; node++) {
      if ((nodes[node].flags & PLACE_OPAQUE) || level == PLACE_LEVELS)
        return level;
      if (!(nodes[node].flags & PLACE_LOOP))
        continue;
      if (seen.iterators[node] == 0)
        return level;
      loops[level++] = (struct python_loop){.thread = outermost->thread,
                                            .frame = outermost->frames[at].address,
                                            .code = outermost->frames[at].code,
                                            .iterator = seen.iterators[node]};
    }
  }
  return level;
}
