/* Reading an ELF file with libelf (image.h): headers, dynamic section, symbols, relocations. The
 * texts are scan.c's. */
#include "tools/check/image.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/symbols.h"

#if defined __x86_64__
#define MACHINE_HERE EM_X86_64
#else
#define MACHINE_HERE EM_AARCH64
#endif

/* The open file, and those of its sections that matter. */
struct reader {
  struct image *image;
  int descriptor;
  Elf *elf;
  char *error;
  Elf_Scn *dynamic, *symbols; /* .dynamic, .dynsym; NULL: none */
  size_t symbols_index;
};

const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash != NULL ? slash + 1 : path;
}

static bool damaged(struct reader *reader, const char *what) {
  snprintf(reader->error, IMAGE_ERROR_SIZE, "is a damaged ELF file: %s", what);
  return false;
}

static void note_function(struct image *image, const char *name, bool defined) {
  if (strcmp(name, "Py_BytesMain") == 0 || strcmp(name, "Py_Main") == 0 ||
      strcmp(name, "Py_RunMain") == 0 || strncmp(name, "Py_Initialize", 13) == 0)
    image->runs_python = true;
  else if (strcmp(name, "dlopen") == 0)
    image->opens |= !defined;
  else if (strcmp(name, "dlmopen") == 0)
    image->opens_apart |= !defined;
  else if (strcmp(name, "dlsym") == 0 || strcmp(name, "dlvsym") == 0)
    image->looks_up |= !defined;
  else if (strcmp(name, "la_objsearch") == 0 || strncmp(name, "la_symbind", 10) == 0)
    image->audits |= defined;
}

/* ---- what is in it ---- */

static bool read_segments(struct reader *reader, bool *has_dynamic) {
  struct image *image = reader->image;
  size_t count;
  *has_dynamic = false;
  if (elf_getphdrnum(reader->elf, &count) != 0 || count > INT_MAX)
    return damaged(reader, "its program headers are not where it says");
  for (size_t i = 0; i < count; i++) {
    GElf_Phdr segment;
    if (gelf_getphdr(reader->elf, (int)i, &segment) == NULL)
      return damaged(reader, "its program headers are not where it says");
    *has_dynamic |= segment.p_type == PT_DYNAMIC;
    if (segment.p_type != PT_INTERP)
      continue;
    size_t size = segment.p_filesz;
    if (size == 0 || size > PATH_MAX ||
        pread(reader->descriptor, image->interpreter, size, (off_t)segment.p_offset) !=
            (ssize_t)size ||
        image->interpreter[size - 1] != '\0')
      return damaged(reader, "the name of its dynamic linker is not where it says");
  }
  return true;
}

/* libelf takes tables behind the end of a file for empty. Numbers above those limits are elsewhere,
 * which no program of a linker needs. */
static bool tables_are_complete(struct reader *reader, const GElf_Ehdr *header) {
  size_t segments, sections;
  return elf_getphdrnum(reader->elf, &segments) == 0 && segments == header->e_phnum &&
         elf_getshdrnum(reader->elf, &sections) == 0 && sections == header->e_shnum;
}

static bool find_sections(struct reader *reader) {
  for (Elf_Scn *section = NULL; (section = elf_nextscn(reader->elf, section)) != NULL;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == NULL)
      return damaged(reader, "its section headers are not where it says");
    if (header.sh_type == SHT_DYNAMIC) {
      reader->dynamic = section;
    } else if (header.sh_type == SHT_DYNSYM) {
      reader->symbols = section;
      reader->symbols_index = elf_ndxscn(section);
    }
  }
  return true;
}

static void keep(char **text, const char *value) {
  free(*text);
  *text = copy_text(value);
}

static void read_flags(struct image *image, const GElf_Dyn *entry) {
  if (entry->d_tag == DT_SYMBOLIC || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_SYMBOLIC))
    image->symbolic = true;
  if (entry->d_tag == DT_FLAGS_1 && entry->d_un.d_val & DF_1_NODEFLIB)
    image->skips_system = true;
  if (entry->d_tag == DT_FLAGS_1 && entry->d_un.d_val & DF_1_PIE)
    image->is_library = false;
}

static bool read_dynamic(struct reader *reader, struct image *image) {
  const char *names;
  size_t size;
  Elf_Data *table = symbols_table(reader->dynamic);
  if (table == NULL || !symbols_names(reader->elf, reader->dynamic, &names, &size))
    return damaged(reader, "its dynamic section is not where it says");
  GElf_Dyn entry;
  for (int i = 0; gelf_getdyn(table, i, &entry) != NULL && entry.d_tag != DT_NULL; i++) {
    read_flags(image, &entry);
    char **text = entry.d_tag == DT_SONAME                                ? &image->soname
                  : entry.d_tag == DT_RPATH                               ? &image->rpath
                  : entry.d_tag == DT_RUNPATH                             ? &image->runpath
                  : entry.d_tag == DT_AUDIT || entry.d_tag == DT_DEPAUDIT ? &image->audit
                                                                          : NULL;
    if (text == NULL && entry.d_tag != DT_NEEDED)
      continue;
    if (entry.d_un.d_val >= size)
      return damaged(reader, "its dynamic section names what is not in it");
    if (text != NULL)
      keep(text, names + entry.d_un.d_val);
    else
      names_add(&image->needed, names + entry.d_un.d_val);
  }
  return true;
}

/* Of a library's symbols, which may be hundred thousands, most are told by two letters. */
static bool may_matter(const char *name) {
  return (name[0] == 'd' && name[1] == 'l') || (name[0] == 'l' && name[1] == 'a') ||
         (name[0] == 'n' && name[1] == 'c') || (name[0] == 'p' && name[1] == 'n') ||
         (name[0] == 'P' && name[1] == 'y');
}

static void read_exported(struct reader *reader, const struct symbols *symbols) {
  struct image *image = reader->image;
  GElf_Sym symbol;
  for (size_t i = 0; i < symbols->count; i++) {
    const char *name = symbols_name(symbols, i, &symbol);
    if (name == NULL || !may_matter(name))
      continue;
    bool defined = symbol.st_shndx != SHN_UNDEF;
    note_function(image, name, defined);
    if (!is_nccl_function(name) || GELF_ST_BIND(symbol.st_info) == STB_LOCAL)
      continue;
    image->uses += !defined;
    image->exports += defined;
    image->has_creation |= defined && is_creation(name);
  }
}

/* A function that a library calls by a relocation with its name can be another's; what it calls
 * directly cannot. */
static void count_calls(struct reader *reader, const struct symbols *symbols, Elf_Scn *section) {
  GElf_Shdr header;
  if (gelf_getshdr(section, &header) == NULL || header.sh_link != reader->symbols_index ||
      (header.sh_type != SHT_RELA && header.sh_type != SHT_REL))
    return;
  Elf_Data *table = symbols_table(section);
  for (int i = 0; table != NULL && i < INT_MAX; i++) {
    GElf_Rela with_addend = {0};
    GElf_Rel plain = {0};
    bool there = header.sh_type == SHT_RELA ? gelf_getrela(table, i, &with_addend) != NULL
                                            : gelf_getrel(table, i, &plain) != NULL;
    if (!there)
      return;
    GElf_Sym symbol;
    const char *name =
        symbols_name(symbols, GELF_R_SYM(with_addend.r_info | plain.r_info), &symbol);
    if (name != NULL && symbol.st_shndx != SHN_UNDEF && is_nccl_function(name))
      reader->image->calls_out++;
  }
}

static bool read_symbols(struct reader *reader) {
  struct symbols symbols;
  if (reader->symbols != NULL) {
    if (!symbols_read(reader->elf, reader->symbols, &symbols))
      return damaged(reader, "its symbols are not where it says");
    if (symbols_mention(&symbols, "nccl") || symbols_mention(&symbols, "dlopen") ||
        symbols_mention(&symbols, "dlmopen") || symbols_mention(&symbols, "la_") ||
        symbols_mention(&symbols, "Py_Initialize") || symbols_mention(&symbols, "Main"))
      read_exported(reader, &symbols);
    Elf_Scn *section = reader->image->exports > 0 ? elf_nextscn(reader->elf, NULL) : NULL;
    for (; section != NULL; section = elf_nextscn(reader->elf, section))
      count_calls(reader, &symbols, section);
  }
  return true;
}

/* ---- the file ---- */

static bool read_headers(struct reader *reader) {
  struct image *image = reader->image;
  GElf_Ehdr header;
  bool has_dynamic;
  if (gelf_getehdr(reader->elf, &header) == NULL)
    return damaged(reader, "its header is not complete");
  image->bits = gelf_getclass(reader->elf) == ELFCLASS32 ? 32 : 64;
  image->machine = header.e_machine;
  image->runs_here = image->bits == 64 && header.e_machine == MACHINE_HERE;
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
    snprintf(reader->error, IMAGE_ERROR_SIZE, "is an ELF file, but neither program nor library");
    return false;
  }
  if (!tables_are_complete(reader, &header))
    return damaged(reader, "its tables end behind the file");
  if (!read_segments(reader, &has_dynamic) || !find_sections(reader))
    return false;
  if (has_dynamic && reader->dynamic == NULL)
    return damaged(reader, "it has no section headers");
  image->is_library = header.e_type == ET_DYN && has_dynamic && *image->interpreter == '\0';
  return (!has_dynamic || read_dynamic(reader, image)) && read_symbols(reader);
}

static bool read_elf(struct image *image, int descriptor, char *error) {
  elf_version(EV_CURRENT);
  struct reader reader = {.image = image, .descriptor = descriptor, .error = error};
  reader.elf = elf_begin(descriptor, ELF_C_READ, NULL);
  bool good = reader.elf != NULL && elf_kind(reader.elf) == ELF_K_ELF;
  if (!good)
    snprintf(error, IMAGE_ERROR_SIZE, "is not an ELF file");
  good = good && read_headers(&reader);
  elf_end(reader.elf);
  return good;
}

/* Not a pipe or a device, which might never end. */
static int open_file(const char *path, struct stat *status) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0)
    return -1;
  if (fstat(descriptor, status) == 0 && S_ISREG(status->st_mode))
    return descriptor;
  close(descriptor);
  errno = S_ISDIR(status->st_mode) ? EISDIR : EINVAL;
  return -1;
}

struct image *image_read(const char *path, char *error) {
  struct stat status = {0};
  int descriptor = strlen(path) < PATH_MAX ? open_file(path, &status) : -1;
  if (descriptor < 0) {
    snprintf(error, IMAGE_ERROR_SIZE, "cannot be read: %s", strerror(errno));
    return NULL;
  }
  struct image *image = more_memory(NULL, sizeof *image);
  *image = (struct image){.device = status.st_dev, .inode = status.st_ino};
  copy_path(image->path, path);
  bool good = read_elf(image, descriptor, error);
  close(descriptor);
  if (good)
    return image;
  image_free(image);
  return NULL;
}

bool image_fits(const char *path) {
  struct stat status;
  unsigned char header[20] = {0};
  int descriptor = open_file(path, &status);
  if (descriptor < 0)
    return false;
  bool complete = pread(descriptor, header, sizeof header, 0) == (ssize_t)sizeof header;
  close(descriptor);
  return complete && memcmp(header, ELFMAG, SELFMAG) == 0 && header[EI_CLASS] == ELFCLASS64 &&
         (header[18] | header[19] << 8) == MACHINE_HERE;
}

bool image_is_nccl(const struct image *image) {
  const char *name = image->soname != NULL ? image->soname : base_name(image->path);
  return image->exports > 0 && strncmp(name, "libnccl.so", 10) == 0;
}

const char *image_machine_name(const struct image *image) {
  switch (image->machine) {
  case EM_X86_64:
    return image->bits == 64 ? "x86-64" : "x32";
  case EM_386:
    return "i386";
  case EM_AARCH64:
    return "aarch64";
  case EM_ARM:
    return "arm";
  case EM_PPC64:
    return "ppc64";
  case EM_RISCV:
    return "riscv";
  default:
    return "another architecture";
  }
}

void image_free(struct image *image) {
  if (image == NULL)
    return;
  free(image->soname);
  free(image->rpath);
  free(image->runpath);
  free(image->audit);
  names_free(&image->needed);
  names_free(&image->opened);
  free(image);
}
