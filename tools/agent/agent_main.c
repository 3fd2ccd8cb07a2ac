/* nccl-join-agent: of one job and one machine, for the ranks of the job on other machines.
 *
 *   nccl-join-agent BOARD
 *
 * Started by the first rank that has a communicator over several machines
 * (interpose/comm/machines.c), not by people. BOARD is the file that says the rest
 * (core/machines/board.h). It ends when the ranks of the job on this machine have, and leaves
 * nothing behind; the root's agent stays until the others have ended.
 *
 * It is nobody's child, has a session of its own, no descriptor of the program's but for what it
 * logs to, and the signals' defaults. ZeroMQ has two threads of its own.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "core/machines/board.h"
#include "tools/agent/descriptors.h"
#include "tools/agent/meeting.h"

/* Two threads do the agent's work, one at a time: one waits for links, and one for the bell. The
 * one that is woken does the work itself: to wake the other would take as long as a message over a
 * link. */
static struct {
  pthread_mutex_t lock;
  struct board *board;
  struct meeting *meeting; /* NULL: there is none any more */
  int hurry; /* an eventfd: readable once the thread that waits for links is to look again */
  _Atomic bool comes; /* that thread is about to take a turn, and has not begun it */
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void take_turn_for_bell(void) {
  uint64_t one = 1;
  pthread_mutex_lock(&own.lock);
  if (own.meeting != NULL) {
    (void)meeting_turn(own.meeting, false); /* the other thread finds out whether it goes on */
    if (meeting_waits_too_long(own.meeting))
      (void)!write(own.hurry, &one, sizeof(one));
  }
  pthread_mutex_unlock(&own.lock);
}

/* For ever: ends with the process. Who has rung is seen by a turn that begins afterwards: by this
 * thread's own, or by that of the other, which must not wait for ever while ranks ring. */
static void *hear_bell(void *nothing) {
  for (uint32_t heard = 0;;) {
    heard = board_hear(own.board, heard);
    atomic_thread_fence(memory_order_seq_cst);
    if (!atomic_load(&own.comes))
      take_turn_for_bell();
  }
  return nothing;
}

static bool start_bell(void) {
  pthread_t thread;
  own.hurry = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return own.hurry >= 0 && pthread_create(&thread, NULL, hear_bell, NULL) == 0;
}

/* With the lock, which is free while it waits. */
static bool take_turn(void) {
  uint64_t hurried;
  meeting_prepare(own.meeting, own.hurry);
  pthread_mutex_unlock(&own.lock);
  meeting_await(own.meeting);
  while (read(own.hurry, &hurried, sizeof(hurried)) > 0)
    ;
  atomic_store(&own.comes, true);
  pthread_mutex_lock(&own.lock);
  atomic_store(&own.comes, false);
  atomic_thread_fence(memory_order_seq_cst); /* what it looks at now is what was there, or later */
  return meeting_turn(own.meeting, true);
}

/* The process that the rank has started ends at once, and this one's parent is process 1, or
 * whoever takes its place. */
static bool leave_program(void) {
  pid_t child = fork();
  if (child != 0)
    _exit(child < 0);
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  cpu_set_t all[8];
  memset(all, 0xff, sizeof(all));
  (void)sched_setaffinity(0, sizeof(all), all); /* a rank's may be one processor */
  (void)signal(SIGPIPE, SIG_IGN);
  return nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(nothing, STDOUT_FILENO) >= 0 &&
         dup2(nothing, STDERR_FILENO) >= 0 && chdir("/") == 0;
}

static int serve(struct board *board) {
  char host[64] = "", reason[FRAME_TEXT_BYTES];
  own.board = board;
  descriptors_allow(0);
  (void)gethostname(host, sizeof(host) - 1);
  struct meeting *meeting = meeting_begin(board, host, reason);
  if (meeting == NULL)
    board_say_cannot(board, reason);
  own.meeting = meeting;
  bool begun = meeting != NULL && start_bell();
  pthread_mutex_lock(&own.lock);
  do {
    while (begun && take_turn())
      ;
  } while (!board_retire(board, !begun || meeting_has_failed(meeting)));
  own.meeting = NULL;
  pthread_mutex_unlock(&own.lock);
  if (meeting != NULL)
    meeting_end(meeting);
  return !begun;
}

int main(int argc, char **argv) {
  char reason[BOARD_REASON_SIZE];
  if (argc != 2) {
    fprintf(stderr, "nccl-join-agent: nccl-join starts it by itself\n");
    return 2;
  }
  if (!leave_program())
    return 1;
  (void)prctl(PR_SET_NAME, "nccl-join-agent");
  struct board *board = board_serve(argv[1], reason);
  return board == NULL ? 1 : serve(board);
}
