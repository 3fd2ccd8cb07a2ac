/* Runs the ranks of a job on several machines that are made for it, of namespaces: each has a
 * network address, a name, processes and a /dev/shm of its own, and a cable to a switch.
 *
 *   start [--orders FIFO] [--together] RANKS,RANKS[,...] COMMAND [ARG...]
 *
 * Every rank runs COMMAND with torchrun's variables; ranks are numbered machine by machine. Machine
 * 0 is 10.77.0.1, and so on. The loopback's NCCL meets in a folder that all see (LOOPBACK_FOLDER).
 * Each rank ends by itself; with --together the first that fails ends all, as launchers of jobs do.
 * The status is the largest of all ranks, or the first one then; LEFT, if it is less, where a
 * machine is left with a process, a listening port or a file of nccl-join's, which is said; NONE if
 * no namespaces can be made here. All that is left goes with the namespaces, however this ends.
 *
 * Orders are lines in a FIFO:  cut M, mend M      the cable of machine M is out, and in again
 *                              kill SIGNAL NAME M the processes of that name on machine M
 *                              rank SIGNAL R      the program of rank R
 *                              run M COMMAND      a command of sh(1) on machine M, or at the switch: -1
 *
 * MACHINES_PREPARE is a command of sh(1) that every machine runs before its ranks, and the switch
 * before it has cables; MACHINE is the machine's number, or -1.
 */
#include "tests/machines/parts/inside.h"
#include "tests/machines/parts/rest.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NONE = 69, LEFT = 70, MACHINES_MAX = 64, RANKS_MAX = 256, TEXT = REST_BYTES };

static const char prepare[] = "MACHINES_PREPARE";
static const int looks_for_rest = 200;  /* 50 ms each: what ends with the ranks takes a moment */
static const long last_words_ms = 1000; /* together: from the first failure to SIGTERM */
static const long grace_ms = 5000;      /* together: from SIGTERM to SIGKILL */

struct machine {
  pid_t process; /* seen from the outside; its network is the machine's */
  int first, count;
};

static struct machine machines[MACHINES_MAX];
static int nmachines, nranks;
static bool together;
static _Atomic int *failed; /* together: the status of the first rank that has, of any machine */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...) {
  char text[4096];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  fprintf(stderr, "machines: %s\n", text);
}

static _Noreturn void none(const char *what) {
  say("no machines can be made here: %s: %s", what, strerror(errno));
  exit(NONE);
}

static void write_text(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, text, strlen(text)) < 0)
    none(path);
  close(file);
}

/* Commands of ip(8), ended by newlines; whether all have worked. */
__attribute__((format(printf, 1, 2))) static bool ip(const char *format, ...) {
  char text[TEXT];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  int ends[2], status = 0;
  if (pipe2(ends, O_CLOEXEC) != 0 || write(ends[1], text, (size_t)length) != length)
    return false;
  close(ends[1]);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[0], STDIN_FILENO);
    execlp("ip", "ip", "-batch", "-", (char *)NULL);
    _exit(127);
  }
  close(ends[0]);
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* ---- namespaces ---- */

/* This process's user and group are root's in a namespace of users. */
static void become_root(void) {
  unsigned user = geteuid(), group = getegid();
  char text[64];
  if (user == 0)
    return;
  if (unshare(CLONE_NEWUSER) != 0)
    none("a namespace of users");
  write_text("/proc/self/setgroups", "deny");
  snprintf(text, sizeof text, "0 %u 1", user);
  write_text("/proc/self/uid_map", text);
  snprintf(text, sizeof text, "0 %u 1", group);
  write_text("/proc/self/gid_map", text);
}

static void mount_at(const char *source, const char *target, const char *type,
                     unsigned long flags) {
  if (mount(source, target, type, flags, NULL) != 0)
    none(target);
}

static int exit_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Goes on as process 1 of a new namespace of processes: when it ends, all of them do. What waits
 * for it outside ends as it does. */
static void become_first(int flags) {
  if (unshare(flags | CLONE_NEWPID) != 0)
    none("namespaces");
  pid_t child = fork();
  if (child < 0)
    none("fork");
  if (child > 0) {
    int status;
    while (waitpid(child, &status, 0) != child)
      ;
    _exit(exit_status(status));
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  mount_at("none", "/", NULL, MS_REC | MS_PRIVATE);
  mount_at("proc", "/proc", "proc", 0);
}

/* ---- one machine ---- */

static void set_number(const char *name, int number) {
  char text[16];
  snprintf(text, sizeof text, "%d", number);
  setenv(name, text, 1);
}

static pid_t start_rank(int machine, int local, char **command) {
  pid_t child = fork();
  if (child != 0)
    return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("LOOPBACK_FOLDER", "/dev/shm/loopback", 1);
  setenv("MASTER_ADDR", "10.77.0.1", 1);
  set_number("MASTER_PORT", 29500);
  set_number("RANK", machines[machine].first + local);
  set_number("WORLD_SIZE", nranks);
  set_number("LOCAL_RANK", local);
  set_number("LOCAL_WORLD_SIZE", machines[machine].count);
  set_number("GROUP_RANK", machine);
  execvp(command[0], command);
  say("%s: %s", command[0], strerror(errno));
  _exit(127);
}

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

static void signal_all(const pid_t *ranks, int count, int number) {
  for (int i = 0; i < count; i++)
    if (ranks[i] > 0)
      kill(ranks[i], number);
}

/* Waits for all ranks: the largest status. together: where one has failed the others are ended, but
 * may say first what has gone wrong: of ranks that fail because of each other any may end first. */
static int wait_for_ranks(pid_t *ranks, int count) {
  int status = 0, next = SIGTERM;
  long next_ms = 0; /* when the others are sent that; 0: none has failed */
  for (int running = count; running > 0;) {
    int how;
    pid_t ended = waitpid(-1, &how, together ? WNOHANG : 0);
    for (int i = 0; i < count; i++)
      if (ended == ranks[i] && ended > 0) {
        ranks[i] = 0;
        running--;
        status = exit_status(how) > status ? exit_status(how) : status;
      }
    if (together && status != 0)
      atomic_compare_exchange_strong(failed, &(int){0}, status);
    if (together && next_ms == 0 && atomic_load(failed) != 0) {
      next_ms = now_ms() + last_words_ms;
    } else if (next_ms != 0 && now_ms() >= next_ms) {
      signal_all(ranks, count, next);
      next = SIGKILL;
      next_ms = now_ms() + grace_ms;
    }
    if (together && ended <= 0)
      nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
  return status;
}

/* Its process 1. */
static int run_machine(int machine, char **command) {
  pid_t ranks[RANKS_MAX];
  char name[32], rest[TEXT];
  snprintf(name, sizeof name, "/dev/shm/machine%d", machine);
  mount_at(name, "/dev/shm", NULL, MS_BIND | MS_REC);
  if (sethostname(name + strlen("/dev/shm/"), strlen(name) - strlen("/dev/shm/")) != 0 ||
      !ip("link set lo up\naddress add 10.77.0.%d/24 dev eth0\nlink set eth0 up\n", machine + 1))
    none("its network");
  if (getenv(prepare) != NULL && !inside_prepare(getenv(prepare), machine))
    none(prepare);
  for (int i = 0; i < machines[machine].count; i++)
    ranks[i] = start_rank(machine, i, command);
  int status = wait_for_ranks(ranks, machines[machine].count);
  for (int look = 0; look < looks_for_rest && rest_is_left(rest); look++) {
    while (waitpid(-1, NULL, WNOHANG) > 0)
      ;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  }
  if (rest[0] == '\0')
    return status;
  say("left on machine %d:%s", machine, rest);
  return status > LEFT ? status : LEFT;
}

/* ---- all of them ---- */

static void start_machine(int machine, char **command) {
  char folder[64], byte = 0;
  int there[2], go[2];
  snprintf(folder, sizeof folder, "/dev/shm/machine%d/loopback", machine);
  *strrchr(folder, '/') = '\0';
  (void)mkdir(folder, 0755);
  mount_at("none", folder, "tmpfs", 0);
  snprintf(folder, sizeof folder, "/dev/shm/machine%d/loopback", machine);
  (void)mkdir(folder, 0755);
  mount_at("/dev/shm/shared", folder, NULL, MS_BIND);
  if (pipe2(there, O_CLOEXEC) != 0 || pipe2(go, O_CLOEXEC) != 0)
    none("a pipe");
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWNS) != 0)
      none("a machine's namespaces");
    if (write(there[1], "", 1) != 1 || close(go[1]) != 0 || read(go[0], &byte, 1) != 1)
      _exit(NONE);
    become_first(0);
    exit(run_machine(machine, command));
  }
  close(there[1]);
  close(go[0]);
  machines[machine].process = child;
  if (child < 0 || read(there[0], &byte, 1) != 1 ||
      !ip("link add cable%d type veth peer name eth0 netns %d\nlink set cable%d master switch up\n",
          machine, (int)child, machine) ||
      write(go[1], "", 1) != 1)
    none("a cable");
  close(there[0]);
  close(go[1]);
}

/* Whom a signal is for. */
struct wanted {
  int number;
  char name[64], net[64]; /* on a machine */
  char rank[32];          /* "": by name */
};

static void network_of(pid_t process, char net[64]) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/ns/net", (int)process);
  ssize_t n = readlink(path, net, 63);
  net[n < 0 ? 0 : n] = '\0';
}

static void signal_wanted(pid_t process, void *context) {
  const struct wanted *wanted = context;
  char text[65536], net[64];
  if (wanted->rank[0] != '\0') {
    rest_read(process, "environ", text, sizeof text);
    if (strstr(text, wanted->rank) == NULL)
      return;
    rest_read(process, "cmdline", text, sizeof text);
    text[strcspn(text, " ")] = '\0';
    if (strstr(text, "/programs/") == NULL)
      return;
  } else {
    rest_read(process, "comm", text, sizeof text);
    network_of(process, net);
    text[strcspn(text, " ")] = '\0';
    if (strncmp(text, wanted->name, 15) != 0 || strcmp(net, wanted->net) != 0)
      return;
  }
  kill(process, wanted->number);
}

static void obey(const char *order) {
  struct wanted wanted = {0};
  int machine, rank, command;
  if (sscanf(order, "cut %d", &machine) == 1) {
    ip("link set cable%d down\n", machine);
  } else if (sscanf(order, "mend %d", &machine) == 1) {
    ip("link set cable%d up\n", machine);
  } else if (sscanf(order, "kill %d %63s %d", &wanted.number, wanted.name, &machine) == 3) {
    network_of(machines[machine].process, wanted.net);
    rest_each_process(signal_wanted, &wanted);
  } else if (sscanf(order, "rank %d %d", &wanted.number, &rank) == 2) {
    snprintf(wanted.rank, sizeof wanted.rank, " RANK=%d ", rank);
    rest_each_process(signal_wanted, &wanted);
  } else if (sscanf(order, "run %d %n", &machine, &command) == 1) {
    inside_run(machine < 0 ? 0 : machines[machine].process, order + command);
  } else {
    say("no order: %s", order);
  }
}

static void read_orders(int orders) {
  char text[TEXT];
  struct pollfd file = {.fd = orders, .events = POLLIN};
  if (poll(&file, 1, 20) <= 0)
    return;
  ssize_t n = read(orders, text, sizeof text - 1);
  text[n < 0 ? 0 : n] = '\0';
  char *rest = text;
  for (char *line; (line = strsep(&rest, "\n")) != NULL;)
    if (*line != '\0')
      obey(line);
}

static int wait_for_all(int orders) {
  int status = 0, running = nmachines;
  while (running > 0) {
    int how;
    pid_t ended = waitpid(-1, &how, orders >= 0 ? WNOHANG : 0);
    for (int i = 0; ended > 0 && i < nmachines; i++)
      if (machines[i].process == ended) {
        running--;
        status = exit_status(how) > status ? exit_status(how) : status;
      }
    if (orders >= 0 && ended <= 0)
      read_orders(orders);
  }
  return status;
}

int main(int argc, char **argv) {
  int at = 1, orders = -1;
  if (at + 1 < argc && strcmp(argv[at], "--orders") == 0) {
    orders = open(argv[at + 1], O_RDWR | O_CLOEXEC | O_NONBLOCK);
    at += 2;
  }
  if (at + 1 < argc && strcmp(argv[at], "--together") == 0) {
    together = true;
    at++;
    failed = mmap(NULL, sizeof *failed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (failed == MAP_FAILED)
      none("memory");
  }
  if (at + 1 >= argc) {
    say("what to run?");
    return 2;
  }
  for (char *counts = argv[at++], *count; (count = strsep(&counts, ",")) != NULL;) {
    machines[nmachines++] = (struct machine){.first = nranks, .count = atoi(count)};
    nranks += atoi(count);
    if (nmachines == MACHINES_MAX || nranks > RANKS_MAX)
      return 2;
  }
  become_root();
  become_first(CLONE_NEWNS | CLONE_NEWNET);
  mount_at("none", "/dev/shm", "tmpfs", 0);
  if (mkdir("/dev/shm/shared", 0755) != 0 ||
      !ip("link add switch type bridge\nlink set switch up\n"))
    none("a switch");
  if (getenv(prepare) != NULL && !inside_prepare(getenv(prepare), -1))
    none(prepare);
  for (int i = 0; i < nmachines; i++)
    start_machine(i, argv + at);
  int status = wait_for_all(orders);
  return together && atomic_load(failed) != 0 ? atomic_load(failed) : status;
}
