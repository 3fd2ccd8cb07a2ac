/* Starts the launcher in a process group of its own, reads what it says, and ends it at the
 * deadline.
 *
 * Processes whose parent ends become this process's children (PR_SET_CHILD_SUBREAPER), so that none
 * is missed.
 */
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/port.h"

static const double standard_limit_s = 240;
static const double stuck_s = 2; /* programs here that come through do so in a small part of that */
static const char no_machines[] = "machines: no machines can be made here: "; /* start.c */
static const double grace_s = 2; /* from asking a launcher to end to killing it */

enum { WORDS_MAX = 64 };

/* Words to exec, and variables to set before. */
struct command {
  char *words[WORDS_MAX], *variables[WORDS_MAX];
  int nwords, nvariables;
  char *texts[8]; /* owned: what the above point into */
  int ntexts;
};

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Adds the blank-separated words of a text to one of the lists. */
static void split(struct command *command, const char *text, char **list, int *n) {
  if (text == NULL)
    return;
  char *rest = strdup(text);
  command->texts[command->ntexts++] = rest;
  for (char *word; (word = strsep(&rest, " ")) != NULL;)
    if (*word != '\0' && *n < WORDS_MAX - 1)
      list[(*n)++] = word;
}

static void add_words(struct command *command, const char *text) {
  split(command, text, command->words, &command->nwords);
}

__attribute__((format(printf, 2, 3))) static void add_words_printed(struct command *command,
                                                                    const char *format, ...) {
  char text[PATH_MAX + 256];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  add_words(command, text);
}

const char *run_build_folder(void) {
  const char *folder = getenv("JOIN_TEST_BUILD");
  return folder != NULL && *folder != '\0' ? folder : "build";
}

bool run_adds_in_any_order(void) {
  return getenv("JOIN_TEST_ANY_ORDER") != NULL;
}

double run_slowness(void) {
  const char *text = getenv("JOIN_TEST_SLOWNESS");
  return text != NULL ? strtod(text, NULL) : 1;
}

/* JOIN_TEST_MACHINES: so many machines of namespaces (tests/machines/start.c) get the ranks of a
 * job in turn, as many as there are ranks at most. */
int run_machines(int nranks) {
  const char *text = getenv("JOIN_TEST_MACHINES");
  int machines = text != NULL && atoi(text) > 1 ? atoi(text) : 1;
  return machines > nranks ? nranks : machines;
}

static int ranks_on(int nranks, int machine) {
  int machines = run_machines(nranks);
  return nranks / machines + (machine < nranks % machines);
}

int run_local_rank(int nranks, int rank) {
  for (int machine = 0; rank >= ranks_on(nranks, machine); machine++)
    rank -= ranks_on(nranks, machine);
  return rank;
}

/* Not where a test says itself who starts them. Without an agent they would not find each other. */
static bool starts_on_machines(const struct launch *launch) {
  char agent[PATH_MAX];
  if (run_machines(launch->nranks) == 1 || launch->each || launch->here || launch->starter != NULL)
    return false;
  snprintf(agent, sizeof agent, "%s/lib/nccl-join-agent", run_build_folder());
  if (access(agent, X_OK) != 0)
    cr_skip_test("not over machines: there is no %s", agent);
  return true;
}

static void add_machines(struct command *command, int nranks) {
  char counts[256] = "";
  for (int machine = 0; machine < run_machines(nranks); machine++)
    snprintf(counts + strlen(counts), sizeof counts - strlen(counts), "%s%d",
             machine > 0 ? "," : "", ranks_on(nranks, machine));
  add_words_printed(command, "%s/machines/start --together %s", run_build_folder(), counts);
}

/* rank: -1 for a launcher that starts all ranks, else the one rank that it shall be. */
static void command_make(struct command *command, const struct launch *launch, int rank, int port) {
  *command = (struct command){0};
  bool on_machines = starts_on_machines(launch);
  add_words(command, launch->starter);
  if (on_machines)
    add_machines(command, launch->nranks);
  const char *launcher = getenv("JOIN_TEST_LAUNCHER");
  add_words_printed(command, "%s/tools/nccl-join run --loopback --no-prefix",
                    launcher != NULL && *launcher != '\0' ? launcher : run_build_folder());
  if (rank < 0 && launch->starter == NULL && !on_machines)
    add_words_printed(command, "-n %d", launch->nranks);
  if (rank < 0 ? launch->without != 0 : launch->without >> rank & 1)
    add_words(command, "--no-join");
  const char *under = getenv("JOIN_TEST_UNDER");
  add_words_printed(command, "-- %s %s/programs/%s", under != NULL ? under : "", run_build_folder(),
                    launch->program);
  add_words(command, launch->options);
  split(command, launch->environment, command->variables, &command->nvariables);
  if (rank < 0)
    return;
  if (rank == launch->odd)
    split(command, launch->odd_environment, command->variables, &command->nvariables);
  char text[256];
  snprintf(text, sizeof text,
           "RANK=%d LOCAL_RANK=%d WORLD_SIZE=%d LOCAL_WORLD_SIZE=%d MASTER_ADDR=127.0.0.1 "
           "MASTER_PORT=%d",
           rank, rank, launch->nranks, launch->nranks, port);
  split(command, text, command->variables, &command->nvariables);
}

static void command_free(struct command *command) {
  for (int i = 0; i < command->ntexts; i++)
    free(command->texts[i]);
}

/* ---- processes ---- */

static pid_t start(const struct command *command, int output, int errors) {
  pid_t pid = fork();
  cr_assert(pid >= 0, "fork: %s", strerror(errno));
  if (pid != 0) {
    setpgid(pid, pid);
    return pid;
  }
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  dup2(errors, STDERR_FILENO);
  setenv("NCCL_JOIN_REPORT", "off", 0); /* tests of that line set it */
  for (int i = 0; i < command->nvariables; i++) {
    char *name = strdup(command->variables[i]), *value = name;
    strsep(&value, "=");
    setenv(name, value != NULL ? value : "", 1);
  }
  execvp(command->words[0], command->words);
  fprintf(stderr, "cannot run %s: %s\n", command->words[0], strerror(errno));
  _exit(127);
}

static bool list_children(char *list, int size) {
  FILE *children = fopen("/proc/thread-self/children", "r");
  if (children == NULL || fgets(list, size, children) == NULL)
    *list = '\0';
  if (children != NULL)
    fclose(children);
  return *list != '\0';
}

/* Kills what is left of a run, after some time in which it may end by itself, as what a killed
 * process has begun does (the launcher's look at the program, LeakSanitizer's at the threads):
 * children of this process, and theirs once they become ours. Returns how many there were. */
static int kill_the_rest(void) {
  double until = now_s() + grace_s;
  char list[4096];
  int left = 0;
  for (;;) {
    while (waitpid(-1, NULL, WNOHANG) > 0)
      ; /* they had ended by themselves */
    if (!list_children(list, sizeof list))
      return left;
    if (now_s() < until) {
      nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
      continue;
    }
    char *rest = list;
    for (long pid; (pid = strtol(rest, &rest, 10)) > 0; left++)
      kill((pid_t)pid, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
      ;
  }
}

static int exit_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- reading ---- */

struct reader {
  int files[2]; /* -1 once closed */
  char *texts[2];
  size_t sizes[2];
};

static void reader_append(struct reader *reader, int i) {
  char bytes[65536];
  ssize_t n = read(reader->files[i], bytes, sizeof bytes);
  if (n <= 0) {
    close(reader->files[i]);
    reader->files[i] = -1;
    return;
  }
  reader->texts[i] = realloc(reader->texts[i], reader->sizes[i] + (size_t)n + 1);
  memcpy(reader->texts[i] + reader->sizes[i], bytes, (size_t)n);
  reader->sizes[i] += (size_t)n;
  reader->texts[i][reader->sizes[i]] = '\0';
}

/* Reads until all writers have closed, or until a time; true if closed. */
static bool reader_follow(struct reader *reader, double until) {
  while (reader->files[0] >= 0 || reader->files[1] >= 0) {
    double left = until - now_s();
    if (left <= 0)
      return false;
    struct pollfd files[2] = {{reader->files[0], POLLIN, 0}, {reader->files[1], POLLIN, 0}};
    poll(files, 2, (int)(left * 1000) + 1);
    for (int i = 0; i < 2; i++)
      if (files[i].revents != 0)
        reader_append(reader, i);
  }
  return true;
}

/* ---- from start to end ---- */

static int unfinished; /* runs of this process */

struct running {
  struct run *result;
  struct reader reader;
  pid_t processes[RUN_RANKS_MAX];
  int nprocesses;
  double begin, limit_s;
  const char *enough;
  int port_hold; /* see port_take; -1: no port */
};

static struct running *start_commands(const struct command *commands, int ncommands,
                                      double limit_s) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct running *running = calloc(1, sizeof *running);
  int output[2], errors[2];
  cr_assert(running != NULL && pipe2(output, O_CLOEXEC) == 0 && pipe2(errors, O_CLOEXEC) == 0);
  running->result = calloc(1, sizeof *running->result);
  unfinished++;
  running->begin = now_s();
  running->limit_s = (limit_s > 0 ? limit_s : standard_limit_s) * run_slowness();
  running->nprocesses = ncommands;
  for (int i = 0; i < ncommands; i++)
    running->processes[i] = start(&commands[i], output[1], errors[1]);
  close(output[1]);
  close(errors[1]);
  running->reader =
      (struct reader){.files = {output[0], errors[0]}, .texts = {calloc(1, 1), calloc(1, 1)}};
  return running;
}

struct running *run_start(const struct launch *launch) {
  struct command commands[RUN_RANKS_MAX];
  int ncommands = launch->each ? launch->nranks : 1, hold;
  int port = port_take(&hold);
  cr_assert_gt(port, 0, "no free port");
  for (int i = 0; i < ncommands; i++)
    command_make(&commands[i], launch, launch->each ? i : -1, port);
  struct running *running = start_commands(commands, ncommands, launch->limit_s);
  running->port_hold = hold;
  running->enough = launch->enough;
  for (int i = 0; i < ncommands; i++)
    command_free(&commands[i]);
  return running;
}

pid_t run_process(const struct running *running, int rank) {
  return running->processes[rank];
}

bool run_goes_on(struct running *running, double seconds) {
  return !reader_follow(&running->reader, now_s() + seconds);
}

bool run_has_said(const struct running *running, const char *text) {
  return strstr(running->reader.texts[0], text) != NULL ||
         strstr(running->reader.texts[1], text) != NULL;
}

static void ask_to_end(const struct running *running, int with_signal) {
  for (int i = 0; i < running->nprocesses; i++)
    kill(-running->processes[i], with_signal);
}

static bool has_said_enough(const struct running *running) {
  const char *said =
      running->enough != NULL ? strstr(running->reader.texts[1], running->enough) : NULL;
  return said != NULL && strchr(said, '\n') != NULL;
}

/* Until its end, its deadline, or what is enough; false if it has to be ended. */
static bool run_to_its_end(struct running *running) {
  const double look_s = 0.05, until = running->begin + running->limit_s;
  bool ended = false;
  if (running->enough == NULL)
    ended = reader_follow(&running->reader, until);
  else
    while (!ended && now_s() < until && !has_said_enough(running))
      ended = reader_follow(&running->reader, now_s() + look_s);
  return ended;
}

struct run *run_end(struct running *running) {
  running->limit_s = 0;
  return run_finish(running);
}

struct run *run_finish(struct running *running) {
  struct run *result = running->result;
  struct reader *reader = &running->reader;
  if (!run_to_its_end(running)) {
    result->timed_out = !has_said_enough(running);
    ask_to_end(running, SIGTERM);
    reader_follow(reader, now_s() + grace_s);
    ask_to_end(running, SIGKILL);
  }
  for (int i = 0; i < running->nprocesses; i++) {
    int status = 0;
    waitpid(running->processes[i], &status, 0);
    result->rank_status[i] = exit_status(status);
    if (result->rank_status[i] > result->status)
      result->status = result->rank_status[i];
  }
  if (--unfinished == 0) /* before, whose they are cannot be told */
    result->left_behind = kill_the_rest();
  reader_follow(reader, now_s() + grace_s);
  result->output = reader->texts[0];
  result->errors = reader->texts[1];
  if (strncmp(result->errors, no_machines, strlen(no_machines)) == 0)
    cr_skip_test("%s", result->errors);
  result->seconds = now_s() - running->begin;
  if (running->port_hold >= 0)
    close(running->port_hold);
  free(running);
  return result;
}

struct run *run(const struct launch *launch) {
  return run_finish(run_start(launch));
}

struct run *run_tool(const char *tool, const char *arguments) {
  struct command command = {0};
  add_words_printed(&command, "%s/%s %s", run_build_folder(), tool, arguments);
  split(&command, "LC_ALL=C", command.variables, &command.nvariables);
  struct running *running = start_commands(&command, 1, 0);
  running->port_hold = -1;
  command_free(&command);
  return run_finish(running);
}

void run_free(struct run *run) {
  free(run->output);
  free(run->errors);
  free(run);
}

/* ---- what it said ---- */

bool run_says(const struct run *run, const char *text) {
  return strstr(run->errors, text) != NULL;
}

bool run_says_in_a_line(const struct run *run, ...) {
  char *copy = strdup(run->errors), *rest = copy;
  bool found = false;
  for (char *line; !found && (line = strsep(&rest, "\n")) != NULL;) {
    found = *line != '\0';
    va_list texts;
    va_start(texts, run);
    for (const char *text; found && (text = va_arg(texts, const char *)) != NULL;)
      found = strstr(line, text) != NULL;
    va_end(texts);
  }
  free(copy);
  return found;
}

bool run_is_stuck(const struct run *run) {
  return run->timed_out || run->status == RUN_LOOPBACK_STOPPED;
}

double run_time(const struct run *run, int rank, const char *name) {
  char key[64];
  snprintf(key, sizeof key, "TIME %d %s ", rank, name);
  const char *line = strstr(run->output, key);
  return line != NULL ? strtod(line + strlen(key), NULL) : -1;
}

void assert_went_well(const struct run *run) {
  cr_assert(!run->timed_out, "given up after %.0f s\n%s%s", run->seconds, run->output, run->errors);
  cr_assert(run->status == 0, "status %d\n%s%s", run->status, run->output, run->errors);
  bool objects = run_says(run, "loopback: ") || run_says(run, "loopback NCCL: ");
  cr_assert(!objects, "the loopback objects:\n%s", run->errors);
}

void assert_stuck_without(int nranks, const char *program, const char *options) {
  struct run *result = run(&(struct launch){.nranks = nranks,
                                            .program = program,
                                            .options = options,
                                            .environment = "LOOPBACK_DEATH=hang",
                                            .without = RUN_ALL_RANKS,
                                            .limit_s = stuck_s});
  cr_assert(run_is_stuck(result), "%s %s came through without the preload, with status %d\n%s%s",
            program, options, result->status, result->output, result->errors);
  run_free(result);
}
