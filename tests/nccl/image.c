/* ELF's symbol table, mapped from the file. */
#include "tests/nccl/image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
  char *base;
  const Elf64_Sym *symbols;
  size_t count;
  const char *names;
  const Elf64_Sym **by_address; /* functions, sorted */
  size_t functions;
} image;

static bool is_function(const Elf64_Sym *symbol) {
  return ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value != 0;
}

static int compare(const void *a, const void *b) {
  const Elf64_Sym *left = *(const Elf64_Sym *const *)a, *right = *(const Elf64_Sym *const *)b;
  return (left->st_value > right->st_value) - (left->st_value < right->st_value);
}

static bool sort(void) {
  image.by_address = malloc(image.count * sizeof *image.by_address);
  if (image.by_address == NULL)
    return false;
  for (size_t i = 0; i < image.count; i++)
    if (is_function(&image.symbols[i]))
      image.by_address[image.functions++] = &image.symbols[i];
  qsort(image.by_address, image.functions, sizeof *image.by_address, compare);
  return true;
}

bool image_read(const char *path, char *base) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0)
    return false;
  const char *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (map == MAP_FAILED)
    return false;
  image.base = base;
  const Elf64_Ehdr *header = (const void *)map;
  const Elf64_Shdr *sections = (const void *)(map + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++)
    if (sections[i].sh_type == SHT_SYMTAB) {
      image.symbols = (const void *)(map + sections[i].sh_offset);
      image.count = sections[i].sh_size / sizeof *image.symbols;
      image.names = map + sections[sections[i].sh_link].sh_offset;
    }
  return image.count > 0 && sort();
}

void image_each_function(void (*visit)(const char *name, char *address, size_t size)) {
  for (size_t i = 0; i < image.functions; i++) {
    const Elf64_Sym *symbol = image.by_address[i];
    visit(image.names + symbol->st_name, image.base + symbol->st_value, symbol->st_size);
  }
}

void *image_address(const char *name, size_t *size) {
  for (size_t i = 0; i < image.count; i++)
    if (image.symbols[i].st_value != 0 &&
        strcmp(image.names + image.symbols[i].st_name, name) == 0) {
      if (size != NULL)
        *size = image.symbols[i].st_size;
      return image.base + image.symbols[i].st_value;
    }
  return NULL;
}

const char *image_name(const void *address) {
  Elf64_Sym key = {.st_value = (Elf64_Addr)((const char *)address - image.base)};
  const Elf64_Sym *wanted = &key;
  const Elf64_Sym **found =
      bsearch(&wanted, image.by_address, image.functions, sizeof *image.by_address, compare);
  return found != NULL ? image.names + (*found)->st_name : NULL;
}
