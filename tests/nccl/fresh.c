/* What NCCL spends on its network thread, where all ranks are on one machine and it has nothing to
 * do: a file of 68 MB in /dev/shm for each rank, which is filled with pages and cleared, and half a
 * second until the thread looks whether it is to end. A file that only has the length is as clear,
 * and it may look sooner: of a short program that was three quarters of the processor time, and
 * half of the rest was waiting.
 */
#include "tests/nccl/emulation.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGE (1 << 20)
#define LOOKS_MS 500 /* proxy.cc */
#define SOONER_MS 20

static uintptr_t page_size;

/* Pages come when they are used. */
static int lengthen(int file, int mode, off_t offset, off_t length) {
  struct stat status;
  if (mode != 0 || length < LARGE || fstat(file, &status) != 0 || status.st_size > offset)
    return fallocate(file, mode, offset, length);
  return ftruncate(file, offset + length);
}

/* Lets go of a file's pages, by which they are clear. Of memory that is none of a file the kernel
 * refuses that. */
static void *clear(void *memory, int value, size_t size) {
  uintptr_t from = (uintptr_t)memory, pages = size & ~(page_size - 1);
  if (value != 0 || size < LARGE || (from & (page_size - 1)) != 0 ||
      madvise(memory, pages, MADV_REMOVE) != 0)
    return memset(memory, value, size);
  memset((char *)memory + pages, 0, size - pages);
  return memory;
}

/* The thread that serves a rank's peers looks twice a second whether it is to end. */
static int look_sooner(struct pollfd *files, nfds_t count, int milliseconds) {
  return poll(files, count, milliseconds == LOOKS_MS ? SOONER_MS : milliseconds);
}

static void *function_for(const char *name) {
  if (strcmp(name, "memset") == 0)
    return (void *)clear;
  if (strcmp(name, "poll") == 0)
    return (void *)look_sooner;
  return strcmp(name, "fallocate") == 0 ? (void *)lengthen : NULL;
}

/* Where a library keeps the addresses of functions that it calls. */
static void replace(const struct link_map *map, const Elf64_Rela *calls, size_t count,
                    const Elf64_Sym *symbols, const char *names) {
  for (size_t i = 0; i < count; i++) {
    void *to = function_for(names + symbols[ELF64_R_SYM(calls[i].r_info)].st_name);
    char *slot = (char *)map->l_addr + calls[i].r_offset;
    if (to == NULL || ELF64_R_TYPE(calls[i].r_info) != R_X86_64_JUMP_SLOT ||
        mprotect((char *)((uintptr_t)slot & ~(page_size - 1)), page_size, PROT_READ | PROT_WRITE) !=
            0)
      continue;
    memcpy(slot, &to, sizeof to); /* it stays writable, as without immediate binding */
  }
}

void fresh_memory(const struct link_map *map) {
  const Elf64_Sym *symbols = NULL;
  const Elf64_Rela *calls = NULL;
  const char *names = NULL;
  size_t size = 0;
  for (const Elf64_Dyn *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
    if (entry->d_tag == DT_SYMTAB)
      symbols = (const void *)entry->d_un.d_ptr;
    else if (entry->d_tag == DT_STRTAB)
      names = (const void *)entry->d_un.d_ptr;
    else if (entry->d_tag == DT_JMPREL)
      calls = (const void *)entry->d_un.d_ptr;
    else if (entry->d_tag == DT_PLTRELSZ)
      size = entry->d_un.d_val;
  page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
  if (symbols != NULL && names != NULL && calls != NULL)
    replace(map, calls, size / sizeof *calls, symbols, names);
}
