/* Reading what is loaded (objects.h). */
#include "interpose/elf/objects.h"

#include <sys/mman.h>
#include <unistd.h>

#define VERSION_MASK 0x7fff /* of an Elf64_Versym; the rest says that it is hidden */

/* glibc has added the base in the dynamic section, unless that is read-only. */
static const void *in_object(const struct object *object, Elf64_Addr address) {
  return (const void *)(address < object->base ? object->base + address : address);
}

/* Relocations that refer to no symbol stand first; a large library has a million of them. */
static void leave_out_relative(struct relocations *relocations, size_t count) {
  count = count < relocations->count ? count : relocations->count;
  relocations->first += count;
  relocations->count -= count;
}

static void read_dynamic(struct object *object) {
  size_t nrelative = 0;
  for (const Elf64_Dyn *entry = object->dynamic; entry->d_tag != DT_NULL; entry++) {
    if (entry->d_tag == DT_SYMTAB)
      object->symbols = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_STRTAB)
      object->names = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_RELA)
      object->data.first = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_RELASZ)
      object->data.count = entry->d_un.d_val / sizeof(Elf64_Rela);
    else if (entry->d_tag == DT_RELACOUNT)
      nrelative = entry->d_un.d_val;
    else if (entry->d_tag == DT_JMPREL)
      object->calls.first = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_PLTRELSZ)
      object->calls.count = entry->d_un.d_val / sizeof(Elf64_Rela);
    else if (entry->d_tag == DT_VERSYM)
      object->versions = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_VERNEED)
      object->needed = in_object(object, entry->d_un.d_ptr);
    else if (entry->d_tag == DT_VERNEEDNUM)
      object->nneeded = (unsigned)entry->d_un.d_val;
    else if (entry->d_tag == DT_SYMBOLIC ||
             (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_SYMBOLIC)))
      object->symbolic = true;
  }
  if (object->data.first != NULL)
    leave_out_relative(&object->data, nrelative);
}

bool object_read(struct object *object, const struct dl_phdr_info *info) {
  *object = (struct object){.file = info->dlpi_name, .base = info->dlpi_addr};
  for (unsigned i = 0; i < info->dlpi_phnum; i++) {
    const Elf64_Phdr *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_DYNAMIC) {
      object->dynamic = (const Elf64_Dyn *)(object->base + segment->p_vaddr);
    } else if (segment->p_type == PT_GNU_RELRO) {
      object->sealed = object->base + segment->p_vaddr;
      object->sealed_end = object->sealed + segment->p_memsz;
    } else if (segment->p_type == PT_LOAD && segment->p_vaddr + segment->p_memsz > object->end) {
      object->end = segment->p_vaddr + segment->p_memsz;
    }
  }
  if (object->dynamic != NULL)
    read_dynamic(object);
  if (object->data.first == NULL)
    object->data.count = 0;
  if (object->calls.first == NULL)
    object->calls.count = 0;
  return object->symbols != NULL && object->names != NULL &&
         object->data.count + object->calls.count > 0;
}

bool object_store(const struct object *object, void **reference, void *value) {
  uintptr_t at = (uintptr_t)reference, page = (uintptr_t)sysconf(_SC_PAGESIZE);
  bool sealed = at >= object->sealed && at < object->sealed_end;
  void *start = (void *)(at & ~(page - 1));
  if (sealed && mprotect(start, page, PROT_READ | PROT_WRITE) != 0)
    return false;
  __atomic_store_n(reference, value, __ATOMIC_RELEASE);
  if (sealed)
    mprotect(start, page, PROT_READ);
  return true;
}

/* The tables are lists of records that say how far the next one is. */
static const void *objects_behind(const void *record, uint32_t offset) {
  return (const char *)record + offset;
}

const char *object_version(const struct object *object, uint32_t symbol) {
  if (object->versions == NULL || object->needed == NULL)
    return NULL;
  unsigned wanted = object->versions[symbol] & VERSION_MASK;
  const Elf64_Verneed *file = object->needed;
  for (unsigned i = 0; i < object->nneeded; i++, file = objects_behind(file, file->vn_next)) {
    const Elf64_Vernaux *version = objects_behind(file, file->vn_aux);
    for (unsigned j = 0; j < file->vn_cnt;
         j++, version = objects_behind(version, version->vna_next))
      if ((version->vna_other & VERSION_MASK) == wanted)
        return object->names + version->vna_name;
  }
  return NULL;
}
