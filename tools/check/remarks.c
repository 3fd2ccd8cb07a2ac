/* What keeps LD_PRELOAD from working, or works like it (remarks.h). */
#include "tools/check/remarks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

void remark(struct answer *answer, const char *kind, enum remark_weight weight, const char *remedy,
            const char *format, ...) {
  answer->remarks = more_memory(answer->remarks, (answer->nremarks + 1) * sizeof(struct remark));
  struct remark *added = &answer->remarks[answer->nremarks++];
  *added = (struct remark){
      .kind = kind, .harmless = weight == REMARK_HARMLESS, .is_wrong = weight == REMARK_WRONG};
  added->remedy = copy_text(remedy);
  va_list arguments;
  va_start(arguments, format);
  added->what = format_text(format, arguments);
  va_end(arguments);
}

/* ---- other objects that are preloaded ---- */

static void remark_preload(struct answer *answer, const struct image *image, bool is_before) {
  if (image == NULL || image->exports == 0)
    return;
  if (is_before) {
    answer->is_doubtful = true;
    remark(answer, "preload", REMARK_DOUBT, "name libnccl-join.so first in LD_PRELOAD",
           "%s comes before nccl-join in LD_PRELOAD and has functions of NCCL as well: nccl-join "
           "sees only what it passes on",
           image->path);
  } else {
    remark(answer, "preload", REMARK_HARMLESS, "nothing, if it passes calls on to NCCL",
           "%s is preloaded and has functions of NCCL as well: it sees the calls after nccl-join, "
           "and those that nccl-join makes for joined ranks",
           image->path);
  }
}

/* Elements are divided by colons or spaces. */
static void remark_preload_list(struct answer *answer, struct closure *closure, const char *list,
                                bool in_front) {
  bool is_named = strstr(list, "libnccl-join.so") != NULL, is_before = is_named && !in_front;
  while (*list != '\0') {
    size_t size = strcspn(list, ": \n");
    char name[PATH_MAX];
    if (size > 0 && size < PATH_MAX) {
      snprintf(name, sizeof name, "%.*s", (int)size, list);
      if (strcmp(base_name(name), "libnccl-join.so") == 0)
        is_before = false;
      else
        remark_preload(answer, closure_add_named(closure, name, ROLE_PRELOAD, NULL), is_before);
    }
    list += size + (list[size] != '\0');
  }
}

void remark_preloads(struct answer *answer, struct closure *closure, bool in_front) {
  const char *list = getenv("LD_PRELOAD");
  char text[PATH_MAX] = "";
  if (list != NULL)
    remark_preload_list(answer, closure, list, in_front);
  FILE *file = fopen("/etc/ld.so.preload", "re");
  if (file == NULL)
    return;
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  remark_preload_list(answer, closure, text, true);
}

/* ---- auditors ---- */

static void remark_auditor(struct answer *answer, struct closure *closure, const char *name,
                           const char *by) {
  char path[PATH_MAX], error[IMAGE_ERROR_SIZE];
  struct image *image =
      search_library(closure->search, name, NULL, path) ? image_read(path, error) : NULL;
  bool harmless = image != NULL && !image->audits;
  image_free(image);
  if (harmless)
    return;
  answer->is_doubtful = true;
  remark(answer, "audit", REMARK_DOUBT,
         strcmp(by, "LD_AUDIT") == 0 ? "unset LD_AUDIT" : "link the program without --audit",
         "%s names %s, which can lead calls past nccl-join", by, name);
}

static void remark_auditor_list(struct answer *answer, struct closure *closure, const char *list,
                                const char *by) {
  while (list != NULL && *list != '\0') {
    size_t size = strcspn(list, ":");
    char name[PATH_MAX];
    if (size > 0 && size < PATH_MAX) {
      snprintf(name, sizeof name, "%.*s", (int)size, list);
      remark_auditor(answer, closure, name, by);
    }
    list += size + (list[size] != '\0');
  }
}

void remark_auditors(struct answer *answer, struct closure *closure) {
  remark_auditor_list(answer, closure, getenv("LD_AUDIT"), "LD_AUDIT");
  for (size_t i = 0; i < closure->count; i++)
    if (closure->images[i]->role == ROLE_PROGRAM)
      remark_auditor_list(answer, closure, closure->images[i]->audit, "the program itself");
}

/* ---- programs ---- */

/* Whether it runs with the rights of somebody else, so that the dynamic linker drops LD_PRELOAD
 * (the kernel's AT_SECURE: begin_new_exec and cap_bprm_creds_from_file). */
static bool gains_rights(const char *path) {
  struct stat status;
  struct statvfs filesystem;
  if (stat(path, &status) != 0 || statvfs(path, &filesystem) != 0 || filesystem.f_flag & ST_NOSUID)
    return false;
  return (status.st_mode & S_ISUID && status.st_uid != getuid()) ||
         (status.st_mode & S_ISGID && status.st_mode & S_IXGRP && status.st_gid != getgid()) ||
         (getuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0);
}

static void cannot(struct answer *answer, const char *kind, bool is_wrong, const char *remedy,
                   const char *what) {
  if (strcmp(kind, "static") != 0 || is_wrong) /* what it starts may be dynamic */
    answer->seen = SEEN_NO;
  remark(answer, kind, is_wrong ? REMARK_WRONG : REMARK_DOUBT, remedy, "%s", what);
}

void remark_program(struct answer *answer, const struct image *program) {
  const char *libc = base_name(program->interpreter);
  char what[256];
  bool uses_nccl = answer->nways > 0;
  if (!program->runs_here) {
    answer->reach = REACH_UNKNOWN; /* no other machine's calls are looked for */
    snprintf(what, sizeof what,
             "it is a %u-bit program for %s; nccl-join cannot be loaded into it, and NCCL neither",
             program->bits, image_machine_name(program));
    cannot(answer, program->bits == 32 ? "32-bit" : "architecture", false,
           "build it for this machine, 64 bits", what);
    return;
  }
  if (program->is_library)
    return;
  if (*program->interpreter == '\0')
    cannot(answer, "static", uses_nccl, "link it dynamically, to libnccl.so.2",
           "it is a static executable: no dynamic linker takes part, and nothing can be preloaded");
  else if (strncmp(libc, "ld-linux", 8) != 0)
    cannot(answer, "libc", uses_nccl, "build it for glibc",
           "its dynamic linker is not glibc's, which nccl-join needs");
  if (gains_rights(program->path))
    cannot(answer, "setuid", true,
           "start nccl-join from it: PROGRAM nccl-join run ./train; or take away its s bits and "
           "capabilities",
           "it runs with another user's rights (setuid, setgid or capabilities), for which the "
           "dynamic linker drops LD_PRELOAD, also for what it starts");
}

/* AddressSanitizer of gcc, a library, wants to be the first that is loaded. That of clang is part
 * of the program. */
void remark_sanitizer(struct answer *answer, const struct closure *closure) {
  const char *options = getenv("ASAN_OPTIONS");
  if (options != NULL && strstr(options, "verify_asan_link_order=0") != NULL)
    return;
  for (size_t i = 0; i < closure->count; i++) {
    const struct image *image = closure->images[i];
    if (image->role == ROLE_PRELOAD || strncmp(base_name(image->path), "libasan.so", 10) != 0)
      continue;
    answer->seen = SEEN_NO;
    remark(answer, "sanitizer", REMARK_WRONG, "set ASAN_OPTIONS=verify_asan_link_order=0",
           "it is built with AddressSanitizer, which ends a program that has anything preloaded "
           "in front of it");
    return;
  }
}

void remark_driver(struct answer *answer, const struct search *search) {
  char path[PATH_MAX];
  if (answer->nways == 0 || access("/proc/driver/nvidia", F_OK) == 0 ||
      search_library(search, "libcuda.so.1", NULL, path))
    return;
  remark(
      answer, "driver", REMARK_WRONG,
      "install NVIDIA's driver (in a container: --gpus all), or run it on the stand-ins for CUDA "
      "and NCCL: nccl-join run --loopback",
      "there is no GPU driver on this machine, neither in the kernel nor libcuda.so.1: CUDA will "
      "find no device");
}
