/* Keys and ports (keys.h): BLAKE2b of a word for each, keyed with the secret; the key pairs are
 * those that libsodium makes of a seed. */
#include "tools/agent/keys.h"

#include <sodium.h>
#include <string.h>
#include <zmq.h>

#include "core/settings/settings.h"

_Static_assert(PORTS == SETTINGS_PORTS, "a range has as many at least");
_Static_assert(crypto_box_SEEDBYTES == 32 && crypto_box_PUBLICKEYBYTES == 32 &&
                   crypto_box_SECRETKEYBYTES == 32,
               "ZeroMQ's keys are libsodium's");

static void derive(const struct rendezvous *job, const char *what, unsigned char out[32]) {
  crypto_generichash(out, 32, (const unsigned char *)what, strlen(what), job->secret,
                     sizeof(job->secret));
}

static bool pair(const struct rendezvous *job, const char *what, char public_text[KEY_TEXT],
                 char secret_text[KEY_TEXT]) {
  unsigned char seed[32], public_key[32], secret_key[32];
  derive(job, what, seed);
  bool made = crypto_box_seed_keypair(public_key, secret_key, seed) == 0 &&
              zmq_z85_encode(public_text, public_key, 32) != NULL &&
              zmq_z85_encode(secret_text, secret_key, 32) != NULL;
  sodium_memzero(seed, sizeof(seed));
  sodium_memzero(secret_key, sizeof(secret_key));
  return made;
}

static bool is_among(const uint16_t *ports, int count, uint16_t port) {
  for (int i = 0; i < count; i++)
    if (ports[i] == port)
      return true;
  return false;
}

/* The numbers of the hash, one after the other; one that is there already gives its neighbour. */
static void choose_ports(const struct rendezvous *job, uint32_t first, uint32_t last,
                         uint16_t ports[PORTS]) {
  unsigned char hash[32];
  derive(job, "nccl-join ports", hash);
  uint32_t count = last - first + 1;
  for (int i = 0; i < PORTS; i++) {
    uint32_t number;
    memcpy(&number, hash + (size_t)i * sizeof(number), sizeof(number));
    uint16_t port = (uint16_t)(first + number % count);
    for (uint32_t tried = 0; is_among(ports, i, port) && tried < count; tried++)
      port = (uint16_t)(port == last ? first : port + 1u);
    ports[i] = port;
  }
}

bool keys_derive(const struct rendezvous *job, uint32_t first_port, uint32_t last_port,
                 struct keys *keys) {
  if (sodium_init() < 0 || first_port == 0 || last_port < first_port || last_port > 65535 ||
      !pair(job, "nccl-join root", keys->root_public, keys->root_secret) ||
      !pair(job, "nccl-join child", keys->child_public, keys->child_secret))
    return false;
  choose_ports(job, first_port, last_port, keys->ports);
  return true;
}
