/* Taking weak references back (lookups.h). */

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "interpose/elf/linker.h"
#include "interpose/entry/lookups.h"
#include "interpose/elf/objects.h"
#include "interpose/nccl/real.h"

/* The relocations by which code finds out a function's address; a call alone has another, which
 * tells nobody anything. */
#if defined(__x86_64__)
#define IS_ADDRESS(type) ((type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_ADDRESS(type) ((type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#endif

static bool is_lacking(const char *name) {
  return strncmp(name, "nccl", 4) == 0 && lookup_is_caught(name) &&
         linker_dlsym(RTLD_NEXT, name) == NULL;
}

static void look_at(const struct object *object) {
  for (size_t i = 0; i < object->data.count; i++) {
    const Elf64_Rela *relocation = &object->data.first[i];
    const Elf64_Sym *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
    if (!IS_ADDRESS(ELF64_R_TYPE(relocation->r_info)) || symbol->st_shndx != SHN_UNDEF ||
        ELF64_ST_BIND(symbol->st_info) != STB_WEAK || !is_lacking(object->names + symbol->st_name))
      continue;
    void **reference = (void **)(object->base + relocation->r_offset);
    /* If it cannot be written to, it stays. */
    if (real_is_ours(*reference))
      (void)object_store(object, reference, NULL);
  }
}

/* The program comes first. */
static int look_at_each(struct dl_phdr_info *info, size_t size, void *with_nccl) {
  (void)size;
  struct object object;
  if (object_read(&object, info))
    look_at(&object);
  return with_nccl == NULL;
}

void weak_take_back(void) {
  dl_iterate_phdr(look_at_each, linker_dlsym(RTLD_NEXT, "ncclGetVersion"));
}
