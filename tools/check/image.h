/* Image: what one ELF file (a program or a shared library) says of itself and of NCCL.
 *
 * Read with libelf, from sections, without loading or running anything. Files may be damaged or
 * hostile: image_read then fails with a text, and does no more harm.
 */
#ifndef NCCL_JOIN_TOOLS_CHECK_IMAGE_H
#define NCCL_JOIN_TOOLS_CHECK_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tools/check/names.h"

#define IMAGE_ERROR_SIZE 256
#define IMAGE_VERSION_SIZE 32

/* How it came into the process. */
enum image_role {
  ROLE_PROGRAM,
  ROLE_PRELOAD, /* by LD_PRELOAD or /etc/ld.so.preload */
  ROLE_NEEDED,  /* by what another image needs */
  ROLE_MODULE,  /* one of a Python package that is imported */
};

struct image {
  char path[PATH_MAX]; /* as it was found */
  enum image_role role;
  const struct image *loader; /* who needs it; NULL: nobody */
  dev_t device;
  ino_t inode;

  unsigned bits, machine;     /* 32 or 64; EM_X86_64 and so on */
  bool runs_here;             /* this machine's 64-bit code, as nccl-join itself is */
  char interpreter[PATH_MAX]; /* the dynamic linker that a program asks for; "" none */
  bool is_library;            /* neither a program nor a static one that may lie anywhere */
  char *soname;               /* NULL: none, as the next four */
  char *rpath, *runpath;
  char *audit;       /* DT_AUDIT and DT_DEPAUDIT: libraries that watch the dynamic linker */
  bool symbolic;     /* linked with -Bsymbolic */
  bool skips_system; /* linked with -z nodefaultlib */
  struct names needed;

  /* Functions of NCCL, of those that interpose/nccl/api.h lists. */
  unsigned uses;      /* taken from another library */
  unsigned exports;   /* its own, which others can use */
  unsigned calls_out; /* of those, what it calls itself by name, so that another can come first */
  unsigned hides;     /* its own, which nobody else can see; known unless it is stripped */
  bool has_creation;  /* ncclCommInitRank is one of those that it exports or hides */

  /* Functions of the dynamic linker that it calls, or has (an auditor). */
  bool opens, opens_apart, looks_up, audits; /* dlopen, dlmopen, dlsym or dlvsym, la_... */

  bool runs_python; /* it has, or takes from a library, what CPython begins with */
  bool starts;      /* it starts, or may start, other programs: see image_find_starts */

  /* From its constant texts, see image_scan. */
  bool carries_nccl;                /* what only NCCL itself says, and its version, is in it */
  bool names_functions;             /* of NCCL, as one does who looks them up */
  struct names opened;              /* file names of NCCL */
  char version[IMAGE_VERSION_SIZE]; /* "2.28.9"; "" unknown */
};

/* Reads all but the constant texts. The image is new memory. NULL with a text in error (of
 * IMAGE_ERROR_SIZE) if the file cannot be opened, is no ELF file, or is damaged. */
struct image *image_read(const char *path, char *error);

/* How much image_scan is to look for. */
enum scan {
  SCAN_CARRIED, /* carries_nccl and version: quick */
  SCAN_ALL,
};

/* Looks through the constant texts. A file that has been changed since gives what is left in it. */
void image_scan(struct image *image, enum scan scan);

/* Fills `hides`, which image_read leaves at 0. */
void image_find_hidden(struct image *image);

/* Fills `starts`, which image_read leaves at false. Of a static program without symbols it is true:
 * nobody can tell. */
void image_find_starts(struct image *image);

/* Whether it is NCCL, and not something that NCCL is a part of. */
bool image_is_nccl(const struct image *image);

void image_free(struct image *image);

/* Whether a file is an ELF file that the dynamic linker of this machine would take. */
bool image_fits(const char *path);

/* The architecture's name. */
const char *image_machine_name(const struct image *image);

/* The file name without its folders. */
const char *base_name(const char *path);

#endif
