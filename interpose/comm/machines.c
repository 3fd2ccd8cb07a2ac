/* Communicators with ranks on several machines (machines.h). */
#include "interpose/comm/machines.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/machines/board.h"
#include "interpose/comm/agent_start.h"
#include "interpose/self/environment.h"

/* Above those that Linux gives to who asks for any (ip_local_port_range: 32768 to 60999). */
#define FIRST_PORT 61000
#define LAST_PORT 65535

#define PATH_ROOM 4096

/* Of this process: the job that it has made, or belongs to since it has met others. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rendezvous own;
static bool has_own;
static struct board *board; /* NULL: it has met nobody yet */

static bool machines_are_on(void) {
  const struct settings *settings = join_settings();
  return settings != NULL && settings->enabled && settings->machines;
}

/* An id of NCCL_COMM_ID is made by every rank, and must come out alike. */
void machines_mark(ncclUniqueId *id) {
  if (!machines_are_on() || getenv("NCCL_COMM_ID") != NULL)
    return;
  pthread_mutex_lock(&lock);
  has_own = has_own || rendezvous_make(&own);
  if (has_own)
    (void)rendezvous_write((unsigned char *)id->internal, &own);
  pthread_mutex_unlock(&lock);
}

bool machines_read(const ncclUniqueId *id, struct rendezvous *job) {
  return machines_are_on() && rendezvous_read((const unsigned char *)id->internal, job);
}

/* ---- the agent ---- */

/* It lies beside the preload object. */
static bool start_agent(const char *path) {
  Dl_info info;
  char file[PATH_ROOM];
  const char *end;
  errno = ENOENT;
  if (dladdr((const void *)(uintptr_t)machines_meet, &info) == 0 ||
      (end = strrchr(info.dli_fname, '/')) == NULL ||
      snprintf(file, sizeof(file), "%.*s/nccl-join-agent", (int)(end - info.dli_fname),
               info.dli_fname) >= (int)sizeof(file))
    return false;
  return agent_start(file, path);
}

/* The job's board; the process is of one job. NULL: reason says why. */
static struct board *find_board(const struct rendezvous *job, char *reason) {
  const struct settings *settings = join_settings();
  const struct board_terms terms = {.wait_s = (uint32_t)settings->machines_wait_s,
                                    .silence_s = (uint32_t)settings->machines_silence_s,
                                    .first_port = FIRST_PORT,
                                    .last_port = LAST_PORT};
  struct board *found = NULL;
  pthread_mutex_lock(&lock);
  if (board == NULL) {
    found = board = board_open(job, &terms, start_agent, reason);
    own = board != NULL ? *job : own;
    has_own = has_own || board != NULL;
  } else if (own.job == job->job) {
    found = board;
  } else {
    snprintf(reason, BOARD_REASON_SIZE,
             "its id was made by a process that did not know the machines of this one yet. Make a "
             "communicator of all ranks first");
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- meeting ---- */

static uint32_t count_here(const struct attachment *attachment, uint32_t slots, uint32_t *lowest) {
  struct introduction ignored;
  uint32_t count = 0;
  for (uint32_t slot = slots; slot > 0; slot--)
    if (attachment_read(attachment, slot - 1, &ignored)) {
      count++;
      *lowest = slot - 1;
    }
  return count;
}

enum machines_met machines_meet(struct attachment *attachment, const struct rendezvous *job,
                                const char *name, uint32_t slots, uint32_t nranks,
                                struct log_subject subject) {
  char reason[BOARD_REASON_SIZE];
  uint32_t lowest = 0;
  if (count_here(attachment, slots, &lowest) >= nranks && !attachment_is_beyond(attachment))
    return MACHINES_ONE;
  struct board *with = find_board(job, reason);
  enum board_answer answer =
      with != NULL ? board_ask(with, name, slots, nranks, reason) : BOARD_OFF;
  if (answer == BOARD_FOUND) {
    attachment_reach_beyond(attachment, &with->words->bell);
    return MACHINES_FOUND;
  }
  if (answer == BOARD_LOST) {
    log_line_of(subject, LOG_LEVEL_ERROR,
                "communicator %08x cannot be used, ncclInvalidUsage on every rank of this machine: "
                "%s, while its machines were looking for each other",
                subject.tag, reason);
    return MACHINES_LOST;
  }
  log_line_of(subject, LOG_LEVEL_WARN,
              "the ranks of communicator %08x on other machines are not found: %s", subject.tag,
              reason);
  return MACHINES_OFF;
}

/* Without the lock, which a thread may hold that goes on no more. */
void machines_end(void) {
  if (board != NULL)
    board_tidy(board);
}
