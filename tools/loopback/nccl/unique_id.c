/* Making and hashing unique ids. */
#include "create.h"

#include "hash.h"
#include "report.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The address union of NCCL 2.28 (socket.h) and the handle around it. */
struct handle {
  uint64_t magic;
  union {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
  } address;
};
_Static_assert(sizeof(struct handle) == 40, "NCCL uses 40 bytes of the id");

static const uint64_t magic_of_fixed_id = 0x0280028002800280;

/* address:port, IPv4 only. */
static ncclResult_t parse_address(const char *text, struct sockaddr_in *address) {
  char host[64];
  unsigned port;
  int end = 0;
  if (sscanf(text, "%63[0-9.]:%u%n", host, &port, &end) == 2 && text[end] == '\0' &&
      port <= 65535 && inet_pton(AF_INET, host, &address->sin_addr) == 1) {
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)port);
    return ncclSuccess;
  }
  report_error("Invalid NCCL_COMM_ID %s, the loopback NCCL reads <ipv4>:<port>", text);
  return ncclInvalidArgument;
}

/* Where ranks of several machines meet (LOOPBACK_FOLDER), the first address by which others can
 * reach this one, as NCCL would take; otherwise the loopback's. */
static struct in_addr own_address(void) {
  struct in_addr own = {.s_addr = htonl(INADDR_LOOPBACK)};
  struct ifaddrs *all = NULL;
  const char *folder = getenv("LOOPBACK_FOLDER");
  if (folder == NULL || *folder == '\0' || getifaddrs(&all) != 0)
    return own;
  for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next)
    if (one->ifa_addr != NULL && one->ifa_addr->sa_family == AF_INET &&
        (one->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP) {
      own = ((const struct sockaddr_in *)(const void *)one->ifa_addr)->sin_addr;
      break;
    }
  freeifaddrs(all);
  return own;
}

ncclResult_t unique_id_create(ncclUniqueId *id) {
  struct handle handle;
  memset(&handle, 0, sizeof handle);
  const char *fixed = getenv("NCCL_COMM_ID");
  if (fixed != NULL) {
    ncclResult_t result = parse_address(fixed, &handle.address.ipv4);
    if (result != ncclSuccess)
      return result;
    handle.magic = magic_of_fixed_id;
  } else {
    uint16_t port;
    if (getrandom(&handle.magic, sizeof handle.magic, 0) != sizeof handle.magic ||
        getrandom(&port, sizeof port, 0) != sizeof port) {
      report_error("getrandom failed: %s", strerror(errno));
      return ncclSystemError;
    }
    handle.address.ipv4.sin_family = AF_INET;
    handle.address.ipv4.sin_addr = own_address();
    handle.address.ipv4.sin_port = htons(port | 0x8000); /* looks like an ephemeral one */
  }
  memset(id, 0, sizeof *id);
  memcpy(id->internal, &handle, sizeof handle);
  return ncclSuccess;
}

uint64_t unique_id_hash(const ncclUniqueId *ids, int count) {
  return hash_finish(hash_add(HASH_START, ids, (size_t)count * sizeof *ids));
}
