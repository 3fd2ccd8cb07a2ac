/* Settings of the loopback NCCL: one table of environment variables, read once per process.
 *
 * Two of NCCL's own variables are honoured where they are used: NCCL_COMM_ID (unique_id.c) and
 * NCCL_COMM_BLOCKING (config.c). NCCL_DEBUG decides whether errors are also printed (report.c).
 */
#ifndef LOOPBACK_NCCL_SETTINGS_H
#define LOOPBACK_NCCL_SETTINGS_H

#include <stdbool.h>

struct settings {
  bool connect;   /* LOOPBACK_CONNECT: first use blocks on the host, as NCCL's runtime connect */
  int connect_ms; /* LOOPBACK_CONNECT_MS: how long that takes once all ranks have come */
  bool destroy_meets; /* LOOPBACK_DESTROY=meet: ncclCommDestroy waits for that of all others */
  bool nvls; /* LOOPBACK_NVLS=1: collectives of registered buffers meet on the host (connect.h) */
  bool duplicate_gpu_error; /* LOOPBACK_DUPLICATE_GPU=error: two ranks on one device are refused */
  int hang_seconds; /* LOOPBACK_HANG_S: a wait longer than this is reported once; 0: never */
  /* LOOPBACK_DEATH=error: a lost peer is ncclRemoteError; hang: wait for ever. */
  bool death_is_error;
  bool mismatch_hangs; /* LOOPBACK_MISMATCH=hang: ranks that differ wait for ever, as with NCCL;
                          stop: end the run */
  const char *folder;  /* LOOPBACK_FOLDER: where ranks meet; NULL: /dev/shm */
  const char *log;     /* LOOPBACK_LOG: path, %p becomes the process id; NULL: no log */
};

/* Any thread. A value outside the accepted ones stops the process: a typo must not change what a
 * test means. */
const struct settings *settings_get(void);

#endif
