/* Functions that do not return: see native_graph.h. */
#include "interpose/places/native/native_graph.h"

#include <link.h>
#include <string.h>

/* A longer function is taken for one that returns: this bounds the time for each call. */
enum { LOOKED_AT_MAX = 4096 };

/* Of libc and the C++ runtime; called where gcc and clang make nothing of what follows. */
static const char *const endings[] = {"abort",
                                      "exit",
                                      "_exit",
                                      "_Exit",
                                      "quick_exit",
                                      "err",
                                      "errx",
                                      "pthread_exit",
                                      "longjmp",
                                      "_longjmp",
                                      "siglongjmp",
                                      "__longjmp_chk",
                                      "__assert_fail",
                                      "__assert_perror_fail",
                                      "__stack_chk_fail",
                                      "__chk_fail",
                                      "__fortify_fail",
                                      "__cxa_throw",
                                      "__cxa_rethrow",
                                      "__cxa_bad_cast",
                                      "__cxa_throw_bad_array_new_length",
                                      "__cxa_pure_virtual",
                                      "_Unwind_Resume",
                                      "_ZSt9terminatev"};

/* std::__throw_length_error(char const*) and so on. */
static const char throws[] = "_ZSt";
static const char throws_too[] = "__throw_";

/* What sanitizers report errors with, where they end the program: gcc's __asan_report_load8 and
 * __ubsan_handle_type_mismatch_v1_abort, say. */
static const char reports[] = "__asan_report_";
static const char handles[] = "__ubsan_handle_";
static const char aborts[] = "_abort";

static bool is_of_a_sanitizer(const char *name) {
  size_t length = strlen(name);
  return strncmp(name, reports, sizeof(reports) - 1) == 0 ||
         (strncmp(name, handles, sizeof(handles) - 1) == 0 && length > sizeof(aborts) &&
          strcmp(name + length + 1 - sizeof(aborts), aborts) == 0);
}

/* ---- By code ---- */

static bool has_no_way_out(struct native_part function, native_decode *decode) {
  struct native_instruction is;
  if (function.end - function.begin > LOOKED_AT_MAX)
    return false;
  for (const uint8_t *at = function.begin; at < function.end; at += is.length) {
    if (!decode(at, (size_t)(function.end - at), &is))
      return false;
    const uint8_t *to = (const uint8_t *)((uintptr_t)at + (uintptr_t)is.target);
    bool leaves = is.kind == NATIVE_RETURN || is.kind == NATIVE_JUMP_REGISTER ||
                  is.kind == NATIVE_JUMP_MEMORY;
    bool jumps = is.kind == NATIVE_JUMP || is.kind == NATIVE_BRANCH;
    if (leaves || (jumps && (to < function.begin || to >= function.end)))
      return false;
  }
  return true;
}

/* ---- By name ---- */

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

static bool is_ending(const char *name) {
  if (strncmp(name, throws, strlen(throws)) == 0 && strstr(name, throws_too) != NULL)
    return true;
  if (is_of_a_sanitizer(name))
    return true;
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    if (strcmp(name, endings[i]) == 0)
      return true;
  return false;
}

bool native_never_returns(const struct native_object *object, const uint8_t *function,
                          native_decode *decode) {
  struct native_part code;
  bool is_moved;
  const uint8_t *slot = slot_of(object, function, decode);
  if (slot == NULL)
    return native_function_at(object, function, &code, &is_moved) && code.begin == function &&
           has_no_way_out(code, decode);
  const char *name = name_of(object, slot);
  return name != NULL && is_ending(name);
}
