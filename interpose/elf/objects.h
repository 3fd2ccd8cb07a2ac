/* What is loaded into the process, as its ELF headers say: the references by which an object
 * reaches the functions of others. Walked through with dl_iterate_phdr, under whose lock the
 * dynamic linker must not be asked anything.
 */
#ifndef NCCL_JOIN_INTERPOSE_OBJECTS_H
#define NCCL_JOIN_INTERPOSE_OBJECTS_H

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Relocations; NULL and 0 where an object has none. */
struct relocations {
  const Elf64_Rela *first;
  size_t count;
};

/* Valid for as long as the object is loaded. */
struct object {
  const char *file; /* "": the program */
  Elf64_Addr base;
  Elf64_Addr end;                /* of what it has in memory, relative to the base */
  Elf64_Addr sealed, sealed_end; /* read-only since it was relocated */
  const Elf64_Dyn *dynamic;
  const Elf64_Sym *symbols;
  const char *names;
  struct relocations data, calls; /* DT_RELA, DT_JMPREL */
  const Elf64_Versym *versions;   /* by symbol; NULL without */
  const Elf64_Verneed *needed;
  unsigned nneeded;
  bool symbolic; /* looks into itself first */
};

/* False if the object refers to nothing by name. */
bool object_read(struct object *object, const struct dl_phdr_info *info);

/* Stores into a reference of the object, with the page made writable for the moment. False if that
 * is not allowed, with nothing changed. */
bool object_store(const struct object *object, void **reference, void *value);

/* The version that a reference to a symbol asks for, or NULL. */
const char *object_version(const struct object *object, uint32_t symbol);

#endif
