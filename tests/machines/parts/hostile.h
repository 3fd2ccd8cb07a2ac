/* Somebody on the network, or on a machine, who means no good; run by tests beside a job (start.c,
 * "run M").
 *
 *   hostile scan              connects to all ports of the range at the root's machine, and sends what scanners send
 *   hostile half-open N S     N connections that send the first bytes of a handshake and no more, for S seconds
 *   hostile replay            the bytes of a right handshake again, whole and cut off at every length
 *   hostile wrong-key         ZeroMQ peers without a key, with a wrong one, and with one of the two
 *   hostile fleeting          the right keys; many that say hello and are gone
 *   hostile malformed         the right keys; then frames and messages that are none
 *   hostile stolen            the right keys; then ranks, ends and answers of a job that has stolen the id
 *   hostile flood             the right keys; then as many teams and slots as can be named
 *   hostile user              another user of the machine: nobody
 *   hostile agent             says what memory, descriptors and processor time the agent here has used
 *
 * It takes the root's address, and the secret where it says right keys, from the board of its own
 * machine, which it can read as the test's user. With HOSTILE_AT=address it is meant for the agent
 * there, whoever that is. It says what has become of it on stderr, as lines that begin with
 * HOSTILE; "let in" is in those where something was answered that should not have been. */
#ifndef TESTS_MACHINES_HOSTILE_H
#define TESTS_MACHINES_HOSTILE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/machines/board.h"
#include "tools/agent/keys.h"

/* Whom it is meant for. */
struct target {
  struct board_words board; /* of this machine, as it was */
  struct keys keys;
  struct sockaddr_in root; /* where it listens; or another agent */
};

__attribute__((format(printf, 1, 2))) void hostile_say(const char *format, ...);

double hostile_now_s(void);
void hostile_sleep_ms(int milliseconds);

/* A connection to an address; -1: there is none within some milliseconds. */
int hostile_connect(const struct sockaddr_in *address, int milliseconds);

/* What comes over it within some milliseconds, up to its end or so many bytes; *ended: there is no
 * more. */
size_t hostile_read(int connection, void *bytes, size_t size, int milliseconds, bool *ended);

/* Each returns the program's status. */
int hostile_scan(const struct target *target);
int hostile_half_open(const struct target *target, int count, int seconds);
int hostile_replay(const struct target *target);
int hostile_user(const char *board);
int hostile_agent(void);
int hostile_wrong_key(const struct target *target);
int hostile_fleeting(const struct target *target);
int hostile_malformed(const struct target *target);
int hostile_stolen(const struct target *target);
int hostile_flood(const struct target *target);

#endif
