/* The planes of a team whose ranks one test drives in turn, over one of the transports: that of
 * UNIT_TRANSPORT, which is "memory" (transport_memory) or "shm" (transport_shm). `make check` runs
 * the tests of attachments and of the agreement over both.
 */
#ifndef TESTS_UNIT_PLANES_H
#define TESTS_UNIT_PLANES_H

#include "core/transport/attachment.h"
#include "core/transport/logs.h"

struct planes;

/* A name that nobody has; attachments are made over that transport from now on. */
void planes_name(char name[ATTACHMENT_NAME_SIZE]);

/* A team of nranks, on /dev/shm or in memory; fails the test if there is none. */
struct planes *planes_create(uint32_t nranks);
void planes_destroy(struct planes *planes);

/* One rank's side, owned by the planes. */
struct plane *planes_rank(struct planes *planes, uint32_t rank);

/* From now on the rank counts as dead. */
void planes_kill(struct planes *planes, uint32_t rank);

/* How often the bell was rung. */
uint32_t planes_rings(struct planes *planes);

#endif
