/* A switch that is slow, in place of the one of tests/machines/start.c: it takes the cables out of
 * that one, and passes on what comes in at each. Run at the switch ("run -1").
 *
 *   relay MICROSECONDS BYTES DEAF CABLE CABLE...
 *
 * Each packet is passed on so long after it has come; BYTES: so many in a second and cable at most,
 * 0: as many as come; DEAF: nothing that this cable's machine says is passed on, as if a wire of it
 * were broken: -1: none is so. Packets of a cable keep their order. It makes an empty file of the
 * name in RELAY_READY when it has begun.
 *
 * Machines whose cables take small packets (ip link set eth0 mtu 300) make it one that fragments.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CABLES_MAX = 16, ADDRESS = 6, PACKET_MAX = 65536 + 128, HELD_MAX = 4096 };

/* With what the kernel says of it: several TCP segments in one go have no checksums yet. */
struct packet {
  struct packet *next;
  int64_t due_ns;
  int from;
  size_t size;
  unsigned char bytes[]; /* struct virtio_net_hdr, then the packet */
};

struct cable {
  int file;
  unsigned char address[ADDRESS]; /* of the machine at it: as it has last said */
  int64_t free_ns;                /* when what has been passed on to it is through */
};

static struct cable cables[CABLES_MAX];
static int ncables, deaf, held;
static int64_t delay_ns, bytes_a_second;
static struct packet *first, **last = &first;

static int64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool open_cable(const char *name) {
  char command[128];
  int one = 1, size = 4 << 20, index = (int)if_nametoindex(name);
  struct sockaddr_ll where = {
      .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = index};
  snprintf(command, sizeof command, "ip link set %s nomaster up", name);
  if (index == 0 || system(command) != 0) /* NOLINT(cert-env33-c) */
    return false;
  int file = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  cables[ncables++].file = file;
  return setsockopt(file, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) == 0 &&
         setsockopt(file, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) == 0 &&
         setsockopt(file, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) == 0 &&
         bind(file, (struct sockaddr *)&where, sizeof where) == 0;
}

static void take(int from) {
  static unsigned char bytes[PACKET_MAX];
  ssize_t n;
  while (held < HELD_MAX && (n = recv(cables[from].file, bytes, sizeof bytes, 0)) > 0) {
    if ((size_t)n < sizeof(struct virtio_net_hdr) + sizeof(struct ether_header) || from == deaf)
      continue;
    struct packet *packet = malloc(sizeof *packet + (size_t)n);
    if (packet == NULL)
      continue;
    memcpy(cables[from].address, bytes + sizeof(struct virtio_net_hdr) + ADDRESS, ADDRESS);
    *packet = (struct packet){.due_ns = now_ns() + delay_ns, .from = from, .size = (size_t)n};
    memcpy(packet->bytes, bytes, (size_t)n);
    *last = packet;
    last = &packet->next;
    held++;
  }
}

/* To the cable at which the address is; to all where nobody has said so, or it is meant for all. */
static void pass_on(const struct packet *packet) {
  const unsigned char *to = packet->bytes + sizeof(struct virtio_net_hdr);
  int64_t now = now_ns();
  bool known = false;
  for (int i = 0; i < ncables; i++)
    known |= memcmp(cables[i].address, to, ADDRESS) == 0;
  for (int i = 0; i < ncables; i++) {
    if (i == packet->from || (known && memcmp(cables[i].address, to, ADDRESS) != 0))
      continue;
    if (bytes_a_second > 0)
      cables[i].free_ns = (cables[i].free_ns > now ? cables[i].free_ns : now) +
                          (int64_t)packet->size * 1000000000 / bytes_a_second;
    (void)send(cables[i].file, packet->bytes, packet->size, 0); /* lost: TCP sends it again */
  }
}

/* When the first packet is due; it may have to wait for a cable that is slow, and all behind it
 * with it. */
static int64_t due_ns(void) {
  int64_t due = first->due_ns;
  for (int i = 0; i < ncables; i++)
    due = i != first->from && cables[i].free_ns > due ? cables[i].free_ns : due;
  return due;
}

int main(int argc, char **argv) {
  struct pollfd items[CABLES_MAX];
  if (argc < 6 || argc > 4 + CABLES_MAX)
    return 2;
  delay_ns = strtoll(argv[1], NULL, 10) * 1000;
  bytes_a_second = strtoll(argv[2], NULL, 10);
  deaf = (int)strtol(argv[3], NULL, 10);
  for (int i = 4; i < argc; i++)
    if (!open_cable(argv[i])) {
      perror(argv[i]);
      return 1;
    }
  int ready = open(getenv("RELAY_READY"), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (ready < 0)
    return 1;
  close(ready);
  for (;;) {
    for (int i = 0; i < ncables; i++)
      items[i] = (struct pollfd){.fd = cables[i].file, .events = held < HELD_MAX ? POLLIN : 0};
    int64_t wait = first == NULL ? 1000000000 : due_ns() - now_ns();
    struct timespec time = {.tv_sec = wait > 0 ? wait / 1000000000 : 0,
                            .tv_nsec = wait > 0 ? wait % 1000000000 : 0};
    (void)ppoll(items, (nfds_t)ncables, &time, NULL);
    for (int i = 0; i < ncables; i++)
      take(i);
    while (first != NULL && due_ns() <= now_ns()) {
      struct packet *packet = first;
      pass_on(packet);
      first = packet->next;
      last = first == NULL ? &first : last;
      held--;
      free(packet);
    }
  }
}
