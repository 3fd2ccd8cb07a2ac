/* What the agents of a job derive from its secret (core/machines/rendezvous.h): the keys by which
 * they know each other, and the ports on which the root may listen. Who has not the secret gets
 * neither. */
#ifndef TOOLS_AGENT_KEYS_H
#define TOOLS_AGENT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/machines/rendezvous.h"

#define KEY_TEXT 41 /* Z85, as ZeroMQ takes it */
#define PORTS 8

struct keys {
  char root_public[KEY_TEXT], root_secret[KEY_TEXT];
  char child_public[KEY_TEXT], child_secret[KEY_TEXT];
  uint16_t ports[PORTS]; /* of a range, in the order in which they are tried */
};

bool keys_derive(const struct rendezvous *job, uint32_t first_port, uint32_t last_port,
                 struct keys *keys);

#endif
