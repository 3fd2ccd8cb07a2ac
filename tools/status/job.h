/* One job, or one set of ranks of it, as nccl-join status shows it: the ranks of a segment. */
#ifndef NCCL_JOIN_TOOLS_STATUS_JOB_H
#define NCCL_JOIN_TOOLS_STATUS_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/transport/segment_view.h"
#include "tools/json_text.h"

enum rank_doing {
  DOING_RUNS,  /* its program */
  DOING_WAITS, /* in a call */
  DOING_LEFT,  /* for good */
  DOING_ENDED, /* its process is gone, or has failed */
};

struct job_rank {
  int pid;
  enum rank_doing doing;
  struct plane_fate fate;
  uint64_t passed; /* collectives */
  bool joined;
  uint64_t joined_since; /* index */
  uint64_t waits_s;
  char unit[256];  /* it waits in, or issued last; "": not known */
  char place[100]; /* where that stands in its program; "": not known */
};

struct job {
  uint32_t tag; /* of the communicator, as in messages */
  uint32_t nranks, expected;
  struct job_rank *ranks;
};

/* Reads the segment in a file. False: it cannot be read, or has ended (reason is empty then). */
bool job_read(struct job *job, const char *path, const char *name, char *reason);
void job_free(struct job *job);

void job_print(FILE *out, const struct job *job);
json_t *job_to_json(const struct job *job);

#endif
