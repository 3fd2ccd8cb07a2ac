/* See binary.h. */
#include "tests/interpose/binary.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_ours(const Elf64_Ehdr *header) {
#ifdef __x86_64__
  const uint16_t machine = EM_X86_64;
#else
  const uint16_t machine = EM_AARCH64;
#endif
  return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 && header->e_machine == machine;
}

static void load(struct binary *binary, const uint8_t *file, const Elf64_Phdr *headers,
                 uint32_t nheaders) {
  for (uint32_t i = 0; i < nheaders; i++) {
    const Elf64_Phdr *header = &headers[i];
    if (header->p_type == PT_GNU_EH_FRAME)
      binary->object.frames = binary->base + header->p_vaddr;
    if (header->p_type != PT_LOAD || binary->object.nreadable == NATIVE_PARTS_MAX)
      continue;
    uint8_t *begin = binary->base + header->p_vaddr;
    memcpy(begin, file + header->p_offset, header->p_filesz);
    binary->object.readable[binary->object.nreadable++] =
        (struct native_part){begin, begin + header->p_memsz};
  }
}

/* A program that is not relocated is laid out where it says. */
static bool lay_out(struct binary *binary, const uint8_t *file) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)file;
  const Elf64_Phdr *headers = (const Elf64_Phdr *)(const void *)(file + header->e_phoff);
  uint64_t low = UINT64_MAX;
  uint64_t high = 0;
  if (!is_ours(header))
    return false;
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    if (headers[i].p_type != PT_LOAD)
      continue;
    low = headers[i].p_vaddr < low ? headers[i].p_vaddr & ~UINT64_C(4095) : low;
    uint64_t end = headers[i].p_vaddr + headers[i].p_memsz;
    high = end > high ? end : high;
  }
  binary->mapped = high - low;
  void *at = header->e_type == ET_EXEC ? (void *)(uintptr_t)low : NULL;
  binary->mapping = mmap(at, binary->mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (binary->mapping == MAP_FAILED)
    return false;
  binary->base = (uint8_t *)((uintptr_t)binary->mapping - low);
  load(binary, file, headers, header->e_phnum);
  return binary->object.frames != NULL;
}

bool binary_open(struct binary *binary, const char *path) {
  *binary = (struct binary){.mapping = MAP_FAILED};
  struct stat status;
  int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return false;
  if (fstat(descriptor, &status) != 0 || status.st_size < (off_t)sizeof(Elf64_Ehdr)) {
    close(descriptor);
    return false;
  }
  size_t size = (size_t)status.st_size;
  uint8_t *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  close(descriptor);
  bool laid_out = file != MAP_FAILED && lay_out(binary, file);
  if (file != MAP_FAILED)
    munmap(file, size);
  if (!laid_out)
    binary_close(binary);
  return laid_out;
}

void binary_close(struct binary *binary) {
  if (binary->mapping != MAP_FAILED)
    munmap(binary->mapping, binary->mapped);
  binary->mapping = MAP_FAILED;
}

/* Version 1, and all as linkers write it: 4 bytes each, the table relative to the section. */
static const int32_t *table_of(const struct binary *binary) {
  return (const int32_t *)(const void *)(binary->object.frames + 12);
}

uint32_t binary_functions(const struct binary *binary) {
  static const uint8_t usual[] = {1, 0x1B, 0x03, 0x3B};
  uint32_t count = 0;
  if (memcmp(binary->object.frames, usual, sizeof usual) == 0)
    memcpy(&count, binary->object.frames + 8, sizeof count);
  return count;
}

struct native_part binary_function(const struct binary *binary, uint32_t i) {
  const int32_t *table = table_of(binary);
  const uint8_t *begin = binary->object.frames + table[2 * i];
  const uint8_t *entry = binary->object.frames + table[2 * i + 1];
  uint32_t size;
  memcpy(&size, entry + 12, sizeof size); /* behind length, CIE and the 4 bytes of the begin */
  return (struct native_part){begin, begin + size};
}
