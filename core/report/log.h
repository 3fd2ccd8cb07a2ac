/* The log: lines in the format of NCCL's own, so that both can be read, merged and filtered as
 * one.
 *
 *   host:pid:tid [device] NCCL-JOIN WARN text
 *
 * is what NCCL 2.28 prints (debug.cc, ncclDebugLog) with NCCL-JOIN for NCCL; file and line, which
 * NCCL adds to a WARN, are left out: a message of ours says what to do, not where it was printed.
 * ERROR and TRACE lines look the same. A line that is about a rank of a communicator ends with it,
 * in the words of NCCL's own (init.cc: "comm %p rank %d nranks %d ... commId 0x%llx"):
 *
 *   ... text [comm 0x5581c0ffee00 rank 1 nranks 4 tag 0badcafe]
 *
 * A line is at most LOG_LINE_SIZE bytes, the newline included (a longer one ends in "..."), has no
 * control characters, and is written by one write(2): lines of several threads and processes never
 * mix. Nothing here allocates; errno is kept; neither SIGPIPE nor SIGXFSZ is ever raised. Every
 * function may be called by any thread and in exit handlers, but not in signal handlers.
 */
#ifndef NCCL_JOIN_CORE_LOG_H
#define NCCL_JOIN_CORE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/settings/settings.h"

#define LOG_LINE_SIZE 1024

/* Takes level and file from the settings, and opens the file: %h becomes the host's name up to its
 * first dot, %p the process id, %r the rank ("unknown" if rank is negative), %% a percent sign.
 * Appends to a file that exists. If it cannot be opened, says so once on stderr and logs there.
 * Before log_open lines of WARN and ERROR go to stderr. The first call counts; later ones do
 * nothing (one process may have several ranks). */
void log_open(const struct settings *settings, int rank);

/* Whether a line of this level would be written: for callers whose text is expensive. */
bool log_enabled(enum log_level level);

/* The CUDA device that this thread's lines name, as in NCCL's. 0 until set. */
void log_set_device(int device);

/* Writes one line. The text has no newline at its end. If the file cannot be written to any more
 * (disk full, descriptor closed by the program), says so once on stderr and writes this line and
 * all later ones there. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whom a line is about: this process's rank of a communicator. All zero: nobody. */
struct log_subject {
  const void *comm; /* the program's handle, as NCCL prints it; NULL: not known, or gone */
  int rank, nranks; /* 0 ranks: not known */
  uint32_t tag;     /* the communicator's number, equal on all ranks; 0: not known */
};

/* The same as log_line, about a rank of a communicator. A text that is too long is cut, not that. A
 * line that begins with a blank belongs to the one before, which says it. */
void log_line_of(struct log_subject subject, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A line of INFO about a rank that is written at the level WARN, too. */
void log_note_of(struct log_subject subject, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What an errno means: in English, and without allocating, from glibc 2.32 on. Returns text, or a
 * constant. */
#define LOG_REASON 64
const char *log_reason(int error, char text[LOG_REASON]);

/* log_line, or log_line_of, but only the first time this line of code is reached in the process, by
 * whichever thread. */
#define log_once(...) LOG_ONCE(log_line(__VA_ARGS__))
#define log_once_of(...) LOG_ONCE(log_line_of(__VA_ARGS__))
#define LOG_ONCE(statement)                                                                        \
  do {                                                                                             \
    static atomic_flag log_once_done = ATOMIC_FLAG_INIT;                                           \
    if (!atomic_flag_test_and_set(&log_once_done))                                                 \
      (statement);                                                                                 \
  } while (0)

/* Who is told of each line of WARN and ERROR, whether it is written or not: by whichever thread
 * writes it, without a lock. tag: of whom it is about, or 0. NULL: nobody. */
void log_tell(void (*told)(uint32_t tag, const char *text));

/* The text of the last line of WARN or ERROR, whether it was written or not; "" if there was none.
 * For who returns an error to the program. Lines that begin with a blank belong to the one before,
 * and are left out. */
void log_last(char *text, size_t size);

/* No line from here on, and no trace (trace.h): for a forked child, which is not a rank. Safe in a
 * pthread_atfork handler. For good. */
void log_disable(void);
bool log_is_disabled(void);

/* Closes the file and forgets the settings, for tests: as if log_open had never been called. */
void log_reset(void);

/* ---- what the trace shares with the log ---- */

/* write(2) of everything, in as few calls as the kernel allows, without SIGPIPE or SIGXFSZ.
 * Returns how many bytes were written; less than size is an error, in errno. */
size_t log_write(int descriptor, const void *bytes, size_t size);

/* This host's name up to its first dot, with / and % (which mean something in paths) as -. Always
 * terminated. */
void log_host(char *name, size_t size);

#endif
