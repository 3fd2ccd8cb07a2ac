/* The file by which a machine's ranks and their agent speak (core/machines/board.h). */
#include "core/machines/board.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/transport/file_lock.h"

static const char first[] = "0123456789abcdef0123456789abcdef";
static const struct board_terms terms = {
    .wait_s = 1, .silence_s = 1, .first_port = 1, .last_port = 2};

static char folder[] = "/tmp/nccl-join-board-XXXXXX", reason[BOARD_REASON_SIZE],
            path[BOARD_PATH_SIZE];
static struct rendezvous job;
static pid_t agent;
static int starts;

static void set_up(void) {
  cr_assert_not_null(mkdtemp(folder));
  cr_assert(rendezvous_make(&job));
  board_folder = folder;
}

static void tear_down(void) {
  if (agent > 0) {
    kill(agent, SIGKILL);
    waitpid(agent, NULL, 0);
  }
  (void)unlink(path);
  cr_expect_eq(rmdir(folder), 0, "something is left in %s", folder);
}

/* A rank has its board until its process ends, and so have tests: the leak checker shall find it.
 */
static struct board *kept[8];
static int nkept;

static struct board *open_board(bool (*start)(const char *path)) {
  struct board *board = board_open(&job, &terms, start, reason);
  if (board != NULL)
    kept[nkept++] = board;
  return board;
}

TestSuite(board, .init = set_up, .fini = tear_down, .timeout = 300);

static void pause_ms(long milliseconds) {
  nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

/* Answers one communicator, and stays, until its parent ends. */
static void serve(enum board_answer answer, pid_t parent) {
  char why[BOARD_REASON_SIZE];
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) /* it ended before the line above */
    _exit(1);
  struct board *board = board_serve(path, why);
  if (board == NULL)
    _exit(1);
  struct board_communicator *one = &board->words->communicators[0];
  while (atomic_load(&one->answer) != BOARD_ASKED)
    pause_ms(1);
  if (answer == BOARD_WRITING) /* which is no answer */
    board_say_cannot(board, "no keys");
  else if (answer != BOARD_ASKED)
    board_say(one, answer, "because");
  while (answer > BOARD_ASKED)
    pause_ms(100);
  _exit(0);
}

static bool start_with(const char *where, enum board_answer answer) {
  starts++;
  strcpy(path, where);
  pid_t parent = getpid();
  agent = fork();
  if (agent == 0)
    serve(answer, parent);
  return agent > 0;
}

static bool start_finding(const char *where) {
  return start_with(where, BOARD_FOUND);
}

static bool start_refusing(const char *where) {
  return start_with(where, BOARD_OFF);
}

static bool start_ending(const char *where) {
  return start_with(where, BOARD_ASKED);
}

static bool start_in_vain(const char *where) {
  return start_with(where, BOARD_WRITING);
}

static bool start_nothing(const char *where) {
  strcpy(path, where);
  errno = ENOENT;
  return false;
}

/* Another rank of this machine, in a process of its own; its answer. */
static int ask_as_another_rank(void) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    struct board *board = open_board(start_nothing);
    _exit(board == NULL ? 99 : (int)board_ask(board, first, 4, 4, reason));
  }
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

Test(board, one_agent_answers_all_ranks) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND);
  cr_assert_eq(ask_as_another_rank(), BOARD_FOUND);
  cr_assert_eq(starts, 1);
  cr_assert_eq(board->words->asked, 1, "the agent need not look for another one");
}

/* It must not sleep then: nobody would ring again. */
Test(board, who_rings_while_the_agent_works_is_heard, .timeout = 10) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND);
  uint32_t heard = board_hear(board, 0);
  cr_assert_neq(heard, 0);
  atomic_fetch_add(&board->words->bell, 1);
  cr_assert_eq(board_hear(board, heard), heard + 1);
}

Test(board, is_for_this_user_alone) {
  struct stat status;
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(stat(path, &status), 0);
  cr_assert_eq(status.st_mode & 0777, 0600);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND);
}

Test(board, an_answer_has_its_reason) {
  struct board *board = open_board(start_refusing);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_OFF);
  cr_assert_str_eq(reason, "because");
}

/* What it has said to other machines nobody knows. */
Test(board, an_agent_that_ends_leaves_the_communicator_unusable) {
  struct board *board = open_board(start_ending);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_LOST);
  cr_assert_not_null(strstr(reason, "has ended"), "%s", reason);
}

/* Then it has said nothing to anybody. */
Test(board, one_that_cannot_begin_says_why) {
  struct board *board = open_board(start_in_vain);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_OFF);
  cr_assert_str_eq(reason, "the agent of this machine has ended: no keys");
}

Test(board, of_a_killed_agent_nothing_is_left) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND);
  board_tidy(board);
  cr_assert_eq(access(path, F_OK), 0, "its agent lives");
  kill(agent, SIGKILL);
  waitpid(agent, NULL, 0);
  agent = 0;
  board_tidy(board);
  cr_assert_neq(access(path, F_OK), 0);
}

/* As core/machines/board.h has it. */
static void set_path(void) {
  snprintf(path, sizeof path, "%s/nccl-join-machines-%u-%016llx", folder, (unsigned)geteuid(),
           (unsigned long long)job.job);
}

/* Begins another job. */
static int begin_another(void) {
  int status;
  pid_t child = fork();
  if (child == 0) {
    job.job++;
    _exit(open_board(start_nothing) == NULL ? 0 : 1);
  }
  waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

Test(board, of_a_killed_job_it_is_removed_by_the_next) {
  pid_t rank = fork();
  if (rank == 0) {
    struct board *board = open_board(start_ending);
    _exit(board == NULL);
  }
  waitpid(rank, NULL, 0);
  set_path();
  cr_assert_eq(access(path, F_OK), 0);
  while (access(path, F_OK) == 0) { /* until its agent has died with it */
    cr_assert_eq(begin_another(), 0);
    pause_ms(1);
  }
}

Test(board, of_a_living_job_it_is_not_removed) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(begin_another(), 0);
  cr_assert_eq(access(path, F_OK), 0);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND);
}

Test(board, an_agent_that_cannot_be_started_leaves_nothing) {
  cr_assert_null(open_board(start_nothing));
  cr_assert_not_null(strstr(reason, "cannot be started"), "%s", reason);
}

Test(board, has_one_agent) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  while (atomic_load(&board->words->started) == 0)
    pause_ms(1);
  pid_t second = fork();
  if (second == 0)
    _exit(board_serve(path, reason) == NULL ? 7 : 0);
  int status;
  waitpid(second, &status, 0);
  cr_assert_eq(WEXITSTATUS(status), 7);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND);
}

Test(board, another_users_or_an_open_one_is_refused) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(chmod(path, 0644), 0);
  cr_assert_eq(ask_as_another_rank(), 99);
}

/* The test is the agent. */
static bool start_later(const char *where) {
  strcpy(path, where);
  return true;
}

/* A process that begins so, says it, and stays until it is killed. What it has in `path` then is
 * this one's, too. */
static pid_t start_process(bool (*begins)(void)) {
  int ends[2];
  pid_t parent = getpid();
  cr_assert_eq(pipe(ends), 0);
  pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || !begins() || write(ends[1], path, sizeof path) != sizeof path)
      _exit(1);
    for (;;)
      pause();
  }
  close(ends[1]);
  cr_assert_eq(read(ends[0], path, sizeof path), sizeof path);
  close(ends[0]);
  return process;
}

static bool open_later(void) {
  return open_board(start_later) != NULL;
}

static pid_t start_rank(void) {
  return start_process(open_later);
}

Test(board, an_agent_retires_once_no_rank_is_there) {
  pid_t rank = start_rank();
  struct board *board = kept[nkept++] = board_serve(path, reason);
  cr_assert_not_null(board, "%s", reason);
  cr_assert(board_has_ranks(board));
  cr_assert_not(board_retire(board, false));
  cr_assert_eq(access(path, F_OK), 0);
  kill(rank, SIGKILL);
  waitpid(rank, NULL, 0);
  cr_assert_not(board_has_ranks(board));
  cr_assert(board_retire(board, false));
  cr_assert_neq(access(path, F_OK), 0);
}

/* ---- what dead jobs have left: their names come again where a site has said where ranks meet ----
 */

/* A file of the job's name, of so many zeros. */
static void leave_file(off_t size) {
  set_path();
  int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  cr_assert(file >= 0 && ftruncate(file, size) == 0);
  close(file);
}

static void assert_a_new_one_is_made(void) {
  struct board *board = open_board(start_finding);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(starts, 1);
  cr_assert_eq(board_ask(board, first, 4, 4, reason), BOARD_FOUND, "%s", reason);
  cr_assert_eq(ask_as_another_rank(), BOARD_FOUND);
}

Test(board, of_the_same_job_that_was_killed_it_is_made_anew) {
  pid_t rank = start_rank();
  pid_t served = fork();
  if (served == 0)
    _exit(board_serve(path, reason) == NULL);
  int status;
  waitpid(served, &status, 0);
  cr_assert_eq(WEXITSTATUS(status), 0);
  kill(rank, SIGKILL);
  waitpid(rank, NULL, 0);
  cr_assert_eq(access(path, F_OK), 0);
  assert_a_new_one_is_made();
}

Test(board, that_is_half_written_it_is_made_anew) {
  leave_file(100);
  assert_a_new_one_is_made();
}

Test(board, that_says_nothing_it_is_made_anew) {
  leave_file(sizeof(struct board_words));
  assert_a_new_one_is_made();
}

static bool hold_file(void) {
  int file = open(path, O_RDWR | O_CLOEXEC);
  return file_lock_set(file, F_RDLCK, BOARD_RANKS);
}

/* Of a program of another version, say. */
Test(board, that_somebody_holds_it_is_refused_and_stays) {
  leave_file(100);
  pid_t holder = start_process(hold_file);
  cr_assert_null(open_board(start_finding));
  cr_assert_eq(access(path, F_OK), 0);
  kill(holder, SIGKILL);
  waitpid(holder, NULL, 0);
}

Test(board, that_is_empty_it_is_removed_by_the_next_job) {
  leave_file(0);
  cr_assert_eq(begin_another(), 0);
  cr_assert_neq(access(path, F_OK), 0);
}

static bool open_two(void) {
  bool opened = open_later();
  job.job++;
  opened = open_later() && opened;
  job.job--;
  set_path();
  return opened;
}

/* A process that closes any descriptor of a file loses its locks on it. */
Test(board, of_a_rank_in_two_jobs_both_have_it) {
  char second[BOARD_PATH_SIZE];
  pid_t rank = start_process(open_two);
  struct board *board = kept[nkept++] = board_serve(path, reason);
  cr_assert_not_null(board, "%s", reason);
  cr_assert(board_has_ranks(board));
  kill(rank, SIGKILL);
  waitpid(rank, NULL, 0);
  cr_assert_not(board_has_ranks(board));
  job.job++;
  snprintf(second, sizeof second, "%s", path);
  set_path();
  cr_assert_eq(unlink(path), 0);
  strcpy(path, second);
}

/* It was so slow that others have taken its rank for dead. */
Test(board, an_agent_takes_no_name_away_that_is_anothers) {
  pid_t rank = start_rank();
  struct board *board = kept[nkept++] = board_serve(path, reason);
  cr_assert_not_null(board, "%s", reason);
  cr_assert_eq(unlink(path), 0);
  leave_file(0);
  cr_assert(board_retire(board, true));
  board_tidy(board);
  cr_assert_eq(access(path, F_OK), 0);
  kill(rank, SIGKILL);
  waitpid(rank, NULL, 0);
}
