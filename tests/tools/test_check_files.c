/* What nccl-join check reads: files that are damaged, the dynamic linker's cache, and a
 * sanitizer's library. */
#include <criterion/criterion.h>
#include <elf.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/workbench.h"
#include "tools/check/search.h"

enum { YES, NO };

TestSuite(check_files, .init = sandbox_make, .fini = sandbox_remove, .timeout = 300);

static const char *in_sandbox(const char *name) {
  static char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", sandbox(), name);
  return path;
}

static size_t read_bytes(const char *name, unsigned char **bytes) {
  FILE *file = fopen(in_sandbox(name), "r");
  cr_assert_not_null(file);
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  *bytes = malloc(size);
  cr_assert_eq(fread(*bytes, 1, size, file), size);
  fclose(file);
  return size;
}

static void write_bytes(const char *name, const void *bytes, size_t size) {
  FILE *file = fopen(in_sandbox(name), "w");
  cr_assert_not_null(file);
  cr_assert_eq(fwrite(bytes, 1, size, file), size);
  fclose(file);
}

/* Reads the file; it may be taken for good, or refused with a text. */
static bool is_read(const char *name) {
  char error[IMAGE_ERROR_SIZE] = "";
  struct image *image = image_read(in_sandbox(name), error);
  if (image == NULL) {
    cr_expect_neq(*error, '\0');
  } else {
    image->exports = image->uses = 0; /* so that the symbols are looked at as well */
    image_find_hidden(image);
    image_scan(image, SCAN_ALL);
  }
  image_free(image);
  return image != NULL;
}

Test(check_files, a_library_that_is_cut_off_anywhere_is_refused) {
  build_nccl(".", "2.28.9");
  unsigned char *bytes;
  size_t size = read_bytes("libnccl.so.2", &bytes);
  cr_assert(is_read("libnccl.so.2"));
  for (size_t length = 0; length < size - 64; length += 1 + size / 400) {
    write_bytes("cut", bytes, length);
    cr_expect_not(is_read("cut"), "%zu of %zu bytes were taken for a library", length, size);
  }
  free(bytes);
}

/* A generator of its own, so that a failure can be repeated: xorshift64. */
static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

/* Offsets, sizes and counts are in the headers, in tables at the end, and in the dynamic section:
 * most of the damage is done there. */
Test(check_files, a_garbled_library_is_never_more_than_refused) {
  build_nccl(".", "2.28.9");
  unsigned char *bytes, *garbled;
  size_t size = read_bytes("libnccl.so.2", &bytes), refused = 0;
  garbled = malloc(size);
  uint64_t state = 1;
  for (int i = 0; i < 3000; i++) {
    memcpy(garbled, bytes, size);
    for (uint64_t n = next_random(&state) % 8 + 1; n > 0; n--) {
      uint64_t where = next_random(&state) % 4, place = next_random(&state);
      size_t at = where == 0   ? place % 64
                  : where == 1 ? place % 1024
                  : where == 2 ? size - 1 - place % 2048
                               : place % size;
      garbled[at] = (unsigned char)(place >> 32 & 1 ? 0xff : next_random(&state));
    }
    write_bytes("garbled", garbled, size);
    refused += !is_read("garbled");
  }
  cr_expect_gt(refused, 300);
  cr_expect_lt(refused, 3000);
  free(garbled);
  free(bytes);
}

/* Sections that a file really has, of zeros that are nowhere. */
Test(check_files, texts_without_end_are_not_read_to_the_end) {
  build_nccl(".", "2.28.9");
  unsigned char *bytes;
  size_t size = read_bytes("libnccl.so.2", &bytes);
  Elf64_Ehdr *header = (Elf64_Ehdr *)bytes;
  Elf64_Shdr *sections = (Elf64_Shdr *)(bytes + header->e_shoff);
  for (int i = 0; i < header->e_shnum; i++)
    if (sections[i].sh_type == SHT_STRTAB && i != header->e_shstrndx &&
        !(sections[i].sh_flags & SHF_ALLOC))
      sections[i].sh_size = (Elf64_Xword)1 << 40;
    else if (sections[i].sh_type == SHT_PROGBITS)
      sections[i].sh_size = (Elf64_Xword)1 << 40;
  write_bytes("endless", bytes, size);
  free(bytes);
  cr_assert_eq(truncate(in_sandbox("endless"), (off_t)3 << 39), 0);
  cr_expect(is_read("endless"));
}

Test(check_files, what_is_no_file_is_refused_and_not_waited_for) {
  run("mkfifo pipe; mkdir folder; ln -s loop loop; : >empty");
  static const char *const names[] = {"pipe", "folder", "loop", "empty", "not-there"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    cr_expect_not(is_read(names[i]), "%s", names[i]);
  cr_expect_not(is_read("../../dev/zero"));
}

/* ---- the cache ---- */

/* By a program of that name that writes what ldconfig -p writes, with a line of the caller's. */
static bool is_found(const char *format) {
  char path[PATH_MAX], line[PATH_MAX], text[2 * PATH_MAX];
  struct search search;
  snprintf(line, sizeof line, format, in_sandbox("libnccl.so.2")); /* NOLINT */
  snprintf(
      text, sizeof text,
      "#!/bin/sh\nprintf '2 libs found in cache\\n\\tlibother.so.2 (libc6) => /x\\n\\t%s\\n'\n",
      line);
  write_bytes("ldconfig", text, strlen(text));
  run("chmod +x ldconfig");
  char *before = strdup(getenv("PATH"));
  setenv("PATH", sandbox(), 1);
  search_begin(&search, NULL);
  setenv("PATH", before, 1);
  free(before);
  bool found = search_library(&search, "libnccl-of-the-test.so.2", NULL, path);
  search_end(&search);
  cr_expect(!found || strcmp(path, in_sandbox("libnccl.so.2")) == 0, "%s", path);
  return found;
}

#ifdef __x86_64__
#define KIND "(libc6,x86-64"
#else
#define KIND "(libc6,AArch64"
#endif

Test(check_files, libraries_of_the_dynamic_linkers_cache_are_found) {
  build_nccl(".", "2.28.9");
  cr_expect(is_found("libnccl-of-the-test.so.2 " KIND ") => %s"));
  cr_expect_not(is_found("libnccl-of-the-test.so.2 (libc6) => %s"));
  cr_expect_not(is_found("libnccl-of-the-test.so.2 " KIND ", hwcap: \"x86-64-v9\") => %s"));
  cr_expect_not(is_found("libnccl-of-the-test.so.2 " KIND ") => %s-gone"));
  cr_expect_not(is_found("libnccl-of-the-test.so " KIND ") => %s"));
  cr_expect_not(is_found("not-libnccl-of-the-test.so.2 " KIND ") => %s"));
}

Test(check_files, a_sanitizer_that_wants_to_be_first_is_in_the_way_unless_it_is_told_not_to) {
  build_nccl("nccl", "2.28.9");
  build("user", "-fsanitize=address -o program -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  expect_answer("", "./program", NO, "\"kind\":\"sanitizer\",\"harmless\":false");
  expect_answer("ASAN_OPTIONS=verify_asan_link_order=0", "./program", YES, "\"remarks\":[]");
  struct result result = run_until_warned("nccl-join run ./program");
  cr_expect(strstr(result.err, "set ASAN_OPTIONS=verify_asan_link_order=0\n"), "%s", result.err);
}
