/* Communicators with ranks on several machines: an id says how their machines find each other, and
 * an agent on each, which the first rank starts that needs it, writes what the ranks of the others
 * do into this one's memory (core/machines). Not with NCCL_JOIN_MACHINES=0. On one machine nothing
 * of this happens, but that ids carry how they would be found.
 */
#ifndef NCCL_JOIN_INTERPOSE_MACHINES_H
#define NCCL_JOIN_INTERPOSE_MACHINES_H

#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

#include "core/machines/board.h"
#include "core/machines/rendezvous.h"
#include "core/report/log.h"
#include "core/transport/attachment.h"

/* Writes into an id that NCCL has just made where its machines are to find each other. */
void machines_mark(ncclUniqueId *id);

/* What an id and the settings say of that; false if they say nothing, or are not to be asked. */
bool machines_read(const ncclUniqueId *id, struct rendezvous *job);

/* What to do where ranks are missing; has_job: what machines_read said of the communicator's id.
 * unmet: why those of other machines are not found, as machines_meet said. */
const char *machines_advice(bool has_job, const char *unmet);

enum machines_met {
  MACHINES_ONE, /* all ranks are on this machine; or join is off, as nothing is known of the others */
  MACHINES_FOUND, /* the others' ranks are in the attachment's slots */
  MACHINES_OFF,   /* they are not found, nor does another machine think so */
  MACHINES_LOST,  /* other machines may think so: the communicator cannot be used */
};

/* The communicator has been made, so that all ranks of this machine have attached. nranks: of it.
 * Waits for the others. Why not is in unmet (BOARD_REASON_SIZE bytes) of MACHINES_OFF, for who says
 * that join is off; MACHINES_LOST is said here. Any thread. */
enum machines_met machines_meet(struct attachment *attachment, const struct rendezvous *job,
                                const char *name, uint32_t slots, uint32_t nranks,
                                struct log_subject subject, char *unmet);

/* The process is about to end: leaves nothing behind of an agent that has been killed. */
void machines_end(void);

#endif
