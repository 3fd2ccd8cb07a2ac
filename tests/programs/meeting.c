/* Rank 0 listens, the others come and are sent a byte once all are there. Addresses are abstract:
 * nothing of them stays on the machine. */
#include "tests/programs/meeting.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 64, PATIENCE_S = 30, PAUSE_NS = 1000000 };

static long meetings, preparations;
static int part; /* meets */

static _Noreturn void fail(int rank, const char *what) {
  fprintf(stderr, "rank %d: meeting %ld: %s\n", rank, meetings, what);
  exit(1);
}

static socklen_t address_of(struct sockaddr_un *address) {
  const char *port = getenv("MASTER_PORT"), *folder = getenv("LOOPBACK_FOLDER");
  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  /* The first byte stays 0, but where ranks are on several machines that have only this folder in
   * common: then it is a file. */
  int begin = folder == NULL;
  int length = snprintf(address->sun_path + begin, sizeof address->sun_path - (size_t)begin,
                        "%s%smeeting-%s-%ld-%d", folder != NULL ? folder : "",
                        folder != NULL ? "/" : "", port != NULL ? port : "0", meetings, part);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)(begin + length));
}

static void wait_for_the_others(int nranks) {
  struct sockaddr_un address;
  socklen_t size = address_of(&address);
  int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), others[RANKS_MAX];
  if (nranks > RANKS_MAX || bind(listener, (struct sockaddr *)&address, size) != 0 ||
      listen(listener, RANKS_MAX) != 0)
    fail(0, "no address");
  for (int i = 1; i < nranks; i++)
    if ((others[i] = accept(listener, NULL, NULL)) < 0)
      fail(0, "nobody comes");
  for (int i = 1; i < nranks; i++) {
    if (write(others[i], "", 1) != 1)
      fail(0, "one has gone");
    close(others[i]);
  }
  close(listener);
}

static void go_to_rank_0(int rank) {
  struct sockaddr_un address;
  socklen_t size = address_of(&address);
  struct timespec pause = {.tv_nsec = PAUSE_NS}, begin, now;
  char byte;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  while (connect(connection, (struct sockaddr *)&address, size) != 0) {
    nanosleep(&pause, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec > begin.tv_sec + PATIENCE_S)
      fail(rank, "rank 0 is not there");
  }
  if (read(connection, &byte, 1) != 1)
    fail(rank, "rank 0 has gone");
  close(connection);
}

long meeting_of_all(int rank, int nranks) {
  if (rank == 0)
    wait_for_the_others(nranks);
  else
    go_to_rank_0(rank);
  return ++meetings;
}

/* Calls that are made and come back: not jumps instead of a return. */
long meeting_by_steps(int rank, int nranks, int steps) {
  long met = steps == 0 ? meeting_of_all(rank, nranks) : meeting_next_step(rank, nranks, steps);
  return met == meetings ? met : -1;
}

long meeting_next_step(int rank, int nranks, int steps) {
  long met = meeting_by_steps(rank, nranks, steps - 1);
  return met == meetings ? met : -1;
}

void meeting_of_group(const void *group, void *id, bool of_two, const struct meeting_ranks *key,
                      int rank_of_two) {
  (void)group, (void)id, (void)of_two, (void)rank_of_two;
  if (key == NULL)
    return;
  part = key->part;
  (void)meeting_of_all(key->rank, key->nranks);
  part = 0;
}

const void *meeting_ranks_of_group(const void *group) {
  return &((const struct meeting_group *)group)->begin;
}

long meeting_prepare(int rank, int nranks) {
  (void)rank, (void)nranks;
  return ++preparations;
}
