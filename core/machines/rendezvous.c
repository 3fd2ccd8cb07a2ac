/* What is written into an ncclUniqueId (rendezvous.h). Numbers are as the machine has them: ranks
 * of one communicator all have the same order of bytes, or NCCL would not work either. */
#include "core/machines/rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAIL_OFFSET 64
#define TAIL_TAG UINT64_C(0x314d4e494f4a434e) /* "NCJOINM1": whose it is, and the version */
/* The number in ids made with NCCL_COMM_ID (NCCL_MAGIC in src/include/bootstrap.h). */
#define MAGIC_OF_COMM_ID UINT64_C(0x0280028002800280)
#define ADDRESS_OFFSET 8

struct tail {
  uint64_t tag, job;
  unsigned char secret[RENDEZVOUS_SECRET_BYTES], address[RENDEZVOUS_ADDRESS_BYTES];
};
_Static_assert(sizeof(struct tail) == RENDEZVOUS_ID_BYTES - TAIL_OFFSET,
               "the tail is all that is left");

bool rendezvous_make(struct rendezvous *made) {
  memset(made, 0, sizeof(*made));
  return getrandom(&made->job, sizeof(made->job), 0) == sizeof(made->job) &&
         getrandom(made->secret, sizeof(made->secret), 0) == sizeof(made->secret);
}

const char *rendezvous_read_secret(const char *path,
                                   unsigned char secret[RENDEZVOUS_SECRET_BYTES]) {
  struct stat status;
  const char *wrong = NULL;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0)
    return strerror(errno);
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
    wrong = "it is no file";
  else if ((status.st_uid != geteuid() && status.st_uid != 0) ||
           (status.st_mode & (S_IWGRP | S_IRWXO)) != 0)
    wrong = "it must be this user's or root's, closed to others, and not writable for its group "
            "(chmod 600)";
  else if (read(file, secret, RENDEZVOUS_SECRET_BYTES) != RENDEZVOUS_SECRET_BYTES)
    wrong = "it has less than 32 bytes";
  close(file);
  return wrong;
}

static bool is_zero(const unsigned char *bytes, size_t size) {
  size_t at = 0;
  while (at < size && bytes[at] == 0)
    at++;
  return at == size;
}

/* The address that NCCL wrote, a struct sockaddr_in or sockaddr_in6; false if it is none. */
static bool read_address(const unsigned char *id, unsigned char address[RENDEZVOUS_ADDRESS_BYTES]) {
  struct sockaddr_in6 ipv6;
  struct sockaddr_in ipv4;
  memcpy(&ipv6, id + ADDRESS_OFFSET, sizeof(ipv6));
  memcpy(&ipv4, id + ADDRESS_OFFSET, sizeof(ipv4));
  if (ipv6.sin6_family == AF_INET6) {
    memcpy(address, &ipv6.sin6_addr, RENDEZVOUS_ADDRESS_BYTES);
    return !is_zero(address, RENDEZVOUS_ADDRESS_BYTES);
  }
  memset(address, 0, RENDEZVOUS_ADDRESS_BYTES);
  memset(address + 10, 0xff, 2); /* IPv4 mapped: RFC 4291, 2.5.5.2 */
  memcpy(address + 12, &ipv4.sin_addr, sizeof(ipv4.sin_addr));
  return ipv4.sin_family == AF_INET && ipv4.sin_addr.s_addr != 0;
}

bool rendezvous_write(unsigned char id[RENDEZVOUS_ID_BYTES], struct rendezvous *job) {
  uint64_t magic;
  unsigned char address[RENDEZVOUS_ADDRESS_BYTES];
  memcpy(&magic, id, sizeof(magic));
  if (magic == MAGIC_OF_COMM_ID || !is_zero(id + TAIL_OFFSET, RENDEZVOUS_ID_BYTES - TAIL_OFFSET) ||
      !read_address(id, address))
    return false;
  if (is_zero(job->address, sizeof(job->address)))
    memcpy(job->address, address, sizeof(address));
  struct tail tail = {.tag = TAIL_TAG, .job = job->job};
  memcpy(tail.secret, job->secret, sizeof(tail.secret));
  memcpy(tail.address, job->address, sizeof(tail.address));
  memcpy(id + TAIL_OFFSET, &tail, sizeof(tail));
  return true;
}

bool rendezvous_read(const unsigned char id[RENDEZVOUS_ID_BYTES], struct rendezvous *job) {
  struct tail tail;
  memcpy(&tail, id + TAIL_OFFSET, sizeof(tail));
  if (tail.tag != TAIL_TAG)
    return false;
  job->job = tail.job;
  memcpy(job->secret, tail.secret, sizeof(job->secret));
  memcpy(job->address, tail.address, sizeof(job->address));
  return true;
}

/* FNV-1a. It names a file that others can see, so the secret has no part in it. */
void rendezvous_of_secret(const unsigned char secret[RENDEZVOUS_SECRET_BYTES], const void *text,
                          size_t size, struct rendezvous *job) {
  const unsigned char *byte = text;
  memset(job, 0, sizeof(*job));
  job->job = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++)
    job->job = (job->job ^ byte[i]) * UINT64_C(0x100000001b3);
  memcpy(job->secret, secret, sizeof(job->secret));
}

bool rendezvous_of_id(const unsigned char id[RENDEZVOUS_ID_BYTES],
                      const unsigned char secret[RENDEZVOUS_SECRET_BYTES], struct rendezvous *job) {
  unsigned char address[RENDEZVOUS_ADDRESS_BYTES];
  if (!read_address(id, address))
    return false;
  rendezvous_of_secret(secret, id + ADDRESS_OFFSET, sizeof(struct sockaddr_in6), job);
  memcpy(job->address, address, sizeof(address));
  return true;
}

void rendezvous_address(const unsigned char address[RENDEZVOUS_ADDRESS_BYTES],
                        char text[RENDEZVOUS_ADDRESS_TEXT]) {
  static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
  bool ipv4 = memcmp(address, mapped, sizeof(mapped)) == 0;
  if (inet_ntop(ipv4 ? AF_INET : AF_INET6, address + (ipv4 ? 12 : 0), text,
                RENDEZVOUS_ADDRESS_TEXT) == NULL)
    text[0] = '\0';
}
