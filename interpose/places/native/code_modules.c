/* Looks through the loaded objects (code_modules.h). */
#include "interpose/places/native/code_modules.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

/* How files' names begin. PyTorch's and TensorFlow's libraries have pools of threads that run
 * pieces of the program, such as autograd's. */
static const struct {
  const char *begins;
  enum module_owner owner;
} owners[] = {
    {"libc.so", MODULE_SYSTEM},    {"libpthread", MODULE_SYSTEM},    {"ld-", MODULE_SYSTEM},
    {"libstdc++", MODULE_RUNTIME}, {"libc++", MODULE_RUNTIME},       {"libtorch", MODULE_ENGINE},
    {"libc10", MODULE_ENGINE},     {"libtensorflow", MODULE_ENGINE},
};

static const char *file_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

static enum module_owner owner_of(const char *file) {
  for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
    if (strncmp(file, owners[i].begins, strlen(owners[i].begins)) == 0)
      return owners[i].owner;
  return MODULE_PROGRAM;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size) {
  const uint8_t *at = bytes;
  for (size_t i = 0; i < size; i++)
    hash = code_hash(hash, at[i]);
  return code_hash(hash, size);
}

/* The segment of the object that has all these bytes, as they are in the file. */
static const ElfW(Phdr) *
    segment_with(const struct dl_phdr_info *object, uintptr_t at, size_t size) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    uintptr_t offset = at - (object->dlpi_addr + segment->p_vaddr);
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) != 0 &&
        offset < segment->p_filesz && size <= segment->p_filesz - offset)
      return segment;
  }
  return NULL;
}

/* 0: the notes have no build id. See elf(5): names are padded to 4 bytes, descriptions to the
 * segment's alignment. */
static uint64_t build_id_in(const ElfW(Phdr) * notes, const uint8_t *at) {
  size_t align = notes->p_align == 8 ? 8 : 4, left = notes->p_filesz;
  ElfW(Nhdr) note;
  while (left >= sizeof(note)) {
    memcpy(&note, at, sizeof(note));
    size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
    size_t begin = (sizeof(note) + name + align - 1) & ~(align - 1);
    size_t end = (begin + note.n_descsz + align - 1) & ~(align - 1);
    if (begin + note.n_descsz > left)
      return 0;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        memcmp(at + sizeof(note), "GNU", 4) == 0)
      return hash_bytes(1, at + begin, note.n_descsz);
    if (end >= left)
      return 0;
    at += end;
    left -= end;
  }
  return 0;
}

static uint64_t build_id_of(const struct dl_phdr_info *object) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *notes = &object->dlpi_phdr[i];
    uintptr_t at = object->dlpi_addr + notes->p_vaddr;
    if (notes->p_type != PT_NOTE || segment_with(object, at, notes->p_filesz) == NULL)
      continue;
    uint64_t id = build_id_in(notes, (const uint8_t *)at);
    if (id != 0)
      return id;
  }
  return 0;
}

/* Without a build id: the file's name, and how large its parts are and where. */
static uint64_t id_of(const struct dl_phdr_info *object) {
  uint64_t id = build_id_of(object);
  if (id != 0)
    return id;
  char path[4096] = "";
  const char *name = object->dlpi_name;
  if (name == NULL || *name == '\0') {
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[length > 0 ? length : 0] = '\0';
    name = path;
  }
  id = hash_bytes(2, file_of(name), strlen(file_of(name)));
  return hash_bytes(id, object->dlpi_phdr, object->dlpi_phnum * sizeof(*object->dlpi_phdr));
}

static void find_tables(const struct dl_phdr_info *object, struct code_module *module) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &object->dlpi_phdr[i];
    if (header->p_type != PT_GNU_EH_FRAME)
      continue;
    uintptr_t at = object->dlpi_addr + header->p_vaddr;
    const ElfW(Phdr) *segment = segment_with(object, at, header->p_memsz);
    if (segment == NULL)
      return;
    module->unwind_header = (const uint8_t *)at;
    module->tables = (const uint8_t *)(object->dlpi_addr + segment->p_vaddr);
    module->tables_end = module->tables + segment->p_filesz;
  }
}

static bool is_in(const struct dl_phdr_info *object, uintptr_t pc) {
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0 &&
        pc - (object->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
      return true;
  }
  return false;
}

struct search {
  uintptr_t pc;
  struct code_module *module;
};

static int look_at(struct dl_phdr_info *object, size_t size, void *of) {
  (void)size;
  const struct search *search = of;
  if (!is_in(object, search->pc))
    return 0;
  const char *name = object->dlpi_name;
  bool is_ours = is_in(object, (uintptr_t)code_module_find);
  *search->module = (struct code_module){
      .base = object->dlpi_addr,
      .id = id_of(object),
      .owner = is_ours ? MODULE_OURS : owner_of(file_of(name != NULL ? name : "")),
      .is_executable = name != NULL && *name == '\0', /* dl_iterate_phdr(3) */
  };
  find_tables(object, search->module);
  return 1;
}

bool code_module_find(uintptr_t pc, struct code_module *module) {
  struct search search = {pc, module};
  return dl_iterate_phdr(look_at, &search) != 0;
}
