/* Communicators with ranks on several machines (machines.h). */
#include "interpose/comm/machines.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/machines/board.h"
#include "interpose/comm/agent_start.h"
#include "interpose/self/environment.h"

#define PATH_ROOM 4096

/* A job to which this process belongs, since it has met others. The list only grows. */
struct met {
  struct met *next;
  struct board *board;
  uint64_t job;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static _Atomic(struct met *) jobs;
static struct rendezvous
    own; /* the job of the ids that this process makes: the first it belongs to */
static bool has_own;

static bool machines_are_on(void) {
  const struct settings *settings = join_settings();
  return settings != NULL && settings->enabled && settings->machines;
}

/* ---- what an id says ---- */

static bool has_secret_file(void) {
  return join_settings()->machines_secret[0] != '\0';
}

/* False if there is none, or it cannot be used, which is said once. */
static bool read_secret(unsigned char secret[RENDEZVOUS_SECRET_BYTES]) {
  const char *wrong =
      has_secret_file() ? rendezvous_read_secret(join_settings()->machines_secret, secret) : "";
  if (wrong != NULL && *wrong != '\0')
    log_once(LOG_LEVEL_WARN,
             "NCCL_JOIN_MACHINES_SECRET=%s cannot be used, so ranks of other machines are not "
             "found: %s",
             join_settings()->machines_secret, wrong);
  return wrong == NULL;
}

/* An id of NCCL_COMM_ID is made by every rank, and must come out alike. */
void machines_mark(ncclUniqueId *id) {
  if (!machines_are_on() || getenv("NCCL_COMM_ID") != NULL)
    return;
  pthread_mutex_lock(&lock);
  has_own = has_own || rendezvous_make(&own);
  struct rendezvous marked = own;
  if (has_secret_file())
    memset(marked.secret, 0, sizeof(marked.secret)); /* all have it */
  if (has_own && rendezvous_write((unsigned char *)id->internal, &marked))
    memcpy(own.address, marked.address, sizeof(own.address));
  pthread_mutex_unlock(&lock);
}

bool machines_read(const ncclUniqueId *id, struct rendezvous *job) {
  const unsigned char *bytes = (const unsigned char *)id->internal;
  unsigned char secret[RENDEZVOUS_SECRET_BYTES];
  if (!machines_are_on())
    return false;
  const struct settings_address *at = &join_settings()->rendezvous;
  bool has_secret = read_secret(secret), is_marked = rendezvous_read(bytes, job);
  if (!has_secret)
    return is_marked && !has_secret_file() && at->host[0] == '\0';
  if (at->host[0] != '\0')
    rendezvous_of_secret(secret, at, sizeof(*at), job);
  else if (is_marked)
    memcpy(job->secret, secret, sizeof(secret));
  else
    return rendezvous_of_id(bytes, secret, job);
  return true;
}

const char *machines_advice(bool has_job, const char *unmet) {
  if (!machines_are_on())
    return "Start all ranks alike, on one machine (nccl-join run): with NCCL_JOIN_MACHINES=0 those "
           "of others are "
           "not looked for";
  if (unmet[0] != '\0')
    return "Start all ranks alike, with nccl-join on all machines (nccl-join doctor)";
  if (has_job)
    return "Start all ranks alike";
  return "Start all ranks alike. On other machines they are not looked for, as the id was made "
         "with NCCL_COMM_ID, or without nccl-join, or NCCL_JOIN_RENDEZVOUS is set without a "
         "secret: set NCCL_JOIN_MACHINES_SECRET on all ranks";
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

static struct board_terms make_terms(void) {
  const struct settings *settings = join_settings();
  const struct settings_address *at = &settings->rendezvous;
  struct board_terms terms = {.wait_s = (uint32_t)settings->machines_wait_s,
                              .silence_s = (uint32_t)settings->machines_silence_s,
                              .first_port = settings->machines_ports.first,
                              .last_port = settings->machines_ports.last,
                              .children = (uint32_t)settings->machines_children};
  if (at->host[0] != '\0') {
    memcpy(terms.host, at->host, sizeof(at->host));
    terms.first_port = at->port;
    terms.last_port = at->port + SETTINGS_PORTS - 1;
  }
  return terms;
}

/* With the lock. */
static struct board *open_board(const struct rendezvous *job, char *reason) {
  const struct board_terms terms = make_terms();
  struct met *met = calloc(1, sizeof(*met));
  if (met == NULL) {
    snprintf(reason, BOARD_REASON_SIZE, "no memory");
    return NULL;
  }
  *met = (struct met){.next = jobs, .job = job->job};
  met->board = board_open(job, &terms, start_agent, reason);
  if (met->board == NULL) {
    free(met);
    return NULL;
  }
  if (jobs == NULL)
    own = *job;
  has_own = true;
  jobs = met;
  return met->board;
}

/* The job's board. NULL: reason says why. */
static struct board *find_board(const struct rendezvous *job, char *reason) {
  pthread_mutex_lock(&lock);
  const struct met *met = jobs;
  while (met != NULL && met->job != job->job)
    met = met->next;
  struct board *found = met != NULL ? met->board : open_board(job, reason);
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- meeting ---- */

static uint32_t count_here(const struct attachment *attachment, uint32_t slots) {
  struct introduction ignored;
  uint32_t count = 0;
  for (uint32_t slot = 0; slot < slots; slot++)
    count += attachment_read(attachment, slot, &ignored);
  return count;
}

enum machines_met machines_meet(struct attachment *attachment, const struct rendezvous *job,
                                const char *name, uint32_t slots, uint32_t nranks,
                                struct log_subject subject, char *unmet) {
  char reason[BOARD_REASON_SIZE];
  unmet[0] = '\0';
  if (count_here(attachment, slots) >= nranks && !attachment_is_beyond(attachment))
    return MACHINES_ONE;
  struct board *with = find_board(job, reason);
  enum board_answer answer =
      with != NULL ? board_ask(with, name, slots, nranks, reason) : BOARD_OFF;
  if (answer == BOARD_FOUND) {
    attachment_reach_beyond(
        attachment, &(struct attachment_beyond){.bell = &with->words->bell,
                                                .turns = &with->words->turns,
                                                .silence_ms = with->words->terms.silence_s * 1000});
    return MACHINES_FOUND;
  }
  if (answer == BOARD_LOST) {
    log_line_of(subject, LOG_LEVEL_ERROR,
                "communicator %08x cannot be used, ncclInvalidUsage on every rank of this machine: "
                "%s, while its machines were looking for each other",
                subject.tag, reason);
    return MACHINES_LOST;
  }
  memcpy(unmet, reason, BOARD_REASON_SIZE);
  return MACHINES_OFF;
}

/* Without the lock, which a thread may hold that goes on no more. */
void machines_end(void) {
  for (const struct met *met = jobs; met != NULL; met = met->next)
    board_tidy(met->board);
}
