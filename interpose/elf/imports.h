/* Standing in front of functions that are not known when nccl-join is built: by changing the
 * references (import tables: DT_JMPREL, and the addresses of functions in DT_RELA) by which loaded
 * objects reach them. Each change is the store of one pointer, and may be made while other threads
 * call through it.
 *
 * What is seen are calls from one loaded object into another, and those within one that go through
 * its table all the same (exported functions of a shared library or of a program linked with
 * -rdynamic, without -Bsymbolic). An address that somebody has taken before is not.
 */
#ifndef NCCL_JOIN_INTERPOSE_IMPORTS_H
#define NCCL_JOIN_INTERPOSE_IMPORTS_H

#include <stdbool.h>
#include <stddef.h>

struct import_name {
  const char *_Atomic name; /* NULL: given up, because a reference could not be changed */
  bool outside;       /* not for the references of objects that define such a name themselves */
  _Atomic bool found; /* out: there is, or was, such a reference */
};

/* What has been walked through. An object that is new comes behind all others. */
struct imports_known {
  unsigned long long loads, unloads;
  size_t objects;
};

struct imports {
  struct import_name *names;
  size_t nnames;
  /* What references to the function are to lead to, the same each time; NULL: the name is given up.
   * Must not call the dynamic linker, whose lock is held. */
  void *(*in_front_of)(size_t name, void *function);
  /* The function that such an address stands for; NULL for any other. */
  void *(*behind)(const void *address);
  struct imports_known *known; /* zero at first */
};

/* Changes the references of all that is loaded and was not when it was last called: a walk through
 * the list of objects, and through the relocations of those that are new. One thread at a time.
 * False if an object was just being loaded: to be called again. */
bool imports_change(const struct imports *imports);

/* Changes all references back, also those that are in no list of names any more. Objects that have
 * been unloaded are not touched. */
void imports_change_back(const struct imports *imports);

#endif
