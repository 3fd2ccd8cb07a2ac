/* Changing references (imports.h).
 *
 * A reference that has not been called through yet leads to its object's own code, which asks the
 * dynamic linker and then overwrites the reference. It is resolved here instead, as it would be
 * there. That must not be done while the list of objects is walked through, so the walk is broken
 * off, and begun again with the answer.
 */
#include "interpose/elf/imports.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "interpose/elf/linker.h"
#include "interpose/elf/objects.h"

#if defined(__x86_64__)
#define IS_REFERENCE(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#define IS_UNLIKE_C(symbol) false
#elif defined(__aarch64__)
#define IS_REFERENCE(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
/* STO_AARCH64_VARIANT_PCS: keeps registers that nobody else does (the vector ABI). */
#define IS_UNLIKE_C(symbol) (((symbol)->st_other & 0x80) != 0)
#endif

/* A reference that is not resolved yet. */
struct question {
  size_t name;
  Elf64_Addr base;
  bool symbolic, has_version;
  bool stands_in; /* a program at a fixed address: its own stub is the function's address for all */
  char version[64];
  char file[PATH_MAX];
  void *answer;
};

struct walk {
  const struct imports *imports;
  unsigned long long loads, unloads; /* of the process so far */
  size_t objects, begin;             /* how many objects have been seen; the first that is new */
  bool asking;                       /* broken off for the question */
  struct object program;             /* the first one */
  bool early;                        /* an object is not relocated yet */
  struct question question;          /* the last one, with its answer */
  /* Questions to which there was no answer: the first `hopeless` that a walk comes to are not
   * asked again. unanswered: those that this walk has come to. */
  unsigned hopeless, unanswered;
};

/* ---- asking the dynamic linker ---- */

static void *look_up(void *handle, const struct question *question, const char *name) {
  return question->has_version ? linker_dlvsym(handle, name, question->version)
                               : linker_dlsym(handle, name);
}

/* In the object and what it needs. Without a name of its own it is the program, which the global
 * search begins with. */
static void *look_up_inside(const struct question *question, const char *name) {
  void *handle =
      question->file[0] == '\0' ? NULL : linker_dlopen(question->file, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == NULL)
    return NULL;
  void *function = look_up(handle, question, name);
  dlclose(handle);
  return function;
}

static void imports_answer(struct question *question, const char *name) {
  question->answer = question->symbolic ? look_up_inside(question, name) : NULL;
  if (question->answer == NULL)
    question->answer = look_up(question->stands_in ? RTLD_NEXT : RTLD_DEFAULT, question, name);
  if (question->answer == NULL && !question->symbolic)
    question->answer = look_up_inside(question, name);
}

static void imports_ask(struct walk *walk, const struct object *object, size_t name,
                        uint32_t number) {
  const Elf64_Sym *symbol = &object->symbols[number];
  struct question *question = &walk->question;
  const char *version = object_version(object, number);
  *question =
      (struct question){.name = name,
                        .base = object->base,
                        .symbolic = object->symbolic,
                        .has_version = version != NULL,
                        .stands_in = symbol->st_shndx == SHN_UNDEF && symbol->st_value != 0};
  strncat(question->version, version == NULL ? "" : version, sizeof question->version - 1);
  strncat(question->file, object->file == NULL ? "" : object->file, sizeof question->file - 1);
  walk->asking = true;
}

/* ---- one object ---- */

/* The index of the name in the list; nnames if it is not there. */
static size_t imports_find(const struct imports *imports, const char *name) {
  size_t i = 0;
  while (i < imports->nnames &&
         (imports->names[i].name == NULL || strcmp(imports->names[i].name, name) != 0))
    i++;
  return i;
}

/* The object would resolve it at the first call. A function of its own, resolved, is inside as
 * well. */
static bool is_unresolved(const struct object *object, const Elf64_Sym *symbol, const void *value) {
  uintptr_t at = (uintptr_t)value - object->base;
  return at < object->end && (symbol->st_shndx == SHN_UNDEF || at != symbol->st_value);
}

/* Still as in the file: relocating has not come to it. */
static bool is_early(const struct object *object, const void *value) {
  return object->base > object->end && (uintptr_t)value < object->end;
}

/* Whether that is a stub of the program, which stands for a function that it only refers to: calls
 * through it go on through the program's own reference. */
static bool is_stub_of_program(const struct walk *walk, const char *name, const void *value) {
  const struct object *program = &walk->program;
  return (uintptr_t)value - program->base < program->end &&
         linker_definition(program->base, program->dynamic, name) == NULL;
}

/* The function that a reference leads to; NULL if that is not known, now or for good. */
static void *function_of(struct walk *walk, const struct object *object,
                         const Elf64_Rela *relocation, size_t name, void *value) {
  uint32_t number = (uint32_t)ELF64_R_SYM(relocation->r_info);
  if (value == NULL)
    return NULL;
  if (is_early(object, value)) {
    walk->early = true;
    return NULL;
  }
  if (!is_unresolved(object, &object->symbols[number], value))
    return is_stub_of_program(walk, object->names + object->symbols[number].st_name, value) ? NULL
                                                                                            : value;
  if (walk->question.answer != NULL && walk->question.base == object->base &&
      walk->question.name == name)
    return walk->question.answer;
  if (walk->unanswered++ >= walk->hopeless)
    imports_ask(walk, object, name, number);
  return NULL;
}

static void imports_change_relocations(struct walk *walk, const struct object *object,
                                       const struct relocations *relocations, bool definer) {
  const struct imports *imports = walk->imports;
  for (size_t i = 0; i < relocations->count && !walk->asking; i++) {
    const Elf64_Rela *relocation = &relocations->first[i];
    const Elf64_Sym *symbol = &object->symbols[ELF64_R_SYM(relocation->r_info)];
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (!IS_REFERENCE(ELF64_R_TYPE(relocation->r_info)) || type == STT_OBJECT || type == STT_TLS ||
        IS_UNLIKE_C(symbol))
      continue;
    size_t name = imports_find(imports, object->names + symbol->st_name);
    if (name == imports->nnames || (definer && imports->names[name].outside))
      continue;
    imports->names[name].found = true;
    void **reference = (void **)(object->base + relocation->r_offset);
    void *value = __atomic_load_n(reference, __ATOMIC_ACQUIRE);
    void *function =
        imports->behind(value) == NULL ? function_of(walk, object, relocation, name, value) : NULL;
    void *in_front = function == NULL ? NULL : imports->in_front_of(name, function);
    if (function != NULL && (in_front == NULL || !object_store(object, reference, in_front)))
      imports->names[name].name = NULL;
  }
}

static bool defines_any(const struct imports *imports, const struct object *object) {
  for (size_t i = 0; i < imports->nnames; i++)
    if (imports->names[i].name != NULL && imports->names[i].outside &&
        linker_definition(object->base, object->dynamic, imports->names[i].name) != NULL)
      return true;
  return false;
}

static int change_in(struct dl_phdr_info *info, size_t size, void *context) {
  (void)size;
  struct walk *walk = context;
  struct object object;
  walk->loads = info->dlpi_adds;
  walk->unloads = info->dlpi_subs;
  if (walk->objects == 0) {
    const struct imports_known *known = walk->imports->known;
    bool nothing_gone = walk->unloads == known->unloads;
    walk->begin = nothing_gone ? known->objects : 0;
    if (nothing_gone && walk->loads == known->loads)
      return 1;
  }
  if (walk->objects == 0)
    (void)object_read(&walk->program, info);
  if (walk->objects++ < walk->begin || !object_read(&object, info) || object.dynamic == _DYNAMIC)
    return 0;
  bool definer = defines_any(walk->imports, &object);
  imports_change_relocations(walk, &object, &object.calls, definer);
  imports_change_relocations(walk, &object, &object.data, definer);
  return walk->asking;
}

bool imports_change(const struct imports *imports) {
  struct walk walk = {.imports = imports};
  do {
    walk.asking = walk.early = false;
    walk.objects = walk.unanswered = 0;
    dl_iterate_phdr(change_in, &walk);
    if (!walk.asking)
      break;
    if (imports->names[walk.question.name].name != NULL)
      imports_answer(&walk.question, imports->names[walk.question.name].name);
    walk.hopeless += walk.question.answer == NULL;
  } while (true);
  if (walk.early)
    return false;
  if (walk.objects > 0) {
    *imports->known = (struct imports_known){walk.loads, walk.unloads, walk.objects};
  }
  return true;
}

/* ---- and back ---- */

static void change_back(const struct imports *imports, const struct object *object,
                        const struct relocations *relocations) {
  for (size_t i = 0; i < relocations->count; i++) {
    if (!IS_REFERENCE(ELF64_R_TYPE(relocations->first[i].r_info)))
      continue;
    void **reference = (void **)(object->base + relocations->first[i].r_offset);
    void *function = imports->behind(__atomic_load_n(reference, __ATOMIC_ACQUIRE));
    if (function != NULL)
      (void)object_store(object, reference, function);
  }
}

static int change_back_in(struct dl_phdr_info *info, size_t size, void *imports) {
  (void)size;
  struct object object;
  if (object_read(&object, info) && object.dynamic != _DYNAMIC) {
    change_back(imports, &object, &object.calls);
    change_back(imports, &object, &object.data);
  }
  return 0;
}

void imports_change_back(const struct imports *imports) {
  dl_iterate_phdr(change_back_in, (void *)imports);
  *imports->known = (struct imports_known){0};
}
