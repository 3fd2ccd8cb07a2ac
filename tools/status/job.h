/* One job, or one set of ranks of it, as nccl-join status shows it: the ranks of a segment. */
#ifndef NCCL_JOIN_TOOLS_STATUS_JOB_H
#define NCCL_JOIN_TOOLS_STATUS_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/report/last_line.h"
#include "core/transport/segment_view.h"

enum rank_doing {
  DOING_RUNS,  /* its program */
  DOING_WAITS, /* in a call */
  DOING_LEFT,  /* for good */
  DOING_ENDED, /* its process is gone, or has failed */
};

struct job_rank {
  char machine[SEGMENT_SEEN_MACHINE]; /* another than this one; "": this one */
  int pid;                            /* 0 on another machine */
  char program[64];                   /* its command line; "...": and more; "": not known */
  uint64_t identity;                  /* equal in all communicators of this rank (attachment.h) */
  enum rank_doing doing;
  bool stopped;   /* its process, by a signal or a debugger */
  bool held;      /* it waits: in a call, or for a rank that is stopped */
  bool holds;     /* ranks that wait, wait for this one */
  bool on_device; /* it is not in a call, and has issued what a stopped rank has not come to */
  /* What waits in a call of another communicator: that one's tag, or 0, and the rank there. */
  uint32_t elsewhere, rank_elsewhere;
  struct plane_fate fate;
  bool failed;     /* by its own word */
  bool followed;   /* failed, after another one had */
  uint64_t passed; /* collectives */
  bool parked;     /* it waits, or did when it ended */
  bool joined;
  uint64_t joined_since; /* index */
  uint64_t waits_s;
  char unit[256];               /* it waits in, or issued last; "": not known */
  char place[100];              /* where that stands in its program; "": not known */
  char warning[LAST_LINE_SIZE]; /* the last WARN or ERROR of its process; "": none, or not known */
  uint64_t warned_s;            /* so long ago */
};

struct job {
  uint32_t tag; /* of the communicator, as in messages */
  uint32_t nranks, expected;
  struct job_rank *ranks;
};

/* Reads the segment in a file. False: it cannot be read, or has ended (reason is empty then). */
bool job_read(struct job *job, const char *path, const char *name, char *reason);
void job_free(struct job *job);

/* Fills `held` and `holds` of all ranks. If a process is stopped, ranks that have issued as much as
 * it has, or wait in a call, wait for it. Otherwise those that wait in a call wait for those that
 * run. who_waits.c. */
void job_find_waits(struct job *job);

/* Fills `warning` and `warned_s` of a rank with the last line of its process. now_ms:
 * CLOCK_MONOTONIC. warning.c. */
void job_read_warning(struct job_rank *rank, uint64_t now_ms);

/* Fills `elsewhere` and `rank_elsewhere` of all ranks of all jobs that have been read. */
void jobs_link(struct job *jobs, size_t njobs);

void job_print(FILE *out, const struct job *job);

/* For programs that are linked to Jansson; the caller's. job_json.c. */
struct json_t *job_to_json(const struct job *job);

/* Writes where a rank was that has ended (`ended` and `peers` are process numbers): " in
 * allreduce(...) at train.py:41", " after allreduce(...)"; "" if that is not known. Read from a
 * segment that one of its peers still has open. ended.c. */
void job_write_end(int ended, const int *peers, size_t npeers, char *text, size_t size);

/* The process of the rank that had failed when a rank of process `ended` did, if that is one of the
 * peers; 0: none, or not known. Read as above. ended.c. */
int job_failed_before(int ended, const int *peers, size_t npeers);

#endif
