/* A training like DistributedDataParallel's (ddp_train.c) as it is, under nccl-join, and with
 * PyTorch's Join protocol written into it, with even and uneven inputs: iterations per second, and
 * the processor time of an iteration on all ranks together.
 *
 * All ways of running it take turns, so that what the machine does meanwhile hits all of them;
 * ratios are those of the runs of one round. A run with a wrong sum, or that does not end, ends the
 * benchmark.
 *
 * It runs on the loopback, whose devices are threads of this machine. So it shows what a way of
 * joining adds in collectives, and how long it keeps the host waiting; not what a collective costs
 * on a GPU or a network.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/rows.h"

enum { ROUNDS_MAX = 15 };

/* A way of running the program. */
struct way {
  const char *name, *launcher, *join;
  bool even;
};

enum { PLAIN, EVEN_JOINED, EVEN_INITIAL, UNEVEN_JOINED = 5, UNEVEN_INITIAL, WAYS = 9 };
enum { PROTOCOLS = 3 }; /* after the first of them */

static const struct way ways[WAYS] = {
    {"even, no join at all", "--no-join", "none", true},
    {"even, nccl-join", "", "none", true},
    {"even, Join protocol", "--no-join", "initial", true},
    {"even, Join protocol, divisor read", "--no-join", "active", true},
    {"even, Join protocol, throwing", "--no-join", "throw", true},
    {"uneven, nccl-join", "", "none", false},
    {"uneven, Join protocol", "--no-join", "initial", false},
    {"uneven, Join protocol, divisor read", "--no-join", "active", false},
    {"uneven, Join protocol, throwing", "--no-join", "throw", false},
};

/* What the program does in an iteration. */
struct work {
  const char *name, *options;
  int iterations;
  const char *counts; /* what makes its collectives other than those of the works before it */
};

/* Without computing the host must not run ahead: on the loopback it would take the processors that
 * the devices need. */
static const struct work works[] = {
    {"no computing, loss read", "--buffers 1 --read-every 1", 200, "with buffers"},
    {"3 ms", "--buffers 1 --device-us 3000 --host-us 200", 100, NULL},
    {"3 ms, no buffers", "--buffers 0 --device-us 3000 --host-us 200", 100, "without buffers"},
};

enum { WARM_UP = 20, QUICK_WARM_UP = 4, QUICK_ITERATIONS = 8 };

struct scene {
  const struct work *work;
  int nranks, warm_up, iterations, rounds;
  double rates[WAYS][ROUNDS_MAX];        /* iterations per second of the longest rank */
  double processor[WAYS][ROUNDS_MAX];    /* us in an iteration of that, on all ranks */
  double longest[WAYS][ROUNDS_MAX];      /* iterations of the longest rank */
  double collectives[WAYS], reads[WAYS]; /* of an iteration, on the longest rank */
};

/* ---- running the program ---- */

enum { WORDS_MAX = 40, WORD_SIZE = 512 };

struct command {
  char words[WORDS_MAX][WORD_SIZE];
  char *arguments[WORDS_MAX + 1];
  int nwords;
};

__attribute__((format(printf, 2, 3))) static void add_word(struct command *command,
                                                           const char *format, ...) {
  if (command->nwords == WORDS_MAX)
    return;
  char *word = command->words[command->nwords];
  va_list values;
  va_start(values, format);
  vsnprintf(word, WORD_SIZE, format, values);
  va_end(values);
  command->arguments[command->nwords++] = word;
}

/* Separated by single blanks; empty adds nothing. */
static void add_words(struct command *command, const char *text) {
  for (size_t length; *text != '\0'; text += length + (text[length] == ' ')) {
    length = strcspn(text, " ");
    add_word(command, "%.*s", (int)length, text);
  }
}

/* Uneven: rank r of n has (r + 1) / n of the longest rank's iterations, so that the rank whose
 * buffers are broadcast leaves first. */
static void make_command(const struct scene *scene, const struct way *way,
                         struct command *command) {
  const char *build = getenv("BENCH_BUILD");
  char schedule[WORD_SIZE] = "";
  for (int rank = 0; rank < scene->nranks; rank++) {
    size_t length = strlen(schedule);
    int iterations = way->even ? scene->iterations : scene->iterations * (rank + 1) / scene->nranks;
    snprintf(schedule + length, sizeof schedule - length, "%s%d", rank > 0 ? "," : "",
             scene->warm_up + iterations);
  }
  add_words(command, "timeout -k 5 120");
  add_word(command, "%s/tools/nccl-join", build);
  add_word(command, "run");
  add_word(command, "-n%d", scene->nranks);
  add_words(command, "--loopback --no-prefix");
  add_words(command, way->launcher);
  add_word(command, "%s/bench/ddp-train", build);
  add_words(command, "--join");
  add_word(command, "%s", way->join);
  add_words(command, "--warm-up");
  add_word(command, "%d", scene->warm_up);
  add_words(command, "--iterations");
  add_word(command, "%s", schedule);
  add_words(command, scene->work->options);
}

static bool read_field(const char *line, const char *name, double *value) {
  const char *field = strstr(line, name);
  char *end = NULL;
  *value = field != NULL ? strtod(field + strlen(name), &end) : 0;
  return field != NULL && end != field + strlen(name);
}

/* One line of the program. What counts is the longest rank, which is the last, and processor time
 * of all. Whether it was a rank's result. */
static bool read_line(struct scene *scene, int way, int round, const char *line) {
  double rank, seconds, processor, iterations, collectives, reads;
  if (!read_field(line, "RESULT", &rank) || !read_field(line, "seconds", &seconds) ||
      !read_field(line, "processor", &processor) || !read_field(line, "iterations", &iterations) ||
      !read_field(line, "collectives", &collectives) || !read_field(line, "reads", &reads))
    return false;
  scene->processor[way][round] += processor;
  if ((int)rank == scene->nranks - 1) {
    scene->rates[way][round] = iterations / seconds;
    scene->longest[way][round] = iterations;
    scene->collectives[way] = collectives / iterations;
    scene->reads[way] = reads / iterations;
  }
  return true;
}

/* Starts a command with its output in a file to be read; NULL if it cannot be. */
static FILE *start(const struct command *command, pid_t *process) {
  int ends[2];
  posix_spawn_file_actions_t actions;
  if (pipe2(ends, O_CLOEXEC) != 0)
    return NULL;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  int error =
      posix_spawnp(process, command->arguments[0], &actions, NULL, command->arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error == 0)
    return fdopen(ends[0], "r");
  close(ends[0]);
  return NULL;
}

static void run(struct scene *scene, int way, int round) {
  struct command command = {0};
  char line[512];
  int ranks = 0, status = -1;
  pid_t process = -1;
  make_command(scene, &ways[way], &command);
  FILE *output = start(&command, &process);
  while (output != NULL && fgets(line, sizeof line, output) != NULL)
    ranks += read_line(scene, way, round, line);
  if (output != NULL)
    fclose(output);
  if (process < 0 || waitpid(process, &status, 0) != process || status != 0 ||
      ranks != scene->nranks || !(scene->rates[way][round] > 0)) {
    fputs("ddp: this run failed:", stderr);
    for (int i = 0; i < command.nwords; i++)
      fprintf(stderr, " %s", command.words[i]);
    fputs("\n", stderr);
    exit(1);
  }
  scene->processor[way][round] *= 1e6 / scene->longest[way][round];
}

/* In each round the ways begin with another one. */
static void measure(struct scene *scene) {
  for (int round = 0; round < scene->rounds; round++)
    for (int turn = 0; turn < WAYS; turn++)
      run(scene, (round + turn) % WAYS, round);
}

/* ---- what is printed ---- */

typedef double samples_t[ROUNDS_MAX];

static void print_ratio(const struct scene *scene, const char *section, samples_t *samples, int way,
                        int base, const char *goal) {
  char name[128];
  double ratios[ROUNDS_MAX];
  for (int round = 0; round < scene->rounds; round++)
    ratios[round] = samples[way][round] / samples[base][round];
  snprintf(name, sizeof name, "%s / %s", ways[way].name, ways[base].name);
  row_print(&(struct row){section, name, "ratio", goal}, ratios, (size_t)scene->rounds);
}

/* The table of one thing measured. Ratios first: row_print sorts what it gets. */
static void print_table(const struct scene *scene, const char *what, samples_t *samples,
                        const char *unit, const char *goal) {
  char section[128];
  snprintf(section, sizeof section, "DDP, %s: %d ranks, %s", what, scene->nranks,
           scene->work->name);
  print_ratio(scene, section, samples, EVEN_JOINED, PLAIN, "1, within noise");
  for (int protocol = 0; protocol < PROTOCOLS; protocol++)
    print_ratio(scene, section, samples, EVEN_JOINED, EVEN_INITIAL + protocol, goal);
  for (int protocol = 0; protocol < PROTOCOLS; protocol++)
    print_ratio(scene, section, samples, UNEVEN_JOINED, UNEVEN_INITIAL + protocol, goal);
  for (int way = 0; way < WAYS; way++)
    row_print(&(struct row){section, ways[way].name, unit, NULL}, samples[way],
              (size_t)scene->rounds);
}

/* What an iteration of a rank consists of: the same on any machine, and for any number of ranks. */
static void print_counts(const struct scene *scene) {
  for (int way = PLAIN; way < EVEN_INITIAL + PROTOCOLS; way++) {
    char name[128];
    snprintf(name, sizeof name, "%s: %s, collectives", scene->work->counts, ways[way].name);
    row_print_exact(&(struct row){"DDP, an iteration of an active rank", name, "count", NULL},
                    scene->collectives[way]);
    snprintf(name, sizeof name, "%s: %s, blocking reads", scene->work->counts, ways[way].name);
    row_print_exact(&(struct row){"DDP, an iteration of an active rank", name, "count", NULL},
                    scene->reads[way]);
  }
}

int main(void) {
  if (getenv("BENCH_BUILD") == NULL) {
    fputs("ddp: BENCH_BUILD is not set: run me with make bench\n", stderr);
    return 1;
  }
  bool quick = row_is_quick();
  for (size_t i = 0; i < sizeof works / sizeof *works; i++)
    for (int nranks = 2; nranks <= 4; nranks += 2) {
      struct scene scene = {.work = &works[i],
                            .nranks = nranks,
                            .warm_up = quick ? QUICK_WARM_UP : WARM_UP,
                            .iterations = quick ? QUICK_ITERATIONS : works[i].iterations,
                            .rounds = quick ? 1 : ROUNDS_MAX};
      measure(&scene);
      print_table(&scene, "speed", scene.rates, "iterations/s", "above 1");
      print_table(&scene, "processor time", scene.processor, "us", "below 1");
      if (nranks == 2 && works[i].counts != NULL)
        print_counts(&scene);
    }
  return 0;
}
