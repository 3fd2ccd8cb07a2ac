/* Taking weak references back (weak.h). */
#include "interpose/weak.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/linker.h"
#include "interpose/lookups.h"
#include "interpose/real.h"

/* The relocations by which code finds out a function's address; a call alone has another, which
 * tells nobody anything. */
#if defined(__x86_64__)
#define IS_ADDRESS(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_ADDRESS(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

// NOLINTBEGIN(performance-no-int-to-ptr): addresses are numbers in ELF

struct object {
  Elf64_Addr base;
  Elf64_Addr sealed, sealed_end; /* read-only since it was relocated */
  const Elf64_Sym *symbols;
  const char *names;
  const Elf64_Rela *relocations;
  size_t nrelocations;
};

/* glibc has added the base in the dynamic section, unless that is read-only. */
static const void *in_object(const struct object *object, Elf64_Addr address) {
  return (const void *)(address < object->base ? object->base + address : address);
}

static void read_dynamic(struct object *object, const Elf64_Dyn *entry) {
  for (; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB)
      object->symbols = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_STRTAB)
      object->names = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_RELA)
      object->relocations = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_RELASZ)
      object->nrelocations = entry->d_un.d_val / sizeof(Elf64_Rela);
  }
}

static bool read_object(struct object *object, const struct dl_phdr_info *info) {
  *object = (struct object){.base = info->dlpi_addr};
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const Elf64_Phdr *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_DYNAMIC) {
      read_dynamic(object, (const Elf64_Dyn *)(object->base + segment->p_vaddr));
    } else if (segment->p_type == PT_GNU_RELRO) {
      object->sealed = object->base + segment->p_vaddr;
      object->sealed_end = object->sealed + segment->p_memsz;
    }
  }
  return object->symbols != NULL && object->names != NULL && object->relocations != NULL;
}

/* With the page made writable for the moment. If that is not allowed, the reference stays. */
static void clear(const struct object *object, void **reference) {
  uintptr_t at = (uintptr_t)reference, page = (uintptr_t)sysconf(_SC_PAGESIZE);
  bool sealed = at >= object->sealed && at < object->sealed_end;
  void *start = (void *)(at & ~(page - 1));
  if (sealed && mprotect(start, page, PROT_READ | PROT_WRITE) != 0)
    return;
  *reference = NULL;
  if (sealed)
    mprotect(start, page, PROT_READ);
}

static bool is_lacking(const char *name) {
  return strncmp(name, "nccl", 4) == 0 && lookup_is_caught(name) &&
         linker_dlsym(RTLD_NEXT, name) == NULL;
}

static void look_at(const struct object *object) {
  for (size_t i = 0; i < object->nrelocations; i++) {
    const Elf64_Rela *relocation = &object->relocations[i];
    const Elf64_Sym *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
    if (!IS_ADDRESS(ELF64_R_TYPE(relocation->r_info)) || symbol->st_shndx != SHN_UNDEF ||
        ELF64_ST_BIND(symbol->st_info) != STB_WEAK || !is_lacking(object->names + symbol->st_name))
      continue;
    void **reference = (void **)(object->base + relocation->r_offset);
    if (real_is_ours(*reference))
      clear(object, reference);
  }
}

// NOLINTEND(performance-no-int-to-ptr)

/* The program comes first. */
static int look_at_each(struct dl_phdr_info *info, size_t size, void *with_nccl) {
  (void)size;
  struct object object;
  if (read_object(&object, info))
    look_at(&object);
  return with_nccl == NULL;
}

void weak_take_back(void) {
  dl_iterate_phdr(look_at_each, linker_dlsym(RTLD_NEXT, "ncclGetVersion"));
}
