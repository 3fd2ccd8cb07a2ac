/* Names of functions that an object calls in others: see native_jumps.h. */
#include "interpose/places/native/native_jumps.h"

#include <link.h>
#include <string.h>

/* The word that the stub of a procedure linkage table jumps by; NULL: it is none. */
static const uint8_t *slot_of(const struct native_object *object, const uint8_t *stub,
                              native_decode *decode) {
  struct native_instruction is;
  for (uint32_t i = 0; i < 2; i++, stub += is.length) { /* perhaps behind an ENDBR64 */
    if (!decode(stub, native_readable(object, stub), &is))
      return NULL;
    if (is.kind == NATIVE_JUMP_MEMORY && (is.details & NATIVE_ADDRESS))
      return stub + is.target;
    if (is.kind != NATIVE_PLAIN)
      return NULL;
  }
  return NULL;
}

/* What .dynamic says of relocations. */
struct relocations {
  const uint8_t *rows; /* Elf64_Rela */
  size_t size;
  const uint8_t *symbols;
  const uint8_t *names;
  size_t names_size;
};

static struct relocations relocations_of(const struct native_object *object) {
  struct relocations found = {0};
  const uint8_t *at = object->dynamic;
  size_t room = at == NULL ? 0 : native_readable(object, at);
  for (ElfW(Dyn) entry; room >= sizeof entry; room -= sizeof entry, at += sizeof entry) {
    memcpy(&entry, at, sizeof entry);
    const uint8_t *address = (const uint8_t *)(uintptr_t)entry.d_un.d_ptr;
    if (entry.d_tag == DT_NULL)
      break;
    if (entry.d_tag == DT_JMPREL)
      found.rows = address;
    else if (entry.d_tag == DT_PLTRELSZ)
      found.size = entry.d_un.d_val;
    else if (entry.d_tag == DT_SYMTAB)
      found.symbols = address;
    else if (entry.d_tag == DT_STRTAB)
      found.names = address;
    else if (entry.d_tag == DT_STRSZ)
      found.names_size = entry.d_un.d_val;
  }
  return found;
}

/* The function whose address a slot is to have; NULL: not known. */
static const char *name_of(const struct native_object *object, const uint8_t *slot) {
  struct relocations all = relocations_of(object);
  if (all.rows == NULL || all.symbols == NULL || all.names == NULL ||
      native_readable(object, all.rows) < all.size ||
      native_readable(object, all.names) < all.names_size)
    return NULL;
  for (size_t at = 0; at + sizeof(ElfW(Rela)) <= all.size; at += sizeof(ElfW(Rela))) {
    ElfW(Rela) row;
    ElfW(Sym) symbol;
    memcpy(&row, all.rows + at, sizeof row);
    if (object->base + row.r_offset != (uintptr_t)slot)
      continue;
    const uint8_t *of = all.symbols + (row.r_info >> 32) * sizeof symbol;
    if (native_readable(object, of) < sizeof symbol)
      return NULL;
    memcpy(&symbol, of, sizeof symbol);
    bool ends = symbol.st_name < all.names_size &&
                memchr(all.names + symbol.st_name, 0, all.names_size - symbol.st_name) != NULL;
    return ends ? (const char *)all.names + symbol.st_name : NULL;
  }
  return NULL;
}

bool native_is_stub(const struct native_object *object, const uint8_t *function,
                    native_decode *decode, const char **name) {
  const uint8_t *slot = slot_of(object, function, decode);
  *name = slot == NULL ? NULL : name_of(object, slot);
  return slot != NULL;
}

bool native_is_named(const struct native_object *object, const uint8_t *function,
                     native_decode *decode, const char *const *names) {
  const char *name;
  if (!native_is_stub(object, function, decode, &name) || name == NULL)
    return false;
  for (; *names != NULL; names++)
    if (strcmp(name, *names) == 0)
      return true;
  return false;
}
