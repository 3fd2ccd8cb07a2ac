/* Asking a Python (python.h): it runs imports/, and writes records. */
#include "tools/check/python.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/check/image.h"

#define READER "nccl-join-imports"
#define READ_MS 120000 /* four times what imports/ takes at most */
#define WORDS_MAX 64
#define RECORDS_MAX ((size_t)64 << 20)

bool python_is_script(const char *word) {
  size_t size = strlen(word);
  return size > 3 && size < PATH_MAX && strcmp(word + size - 3, ".py") == 0 &&
         access(word, R_OK) == 0;
}

/* ---- the question ---- */

struct words {
  const char *items[WORDS_MAX];
  size_t count;
};

static void add_word(struct words *words, const char *word) {
  if (words->count + 1 < WORDS_MAX)
    words->items[words->count++] = word;
}

static void add_pair(struct words *words, const char *name, const char *value) {
  add_word(words, name);
  add_word(words, value);
}

/* The folder imports lies beside this program. */
static bool find_reader(char path[PATH_MAX]) {
  ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - sizeof READER);
  if (size <= 0)
    return false;
  path[size] = '\0';
  char *slash = strrchr(path, '/');
  memcpy(slash + 1, READER, sizeof READER);
  return access(path, R_OK) == 0;
}

static void write_question(struct words *words, const struct command *command,
                           enum python_depth depth, const char *reader) {
  add_word(words, command->interpreter);
  add_pair(words, "-I", "-S");
  add_pair(words, "-B", "-X");
  add_pair(words, "utf8", reader);
  if (depth != PYTHON_OWN)
    add_word(words, depth == PYTHON_BRIEF ? "--brief" : "--deep");
  if (command->isolated)
    add_word(words, "--isolated");
  if (command->without_user)
    add_word(words, "--no-user");
  if (command->safe_path)
    add_word(words, "--safe-path");
  if (*command->script != '\0')
    add_pair(words, "--script", command->script);
  else if (command->module != NULL)
    add_pair(words, "--module", command->module);
  else if (command->code != NULL)
    add_pair(words, "--code", command->code);
  for (char *const *word = command->words + 1; *word != NULL; word++)
    if (python_is_script(*word) && strcmp(*word, command->script) != 0)
      add_pair(words, "--also", *word);
}

/* The Python dies with who asks, and gets nothing in front of it. */
static void become_reader(const struct words *words, int out) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  unsetenv("LD_PRELOAD");
  unsetenv("LD_AUDIT");
  dup2(out, STDOUT_FILENO);
  if (freopen("/dev/null", "r", stdin) == NULL || freopen("/dev/null", "w", stderr) == NULL)
    _exit(127);
  execv(words->items[0], (char *const *)words->items);
  _exit(127);
}

/* ---- the answer ---- */

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* All that comes until the other side is done, ended by a zero. NULL if that takes too long. */
static char *read_records(int source, size_t *size) {
  size_t room = 1 << 16;
  char *bytes = more_memory(NULL, room);
  long deadline = now_ms() + READ_MS;
  for (*size = 0;;) {
    long left = deadline - now_ms();
    struct pollfd polled = {.fd = source, .events = POLLIN};
    bool ready = left > 0 && *size < RECORDS_MAX && poll(&polled, 1, (int)left) > 0;
    ssize_t got = ready ? read(source, bytes + *size, room - *size - 1) : -1;
    if (got < 0) {
      free(bytes);
      return NULL;
    }
    *size += (size_t)got;
    bytes[*size] = '\0';
    if (got == 0)
      return bytes;
    if (room - *size < room / 2)
      bytes = more_memory(bytes, room *= 2);
  }
}

/* False if it is no record. */
static bool take_record(struct python *python, char *record, bool *complete) {
  const struct {
    const char *kind;
    struct names *names;
  } kinds[] = {{"package", &python->imported},
               {"object", &python->objects},
               {"own", &python->own},
               {"folder", &python->folders},
               {"opens", &python->opens},
               {"nccl", &python->name_nccl},
               {"deepbind", &python->bind_deep},
               {"missing", &python->not_found},
               {"dynamic", &python->decided},
               {"may", &python->packages},
               {"installed", &python->installed}};
  char *tab = strchr(record, '\t');
  if (tab == NULL)
    return false;
  *tab = '\0';
  *complete = strcmp(record, "end") == 0;
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(record, kinds[i].kind) == 0) {
      names_add(kinds[i].names, tab + 1);
      return true;
    }
  return *complete;
}

static bool take_records(struct python *python, char *bytes, size_t size) {
  bool complete = false;
  for (char *record = bytes; record != NULL && record < bytes + size;) {
    size_t length = strlen(record);
    if (!take_record(python, record, &complete))
      return false;
    record += length + 1;
  }
  return complete;
}

bool python_read(struct python *python, const struct command *command, enum python_depth depth,
                 char *error) {
  char reader[PATH_MAX];
  struct words words = {0};
  int ends[2];
  size_t size;
  snprintf(error, COMMAND_ERROR_SIZE,
           "%.120s does not read the program's imports; it is no "
           "CPython of release 3.8 or later, or cannot be run here",
           command->interpreter);
  if (!find_reader(reader) || pipe(ends) != 0)
    return false;
  write_question(&words, command, depth, reader);
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    become_reader(&words, ends[1]);
  }
  close(ends[1]);
  char *bytes = child > 0 ? read_records(ends[0], &size) : NULL;
  close(ends[0]);
  if (child > 0) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
  }
  bool good = bytes != NULL && take_records(python, bytes, size);
  free(bytes);
  return good;
}

void python_free(struct python *python) {
  struct names *all[] = {&python->imported,  &python->objects,   &python->own,
                         &python->folders,   &python->opens,     &python->name_nccl,
                         &python->bind_deep, &python->not_found, &python->decided,
                         &python->packages,  &python->installed};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    names_free(all[i]);
}
