/* Symbols: tables of symbols in an ELF file, and which of their names are NCCL's. */
#ifndef NCCL_JOIN_TOOLS_CHECK_SYMBOLS_H
#define NCCL_JOIN_TOOLS_CHECK_SYMBOLS_H

#include <gelf.h>
#include <stdbool.h>
#include <stddef.h>

struct symbols {
  Elf_Data *table;
  size_t count;
  const char *names; /* end with a zero */
  size_t names_size;
};

/* Whether it is one of NCCL's functions that nccl-join has to do with (interpose/nccl/api.h):
 * ncclX, or pncclX, which is the same. */
bool is_nccl_function(const char *name);

/* Whether it is the one that every NCCL has, and no tool that only wraps collectives. */
bool is_creation(const char *name);

/* All of a section's bytes as libelf sees them; NULL if that cannot be. */
Elf_Data *symbols_table(Elf_Scn *section);

/* The names that a section refers to. False if they are not there. */
bool symbols_names(Elf *elf, Elf_Scn *section, const char **names, size_t *size);

/* A whole table. False if it is damaged. Valid as long as `elf`. */
bool symbols_read(Elf *elf, Elf_Scn *section, struct symbols *symbols);

/* The name of a symbol, which is copied; NULL if there is no such symbol or name. */
const char *symbols_name(const struct symbols *symbols, size_t index, GElf_Sym *symbol);

/* Whether any name has that part. Most libraries have none of NCCL's names, and some have millions
 * of others. */
bool symbols_mention(const struct symbols *symbols, const char *part);

#endif
