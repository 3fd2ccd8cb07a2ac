/* The trace: what the agreed stream did on one rank, for people and for the reports of tools/.
 *
 * One file per rank in the folder NCCL_JOIN_TRACE, named rank-<rank>.<host>.<pid>.jsonl; if that
 * exists (a second team of the process, or an older run), rank-<rank>.<host>.<pid>-2.jsonl and so
 * on. Each line is a JSON object. Version 1:
 *
 *   first        {"format":"nccl-join-trace","version":1,"rank":2,"ranks":4,
 *                 "team":"00c0ffee00c0ffee","host":"node7","pid":4711,"group":4711,"job_rank":6,
 *                 "start_ns":81723000000,"start_unix_ns":1760000000000000000,
 *                 "nccl_join":"0.1.0","settings":"NCCL_JOIN_TRACE=traces"}
 *   every other  {"t_ns":81723004711,"event":"shadow","index":17,
 *                 "unit":"allreduce(sum, float32, 1024)","peer":0}
 *   and          {"t_ns":81723004900,"event":"warn","text":"rank 2 failed after ..."}
 *
 * rank and ranks are of the team; job_rank is of the whole job, as its launcher gives it to a
 * process (RANK and its like), and left out where none does. group: the process group, which
 * nccl-join run -n knows its ranks by (tools/launch_record.h).
 *
 * settings are those that the environment sets, a line each; warn is a line of WARN or ERROR in the
 * log. t_ns and start_ns are CLOCK_MONOTONIC, so files of one host compare; start_unix_ns relates
 * hosts as well as their clocks agree. index counts the units of the team's agreed sequence. unit
 * and peer are left out where there are none. A version changes when a field changes its meaning or
 * goes away, not when one is added: readers ignore those they do not know.
 *
 * The file is mapped (ring.h): a record is there as soon as it has been made, however the process
 * ends. It is bounded (NCCL_JOIN_TRACE_SIZE): of a longer run it has the last records. Readers take
 * the records in the order of t_ns, and leave out what does not begin with '{': empty lines, and
 * what a process leaves that is killed while it writes. Where the file cannot grow, one WARN says
 * so; it keeps the size that it has, and the program goes on.
 *
 * Every function accepts NULL for a trace that is off. A trace may be used by several threads. In
 * a forked child (log_disable) nothing is written. errno is kept.
 */
#ifndef NCCL_JOIN_CORE_TRACE_H
#define NCCL_JOIN_CORE_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_VERSION 1

enum trace_event {
  TRACE_COMMIT, /* issued at once, as the learner expected */
  TRACE_CLAIM,  /* a deviation: asked for this index */
  TRACE_PARK,   /* waits until the index is settled */
  TRACE_SHADOW, /* issued to match others; peer: a rank that issued it for real */
  TRACE_SETTLE, /* the index is decided; peer: the rank whose unit won */
  TRACE_JOIN,   /* first shadow after a real unit: this rank has joined */
  TRACE_LEAVE,  /* claims LEAVE */
  TRACE_DONE,   /* all ranks have joined or left: goes on */
  TRACE_FAIL,   /* a rank failed; peer: which */
  TRACE_STOP,   /* all stop, because peer has left */
};

/* A folder and those above it, as far as they are missing. Returns 0, or the errno of the first
 * that is missing and cannot be made. */
int trace_make_folder(const char *folder);

struct trace;

/* Opens the trace of one rank of a team and writes its header. The file has at most `limit` bytes
 * (64 KiB at least). Missing folders are made. NULL if folder is "" (no trace), in a disabled
 * process, without memory, or if the file cannot be made (one WARN). The caller closes it. */
struct trace *trace_open(const char *folder, size_t limit, int rank, int ranks, uint64_t team);

/* Adds a record. unit: as from unit_describe, or NULL; cut off after TRACE_UNIT_MAX bytes. peer: a
 * rank, or -1. */
#define TRACE_UNIT_MAX 4096
void trace_event(struct trace *trace, enum trace_event event, uint64_t index, const char *unit,
                 int peer);

/* Gives back what the file has ahead: for exit paths that may not come back. */
void trace_flush(struct trace *trace);

/* The same, and frees. */
void trace_close(struct trace *trace);

#endif
