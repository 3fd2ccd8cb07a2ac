/* nccl-join-agent: of one job and one machine, for the ranks of the job on other machines.
 *
 *   nccl-join-agent BOARD
 *
 * Started by the first rank that has a communicator over several machines (interpose/comm/machines.c), not
 * by people. BOARD is the file that says the rest (core/machines/board.h). It ends when the ranks of the
 * job on this machine have, and leaves nothing behind; the root's agent stays until the others have ended.
 *
 * It is nobody's child, has a session of its own, no descriptor of the program's but for what it logs to,
 * and the signals' defaults. One thread waits for the board's bell; ZeroMQ has two of its own.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/machines/board.h"
#include "tools/agent/descriptors.h"
#include "tools/agent/meeting.h"

struct bell {
  _Atomic uint32_t *word;
  int file; /* becomes readable when it has been rung */
};

/* For ever: ends with the process. */
static void *hear_bell(void *context) {
  const struct bell *bell = context;
  uint64_t one = 1;
  for (uint32_t seen = 0;; seen = atomic_load(bell->word)) {
    if (seen == atomic_load(bell->word))
      syscall(SYS_futex, bell->word, FUTEX_WAIT, seen, NULL, NULL, 0);
    if (write(bell->file, &one, sizeof(one)) < 0)
      continue;
  }
  return NULL;
}

static bool start_bell(struct bell *bell) {
  pthread_t thread;
  bell->file = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return bell->file >= 0 && pthread_create(&thread, NULL, hear_bell, bell) == 0;
}

/* The process that the rank has started ends at once, and this one's parent is process 1, or whoever
 * takes its place. */
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
  static struct bell bell; /* until the end: its thread reads it */
  bell.word = &board->words->bell;
  descriptors_allow(0);
  (void)gethostname(host, sizeof(host) - 1);
  struct meeting *meeting = meeting_begin(board, host, reason);
  if (meeting == NULL)
    board_say_cannot(board, reason);
  bool begun = meeting != NULL && start_bell(&bell);
  do {
    uint64_t rung;
    while (begun && read(bell.file, &rung, sizeof(rung)) > 0)
      ;
    while (begun && meeting_turn(meeting, bell.file))
      while (read(bell.file, &rung, sizeof(rung)) > 0)
        ;
  } while (!board_retire(board, !begun || meeting_has_failed(meeting)));
  if (meeting != NULL)
    meeting_end(meeting);
  return !begun;
}

int main(int argc, char **argv) {
  char reason[BOARD_REASON_SIZE];
  static struct board *board; /* until the end: the bell's thread reads it */
  if (argc != 2) {
    fprintf(stderr, "nccl-join-agent: nccl-join starts it by itself\n");
    return 2;
  }
  if (!leave_program())
    return 1;
  (void)prctl(PR_SET_NAME, "nccl-join-agent");
  board = board_serve(argv[1], reason);
  return board == NULL ? 1 : serve(board);
}
