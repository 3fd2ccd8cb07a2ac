/* The segments that processes of this user have open: their names are gone once all ranks have
 * attached. */
#ifndef NCCL_JOIN_TOOLS_STATUS_SEGMENTS_H
#define NCCL_JOIN_TOOLS_STATUS_SEGMENTS_H

#include <stddef.h>
#include <sys/types.h>

#include "core/transport/attachment.h"

#define SEGMENTS_MAX 256

/* One, where somebody has it open. */
struct segment_found {
  dev_t device;
  ino_t inode;
  char path[64], name[ATTACHMENT_NAME_SIZE];
};

struct segments {
  size_t count;
  struct segment_found found[SEGMENTS_MAX];
};

/* Adds those of a process, or of all; each once. */
void segments_of_process(struct segments *segments, long pid);
void segments_of_all(struct segments *segments);

/* Those of the processes that one has started, as a launcher has its ranks, and of theirs. */
void segments_of_children(struct segments *segments, long pid);

#endif
