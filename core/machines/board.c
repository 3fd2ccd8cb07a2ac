/* The board of a machine's ranks and their agent (board.h). */
#include "core/machines/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/transport/file_lock.h"

#define GATE_MS 10000  /* others hold it for microseconds, or while they start the agent */
#define START_MS 10000 /* until an agent that has been started has its lock */
#define TICK_MS 100
#define FILE_FORMAT "nccl-join-machines-%u-" /* the user; then the job */
#define GRACE_MS 5000 /* an agent answers this long after its own time at most */

const char *board_folder = "/dev/shm";

/* A process has one descriptor of a board, whose locks are not between threads. */
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

/* Those that this process has as a rank, until it ends. To open one again would cost its locks. */
static _Atomic(struct board *) mine;

static int64_t board_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void board_sleep(_Atomic uint32_t *word, uint32_t seen, unsigned milliseconds) {
  struct timespec timeout = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

static void board_wake(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Rings the agent. */
static void board_ring(_Atomic uint32_t *bell) {
  atomic_fetch_add(bell, 1);
  board_wake(bell);
}

/* ---- locks ---- */

static bool gate_enter(const struct board *board) {
  for (int64_t end = board_now_ms() + GATE_MS; !file_lock_set(board->file, F_WRLCK, BOARD_GATE);) {
    if (board_now_ms() >= end)
      return false;
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return true;
}

static void gate_leave(const struct board *board) {
  file_lock_set(board->file, F_UNLCK, BOARD_GATE);
}

/* With the gate, by a process without a lock on it: no other has one. Its job is dead. */
static bool is_dead(int file) {
  return !file_lock_is_held(file, BOARD_AGENT, 1) && !file_lock_is_held(file, BOARD_RANKS, 1);
}

/* ---- the file ---- */

static void board_close(struct board *board) {
  if (board->words != NULL)
    munmap(board->words, sizeof(*board->words));
  if (board->file >= 0)
    close(board->file);
  free(board);
}

/* Its name may be another's by now, of the same job: that one stays. */
static void take_name_away(const struct board *board) {
  struct stat own, named;
  if (fstat(board->file, &own) == 0 && lstat(board->path, &named) == 0 &&
      own.st_dev == named.st_dev && own.st_ino == named.st_ino)
    (void)unlink(board->path);
}

static struct board *board_fail(struct board *board, char *reason, const char *what) {
  snprintf(reason, BOARD_REASON_SIZE, "%s: %s: %s", board != NULL ? board->path : "machines", what,
           strerror(errno));
  if (board != NULL)
    board_close(board);
  return NULL;
}

/* Opened and checked, not mapped. */
static struct board *open_file(const char *path, int flags, char *reason) {
  struct board *board = calloc(1, sizeof(*board));
  struct stat status;
  if (board == NULL)
    return board_fail(board, reason, "no memory");
  snprintf(board->path, sizeof(board->path), "%s", path);
  board->file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
  if (board->file < 0)
    return board_fail(board, reason, "cannot open it");
  errno = EPERM;
  if (fstat(board->file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    return board_fail(board, reason, "it must be this user's, with mode 0600");
  return board;
}

static bool map_words(struct board *board) {
  void *base =
      mmap(NULL, sizeof(*board->words), PROT_READ | PROT_WRITE, MAP_SHARED, board->file, 0);
  board->words = base == MAP_FAILED ? NULL : base;
  return base != MAP_FAILED;
}

/* With the gate: gives an empty file its words. */
static bool lay_out(struct board *board, const struct rendezvous *job,
                    const struct board_terms *terms) {
  errno = posix_fallocate(board->file, 0, sizeof(*board->words));
  if (errno != 0 || !map_words(board))
    return false;
  board->words->version = BOARD_VERSION;
  board->words->job = *job;
  board->words->terms = *terms;
  board->words->magic = BOARD_MAGIC;
  return true;
}

static bool is_right(const struct board *board) {
  return board->words->magic == BOARD_MAGIC && board->words->version == BOARD_VERSION;
}

/* ---- what dead jobs have left ---- */

/* With the gate: a process that comes meanwhile waits for it, and finds that the name is gone. */
static void remove_if_dead(const char *path) {
  int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  struct stat status;
  if (file < 0)
    return;
  if (file_lock_set(file, F_WRLCK, BOARD_GATE) && fstat(file, &status) == 0 &&
      status.st_uid == geteuid() && status.st_nlink != 0 && is_dead(file))
    (void)unlink(path);
  close(file);
}

static bool is_mine(const char *path) {
  const struct board *board = atomic_load(&mine);
  while (board != NULL && strcmp(board->path, path) != 0)
    board = board->next;
  return board != NULL;
}

/* being_made: is not in `mine` yet. */
static void remove_dead(const char *being_made) {
  char prefix[64], path[BOARD_PATH_SIZE];
  DIR *folder = opendir(board_folder);
  snprintf(prefix, sizeof(prefix), FILE_FORMAT, (unsigned)geteuid());
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
    if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
        (size_t)snprintf(path, sizeof(path), "%s/%s", board_folder, entry->d_name) < sizeof(path) &&
        strcmp(path, being_made) != 0 && !is_mine(path))
      remove_if_dead(path);
  if (folder != NULL)
    closedir(folder);
}

/* ---- of a rank ---- */

enum entry { ENTERED, REFUSED, AGAIN };

/* With the gate. AGAIN: the name is no longer this file's, as its agent has ended, or as it was
 * left by a job that is dead: where a site has said where ranks meet, the next one has the same
 * name. */
static enum entry board_enter(struct board *board, const struct rendezvous *job,
                              const struct board_terms *terms, bool (*start)(const char *path),
                              char *reason) {
  struct stat status;
  if (fstat(board->file, &status) != 0)
    return REFUSED;
  if (status.st_nlink == 0)
    return AGAIN;
  if (status.st_size != 0) {
    if (is_dead(board->file))
      return unlink(board->path) == 0 ? AGAIN : REFUSED;
    errno = EPROTO;
    return status.st_size == sizeof(*board->words) && map_words(board) && is_right(board) &&
                   memcmp(&board->words->job, job, sizeof(*job)) == 0 &&
                   file_lock_set(board->file, F_RDLCK, BOARD_RANKS)
               ? ENTERED
               : REFUSED;
  }
  if (!lay_out(board, job, terms) || !file_lock_set(board->file, F_RDLCK, BOARD_RANKS)) {
    (void)unlink(board->path);
    return REFUSED;
  }
  remove_dead(board->path);
  if (start(board->path))
    return ENTERED;
  snprintf(reason, BOARD_REASON_SIZE, "the agent of this machine cannot be started: %s",
           errno == ENOENT ? "there is no nccl-join-agent beside libnccl-join.so (it is built with "
                             "libzmq and libsodium)"
           : errno == EIO  ? "it has ended at once: are libzmq and libsodium installed (Debian: "
                             "libzmq5, libsodium23)?"
                           : strerror(errno));
  (void)unlink(board->path);
  return REFUSED;
}

struct board *board_open(const struct rendezvous *job, const struct board_terms *terms,
                         bool (*start)(const char *path), char *reason) {
  char path[BOARD_PATH_SIZE];
  reason[0] = '\0';
  snprintf(path, sizeof(path), "%s/" FILE_FORMAT "%016llx", board_folder, (unsigned)geteuid(),
           (unsigned long long)job->job);
  for (;;) {
    struct board *board = open_file(path, O_CREAT, reason);
    if (board == NULL)
      return NULL;
    if (!gate_enter(board))
      return board_fail(board, reason, "it stays locked");
    enum entry entry = board_enter(board, job, terms, start, reason);
    gate_leave(board);
    if (entry == ENTERED) {
      board->next = atomic_load(&mine);
      atomic_store(&mine, board);
      return board;
    }
    if (entry == REFUSED && reason[0] == '\0')
      return board_fail(board, reason, "cannot be used");
    board_close(board);
    if (entry == REFUSED)
      return NULL;
  }
}

/* With the gate: where the communicator is, or is to be written; NULL: there is no room. */
static struct board_communicator *board_find(struct board_words *words, const char *name) {
  struct board_communicator *empty = NULL;
  for (int i = BOARD_COMMUNICATORS - 1; i >= 0; i--) {
    struct board_communicator *one = &words->communicators[i];
    if (atomic_load(&one->answer) <= BOARD_WRITING)
      empty = one;
    else if (strncmp(one->name, name, BOARD_NAME_SIZE) == 0)
      return one;
  }
  return empty;
}

static struct board_communicator *write_down(struct board *board, const char *name, uint32_t slots,
                                             uint32_t ranks) {
  struct board_communicator *one = NULL;
  pthread_mutex_lock(&threads);
  if (gate_enter(board)) {
    one = board_find(board->words, name);
    if (one != NULL && atomic_load(&one->answer) <= BOARD_WRITING) {
      atomic_store(&one->answer, BOARD_WRITING);
      one->slots = slots;
      one->ranks = ranks;
      one->reason[0] = '\0';
      snprintf(one->name, sizeof(one->name), "%s", name);
      atomic_store(&one->answer, BOARD_ASKED);
      atomic_fetch_add(&board->words->asked, 1);
      board_ring(&board->words->bell);
    }
    gate_leave(board);
  }
  pthread_mutex_unlock(&threads);
  return one;
}

/* Whether nobody is going to answer. */
static bool is_deserted(const struct board *board, int64_t asked_ms) {
  bool started = atomic_load(&board->words->started) != 0;
  return started ? !file_lock_is_held(board->file, BOARD_AGENT, 1)
                 : board_now_ms() >= asked_ms + START_MS;
}

enum board_answer board_ask(struct board *board, const char *name, uint32_t slots, uint32_t ranks,
                            char *reason) {
  struct board_communicator *one = write_down(board, name, slots, ranks);
  if (one == NULL) {
    snprintf(reason, BOARD_REASON_SIZE, "%s has no room for another communicator", board->path);
    return BOARD_OFF;
  }
  int64_t asked = board_now_ms(),
          end = asked + board->words->terms.wait_s * INT64_C(1000) + START_MS + GRACE_MS;
  uint32_t answer;
  while ((answer = atomic_load(&one->answer)) == BOARD_ASKED) {
    bool deserted = is_deserted(board, asked);
    if (deserted || board_now_ms() >= end) {
      /* What it has told others nobody knows, unless it never began. */
      bool begun = atomic_load(&board->words->started) != 0;
      char *cannot = board->words->cannot;
      cannot[BOARD_REASON_SIZE - 1] = '\0';
      answer = begun && cannot[0] == '\0' ? BOARD_LOST : BOARD_OFF;
      snprintf(reason, BOARD_REASON_SIZE, "the agent of this machine has %s%s%.130s",
               !begun     ? "not started"
               : deserted ? "ended"
                          : "not answered (is it stopped?)",
               cannot[0] != '\0' ? ": " : "", cannot);
      take_name_away(board);
      return (enum board_answer)answer;
    }
    board_sleep(&one->answer, BOARD_ASKED, TICK_MS);
  }
  memcpy(reason, one->reason, BOARD_REASON_SIZE);
  reason[BOARD_REASON_SIZE - 1] = '\0';
  return (enum board_answer)answer;
}

void board_tidy(const struct board *board) {
  if (atomic_load(&board->words->started) != 0 && !file_lock_is_held(board->file, BOARD_AGENT, 1))
    take_name_away(board);
}

/* ---- of the agent ---- */

struct board *board_serve(const char *path, char *reason) {
  struct stat status;
  struct board *board = open_file(path, 0, reason);
  if (board == NULL)
    return NULL;
  errno = EPROTO;
  if (fstat(board->file, &status) != 0 || status.st_size != sizeof(*board->words) ||
      !map_words(board) || !is_right(board))
    return board_fail(board, reason, "not a board");
  if (!file_lock_set(board->file, F_WRLCK, BOARD_AGENT))
    return board_fail(board, reason, "it has an agent");
  atomic_store(&board->words->started, 1);
  return board;
}

void board_say_cannot(struct board *board, const char *reason) {
  snprintf(board->words->cannot, BOARD_REASON_SIZE, "%s", reason);
}

bool board_has_ranks(const struct board *board) {
  return file_lock_is_held(board->file, BOARD_RANKS, 1);
}

uint32_t board_hear(const struct board *board, uint32_t heard) {
  _Atomic uint32_t *bell = &board->words->bell;
  while (atomic_load(bell) == heard)
    syscall(SYS_futex, bell, FUTEX_WAIT, heard, NULL, NULL, 0);
  return atomic_load(bell);
}

void board_say(struct board_communicator *communicator, enum board_answer answer,
               const char *reason) {
  snprintf(communicator->reason, BOARD_REASON_SIZE, "%s", reason);
  atomic_store(&communicator->answer, answer);
  board_wake(&communicator->answer);
}

void board_free(struct board_communicator *communicator) {
  atomic_store(&communicator->answer, BOARD_FREE);
}

bool board_retire(struct board *board, bool forced) {
  bool gated = gate_enter(board), retires = forced || (gated && !board_has_ranks(board));
  if (retires)
    take_name_away(board);
  if (gated)
    gate_leave(board);
  return retires;
}
