/* Start and end of the test programs: environment, exchange of bytes, communicators, checks,
 * leaving. */
#include "tests/programs/ranks.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const double share_limit_s = 100;
static const uint32_t share_greeting = 0x72616e6b; /* tells a rank from a stray connection */

/* The rank of this process, for messages of functions that are not given a struct ranks. */
static int this_rank = -1;

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_ms(long milliseconds) {
  nanosleep(
      &(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000},
      NULL);
}

__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char *format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  fprintf(stderr, "rank %d: %s\n", this_rank, text);
  exit(1);
}

void ranks_check_cuda(cudaError_t error, const char *call, const char *file, int line) {
  if (error != cudaSuccess)
    fail("%s:%d: %s: %s", file, line, call, cudaGetErrorString(error));
}

void ranks_check_nccl(ncclResult_t result, const char *call, const char *file, int line) {
  if (result == ncclSuccess)
    return;
  const struct ranks me = {.rank = this_rank};
  ranks_time(&me, "error");
  ranks_result(&me, "error %d %.*s", (int)result, (int)strcspn(call, "("), call);
  fail("%s:%d: %s: %s (%s)", file, line, call, ncclGetErrorString(result), ncclGetLastError(NULL));
}

static int environment_number(const char *name) {
  const char *text = getenv(name);
  char *end = NULL;
  long number = text != NULL ? strtol(text, &end, 10) : 0;
  if (text == NULL || end == text || *end != '\0' || number < 0 || number > 65535)
    fail("%s is not a number in the environment: start me with nccl-join run -n or torchrun", name);
  return (int)number;
}

void ranks_begin(struct ranks *ranks) {
  *ranks = (struct ranks){.rank = environment_number("RANK"),
                          .nranks = environment_number("WORLD_SIZE")};
  this_rank = ranks->rank;
  if (ranks->rank >= ranks->nranks)
    fail("RANK is not below WORLD_SIZE %d", ranks->nranks);
  setvbuf(stdout, NULL, _IOLBF, 4096);
  int devices;
  CHECK_CUDA(cudaGetDeviceCount(&devices));
  CHECK_CUDA(cudaSetDevice(environment_number("LOCAL_RANK") % devices));
  CHECK_CUDA(cudaStreamCreateWithFlags(&ranks->stream, cudaStreamNonBlocking));
}

/* ---- rank 0's bytes for everybody ---- */

static void transfer(int socket, void *bytes, size_t size, bool sending) {
  char *at = bytes;
  while (size > 0) {
    ssize_t n = sending ? send(socket, at, size, MSG_NOSIGNAL) : recv(socket, at, size, 0);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      fail("lost the connection to another rank: %s", n < 0 ? strerror(errno) : "closed");
    at += n;
    size -= (size_t)n;
  }
}

static void limit_waiting(int socket) {
  struct timeval limit = {.tv_sec = (time_t)share_limit_s};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

/* MASTER_PORT; the one behind it where torchrun's agent has a store of its own there, as it says
 * (torch/distributed/elastic/agent/server/local_elastic_agent.py). */
static int port(void) {
  const char *taken = getenv("TORCHELASTIC_USE_AGENT_STORE");
  return environment_number("MASTER_PORT") + (taken != NULL && strcmp(taken, "True") == 0);
}

/* Rank 0: one connection from each other rank, by rank. */
static int *accept_ranks(int nranks) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port())};
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  limit_waiting(listener);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
      listen(listener, nranks) != 0)
    fail("cannot listen on MASTER_PORT: %s", strerror(errno));
  int *sockets = calloc((size_t)nranks, sizeof *sockets);
  for (int connected = 1; connected < nranks;) {
    int socket = accept(listener, NULL, NULL);
    if (socket < 0 && errno == EINTR) /* with a limit it ends at SIGCONT, see signal(7) */
      continue;
    if (socket < 0)
      fail("waited %.0f s, but only %d of %d ranks came", share_limit_s, connected, nranks);
    limit_waiting(socket);
    uint32_t greeting[2] = {0};
    transfer(socket, greeting, sizeof greeting, false);
    if (greeting[0] != share_greeting || greeting[1] == 0 || greeting[1] >= (uint32_t)nranks) {
      close(socket);
      continue;
    }
    sockets[greeting[1]] = socket;
    connected++;
  }
  close(listener);
  return sockets;
}

/* Another rank: its connection to rank 0, which may not listen yet. */
static int connect_to_rank_0(int rank) {
  const char *host = getenv("MASTER_ADDR");
  char service[16];
  snprintf(service, sizeof service, "%d", port());
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *address;
  int error = getaddrinfo(host != NULL ? host : "127.0.0.1", service, &hints, &address);
  if (error != 0)
    fail("MASTER_ADDR or MASTER_PORT: %s", gai_strerror(error));
  for (double end = now_s() + share_limit_s; now_s() < end; sleep_ms(20)) {
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(connection, address->ai_addr, address->ai_addrlen) == 0) {
      freeaddrinfo(address);
      limit_waiting(connection);
      transfer(connection, (uint32_t[2]){share_greeting, (uint32_t)rank}, 8, true);
      return connection;
    }
    close(connection);
  }
  fail("rank 0 cannot be reached at %s:%s", host, service);
}

void ranks_share(const struct ranks *ranks, void *bytes, size_t size) {
  static int *sockets; /* rank 0: by rank; the others: one. Open until the program ends */
  if (ranks->nranks == 1)
    return;
  if (ranks->rank != 0) {
    if (sockets == NULL) {
      sockets = malloc(sizeof *sockets);
      *sockets = connect_to_rank_0(ranks->rank);
    }
    transfer(*sockets, bytes, size, false);
    return;
  }
  if (sockets == NULL)
    sockets = accept_ranks(ranks->nranks);
  for (int rank = 1; rank < ranks->nranks; rank++)
    transfer(sockets[rank], bytes, size, true);
}

/* ---- communicators ---- */

ncclComm_t ranks_communicator(struct ranks *ranks) {
  if (ranks->ncomms == RANKS_COMMS_MAX)
    fail("more than %d communicators", RANKS_COMMS_MAX);
  ncclUniqueId id;
  if (ranks->rank == 0)
    CHECK_NCCL(ncclGetUniqueId(&id));
  ranks_share(ranks, &id, sizeof id);
  ncclComm_t comm;
  CHECK_NCCL(ncclCommInitRank(&comm, ranks->nranks, id, ranks->rank));
  ranks->comms[ranks->ncomms++] = comm;
  return comm;
}

/* Ends the program if a communicator has failed. */
static void check_communicators(struct ranks *ranks) {
  for (int i = 0; i < ranks->ncomms; i++) {
    ncclResult_t error = ncclSuccess;
    CHECK_NCCL(ncclCommGetAsyncError(ranks->comms[i], &error));
    if (error == ncclSuccess || error == ncclInProgress)
      continue;
    ranks_time(ranks, "error");
    ranks_result(ranks, "error %d asynchronous", (int)error);
    ncclCommAbort(ranks->comms[i]);
    if (ranks->blunders)
      (void)ncclCommGetAsyncError(NULL, &(ncclResult_t){ncclSuccess});
    fail("asynchronous error: %s", ncclGetErrorString(error));
  }
}

void ranks_synchronise(struct ranks *ranks) {
  cudaError_t state;
  while ((state = cudaStreamQuery(ranks->stream)) == cudaErrorNotReady) {
    check_communicators(ranks);
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  CHECK_CUDA(state);
  check_communicators(ranks); /* a collective that was given up leaves anything behind */
}

/* ---- leaving ---- */

enum ending ending_named(const char *name) {
  static const char *const names[] = {"finalize", "destroy", "abort", "return",
                                      "exit",     "fail",    "kill",  "vanish"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0)
      return (enum ending)i;
  fail("no ending is called %s: finalize, destroy, abort, return, exit, fail, kill or "
       "vanish",
       name);
}

int ranks_leave(struct ranks *ranks, enum ending ending) {
  ranks_time(ranks, "leave");
  switch (ending) {
  case ENDING_FINALIZE:
    for (int i = 0; i < ranks->ncomms; i++)
      CHECK_NCCL(ncclCommFinalize(ranks->comms[i]));
    /* fall through */
  case ENDING_DESTROY:
    for (int i = 0; i < ranks->ncomms; i++)
      CHECK_NCCL(ncclCommDestroy(ranks->comms[i]));
    break;
  case ENDING_ABORT:
    for (int i = 0; i < ranks->ncomms; i++)
      CHECK_NCCL(ncclCommAbort(ranks->comms[i]));
    break;
  case ENDING_RETURN:
    return 0;
  case ENDING_EXIT:
    exit(0);
  case ENDING_FAIL:
    exit(1);
  case ENDING_KILL:
    raise(SIGKILL);
    break;
  case ENDING_VANISH:
    _exit(0);
  }
  ranks_time(ranks, "left");
  ranks_result(ranks, "left");
  return 0;
}

/* ---- output ---- */

void ranks_result(const struct ranks *ranks, const char *format, ...) {
  char text[1024];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  printf("RESULT %d %s\n", ranks->rank, text);
}

void ranks_time(const struct ranks *ranks, const char *name) {
  printf("TIME %d %s %.6f\n", ranks->rank, name, now_s());
}
