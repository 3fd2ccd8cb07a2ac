/* The constant texts of an ELF file (image_scan of image.h): file names of NCCL, names of its
 * functions, and texts that only NCCL itself has; and the symbols that the linker has kept for
 * debuggers.
 *
 * A framework's texts are a hundred megabytes, so they pass by in pieces that fit a processor's
 * cache, once for each text that is looked for. */
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/check/image.h"
#include "tools/check/symbols.h"

#define PIECE ((size_t)256 * 1024)
#define OVERLAP ((size_t)64) /* longer than every text that is looked for */
#define BEFORE ((size_t)512) /* of a file name, its folders */
#define AFTER ((size_t)64)

/* Ten times what PyTorch and XLA have. A damaged file may pretend to have more than can be read. */
#define TEXTS_MAX ((GElf_Xword)512 << 20)

struct scanner {
  struct image *image;
  int descriptor;
  enum scan scan;
  bool mentions_nccl; /* among the symbols */
};

/* ---- what is found ---- */

/* The whole text around the place in the file that is in it. "" if it is too long. */
static void text_at(const struct scanner *scanner, off_t place, char *text, size_t size) {
  char bytes[BEFORE + AFTER];
  size_t before = place < (off_t)BEFORE ? (size_t)place : BEFORE;
  ssize_t got = pread(scanner->descriptor, bytes, before + AFTER, place - (off_t)before);
  *text = '\0';
  if (got <= (ssize_t)before)
    return;
  char *end = memchr(bytes + before, '\0', (size_t)got - before);
  char *zero = memrchr(bytes, '\0', before);
  char *begin = zero != NULL ? zero + 1 : bytes;
  if (end != NULL && (zero != NULL || (off_t)before == place) && (size_t)(end - begin) < size)
    memcpy(text, begin, (size_t)(end - begin) + 1);
}

/* Messages contain the file's name, too. A file name is all of its text, without spaces. */
static void found_file_name(struct scanner *scanner, off_t place) {
  char text[BEFORE];
  text_at(scanner, place, text, sizeof text);
  if (strncmp(base_name(text), "libnccl.so", 10) == 0 && strpbrk(text, " \n%") == NULL)
    names_add(&scanner->image->opened, text);
}

static void found_function(struct scanner *scanner, off_t place) {
  char text[BEFORE];
  text_at(scanner, place, text, sizeof text);
  const char *name = *text == 'p' ? text + 1 : text;
  if (strcmp(name, "ncclCommInitRank") == 0 || strcmp(name, "ncclCommInitRankConfig") == 0)
    scanner->image->names_functions = true;
}

/* A variable that NCCL reads (its graph/search.cc) and nobody else; frameworks read NCCL_COMM_ID
 * and NCCL_DEBUG, too. */
static void found_variable(struct scanner *scanner, off_t place) {
  char text[BEFORE];
  text_at(scanner, place, text, sizeof text);
  if (strcmp(text, "NCCL_GRAPH_DUMP_FILE") == 0)
    scanner->image->carries_nccl = true;
}

/* "NCCL version 2.28.9+cuda13.0", which NCCL logs. */
static void found_version(struct scanner *scanner, off_t place) {
  char text[BEFORE], *version = scanner->image->version;
  text_at(scanner, place, text, sizeof text);
  const char *number = text + strlen("NCCL version ");
  size_t length = strncmp(text, "NCCL version ", strlen("NCCL version ")) == 0
                      ? strspn(number, "0123456789.")
                      : 0;
  if (*version == '\0' && length >= 5 && length < IMAGE_VERSION_SIZE)
    snprintf(version, IMAGE_VERSION_SIZE, "%.*s", (int)length, number);
}

static const struct wanted {
  const char *text;
  enum scan scan;
  bool of_nccl; /* looked for only in what is or carries NCCL */
  void (*found)(struct scanner *, off_t);
} wanted[] = {
    {"NCCL_GRAPH_DUMP_FILE", SCAN_CARRIED, false, found_variable},
    {"NCCL version ", SCAN_CARRIED, true, found_version},
    {"libnccl.so", SCAN_ALL, false, found_file_name},
    {"ncclCommInitRank", SCAN_ALL, false, found_function},
};

static void found_symbol(struct scanner *scanner, off_t place) {
  (void)place;
  scanner->mentions_nccl = true;
}

/* ---- going through the file ---- */

static void search_piece(struct scanner *scanner, const char *bytes, size_t size, off_t place,
                         const struct wanted *text) {
  size_t length = strlen(text->text);
  for (const char *at = bytes; (at = memmem(at, size - (size_t)(at - bytes), text->text, length));
       at += length)
    text->found(scanner, place + (at - bytes));
}

static void scan_range(struct scanner *scanner, GElf_Off offset, GElf_Xword size,
                       const struct wanted *text) {
  static char bytes[PIECE + OVERLAP];
  if (size > TEXTS_MAX)
    size = TEXTS_MAX;
  while (size > 0 && offset <= INT64_MAX - sizeof bytes) {
    size_t asked = size < sizeof bytes ? size : sizeof bytes;
    ssize_t got = pread(scanner->descriptor, bytes, asked, (off_t)offset);
    if (got > 0)
      search_piece(scanner, bytes, (size_t)got, (off_t)offset, text);
    if (got < (ssize_t)asked || asked == size)
      return;
    offset += PIECE;
    size -= PIECE;
  }
}

static bool has_texts(const char *name) {
  return strncmp(name, ".rodata", 7) == 0 || strncmp(name, ".lrodata", 8) == 0 ||
         strcmp(name, ".data") == 0;
}

static void scan_sections(struct scanner *scanner, Elf *elf, const struct wanted *text) {
  size_t names;
  if (elf_getshdrstrndx(elf, &names) != 0)
    return;
  for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
    GElf_Shdr header;
    const char *name =
        gelf_getshdr(section, &header) != NULL ? elf_strptr(elf, names, header.sh_name) : NULL;
    if (name != NULL && has_texts(name) && header.sh_type == SHT_PROGBITS)
      scan_range(scanner, header.sh_offset, header.sh_size, text);
  }
}

static bool is_wanted(const struct scanner *scanner, const struct wanted *text) {
  return text->scan <= scanner->scan &&
         (!text->of_nccl || scanner->image->carries_nccl || image_is_nccl(scanner->image));
}

/* ---- symbols ---- */

static void count_hidden(struct image *image, Elf *elf, Elf_Scn *section) {
  struct symbols symbols;
  GElf_Sym symbol;
  if (!symbols_read(elf, section, &symbols))
    return;
  for (size_t i = 0; i < symbols.count; i++) {
    const char *name = symbols_name(&symbols, i, &symbol);
    if (name == NULL || symbol.st_shndx == SHN_UNDEF || !is_nccl_function(name) ||
        GELF_ST_TYPE(symbol.st_info) != STT_FUNC)
      continue;
    image->hides++;
    image->has_creation |= is_creation(name);
  }
}

/* The names alone are looked through first: PyTorch's are 78 MB. */
static void find_hidden(struct scanner *scanner, Elf *elf) {
  static const struct wanted creation = {"ncclCommInitRank", SCAN_ALL, false, found_symbol};
  for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
    GElf_Shdr header, names;
    if (gelf_getshdr(section, &header) == NULL || header.sh_type != SHT_SYMTAB ||
        gelf_getshdr(elf_getscn(elf, header.sh_link), &names) == NULL)
      continue;
    scan_range(scanner, names.sh_offset, names.sh_size, &creation);
    if (scanner->mentions_nccl)
      count_hidden(scanner->image, elf, section);
  }
}

/* ---- what starts programs ---- */

static bool is_starter(const char *name) {
  static const char *const starters[] = {
      "execl",   "execle",   "execlp",      "execv",        "execve", "execvp", "execvpe",
      "fexecve", "execveat", "posix_spawn", "posix_spawnp", "system", "popen"};
  for (size_t i = 0; i < sizeof starters / sizeof starters[0]; i++)
    if (strcmp(name, starters[i]) == 0)
      return true;
  return false;
}

/* A program that is linked dynamically takes them from others, a static one has them. */
static bool has_starters(Elf *elf, Elf_Scn *section, bool defined) {
  struct symbols symbols;
  GElf_Sym symbol;
  if (!symbols_read(elf, section, &symbols))
    return true; /* nobody can tell */
  for (size_t i = 0; i < symbols.count; i++) {
    const char *name = symbols_name(&symbols, i, &symbol);
    if (name != NULL && (symbol.st_shndx != SHN_UNDEF) == defined && is_starter(name))
      return true;
  }
  return false;
}

static bool find_starters(Elf *elf, bool is_static) {
  bool known = !is_static;
  for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == NULL ||
        header.sh_type != (is_static ? SHT_SYMTAB : SHT_DYNSYM))
      continue;
    known = true;
    if (has_starters(elf, section, is_static))
      return true;
  }
  return !known;
}

/* ---- the file ---- */

static Elf *begin(struct scanner *scanner) {
  scanner->descriptor = open(scanner->image->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  elf_version(EV_CURRENT);
  return scanner->descriptor >= 0 ? elf_begin(scanner->descriptor, ELF_C_READ, NULL) : NULL;
}

static void end(struct scanner *scanner, Elf *elf) {
  elf_end(elf);
  if (scanner->descriptor >= 0)
    close(scanner->descriptor);
}

void image_find_hidden(struct image *image) {
  struct scanner scanner = {.image = image};
  Elf *elf = image->exports == 0 && image->uses == 0 ? begin(&scanner) : NULL;
  if (elf == NULL)
    return;
  find_hidden(&scanner, elf);
  end(&scanner, elf);
}

void image_find_starts(struct image *image) {
  struct scanner scanner = {.image = image};
  Elf *elf = begin(&scanner);
  if (elf == NULL)
    return;
  image->starts = find_starters(elf, !image->is_library && *image->interpreter == '\0');
  end(&scanner, elf);
}

void image_scan(struct image *image, enum scan scan) {
  struct scanner scanner = {.image = image, .scan = scan};
  Elf *elf = begin(&scanner);
  for (size_t i = 0; elf != NULL && i < sizeof wanted / sizeof wanted[0]; i++)
    if (is_wanted(&scanner, &wanted[i]))
      scan_sections(&scanner, elf, &wanted[i]);
  image->carries_nccl = image->carries_nccl && *image->version != '\0';
  end(&scanner, elf);
}
