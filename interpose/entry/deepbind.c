/* Looking into libraries before they are loaded (lookups.h). */
#include "interpose/entry/lookups.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/elf/linker.h"

/* What is needed by what is needed and so on; a ring ends here too. */
#define DEPTH_MAX 8

/* A library's file, and what its dynamic section says. Everything in it may be wrong. */
struct library_file {
  const char *bytes;
  size_t size;
  const Elf64_Dyn *dynamic;
  size_t ndynamic;
  const char *strings; /* ends with a zero */
  size_t strings_size;
};

/* Where it is searched for. */
struct search {
  Dl_serinfo *folders; /* of the object that opens; NULL: unknown */
  unsigned depth;
  bool (*is_caught)(const char *name);
};

/* ---- the file ---- */

static const void *at_offset(const struct library_file *file, size_t offset, size_t size) {
  return offset <= file->size && size <= file->size - offset ? file->bytes + offset : NULL;
}

static const Elf64_Phdr *deepbind_segments(const struct library_file *file, size_t *count) {
  const Elf64_Ehdr *header = at_offset(file, 0, sizeof(*header));
  if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_phentsize != sizeof(Elf64_Phdr))
    return NULL;
  *count = header->e_phnum;
  return at_offset(file, header->e_phoff, *count * sizeof(Elf64_Phdr));
}

/* What will be loaded at an address. */
static const void *at_address(const struct library_file *file, size_t address, size_t size) {
  size_t count = 0;
  const Elf64_Phdr *segment = deepbind_segments(file, &count);
  for (; segment != NULL && count > 0; segment++, count--)
    if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
        address - segment->p_vaddr < segment->p_filesz)
      return at_offset(file, segment->p_offset + (address - segment->p_vaddr), size);
  return NULL;
}

static size_t dynamic_value(const struct library_file *file, Elf64_Sxword tag) {
  for (size_t i = 0; i < file->ndynamic && file->dynamic[i].d_tag != DT_NULL; i++)
    if (file->dynamic[i].d_tag == tag)
      return file->dynamic[i].d_un.d_val;
  return 0;
}

static bool read_dynamic(struct library_file *file) {
  size_t count = 0;
  const Elf64_Phdr *segment = deepbind_segments(file, &count);
  for (; segment != NULL && count > 0; segment++, count--)
    if (segment->p_type == PT_DYNAMIC) {
      file->dynamic = at_offset(file, segment->p_offset, segment->p_filesz);
      file->ndynamic = segment->p_filesz / sizeof(Elf64_Dyn);
    }
  if (file->dynamic == NULL)
    return false;
  file->strings_size = dynamic_value(file, DT_STRSZ);
  file->strings = at_address(file, dynamic_value(file, DT_STRTAB), file->strings_size);
  return file->strings != NULL && file->strings_size > 0 &&
         file->strings[file->strings_size - 1] == '\0';
}

static bool open_file(struct library_file *file, const char *path) {
  *file = (struct library_file){0};
  struct stat status;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  void *bytes = MAP_FAILED;
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0)
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  if (bytes == MAP_FAILED)
    return false;
  file->bytes = bytes;
  file->size = (size_t)status.st_size;
  return true;
}

static void close_file(const struct library_file *file) {
  munmap((void *)file->bytes, file->size);
}

/* Of functions that it uses and of those that it has; linkers let a name be the end of another. */
static bool names_nccl(const struct library_file *file, bool (*is_caught)(const char *name)) {
  const char *end = file->strings + file->strings_size, *at = file->strings;
  while ((at = memmem(at, (size_t)(end - at), "nccl", 4)) != NULL) {
    if (is_caught(at))
      return true;
    at += 4;
  }
  return false;
}

/* ---- the search ---- */

static bool leads_to_nccl(const char *path, struct search *search);

static bool is_loaded(const char *name) {
  void *handle = linker_dlopen(name, RTLD_NOLOAD | RTLD_LAZY);
  if (handle != NULL)
    dlclose(handle);
  return handle != NULL;
}

/* In a list of folders separated by colons, in which $ORIGIN is where the file is. */
static bool found_in_list(const char *list, const char *origin, const char *name, char *path) {
  const char *slash = list == NULL ? NULL : strrchr(origin, '/');
  int above = slash == NULL ? 0 : (int)(slash - origin);
  for (const char *next; list != NULL; list = next) {
    const char *colon = strchr(list, ':');
    int length = colon == NULL ? (int)strlen(list) : (int)(colon - list);
    next = colon == NULL ? NULL : colon + 1;
    int word = strncmp(list, "$ORIGIN", 7) == 0 ? 7 : strncmp(list, "${ORIGIN}", 9) == 0 ? 9 : 0;
    if (length == 0 || length > PATH_MAX)
      continue;
    snprintf(path, PATH_MAX, "%.*s%.*s/%s", word > 0 ? above : 0, origin, length - word,
             list + word, name);
    if (access(path, R_OK) == 0)
      return true;
  }
  return false;
}

static bool found_in_folders(const Dl_serinfo *folders, const char *name, char *path) {
  for (unsigned i = 0; folders != NULL && i < folders->dls_cnt; i++) {
    snprintf(path, PATH_MAX, "%s/%s", folders->dls_serpath[i].dls_name, name);
    if (access(path, R_OK) == 0)
      return true;
  }
  return false;
}

/* list: the RUNPATH of the file at `origin`; both may be NULL. */
static bool deepbind_found(const char *name, const char *list, const char *origin,
                           const struct search *search, char *path) {
  if (strchr(name, '/') != NULL)
    return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
  return found_in_list(list, origin, name, path) || found_in_folders(search->folders, name, path);
}

static bool needs_nccl(const struct library_file *file, const char *path, struct search *search) {
  size_t list = dynamic_value(file, DT_RUNPATH);
  if (list == 0)
    list = dynamic_value(file, DT_RPATH);
  for (size_t i = 0; i < file->ndynamic && file->dynamic[i].d_tag != DT_NULL; i++) {
    size_t name = file->dynamic[i].d_un.d_val;
    if (file->dynamic[i].d_tag != DT_NEEDED || name >= file->strings_size ||
        list >= file->strings_size || is_loaded(file->strings + name))
      continue;
    char needed[PATH_MAX];
    if (deepbind_found(file->strings + name, list == 0 ? NULL : file->strings + list, path, search,
                       needed) &&
        leads_to_nccl(needed, search))
      return true;
  }
  return false;
}

static bool leads_to_nccl(const char *path, struct search *search) {
  struct library_file file;
  if (search->depth == DEPTH_MAX || !open_file(&file, path))
    return false;
  search->depth++;
  bool leads = read_dynamic(&file) &&
               (names_nccl(&file, search->is_caught) || needs_nccl(&file, path, search));
  search->depth--;
  close_file(&file);
  return leads;
}

/* Of the object at an address; NULL for the program itself means the same. */
static Dl_serinfo *folders_of(const void *caller) {
  Dl_info object;
  Dl_serinfo size, *folders = NULL;
  if (dladdr(caller, &object) == 0)
    return NULL;
  void *handle = linker_dlopen(object.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == NULL)
    handle = linker_dlopen(NULL, RTLD_LAZY);
  if (handle != NULL && dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0)
    folders = malloc(size.dls_size);
  if (folders != NULL && (dlinfo(handle, RTLD_DI_SERINFOSIZE, folders) != 0 ||
                          dlinfo(handle, RTLD_DI_SERINFO, folders) != 0)) {
    free(folders);
    folders = NULL;
  }
  if (handle != NULL)
    dlclose(handle);
  return folders;
}

bool deepbind_hides_nccl(const char *file, const void *caller,
                         bool (*is_caught)(const char *name)) {
  char path[PATH_MAX];
  struct search search = {.folders = folders_of(caller), .is_caught = is_caught};
  bool hides = deepbind_found(file, NULL, NULL, &search, path) && leads_to_nccl(path, &search);
  free(search.folders);
  return hides;
}
