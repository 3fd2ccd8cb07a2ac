/* Python: what a Python program imports. The program's own Python reads that from its sources, by
 * imports/; nothing of the program is run or imported. */
#ifndef NCCL_JOIN_TOOLS_CHECK_PYTHON_H
#define NCCL_JOIN_TOOLS_CHECK_PYTHON_H

#include "tools/check/command.h"
#include "tools/check/names.h"

/* What imports/ says, record by record. */
struct python {
  struct names imported;  /* installed packages that are imported */
  struct names objects;   /* their shared objects, and those of what they require */
  struct names own;       /* of the program's own */
  struct names folders;   /* from which packages load NVIDIA's libraries before they need them */
  struct names opens;     /* libraries that sources open by name */
  struct names name_nccl; /* sources that open NCCL */
  struct names bind_deep; /* sources that name RTLD_DEEPBIND */
  struct names not_found; /* imported, and nowhere */
  struct names decided;   /* what only a run can tell, in words */
  struct names packages;  /* the same in installed packages */
  struct names installed; /* all installed shared objects */
};

enum python_depth {
  PYTHON_BRIEF, /* the program's own sources, and what the packages require that they import */
  PYTHON_OWN,   /* and what these require only for some of their uses */
  PYTHON_DEEP,  /* and the sources of packages; fills packages and installed */
};

/* Whether an argument is a script of Python: launchers are told so what to start. */
bool python_is_script(const char *word);

/* Lets the command's Python read what the command runs, and the scripts among its arguments. Adds
 * to what is known. False with a text in error (of COMMAND_ERROR_SIZE) if that Python does not. */
bool python_read(struct python *python, const struct command *command, enum python_depth depth,
                 char *error);

void python_free(struct python *python);

#endif
