/* nccl-join-ranks: starts one program, or N ranks of it on this machine, with the preload in
 * front.
 *
 *   nccl-join-ranks [-n N] [--preload OBJECT] [--libraries FOLDER] [--no-prefix]
 *                   -- PROGRAM [ARG...]
 *
 * The part of `nccl-join run` that a shell script cannot do; called by tools/nccl-join, not by
 * people. Without -n it becomes the program. With -n it stays, marks the ranks' output, ends all
 * when one fails or when it is told to, and leaves no process behind: each rank leads a process
 * group of its own, and a rank dies with the launcher.
 *
 * Ctrl-Z stops all ranks with it, and fg lets them go on.
 *
 * Rank 0 reads the launcher's stdin unless that is a terminal (which a process group in the
 * background cannot read); the others read nothing. Exit status: that of the first rank that
 * failed, 128 + signal if a signal ended it; 0 if all ended with 0; 128 + signal if the launcher
 * itself was told to stop; 126, 127 or 2 as a shell's.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/port.h"
#include "tools/ranks_private.h"

#define LAST_OUTPUT_MS 200 /* for output of processes that have left their rank's group */
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_NOT_FOUND 127

/* ---- becoming the program ---- */

/* NAME=value:what NAME was before. */
static void prepend(const char *name, const char *value) {
  const char *before = getenv(name);
  char *joined = NULL;
  if (value && before && *before && asprintf(&joined, "%s:%s", value, before) >= 0)
    setenv(name, joined, 1);
  else if (value)
    setenv(name, value, 1);
  free(joined);
}

static bool is_preload(const char *path) {
  const char *slash = strrchr(path, '/');
  return strcmp(slash != NULL ? slash + 1 : path, "libnccl-join.so") == 0;
}

/* Takes the preload out of what the user has set: a run without it is one to compare with. */
static void take_preload_out(void) {
  const char *plugin = getenv("NCCL_PROFILER_PLUGIN");
  char *list = getenv("LD_PRELOAD"), *rest = list != NULL ? strdup(list) : NULL, *whole = rest;
  char *kept = rest != NULL ? calloc(1, strlen(rest) + 1) : NULL, *end = kept;
  if (plugin != NULL && is_preload(plugin))
    unsetenv("NCCL_PROFILER_PLUGIN");
  for (char *object; kept != NULL && (object = strsep(&rest, ": ")) != NULL;)
    if (*object != '\0' && !is_preload(object)) {
      if (end != kept)
        *end++ = ':';
      end = stpcpy(end, object);
    }
  if (kept != NULL && *kept != '\0')
    setenv("LD_PRELOAD", kept, 1);
  else if (list != NULL)
    unsetenv("LD_PRELOAD");
  free(kept);
  free(whole);
}

/* NCCL cuts longer names of plug-ins off (plugin/plugin_open.cc, MAX_STR_LEN). */
#define PLUGIN_NAME_MAX 254

/* Becomes the program. Returns only if it cannot, with errno.
 *
 * The object is also NCCL's profiler plug-in, unless the user has one, to notice calls that bypass
 * it (interpose/nccl/bypass.h). */
static void become(const struct options *options) {
  if (options->preload == NULL)
    take_preload_out();
  prepend("LD_PRELOAD", options->preload);
  if (options->preload && strlen(options->preload) <= PLUGIN_NAME_MAX)
    setenv("NCCL_PROFILER_PLUGIN", options->preload, 0);
  prepend("LD_LIBRARY_PATH", options->libraries);
  execvp(options->program[0], options->program);
}

/* What the user can do where a program cannot be started, or "". */
static const char *remedy_of(const char *program, int error) {
  struct stat seen = {0};
  size_t length = strlen(program);
  if (error == EMFILE || error == ENFILE)
    return ". Allow more open files (ulimit -n), some six a rank";
  if (error == EAGAIN)
    return ". Allow more processes (ulimit -u)";
  if (error != EACCES || stat(program, &seen) != 0)
    return "";
  if (S_ISDIR(seen.st_mode))
    return ": it is a folder";
  return length > 3 && strcmp(program + length - 3, ".py") == 0
             ? ": it is not executable. Say python in front of it, or chmod +x"
             : ": it is not executable (chmod +x)";
}

/* Says why the program did not start; returns a shell's status for it. */
static int say_not_started(const char *program, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    struct stat seen;
    bool has_folder = strchr(program, '/') != NULL, is_here = stat(program, &seen) == 0;
    if (has_folder && is_here)
      say("%s: what its first line names, or the loader that it is linked for, is not found",
          program);
    else if (is_here && S_ISREG(seen.st_mode))
      say("%s: program not found in PATH; for the file of that name here say ./%s", program,
          program);
    else if (strchr(program, '=') != NULL)
      say("%s: program not found; settings go in front of nccl-join", program);
    else
      say("%s: program not found", program);
    return STATUS_NOT_FOUND;
  }
  say("%s: cannot be started: %s%s", program, strerror(error), remedy_of(program, error));
  return STATUS_NOT_EXECUTABLE;
}

/* ---- starting ranks ---- */

static void set_number(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof(text), "%d", number);
  setenv(name, text, 1);
}

/* The variables that torchrun gives its workers
 * (torch/distributed/elastic/agent/server/local_elastic_agent.py), without those that announce its
 * agent. */
static void set_rank_variables(const struct launch *launch, int rank) {
  set_number("RANK", rank);
  set_number("LOCAL_RANK", rank);
  set_number("ROLE_RANK", rank);
  set_number("GROUP_RANK", 0);
  set_number("WORLD_SIZE", launch->options.nranks);
  set_number("LOCAL_WORLD_SIZE", launch->options.nranks);
  set_number("ROLE_WORLD_SIZE", launch->options.nranks);
  set_number("GROUP_WORLD_SIZE", 1);
  setenv("ROLE_NAME", "default", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set_number("MASTER_PORT", launch->port);
}

/* The child's side: never returns. error_pipe takes errno if the program cannot be started. */
static void __attribute__((noreturn))
run_rank(const struct launch *launch, int rank, pid_t parent, int out, int err, int error_pipe) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) /* it died before the line above */
    _exit(128 + SIGKILL);
  if (rank > 0 || isatty(STDIN_FILENO)) {
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    close(nothing);
  }
  if (launch->options.prefix) {
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
  }
  signal(SIGPIPE, launch->pipe_handler_before);
  sigprocmask(SIG_SETMASK, &launch->mask_before, NULL);
  set_rank_variables(launch, rank);
  become(&launch->options);
  int error = errno;
  if (write(error_pipe, &error, sizeof(error)) != sizeof(error))
    perror("nccl-join");
  _exit(STATUS_NOT_EXECUTABLE);
}

/* Two pipes for output and one for the error of starting, read ends first. */
struct pipes {
  int out[2], err[2], error[2];
};

static bool make_pipes(struct pipes *pipes, bool prefix) {
  *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
  return pipe2(pipes->error, O_CLOEXEC) == 0 &&
         (!prefix || (pipe2(pipes->out, O_CLOEXEC) == 0 && pipe2(pipes->err, O_CLOEXEC) == 0));
}

/* Starts one rank and waits until it has become the program. Returns 0 or an errno. */
static int start_rank(struct launch *launch, int number) {
  struct rank *rank = &launch->ranks[number];
  struct pipes pipes;
  bool prefix = launch->options.prefix;
  if (!make_pipes(&pipes, prefix))
    return errno;
  pid_t parent = getpid();
  rank->pid = fork();
  if (rank->pid == 0)
    run_rank(launch, number, parent, pipes.out[1], pipes.err[1], pipes.error[1]);
  if (rank->pid < 0)
    return errno;
  setpgid(rank->pid, rank->pid); /* both sides do: whoever is first */
  close(pipes.error[1]);
  if (prefix) {
    close(pipes.out[1]);
    close(pipes.err[1]);
    relay_open(&rank->out, pipes.out[0], STDOUT_FILENO, number);
    relay_open(&rank->err, pipes.err[0], STDERR_FILENO, number);
  }
  int error = 0;
  if (read(pipes.error[0], &error, sizeof(error)) < 0)
    error = errno;
  close(pipes.error[0]);
  return error;
}

/* Ctrl-Z: the terminal knows of the launcher's process group only. All ranks stop with it, and go
 * on where the shell lets it go on (fg, bg). A rank cannot refuse, as it may not be half of a job.
 */
static void suspend(struct launch *launch) {
  if (launch->stopping)
    return;
  for (int i = 0; i < launch->options.nranks; i++)
    if (launch->ranks[i].pid > 0 && !launch->ranks[i].ended)
      kill(-launch->ranks[i].pid, SIGSTOP);
  kill(getpid(), SIGSTOP);
  for (int i = 0; i < launch->options.nranks; i++)
    if (launch->ranks[i].pid > 0)
      kill(-launch->ranks[i].pid, SIGCONT);
}

static void read_signals(struct launch *launch) {
  struct signalfd_siginfo info;
  int first_pid = 0; /* pending is the signal of the first child that has ended (signal(7)) */
  while (read(launch->signals, &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGTSTP)
      suspend(launch);
    else if (info.ssi_signo != SIGCHLD)
      ranks_take_signal(launch, (int)info.ssi_signo);
    else if (first_pid == 0)
      first_pid = (int)info.ssi_pid;
  }
  ranks_look(launch, first_pid);
}

/* ---- the loop ---- */

static void look_for_lost(struct launch *launch, const struct relay *relay, const char *name) {
  if (launch->lost || relay->lost == 0 || relay->lost == EPIPE)
    return;
  launch->lost = true;
  say("cannot write the ranks' %s: %s. Lines are lost, and the ranks go on", name,
      strerror(relay->lost));
}

/* Says once if what ranks have written cannot be passed on. */
static void look_for_all_lost(struct launch *launch) {
  for (int i = 0; i < launch->options.nranks; i++) {
    look_for_lost(launch, &launch->ranks[i].out, "output");
    look_for_lost(launch, &launch->ranks[i].err, "errors");
  }
}

/* Waits for signals and output, up to timeout_ms (-1: for ever), and handles what came. Where
 * nothing can be waited for it looks at all, every 10 ms: none of them blocks. */
static void turn(struct launch *launch, int timeout_ms) {
  static struct pollfd polled[1 + 2 * RANKS_MAX];
  static struct relay *relays[1 + 2 * RANKS_MAX];
  nfds_t npolled = 0; /* those that are open alone: poll takes no more than RLIMIT_NOFILE */
  polled[npolled++] = (struct pollfd){.fd = launch->signals, .events = POLLIN};
  for (int i = 0; i < 2 * launch->options.nranks; i++) {
    struct rank *rank = &launch->ranks[i / 2];
    struct relay *relay = i % 2 == 0 ? &rank->out : &rank->err;
    if (!relay_is_open(relay))
      continue;
    relays[npolled] = relay;
    polled[npolled++] = (struct pollfd){.fd = relay->source, .events = POLLIN};
  }
  int ready = poll(polled, npolled, timeout_ms);
  if (ready == 0)
    return;
  for (nfds_t i = 0; ready < 0 && i < npolled; i++)
    polled[i].revents = POLLIN;
  if (ready < 0)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  for (nfds_t i = 1; i < npolled; i++)
    if (polled[i].revents)
      relay_pump(relays[i]);
  look_for_all_lost(launch);
  if (polled[0].revents)
    read_signals(launch);
}

static bool any_output_open(const struct launch *launch) {
  for (int i = 0; i < launch->options.nranks; i++) {
    if (relay_is_open(&launch->ranks[i].out) || relay_is_open(&launch->ranks[i].err))
      return true;
  }
  return false;
}

static void run_until_all_ended(struct launch *launch) {
  while (!ranks_have_ended(launch)) {
    bool limited = launch->stopping || launch->awaiting;
    if (limited && ranks_now_ms() >= launch->deadline_ms)
      ranks_late(launch);
    long left = limited ? launch->deadline_ms - ranks_now_ms() : -1;
    turn(launch, limited && left < 0 ? 0 : (int)left);
  }
}

/* Ends what the ranks have left behind, passes on the last output, and lets the ranks' numbers go.
 */
static void finish(struct launch *launch) {
  ranks_signal(launch, SIGKILL, false);
  long deadline = ranks_now_ms() + LAST_OUTPUT_MS;
  while (any_output_open(launch) && ranks_now_ms() < deadline)
    turn(launch, LAST_OUTPUT_MS);
  for (int i = 0; i < launch->options.nranks; i++) {
    struct rank *rank = &launch->ranks[i];
    relay_close(&rank->out);
    relay_close(&rank->err);
    if (rank->pid > 0)
      waitpid(rank->pid, NULL, 0);
  }
}

static int run_ranks(struct launch *launch) {
  int hold;
  launch->port = port_take(&hold); /* until the launcher ends */
  sigset_t handled;
  sigemptyset(&handled);
  static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP};
  for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
    sigaddset(&handled, numbers[i]);
  sigprocmask(SIG_BLOCK, &handled, &launch->mask_before);
  signal(SIGCHLD, SIG_DFL); /* ignored, it would let no one wait */
  launch->pipe_handler_before = signal(SIGPIPE, SIG_IGN);
  launch->signals = signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC);
  if (launch->signals < 0)
    return say_not_started(launch->options.program[0], errno);
  for (int i = 0; i < launch->options.nranks; i++)
    launch->ranks[i].out.source = launch->ranks[i].err.source = -1;
  for (int i = 0; i < launch->options.nranks; i++) {
    int error = start_rank(launch, i);
    if (error) {
      launch->status = say_not_started(launch->options.program[0], error);
      ranks_stop(launch, SIGKILL);
      break;
    }
  }
  run_until_all_ended(launch);
  finish(launch);
  look_for_all_lost(launch);
  if (launch->lost && launch->status == 0)
    launch->status = 1;
  ranks_record(launch);
  return launch->status;
}

/* What is opened first would be taken for a standard stream that is closed. Writing there fails, as
 * it did before. */
static void fill_standard_streams(void) {
  int file;
  do
    file = open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file >= 0)
    close(file);
}

int main(int argc, char **argv) {
  struct launch launch = {0};
  fill_standard_streams();
  int status = options_read(&launch.options, argc, argv);
  if (status)
    return status;
  if (launch.options.nranks == 0) {
    become(&launch.options);
    return say_not_started(launch.options.program[0], errno);
  }
  options_warn_of_devices(&launch.options);
  launch.ranks = calloc((size_t)launch.options.nranks, sizeof(*launch.ranks));
  if (!launch.ranks) {
    say("no memory");
    return 1;
  }
  status = run_ranks(&launch);
  free(launch.ranks);
  return status;
}
