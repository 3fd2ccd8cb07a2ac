/* How many descriptors the agent may have: whoever reaches its port can make it take connections,
 * each of which costs up to FRAME_BYTES_MAX bytes until its handshake has failed. What comes when
 * there are no more waits for the others to end.
 *
 * The kernel compares the soft limit with the number of a new descriptor, so those that are open
 * stay open when it falls. Of the process; one thread. */
#ifndef TOOLS_AGENT_DESCRIPTORS_H
#define TOOLS_AGENT_DESCRIPTORS_H

#include <stdint.h>

/* For connections, and what the agent and ZeroMQ have themselves, of which there are 18 before the
 * first child comes. Those that a flood has taken are free again when its handshakes have timed out
 * (HANDSHAKE_MS in links.c).
 */
#define DESCRIPTORS_OF_LINKS 512u

/* Allows those and `own` more, where the process's hard limit does. */
void descriptors_allow(uint32_t own);

#endif
