/* Everything the loopback NCCL says: the last error, lines on stderr, the log of units, and
 * stopping a wrong run.
 *
 * Each line leaves in one write, so lines of several processes do not mix. Any thread may call any
 * of these.
 */
#ifndef LOOPBACK_NCCL_REPORT_H
#define LOOPBACK_NCCL_REPORT_H

/* Exit status of a run that was stopped: ranks did not agree, a buffer lies outside device memory,
 * a setting is wrong. A status and not abort(): no core files, and a test can tell it from a crash.
 */
#define REPORT_STOP_STATUS 86

/* Becomes the text of ncclGetLastError; printed too if NCCL_DEBUG is WARN, INFO or TRACE. */
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The text of the last report_error of any thread, "" before the first. The caller's own copy,
 * until its next call. */
const char *report_last_error(void);

/* One line on stderr, "loopback NCCL: ...". */
void report_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, then the process ends at once with REPORT_STOP_STATUS; no exit handler runs. */
_Noreturn void report_stop(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One line in the file of LOOPBACK_LOG; nothing without that setting. */
void report_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How an exported function is declared. As in NCCL each nccl function is a weak alias of a strong
 * pnccl one, so that a profiling layer can define its own and still reach this; calls between
 * exported functions go by their nccl name and so through the procedure linkage table, where a
 * layer in front sees them. */

#define API_EXPORT __attribute__((visibility("default")))

/* After the definition of pnccl##name. */
#define API_ALIAS(name)                                                                            \
  extern __typeof__(pnccl##name) nccl##name                                                        \
      __attribute__((visibility("default"), weak, alias("pnccl" #name)))

#endif
