/* What this rank's own calls have sent from, so that it can send from there again once it has
 * joined (NCCL_JOIN_LOSSY=last).
 *
 * A key stands for one place in one unit. Calls of one key may use several buffers: layers of the
 * same size, the halves of a double buffer. Their order comes round with the program's loop, and so
 * the last round of it is repeated. That is the shortest one that has come SENT_REPEATS times in a
 * row: the ranks that are still active are in the loop, whatever this rank's program has done after
 * earlier loops. Where no round has come so often, the end of the sequence is looked for earlier in
 * it, as long a piece as can be found there, and what followed it is what comes next.
 *
 * Addresses are numbers here, never looked at. Any thread: there is a lock inside, held for the
 * time of a call.
 */
#ifndef NCCL_JOIN_CORE_SENT_H
#define NCCL_JOIN_CORE_SENT_H

#include <stdbool.h>
#include <stdint.h>

/* Keys kept, at most: of SENT_WAYS with the same low bits the one not used for longest goes. */
#define SENT_SETS 128u /* a power of two */
#define SENT_WAYS 8u

/* Calls of one key that are remembered. A round may have half as many. */
#define SENT_CALLS 1024u

/* Of a round, until it is believed; as of a body (learner.h). */
#define SENT_REPEATS 3u

struct sent;

/* NULL if there is no memory. Grows by what is noted, up to SENT_SETS * SENT_WAYS * SENT_CALLS
 * addresses. */
struct sent *sent_create(void);
void sent_destroy(struct sent *sent);

/* A call of the rank's own program. Without memory it is forgotten. */
void sent_note(struct sent *sent, uint64_t key, const void *address);

/* The buffer of the next call of this key if the program went on as before; NULL if it has never
 * made one. One step further with each call, until one is noted. *told: whether anything tells
 * which buffer it is; false where there have been several, and none twice: then it is the last one.
 */
const void *sent_next(struct sent *sent, uint64_t key, bool *told);

#endif
