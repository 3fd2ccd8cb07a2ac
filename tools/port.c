/* Ports for the ranks of one job (port.h). */
#include "tools/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Below those that Linux gives out by itself (net.ipv4.ip_local_port_range, from 32768 on): a
 * connection, or a bind to no port, could take one of these before rank 0 listens there. */
#define FIRST_PORT 10240
#define LAST_PORT 30238

/* The name is tests/pytorch/starter.py's, too. */
static int hold_port(int port) {
  struct sockaddr_un name = {.sun_family = AF_UNIX}; /* sun_path[0] is 0: abstract */
  int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "nccl-join/port/%d", port);
  int hold = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  socklen_t size = (socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)length;
  if (hold >= 0 && bind(hold, (struct sockaddr *)&name, size) != 0) {
    close(hold);
    hold = -1;
  }
  return hold;
}

static bool port_is_free(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)port)};
  int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool is_free = probe >= 0 && bind(probe, (struct sockaddr *)&address, sizeof(address)) == 0;
  if (probe >= 0)
    close(probe);
  return is_free;
}

int port_take(int *hold) {
  int count = (LAST_PORT - FIRST_PORT) / 2 + 1;
  for (int i = 0; i < count; i++) { /* each begins elsewhere, so that few meet */
    int port = FIRST_PORT + 2 * ((getpid() + i) % count);
    *hold = hold_port(port);
    if (*hold >= 0 && port_is_free(port))
      return port;
    if (*hold >= 0)
      close(*hold);
  }
  *hold = -1;
  return 0;
}
