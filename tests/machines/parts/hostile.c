/* Which of them it is, and whom it is meant for (hostile.h). */
#include "tests/machines/parts/hostile.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MILLION = 1000000, FOLDER_LOOKS = 200 };

void hostile_say(const char *format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  fprintf(stderr, "HOSTILE %s\n", text);
}

double hostile_now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void hostile_sleep_ms(int milliseconds) {
  nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000,
                               .tv_nsec = (long)(milliseconds % 1000) * MILLION},
            NULL);
}

int hostile_connect(const struct sockaddr_in *address, int milliseconds) {
  int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
  socklen_t size = sizeof error;
  struct pollfd item = {.fd = file, .events = POLLOUT};
  (void)connect(file, (const struct sockaddr *)address, sizeof *address);
  if (file >= 0 && poll(&item, 1, milliseconds) == 1 &&
      getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0)
    return file;
  if (file >= 0)
    close(file);
  return -1;
}

size_t hostile_read(int connection, void *bytes, size_t size, int milliseconds, bool *ended) {
  double end = hostile_now_s() + milliseconds / 1e3;
  size_t n = 0;
  *ended = false;
  while (n < size && !*ended && hostile_now_s() < end) {
    struct pollfd item = {.fd = connection, .events = POLLIN};
    if (poll(&item, 1, (int)((end - hostile_now_s()) * 1e3) + 1) != 1)
      continue;
    ssize_t got = read(connection, (char *)bytes + n, size - n);
    *ended = got <= 0;
    n += got > 0 ? (size_t)got : 0;
  }
  return n;
}

/* The board of this machine: it is there once its agent has been started. */
static bool find_board(char path[BOARD_PATH_SIZE]) {
  path[0] = '\0';
  for (int look = 0; look < FOLDER_LOOKS && path[0] == '\0'; look++) {
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
      if (strncmp(entry->d_name, "nccl-join-machines-", strlen("nccl-join-machines-")) == 0)
        snprintf(path, BOARD_PATH_SIZE, "/dev/shm/%.100s", entry->d_name);
    if (folder != NULL)
      closedir(folder);
    if (path[0] == '\0')
      hostile_sleep_ms(50);
  }
  return path[0] != '\0';
}

static bool find_target(const char *path, struct target *target) {
  char text[RENDEZVOUS_ADDRESS_TEXT];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = file < 0 ? 0 : read(file, &target->board, sizeof target->board);
  if (file >= 0)
    close(file);
  if (n != sizeof target->board || !keys_derive(&target->board.job, target->board.terms.first_port,
                                                target->board.terms.last_port, &target->keys))
    return false;
  rendezvous_address(target->board.job.address, text);
  if (getenv("HOSTILE_AT") != NULL)
    snprintf(text, sizeof text, "%s", getenv("HOSTILE_AT"));
  target->root = (struct sockaddr_in){.sin_family = AF_INET};
  inet_pton(AF_INET, text, &target->root.sin_addr);
  for (int i = 0; i < PORTS; i++) {
    target->root.sin_port = htons(target->keys.ports[i]);
    int connection = hostile_connect(&target->root, 1000);
    if (connection < 0)
      continue;
    close(connection);
    return true;
  }
  return false;
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*act)(const struct target *target);
  } acts[] = {{"scan", hostile_scan},           {"replay", hostile_replay},
              {"wrong-key", hostile_wrong_key}, {"malformed", hostile_malformed},
              {"fleeting", hostile_fleeting},   {"stolen", hostile_stolen},
              {"flood", hostile_flood}};
  static struct target target;
  char board[BOARD_PATH_SIZE];
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "agent") == 0)
    return hostile_agent();
  if (!find_board(board)) {
    hostile_say("finds no board");
    return 2;
  }
  if (strcmp(name, "user") == 0)
    return hostile_user(board);
  if (!find_target(board, &target)) {
    hostile_say("finds no root");
    return 2;
  }
  if (strcmp(name, "half-open") == 0 && argc == 4)
    return hostile_half_open(&target, atoi(argv[2]), atoi(argv[3]));
  for (size_t i = 0; i < sizeof acts / sizeof *acts; i++)
    if (strcmp(name, acts[i].name) == 0)
      return acts[i].act(&target);
  hostile_say("does not know %s", name);
  return 2;
}
