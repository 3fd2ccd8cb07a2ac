/* How the machines of a job find each other: what the creator of an ncclUniqueId writes into it,
 * where NCCL leaves zeros, and what all who get the id read there.
 *
 * NCCL uses the first bytes: a number, and the address at which its creator listens (40 bytes in
 * NCCL 2.18 to 2.32, struct ncclBootstrapHandle in src/include/bootstrap.h). Ours are the last 64.
 * They are the same on all ranks, as the id is one: NCCL hashes all of it to tell hosts apart
 * (src/init.cc, commHash).
 *
 * Pure, but for the random numbers and the file of a secret.
 */
#ifndef NCCL_JOIN_CORE_RENDEZVOUS_H
#define NCCL_JOIN_CORE_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RENDEZVOUS_ID_BYTES 128 /* of an ncclUniqueId: NCCL_UNIQUE_ID_BYTES */
#define RENDEZVOUS_SECRET_BYTES 32
#define RENDEZVOUS_ADDRESS_BYTES 16
#define RENDEZVOUS_ADDRESS_TEXT 46 /* INET6_ADDRSTRLEN */

/* A job: the machines whose agents have one root. */
struct rendezvous {
  uint64_t job;                                    /* random; names the job, and is no secret */
  unsigned char secret[RENDEZVOUS_SECRET_BYTES];   /* who has it belongs to the job */
  unsigned char address[RENDEZVOUS_ADDRESS_BYTES]; /* of the root's machine: IPv6, or IPv4 mapped */
};

/* A new job; its address is not known yet (zeros). False if the kernel gives no random numbers. */
bool rendezvous_make(struct rendezvous *made);

/* Writes it into an id that NCCL has just made. Without an address it takes, and keeps, the one
 * that NCCL wrote. False, and the id is as it was: its last bytes are not zero, it holds the number
 * of all ids made with NCCL_COMM_ID, or no address that others can reach. */
bool rendezvous_write(unsigned char id[RENDEZVOUS_ID_BYTES], struct rendezvous *job);

/* What is in an id; false if it has none, or one of another version. */
bool rendezvous_read(const unsigned char id[RENDEZVOUS_ID_BYTES], struct rendezvous *job);

/* Reads the secret of NCCL_JOIN_MACHINES_SECRET from its file. NULL, or why it cannot be used:
 * nobody but its owner and group shall have it from the file, and nobody else than its owner put it
 * there. A link is allowed: Kubernetes mounts secrets so. The text lasts until the next call of
 * strerror. */
const char *rendezvous_read_secret(const char *path, unsigned char secret[RENDEZVOUS_SECRET_BYTES]);

/* A job whose secret is known to all otherwise, and which an id says nothing of: its number follows
 * from a text that is the same on all machines (where they meet). Without an address. */
void rendezvous_of_secret(const unsigned char secret[RENDEZVOUS_SECRET_BYTES], const void *text,
                          size_t size, struct rendezvous *job);

/* The same, and its address, of an id that NCCL has made for an address of NCCL_COMM_ID, or that
 * nobody has marked. False: it holds no address. */
bool rendezvous_of_id(const unsigned char id[RENDEZVOUS_ID_BYTES],
                      const unsigned char secret[RENDEZVOUS_SECRET_BYTES], struct rendezvous *job);

/* An address as text. */
void rendezvous_address(const unsigned char address[RENDEZVOUS_ADDRESS_BYTES],
                        char text[RENDEZVOUS_ADDRESS_TEXT]);

#endif
