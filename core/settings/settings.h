/* Settings: everything a user can set, read from the environment.
 *
 * One table (settings_table.c) holds the name, type, default, accepted values and meaning of every
 * setting. Reading, error texts, `nccl-join env` and the table of docs/settings.md are made from
 * it. Read once per process, before the first communicator. A wrong value or an unknown NCCL_JOIN_
 * name is an error there, because a typo must not become a hang hours later.
 *
 * Pure: the environment is passed in, nothing is printed, nothing is allocated, no file is
 * touched.
 */
#ifndef NCCL_JOIN_CORE_SETTINGS_H
#define NCCL_JOIN_CORE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Where the active ranks need data of a joined rank: each has a policy of its own. */
enum lossy_kind {
  LOSSY_ALLGATHER,
  LOSSY_ALLTOALL,
  LOSSY_GATHER,
  LOSSY_SCATTER,
  LOSSY_SEND, /* to the ncclRecv of an active rank */
  LOSSY_KINDS,
};

/* "allgather": as in NCCL_JOIN_LOSSY. "kind" for what is none. */
const char *lossy_kind_name(enum lossy_kind kind);

/* What a joined rank does there. */
enum lossy_policy {
  LOSSY_ERROR, /* every rank gets ncclInvalidUsage */
  LOSSY_ZERO,  /* it contributes zeros */
  LOSSY_LAST,  /* what the buffer holds now that its own last call sent from */
};

/* What is broadcast from the last joiner when all ranks are together again. */
enum resync_policy {
  RESYNC_NONE,       /* buffers that the program has registered (hooks/include/nccl_join.h) */
  RESYNC_BROADCASTS, /* and those that it broadcast before its first other collective */
};

/* What a shadow's large buffers are. */
enum shadow_memory {
  SHADOW_MEMORY_PLAIN, /* memory of their size */
  SHADOW_MEMORY_ALIAS, /* one small block, seen over and over (hooks/alias.h) */
};

/* What happens when the first rank leaves. */
enum early_exit {
  EARLY_EXIT_JOIN,  /* it joins, and the others go on */
  EARLY_EXIT_THROW, /* all ranks stop at the same unit, with ncclInvalidUsage */
};

/* Whether epochs of ranks may mix where nothing is between them. */
enum epochs_policy {
  EPOCHS_WARN, /* they do, and a WARN says so */
  EPOCHS_MIX,
  EPOCHS_WAIT, /* a rank that begins another waits until all have */
};

/* What happens where ranks come to different collectives, or to ones that look alike, and nothing
 * tells which goes first, or whether they are one. */
enum unsure_policy {
  UNSURE_WARN, /* a choice is made, and told */
  UNSURE_STOP, /* the job stops: calls return ncclInvalidUsage where all ranks stop at one collective, and
                  ncclRemoteError where one rank does, and the others with it */
};

/* What averages divide by once a rank has joined. */
enum divisor_policy {
  DIVISOR_INITIAL,    /* all ranks of the communicator */
  DIVISOR_ACTIVE,     /* the active ones */
  DIVISOR_ACTIVE_SUM, /* the same, and large sums of floats are scaled to match */
};

/* Each level includes those before it. */
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_TRACE };

/* Most names in NCCL_JOIN_EXIT_ON. */
#define SETTINGS_NAMES_MAX 32

#define REPORT_LINE "line"
#define REPORT_OFF "off"

/* Longest path in a setting, with its terminating zero. */
#define SETTINGS_PATH_SIZE 1024

/* A wide enough buffer for the text of several errors. */
#define SETTINGS_ERROR_SIZE 2048

/* Where the agents of a job meet. */
#define SETTINGS_HOST_SIZE 256 /* RFC 1035, 2.3.4: a name has at most 255 bytes */
struct settings_address {
  char host[SETTINGS_HOST_SIZE]; /* a name or an address; "": not set */
  uint32_t port;                 /* the first of SETTINGS_PORTS */
};
#define SETTINGS_PORTS 8u /* so many are tried (tools/agent/keys.h, PORTS) */
struct settings_ports {
  uint32_t first, last; /* 1 to 65535, at least SETTINGS_PORTS of them */
};

/* Values, copied: programs may overwrite their environment (setproctitle does). */
struct settings {
  bool enabled;                         /* NCCL_JOIN */
  enum early_exit early_exit;           /* NCCL_JOIN_EARLY_EXIT */
  bool places;                          /* NCCL_JOIN_PLACES */
  enum unsure_policy unsure;            /* NCCL_JOIN_UNSURE */
  enum epochs_policy epochs;            /* NCCL_JOIN_EPOCHS */
  enum divisor_policy divisor;          /* NCCL_JOIN_DIVISOR */
  uint64_t divisor_min;                 /* NCCL_JOIN_DIVISOR_MIN: elements */
  enum lossy_policy lossy[LOSSY_KINDS]; /* NCCL_JOIN_LOSSY */
  enum resync_policy resync;            /* NCCL_JOIN_RESYNC */
  enum shadow_memory shadow_memory;     /* NCCL_JOIN_SHADOW_MEMORY */
  char exit_on[SETTINGS_PATH_SIZE]; /* NCCL_JOIN_EXIT_ON: names, and -names, separated by commas */
  char hooks[SETTINGS_PATH_SIZE];   /* NCCL_JOIN_HOOK: paths, separated by commas; "": none */
  uint64_t skew_warn;               /* NCCL_JOIN_SKEW_WARN: shadow iterations; 0: never */
  uint64_t stall_warn_s;            /* NCCL_JOIN_STALL_WARN: seconds; 0: never */
  uint64_t timeout_s;               /* NCCL_JOIN_TIMEOUT: seconds, at least 1 */
  bool machines;                    /* NCCL_JOIN_MACHINES */
  struct settings_address rendezvous;       /* NCCL_JOIN_RENDEZVOUS */
  char machines_secret[SETTINGS_PATH_SIZE]; /* NCCL_JOIN_MACHINES_SECRET; "": none */
  struct settings_ports machines_ports;     /* NCCL_JOIN_MACHINES_PORTS */
  uint64_t machines_wait_s;                 /* NCCL_JOIN_MACHINES_WAIT: seconds, at least 1 */
  uint64_t machines_silence_s;              /* NCCL_JOIN_MACHINES_SILENCE: seconds, at least 1 */
  uint64_t machines_children;               /* NCCL_JOIN_MACHINES_CHILDREN: 1 to 16 */
  enum log_level log_level;                 /* NCCL_JOIN_DEBUG */
  char log_file[SETTINGS_PATH_SIZE]; /* NCCL_JOIN_DEBUG_FILE, %h %p %r not expanded; "": stderr */
  char report[SETTINGS_PATH_SIZE];   /* NCCL_JOIN_REPORT: REPORT_LINE, REPORT_OFF, or a folder */
  char trace_folder[SETTINGS_PATH_SIZE]; /* NCCL_JOIN_TRACE; "": no trace */
  uint64_t trace_mib;                    /* NCCL_JOIN_TRACE_SIZE: of each file at most */
};

/* Functions that are left into without being named in NCCL_JOIN_EXIT_ON, the one that all ranks
 * come to last first; ended by NULL. */
#define SETTINGS_BUILT_IN_EXITS 3u
extern const char *const settings_built_in_exits[SETTINGS_BUILT_IN_EXITS + 1];

/* The values that hold when nothing is set. */
void settings_defaults(struct settings *settings);

/* Reads the settings from an environ-like array ("NAME=value" strings, ended by NULL). What is not
 * set, or is set to nothing, keeps its default; of two entries with one name the first counts, as
 * for getenv(3). Words may be in any case, numbers are decimal.
 *
 * True if all is well. Otherwise false, with one line for each error in error (no newline after
 * the last; always terminated; a line that does not fit, and what comes after it, is left out), and
 * those settings at their defaults: the caller decides whether to go on. error may be NULL if size
 * is 0. Any thread. */
bool settings_read(struct settings *settings, char *const *environment, char *error, size_t size);

/* ---- what the ranks of a communicator must have alike ---- */

/* Those settings as one text: the value of each in a line, in the table's order. A value for which
 * there is no room is cut, and ends with a checksum of the whole. Texts are equal if the settings
 * are. */
#define SETTINGS_ALIKE_SIZE 192
void settings_alike(const struct settings *settings, char text[SETTINGS_ALIKE_SIZE]);

/* The name of the setting in a line of it, from 0 on; NULL behind the last. */
const char *settings_alike_name(size_t line);

/* Those that an environment sets, as NAME=value, a line each; cut off where there is no room. */
void settings_write_set(char *const *environment, char *text, size_t size);

/* `nccl-join env`: for each setting a line with its value in this environment and where that is
 * from; below it what it means and accepts, in lines of at most `width` columns. */
void settings_print(FILE *out, char *const *environment, int width);

/* The table of docs/settings.md: Markdown, without the markers around it. */
void settings_print_markdown(FILE *out);

/* The same as items of a manual page (man(7)). */
void settings_print_man(FILE *out);

#endif
