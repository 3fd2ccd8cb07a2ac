/* Why the ranks of a communicator are not found (meeting_private.h): people read it. */
#include "tools/agent/meeting_private.h"

#include <stdio.h>
#include <string.h>

/* That an agent is of another version, if one is. */
static void add_other_version(const struct meeting *meeting, char reason[FRAME_TEXT_BYTES]) {
  const char *host;
  uint32_t version = links_other_version(meeting->links, &host);
  size_t used = strlen(reason);
  if (version != 0)
    snprintf(reason + used, FRAME_TEXT_BYTES - used,
             "; another nccl-join is%s%s: its agent speaks version %u, this one's %u",
             host[0] != '\0' ? " on " : " there", host, version, FRAMES_VERSION);
}

void reason_missing(const struct meeting *meeting, const struct communicator *one,
                    char reason[FRAME_TEXT_BYTES]) {
  uint32_t missing = one->ranks - one->nheard;
  snprintf(reason, FRAME_TEXT_BYTES, "%u of its %u ranks %s not been heard of in %u s", missing,
           one->ranks, missing == 1 ? "has" : "have", one->wait_s);
  add_other_version(meeting, reason);
}

/* The one that was named as its parent does not answer, and who has named it has no link to spare.
 */
static void write_unreachable(const struct meeting *meeting, const struct frame_place *parent,
                              char reason[FRAME_TEXT_BYTES]) {
  char address[RENDEZVOUS_ADDRESS_TEXT];
  rendezvous_address(parent->address, address);
  snprintf(reason, FRAME_TEXT_BYTES,
           "%.35s does not reach the agent of %.35s, %s port %u: does a firewall let it through?",
           meeting->host, parent->host, address, parent->port);
}

void reason_alone(const struct meeting *meeting, const struct communicator *one,
                  char reason[FRAME_TEXT_BYTES]) {
  char address[RENDEZVOUS_ADDRESS_TEXT];
  const struct board_terms *terms = &meeting->board->words->terms;
  const struct frame_place *parent = links_unreachable(meeting->links);
  const char *host;
  bool other = links_other_version(meeting->links, &host) != 0;
  if (parent != NULL) {
    write_unreachable(meeting, parent, reason);
    return;
  }
  rendezvous_address(meeting->job.address, address);
  snprintf(reason, FRAME_TEXT_BYTES,
           "no agent of the job has answered at %s, at a port of %u to %u, for %u s%s", address,
           terms->first_port, terms->last_port, one->wait_s,
           other ? "" : ": does a firewall let them through, and has it the same secret?");
  add_other_version(meeting, reason);
}
