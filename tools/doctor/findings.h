/* Findings: what `nccl-join doctor` says of this machine and this environment, line by line. */
#ifndef NCCL_JOIN_TOOLS_DOCTOR_FINDINGS_H
#define NCCL_JOIN_TOOLS_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/settings/settings.h"

enum health {
  HEALTH_GOOD,
  HEALTH_NOTE,  /* may be as it is meant */
  HEALTH_WRONG, /* programs will fail, or run without nccl-join, or without what is set */
};

struct finding {
  enum health health;
  const char *subject; /* two words at most; the caller's */
  char *what, *remedy; /* owned; remedy is NULL where nothing is to be done */
};

struct findings {
  struct finding *all;
  size_t count;
};

/* Where nccl-join's own files are. */
struct places {
  const char *preload;  /* libnccl-join.so */
  const char *helpers;  /* the folder of its programs */
  const char *loopback; /* the folder of the stand-ins */
};

/* Adds one. remedy may be NULL; it is copied. */
void finding(struct findings *findings, enum health health, const char *subject, const char *remedy,
             const char *format, ...) __attribute__((format(printf, 5, 6)));

void findings_free(struct findings *findings);

/* The worst of all. */
enum health findings_worst(const struct findings *findings);

/* For people: a line each, broken at the width of a terminal, and what to do below it. */
void findings_print(FILE *out, const struct findings *findings);

/* For programs: one object in one line. `format` is this form's version. */
void findings_print_json(FILE *out, const struct findings *findings);

/* ---- what is looked at ---- */

/* nccl-join's own files, and the release of glibc that they need. */
void look_at_files(struct findings *findings, const struct places *places);

/* Whether what is preloaded comes into a child process: starts this program, whose path is `self`,
 * with LOADED_OPTION; the child's status is 0 if is_loaded says so. */
#define LOADED_OPTION "--is-loaded"
void look_at_preload(struct findings *findings, const struct places *places, const char *self);
bool is_loaded(const char *preload);

/* Shared memory, and what of the kernel is used. */
void look_at_memory(struct findings *findings);
void look_at_kernel(struct findings *findings);

/* What several machines need. */
void look_at_machines(struct findings *findings, const struct places *places);

/* NCCL's library, and the driver of the GPUs. */
void look_at_nccl(struct findings *findings, const struct places *places);
void look_at_driver(struct findings *findings);

/* NCCL_JOIN_ variables, those that are nearly one, and others that matter. */
void look_at_settings(struct findings *findings);

/* Plug-ins, folders and files that settings name. */
void look_at_paths(struct findings *findings, const struct settings *settings);

#endif
