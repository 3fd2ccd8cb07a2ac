/* What is left on a machine of namespaces (rest.h). */
#include "tests/machines/parts/rest.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Calls what for each process but this one. */
void rest_each_process(void (*what)(pid_t process, void *context), void *context) {
  DIR *folder = opendir("/proc");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    long number = strtol(entry->d_name, NULL, 10);
    if (number > 0 && number != getpid())
      what((pid_t)number, context);
  }
  if (folder != NULL)
    closedir(folder);
}

/* A file below /proc/PROCESS; "" if it cannot be read. Zeros become blanks. */
void rest_read(pid_t process, const char *file, char *text, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)process, file);
  int from = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = from < 0 ? 0 : read(from, text, size - 1);
  if (from >= 0)
    close(from);
  text[n < 0 ? 0 : n] = '\0';
  for (ssize_t i = 0; i < n; i++)
    if (text[i] == '\0' || text[i] == '\n')
      text[i] = ' ';
}

__attribute__((format(printf, 2, 3))) static void rest_add(char rest[REST_BYTES],
                                                           const char *format, ...) {
  size_t used = strlen(rest);
  va_list values;
  va_start(values, format);
  vsnprintf(rest + used, REST_BYTES - used, format, values);
  va_end(values);
}

static void add_process(pid_t process, void *rest) {
  char words[128];
  rest_read(process, "cmdline", words, sizeof words);
  rest_add(rest, " process %d (%s)", (int)process, words);
}

/* State 0A is listening (proc_net(5)). */
static void add_ports(char rest[REST_BYTES], const char *path) {
  FILE *table = fopen(path, "r");
  char line[256], where[128], state[8];
  while (table != NULL && fgets(line, sizeof line, table) != NULL)
    if (sscanf(line, " %*d: %127s %*s %7s", where, state) == 2 && strcmp(state, "0A") == 0)
      rest_add(rest, " port %s", where);
  if (table != NULL)
    fclose(table);
}

/* nccl-join's: its segments have the user's number behind that. */
static bool is_ours(const char *name) {
  static const char ours[] = "nccl-join-";
  const char *behind = name + strlen(ours);
  return strncmp(name, ours, strlen(ours)) == 0 &&
         (strchr("0123456789", *behind) != NULL || strncmp(behind, "machines-", 9) == 0);
}

static void add_files(char rest[REST_BYTES]) {
  DIR *folder = opendir("/dev/shm");
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
    if (is_ours(entry->d_name))
      rest_add(rest, " file %s", entry->d_name);
  if (folder != NULL)
    closedir(folder);
}

bool rest_is_left(char rest[REST_BYTES]) {
  rest[0] = '\0';
  rest_each_process(add_process, rest);
  add_files(rest);
  add_ports(rest, "/proc/net/tcp");
  add_ports(rest, "/proc/net/tcp6");
  return rest[0] != '\0';
}
