/* A program that hands over configurations, each of which ends where a page ends that no access
 * follows: who reads or writes behind its size ends with a signal. Says what came back, whether the
 * configuration is what it was, and how often the program had to ask until a communicator was made.
 *
 *   configs all      of every size that a release has had, with bytes that are like no others, to
 *                    every function that takes one (telling_nccl.c)
 *   configs header   the one of the nccl.h that this was compiled with, to those that need no
 *                    parent
 *   configs size     says the version and the size of that one; status 1 if the first has no such
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

#define MAGIC 0xcafebeefu

/* As nccl.h has them from that release on; the last ones are larger than any. */
static const struct layout {
  unsigned int version;
  size_t size;
} communicators[] = {{21801, 48},  {22809, 80},  {23007, 96},
                     {23102, 112}, {23203, 120}, {29999, 136}},
  collectives[] = {{23102, 64}, {23203, 72}, {29999, 88}};

/* A configuration at the end of its page. */
struct placed {
  unsigned char *bytes, *page;
  size_t size, length;
};

static struct placed place(size_t size) {
  struct placed placed = {.size = size, .length = (size_t)sysconf(_SC_PAGESIZE)};
  placed.page =
      mmap(NULL, 2 * placed.length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (placed.page == MAP_FAILED || mprotect(placed.page + placed.length, placed.length, PROT_NONE))
    _exit(98);
  placed.bytes = placed.page + placed.length - size;
  return placed;
}

static void displace(const struct placed *placed) {
  munmap(placed->page, 2 * placed->length);
}

static void fill(const struct placed *placed, unsigned int version) {
  const struct {
    size_t size;
    unsigned int magic, version;
    int blocking, nothing; /* no padding, which would be anything */
  } head = {placed->size, MAGIC, version, 0, 0};
  _Static_assert(sizeof head == 24, "no padding");
  for (size_t i = 0; i < placed->size; i++)
    placed->bytes[i] = (unsigned char)(i * 37 + version);
  memcpy(placed->bytes, &head, sizeof head);
}

static void *look_up(const char *name) {
  return dlsym(RTLD_DEFAULT, name);
}

static ncclUniqueId id;
static ncclComm_t comm;

/* Polls as a program does whose communicators do not block. */
static void finish(const char *name, ncclResult_t result) {
  int asked = 0;
  ncclResult_t state = result;
  while (state == ncclInProgress && comm != NULL && asked < 100) {
    if (ncclCommGetAsyncError(comm, &state) != ncclSuccess)
      break;
    asked++;
  }
  say("%s: %d, then %d after %d questions", name, result, state, asked);
}

#define CREATIONS(CALL, config)                                                                    \
  CALL(CommInitRankConfig, (&comm, 1, id, 0, config))                                              \
  CALL(CommInitRankScalable, (&comm, 1, 0, 1, &id, config))
#define CHILD_CREATIONS(CALL, config)                                                              \
  CALL(CommSplit, (parent, 0, 0, &comm, config))                                                   \
  CALL(CommShrink, (parent, NULL, 0, &comm, config, 0))                                            \
  CALL(CommGrow, (parent, 2, &id, 0, &comm, config))
#define COLLECTIVES(CALL, config)                                                                  \
  CALL(AllReduceConfig, (NULL, NULL, 1, ncclFloat, ncclSum, parent, NULL, config))                 \
  CALL(BroadcastConfig, (NULL, NULL, 1, ncclFloat, 0, parent, NULL, config))                       \
  CALL(ReduceConfig, (NULL, NULL, 1, ncclFloat, ncclSum, 0, parent, NULL, config))                 \
  CALL(AllGatherConfig, (NULL, NULL, 1, ncclFloat, parent, NULL, config))                          \
  CALL(ReduceScatterConfig, (NULL, NULL, 1, ncclFloat, ncclSum, parent, NULL, config))             \
  CALL(AlltoAllConfig, (NULL, NULL, 1, ncclFloat, parent, NULL, config))                           \
  CALL(GatherConfig, (NULL, NULL, 1, ncclFloat, 0, parent, NULL, config))                          \
  CALL(ScatterConfig, (NULL, NULL, 1, ncclFloat, 0, parent, NULL, config))

#define TYPE(since, name, parameters, arguments, handling)                                         \
  typedef ncclResult_t type_##name parameters;
NCCL_API(TYPE)

/* Looked up, as the NCCL may lack it. */
#define CALL(name, arguments)                                                                      \
  {                                                                                                \
    type_##name *function;                                                                         \
    *(void **)&function = look_up("nccl" #name);                                                   \
    if (function == NULL)                                                                          \
      say("nccl" #name ": missing");                                                               \
    else                                                                                           \
      finish("nccl" #name, function arguments);                                                    \
  }

static void hand_over_alone(const struct placed *placed) {
  CREATIONS(CALL, (ncclConfig_t *)placed->bytes)
}

static void hand_over(const struct placed *placed, ncclComm_t parent) {
  hand_over_alone(placed);
  CHILD_CREATIONS(CALL, (ncclConfig_t *)placed->bytes)
}

static void hand_over_to_collectives(const struct placed *placed, ncclComm_t parent) {
  COLLECTIVES(CALL, (const ncclCollConfig_t *)placed->bytes)
}

static void try_all(const struct layout *layouts, size_t count,
                    void (*hand)(const struct placed *, ncclComm_t)) {
  for (size_t i = 0; i < count; i++) {
    struct placed placed = place(layouts[i].size);
    unsigned char *before = malloc(placed.size);
    fill(&placed, layouts[i].version);
    memcpy(before, placed.bytes, placed.size);
    hand(&placed, comm);
    if (memcmp(before, placed.bytes, placed.size) != 0)
      say("the configuration of %u was changed", layouts[i].version);
    free(before);
    displace(&placed);
  }
}

int main(int argc, char **argv) {
  const ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "size") == 0) {
    say("%d %zu", NCCL_VERSION_CODE, sizeof own);
    for (size_t i = 0; i < sizeof communicators / sizeof communicators[0]; i++)
      if (communicators[i].size == sizeof own)
        return 0;
    return 1;
  } else if (strcmp(what, "all") == 0) {
    try_all(communicators, sizeof communicators / sizeof communicators[0], hand_over);
    try_all(collectives, sizeof collectives / sizeof collectives[0], hand_over_to_collectives);
  } else if (strcmp(what, "header") == 0) {
    for (int blocking = 0; blocking < 2; blocking++) {
      struct placed placed = place(sizeof own);
      memcpy(placed.bytes, &own, sizeof own);
      ((ncclConfig_t *)placed.bytes)->blocking = blocking;
      comm = NULL;
      hand_over_alone(&placed);
      displace(&placed);
    }
  }
  return 0;
}
