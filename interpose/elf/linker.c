/* Finding dlsym without dlsym (linker.h): a walk through the symbol tables of what is loaded, by
 * the hash that every library of a GNU system has (DT_GNU_HASH; the layout is documented in
 * binutils' bfd/elflink.c and read by glibc's elf/dl-lookup.c).
 */
#include "interpose/elf/linker.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

_Static_assert(sizeof(void *) == 8, "Elf64 below");

struct symbols {
  const Elf64_Sym *table;
  const char *names;
  const uint32_t *hash;
};

/* Addresses in the dynamic section: glibc adds where the object was loaded, unless the section is
 * read-only. */
UNINSTRUMENTED static const void *in_object(Elf64_Addr base, Elf64_Addr address) {
  return (const void *)(address < base ? base + address : address);
}

UNINSTRUMENTED static struct symbols symbols_of(Elf64_Addr base, const Elf64_Dyn *entry) {
  struct symbols symbols = {NULL, NULL, NULL};
  for (; entry != NULL && entry->d_tag != DT_NULL; entry++) {
    const void *there = in_object(base, entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB)
      symbols.table = there;
    else if (entry->d_tag == DT_STRTAB)
      symbols.names = there;
    else if (entry->d_tag == DT_GNU_HASH)
      symbols.hash = there;
  }
  return symbols;
}

UNINSTRUMENTED static bool is_equal(const char *a, const char *b) {
  while (*a != '\0' && *a == *b)
    a++, b++;
  return *a == *b;
}

UNINSTRUMENTED static uint32_t hash_of(const char *name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; name++)
    hash = hash * 33 + (unsigned char)*name;
  return hash;
}

/* The table: number of buckets, number of the first symbol in it, words and shift of a filter that
 * is not used here, the filter, the buckets, and for each symbol its hash, whose lowest bit ends
 * the chain. */
UNINSTRUMENTED void *linker_definition(Elf64_Addr base, const Elf64_Dyn *dynamic,
                                       const char *name) {
  struct symbols symbols = symbols_of(base, dynamic);
  if (symbols.table == NULL || symbols.names == NULL || symbols.hash == NULL ||
      symbols.hash[0] == 0)
    return NULL;
  uint32_t nbuckets = symbols.hash[0], first = symbols.hash[1], filter = symbols.hash[2];
  const uint32_t *buckets =
      symbols.hash + 4 + (size_t)filter * (sizeof(Elf64_Addr) / sizeof(uint32_t));
  const uint32_t *chain = buckets + nbuckets;
  uint32_t hash = hash_of(name), at = buckets[hash % nbuckets];
  for (; at >= first; at++) {
    const Elf64_Sym *symbol = &symbols.table[at];
    if ((chain[at - first] | 1) == (hash | 1) && symbol->st_shndx != SHN_UNDEF &&
        is_equal(symbols.names + symbol->st_name, name))
      return (void *)(base + symbol->st_value);
    if (chain[at - first] & 1)
      break;
  }
  return NULL;
}

UNINSTRUMENTED static bool is_ours(const struct link_map *object) {
  return object->l_ld == _DYNAMIC;
}

/* Behind ours; before ours only if there is none, where this library was not preloaded but opened
 * late. */
UNINSTRUMENTED static void *next(const char *name) {
  void *behind = NULL, *before = NULL;
  bool passed = false;
  for (const struct link_map *object = _r_debug.r_map; object != NULL; object = object->l_next) {
    passed |= is_ours(object);
    void **found = passed ? &behind : &before;
    if (!is_ours(object) && *found == NULL)
      *found = linker_definition(object->l_addr, object->l_ld, name);
  }
  return behind != NULL ? behind : before;
}

/* Several threads may be here at once: all store the same values. */
UNINSTRUMENTED void linker_find(void) {
  void *symbol = next("dlsym"), *version = next("dlvsym"), *open = next("dlopen");
  if (symbol == NULL || version == NULL || open == NULL)
    __builtin_trap(); /* no process with a dynamic linker lacks them */
  __atomic_store_n((void **)&linker_dlsym, symbol, __ATOMIC_RELAXED);
  __atomic_store_n((void **)&linker_dlvsym, version, __ATOMIC_RELAXED);
  __atomic_store_n((void **)&linker_dlopen, open, __ATOMIC_RELAXED);
}
