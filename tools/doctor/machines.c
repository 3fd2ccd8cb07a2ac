/* What several machines need (findings.h): the agent, its libraries, an address and ports. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/machines/rendezvous.h"
#include "tools/check/image.h"
#include "tools/check/search.h"
#include "tools/doctor/findings.h"

static const char *const libraries[] = {"libzmq.so.5", "libsodium.so.23"};

/* wanted: somebody has set it. On one machine nothing of this is used. */
static void find_missing(struct findings *findings, bool wanted, const char *remedy,
                         const char *what) {
  finding(findings, wanted ? HEALTH_WRONG : HEALTH_NOTE, "machines", remedy,
          "ranks of several machines cannot join from here: %s", what);
}

/* Whether the agent can be started. */
static bool look_at_agent(struct findings *findings, const struct places *places, bool wanted) {
  char path[PATH_MAX], what[PATH_MAX + 64];
  const char *slash = strrchr(places->preload, '/');
  int length = slash != NULL ? (int)(slash - places->preload) : 0;
  if (snprintf(path, sizeof path, "%.*s/nccl-join-agent", length, places->preload) >= PATH_MAX ||
      access(path, X_OK) != 0) {
    find_missing(findings, wanted,
                 "build it with libzmq3-dev and libsodium-dev, or install the package",
                 "there is no nccl-join-agent beside libnccl-join.so");
    return false;
  }
  for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
    struct search search;
    search_begin(&search, getenv("LD_LIBRARY_PATH"));
    bool found = search_library(&search, libraries[i], NULL, path);
    search_end(&search);
    if (found)
      continue;
    snprintf(what, sizeof what, "the dynamic linker does not find %s", libraries[i]);
    find_missing(findings, wanted,
                 "apt install libzmq5 libsodium23, or your distribution's packages", what);
    return false;
  }
  return true;
}

/* "10.0.0.7 (eth0), fd00::7 (eth0)": where others may reach this machine. */
static void write_addresses(char *text, size_t size) {
  struct ifaddrs *all = NULL;
  size_t used = 0;
  text[0] = '\0';
  if (getifaddrs(&all) != 0)
    return;
  for (const struct ifaddrs *one = all; one != NULL && used < size; one = one->ifa_next) {
    char address[INET6_ADDRSTRLEN] = "";
    const struct sockaddr *at = one->ifa_addr;
    if (at == NULL || (one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP))
      continue;
    const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)(const void *)at)->sin6_addr;
    if (at->sa_family == AF_INET)
      inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)at)->sin_addr, address,
                sizeof address);
    else if (at->sa_family == AF_INET6 && !IN6_IS_ADDR_LINKLOCAL(ipv6))
      inet_ntop(AF_INET6, ipv6, address, sizeof address);
    if (address[0] != '\0')
      used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used > 0 ? ", " : "", address,
                               one->ifa_name);
  }
  freeifaddrs(all);
}

/* Where all meet without an id that says it, they know each other by a secret. */
static bool look_at_secret(struct findings *findings, const struct settings *settings) {
  unsigned char secret[RENDEZVOUS_SECRET_BYTES];
  bool has_file = settings->machines_secret[0] != '\0';
  const char *wrong = has_file ? rendezvous_read_secret(settings->machines_secret, secret) : NULL;
  if (wrong != NULL)
    finding(findings, HEALTH_WRONG, "machines",
            "make the file on all machines: head -c 32 /dev/urandom, chmod 600",
            "NCCL_JOIN_MACHINES_SECRET=%s cannot be used: %s", settings->machines_secret, wrong);
  else if (!has_file && settings->rendezvous.host[0] != '\0')
    finding(findings, HEALTH_WRONG, "machines", "set NCCL_JOIN_MACHINES_SECRET on all ranks, too",
            "NCCL_JOIN_RENDEZVOUS is set without a secret by which its ranks know each other");
  return wrong == NULL && (has_file || settings->rendezvous.host[0] == '\0');
}

void look_at_machines(struct findings *findings, const struct places *places) {
  struct settings settings;
  char error[256], addresses[512];
  const char *set = getenv("NCCL_JOIN_MACHINES");
  bool wanted = set != NULL && *set != '\0';
  if (!settings_read(&settings, environ, error, sizeof error))
    return; /* which is said of the settings */
  if (!settings.machines) {
    finding(findings, HEALTH_GOOD, "machines", NULL,
            "ranks of several machines do not join: NCCL_JOIN_MACHINES=0");
    return;
  }
  if (!look_at_secret(findings, &settings) || !look_at_agent(findings, places, wanted))
    return;
  write_addresses(addresses, sizeof addresses);
  if (addresses[0] == '\0')
    find_missing(findings, wanted, "bring up the network that NCCL is to use",
                 "this machine has no address but its own loopback");
  else if (settings.rendezvous.host[0] != '\0')
    finding(findings, HEALTH_GOOD, "machines", NULL,
            "the agent and its libraries are there; this one is %s; all meet at %s, ports %u to "
            "%u, which a firewall must let through",
            addresses, settings.rendezvous.host, settings.rendezvous.port,
            settings.rendezvous.port + SETTINGS_PORTS - 1);
  else
    finding(
        findings, HEALTH_GOOD, "machines", NULL,
        "the agent and its libraries are there; this one is %s; all meet at one of the machine "
        "that makes the first id (rank 0, "
        "mostly), at one of the ports %u to %u, which a firewall must let through; in jobs of more "
        "than 17 machines on others, too",
        addresses, settings.machines_ports.first, settings.machines_ports.last);
}
