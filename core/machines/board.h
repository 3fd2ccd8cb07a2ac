/* What the ranks of a machine and their agent have in common: a small file in /dev/shm, named after
 * the job. Ranks write down which communicators have ranks on other machines; the agent answers
 * whether their ranks are found.
 *
 * The file is nccl-join-machines-<uid>-<job>, mode 0600: it holds the job's secret. Locks are POSIX
 * record locks on bytes of it: BOARD_GATE while a process changes what is written down, BOARD_AGENT
 * as long as the agent lives, BOARD_RANKS, shared, as long as a rank's process does. Who closes any
 * descriptor of it loses them: a process opens it once.
 *
 * The first rank that comes starts the agent. An agent that has ended is never replaced.
 */
#ifndef NCCL_JOIN_CORE_BOARD_H
#define NCCL_JOIN_CORE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/machines/rendezvous.h"

#define BOARD_VERSION 5u
#define BOARD_MAGIC UINT64_C(0x4244524e494f4a4e)
#define BOARD_PATH_SIZE 128
#define BOARD_NAME_SIZE 33 /* ATTACHMENT_NAME_SIZE */
#define BOARD_REASON_SIZE 200
#define BOARD_HOST_SIZE 256
#define BOARD_COMMUNICATORS 1024

enum board_byte { BOARD_GATE, BOARD_AGENT, BOARD_RANKS };

/* What has become of a communicator. */
enum board_answer {
  BOARD_FREE,    /* nobody has written one here */
  BOARD_WRITING, /* with the gate */
  BOARD_ASKED,
  BOARD_FOUND, /* the ranks of all machines are in the segment */
  BOARD_OFF,   /* not found, and no machine has found them: reason */
  BOARD_LOST,  /* others may have found them: it cannot be used. reason */
};

struct board_communicator {
  _Atomic uint32_t answer; /* enum board_answer; a futex */
  uint32_t slots, ranks;   /* how many places its segment has, and how many of them are taken */
  char name[BOARD_NAME_SIZE];
  char reason[BOARD_REASON_SIZE];
};

/* How the agent is to work: from the settings of the rank that starts it. */
struct board_terms {
  uint32_t wait_s;    /* for the others, when a communicator is made */
  uint32_t silence_s; /* after which a machine counts as dead */
  uint32_t first_port, last_port;
  uint32_t children;          /* of each agent; of another machine's, the root's word holds */
  char host[BOARD_HOST_SIZE]; /* of the root, a name or an address; "": the job's address */
};

struct board_words {
  uint64_t magic; /* last of what the first rank writes */
  uint32_t version;
  _Atomic uint32_t bell;    /* a futex: changes when the agent is to look */
  _Atomic uint32_t started; /* 1: the agent has BOARD_AGENT */
  _Atomic uint32_t turns;   /* the agent's: twice a second at least, where it is not stopped */
  _Atomic uint32_t asked;   /* how many communicators have been written down; wraps */
  char cannot[BOARD_REASON_SIZE]; /* why the agent has ended without having told anybody anything */
  struct board_terms terms;
  struct rendezvous job;
  struct board_communicator communicators[BOARD_COMMUNICATORS];
};

struct board {
  struct board *next; /* of a rank: another that its process has */
  struct board_words *words;
  char path[BOARD_PATH_SIZE];
  int file;
};

/* Where the files are: /dev/shm. Tests set another. */
extern const char *board_folder;

/* Of a rank: opens the job's board, or makes it and calls start with its path, which starts the
 * agent and says whether it could. One that nobody has a lock on is of a job that was killed with
 * its agent, or was killed while it was made: the job's own is made anew, and whoever makes one
 * removes this user's others. NULL: reason (BOARD_REASON_SIZE bytes) says why. One thread at a
 * time; once for each job. */
struct board *board_open(const struct rendezvous *job, const struct board_terms *terms,
                         bool (*start)(const char *path), char *reason);

/* Writes a communicator down, unless another rank of this machine has, and waits for the answer,
 * which is BOARD_FOUND, BOARD_OFF or BOARD_LOST: reason says why. Any thread. */
enum board_answer board_ask(struct board *board, const char *name, uint32_t slots, uint32_t ranks,
                            char *reason);

/* Of a rank whose process is about to end: takes the name away if the agent has been killed. */
void board_tidy(const struct board *board);

/* Of the agent: takes its lock; NULL if that is taken, or the file is no board. */
struct board *board_serve(const char *path, char *reason);

/* It ends without having begun: ranks hear why. */
void board_say_cannot(struct board *board, const char *reason);

/* Whether a rank's process is there. */
bool board_has_ranks(const struct board *board);

/* Waits until the bell has rung since it was heard so many times, and returns how many times it has
 * rung. Who rings afterwards is heard by the next call, whatever has been done meanwhile. Any
 * thread. */
uint32_t board_hear(const struct board *board, uint32_t heard);

/* The agent's answer, and that a communicator is gone. */
void board_say(struct board_communicator *communicator, enum board_answer answer,
               const char *reason);
void board_free(struct board_communicator *communicator);

/* The agent has nothing left to do: takes the name away, for good. False if there is a rank, and it
 * is not forced: nothing has happened. */
bool board_retire(struct board *board, bool forced);

#endif
