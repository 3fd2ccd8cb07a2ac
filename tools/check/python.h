/* Python: where one finds its modules, and what a script imports. Read from files; nothing is run.
 *
 * Folders are those that Python's site module would make sys.path of (cpython's Lib/site.py and
 * Modules/getpath.py), with virtual environments, Debian's dist-packages and .pth files.
 */
#ifndef NCCL_JOIN_TOOLS_CHECK_PYTHON_H
#define NCCL_JOIN_TOOLS_CHECK_PYTHON_H

#include "tools/check/command.h"
#include "tools/check/names.h"

struct python {
  char version[16];      /* "3.11"; "" unknown */
  struct names own;      /* folders of the user's own modules: the script's, PYTHONPATH's, .pth's */
  struct names standard; /* of the standard library */
  struct names installed; /* of installed packages */
  struct names sources;   /* files that were read, beginning with the script */
  struct names packages;  /* installed packages that they import, by the name that is imported */
  struct names not_found; /* what they import and is nowhere */
  struct names name_nccl; /* those of the sources that name NCCL's library file */
  struct names bind_deep; /* those that name RTLD_DEEPBIND */
};

/* Fills python with the folders. */
void python_find(struct python *python, const struct command *command);

/* Whether an argument is a script of Python: torchrun, accelerate and others are told so what to
 * start. */
bool python_is_script(const char *word);

/* Reads what the command runs, the scripts among its arguments, and the user's own modules that are
 * imported from there. False with a text in error (of COMMAND_ERROR_SIZE) if the script cannot be
 * read. */
bool python_follow(struct python *python, const struct command *command, char *error);

void python_free(struct python *python);

/* Packages: the shared objects of installed Python packages, and of those that they require, by
 * what pip and others have written down of them (*.dist-info, *.egg-info). */

/* Adds to `modules` the files of all shared objects of the packages that python imports. With
 * `extras`, packages that these require only for some of their uses are followed as well, where
 * they are installed. To `libraries` the folders are added from which packages load NVIDIA's
 * libraries before they need them. */
void packages_find(const struct python *python, bool extras, struct names *modules,
                   struct names *libraries);

#endif
