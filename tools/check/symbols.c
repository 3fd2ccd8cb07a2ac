/* Tables of symbols and their names, as libelf gives them (symbols.h). Every number in them may be
 * wrong. */
#include "tools/check/symbols.h"

#include <limits.h>
#include <string.h>

#include "interpose/nccl/api.h"

/* No table of a real library comes near it; a damaged one may pretend to have more. */
#define TABLE_MAX ((GElf_Xword)1 << 30)

/* ---- names of functions ---- */

#define FUNCTION_NAME(since, name, ...) "nccl" #name,
static const char *const functions[] = {NCCL_API(FUNCTION_NAME)};

bool is_nccl_function(const char *name) {
  if (*name == 'p')
    name++;
  if (strncmp(name, "nccl", 4) != 0)
    return false;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
    if (strcmp(name, functions[i]) == 0)
      return true;
  return false;
}

bool is_creation(const char *name) {
  return strcmp(name, "ncclCommInitRank") == 0;
}

/* ---- tables ---- */

Elf_Data *symbols_table(Elf_Scn *section) {
  GElf_Shdr header;
  if (section == NULL || gelf_getshdr(section, &header) == NULL || header.sh_type == SHT_NOBITS ||
      header.sh_size > TABLE_MAX)
    return NULL;
  Elf_Data *data = elf_getdata(section, NULL);
  return data != NULL && data->d_buf != NULL ? data : NULL;
}

bool symbols_names(Elf *elf, Elf_Scn *section, const char **names, size_t *size) {
  GElf_Shdr header;
  if (gelf_getshdr(section, &header) == NULL)
    return false;
  Elf_Data *data = symbols_table(elf_getscn(elf, header.sh_link));
  if (data == NULL || data->d_size == 0 || ((const char *)data->d_buf)[data->d_size - 1] != '\0')
    return false;
  *names = data->d_buf;
  *size = data->d_size;
  return true;
}

bool symbols_read(Elf *elf, Elf_Scn *section, struct symbols *symbols) {
  size_t entry = gelf_fsize(elf, ELF_T_SYM, 1, EV_CURRENT);
  symbols->table = symbols_table(section);
  if (symbols->table == NULL || entry == 0)
    return false;
  symbols->count = symbols->table->d_size / entry;
  return symbols->count <= INT_MAX &&
         symbols_names(elf, section, &symbols->names, &symbols->names_size);
}

const char *symbols_name(const struct symbols *symbols, size_t index, GElf_Sym *symbol) {
  if (index >= symbols->count || gelf_getsym(symbols->table, (int)index, symbol) == NULL ||
      symbol->st_name >= symbols->names_size)
    return NULL;
  return symbols->names + symbol->st_name;
}

bool symbols_mention(const struct symbols *symbols, const char *part) {
  return memmem(symbols->names, symbols->names_size, part, strlen(part)) != NULL;
}
