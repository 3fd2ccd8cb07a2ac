/* The layouts of CPython's objects by version, and which one applies (python_layout.h).
 *
 * 3.13 and later say themselves where things lie (_Py_DebugOffsets at the beginning of _PyRuntime,
 * pycore_runtime.h and pycore_debug_offsets.h). What they say is compared with the table here: a
 * release that differs in anything is one that this code has not seen, and is not read.
 */
#include "interpose/places/python/python_layout.h"

#include "interpose/elf/linker.h"
#include "interpose/places/python/python_memory.h"
#include "interpose/places/python/python_offsets.h"
#include "interpose/places/python/python_opcodes.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stddef.h>
#include <string.h>

/* What the debug offsets say of struct python_offsets: the number of the 64-bit word in 3.13 and in
 * 3.14, counted from the cookie, which is the first. */
enum { WORD_COOKIE, WORD_VERSION, WORD_FREE_THREADED, WORDS = 96 };
#define COOKIE "xdebugpy"
static const struct said {
  uint8_t word13, word14;
  uint16_t member; /* a uint16_t in struct python_offsets */
} said[] = {
#define SAID(word13, word14, member)                                                               \
  { word13, word14, offsetof(struct python_offsets, member) }
    SAID(9, 9, state_interp_threads), SAID(21, 24, state_next),     SAID(22, 25, state_interp),
    SAID(23, 26, state_frame),        SAID(24, 27, state_thread),   SAID(25, 28, state_native),
    SAID(27, 30, state_active),       SAID(29, 32, frame_previous), SAID(30, 33, frame_code),
    SAID(31, 34, frame_instruction),  SAID(32, 35, frame_stack),    SAID(33, 36, frame_owner),
    SAID(35, 40, code_file),          SAID(37, 42, code_name),      SAID(38, 43, code_lines),
    SAID(39, 44, code_first_line),    SAID(43, 48, code_code),      SAID(51, 57, tuple_items),
    SAID(70, 80, text_ascii),
#undef SAID
};

/* ---- which one applies ---- */

enum version_kind { VERSION_RELEASE, VERSION_OTHER };

/* "3.12.1 (main, ...) [GCC ...]". Before releases there is a letter behind the numbers, and the
 * layout may still change; a + (a state after the release, from its branch) changes nothing. */
static enum version_kind read_version(const char *text, unsigned *minor, unsigned *micro) {
  int end = 0;
  if (sscanf(text, "3.%2u.%3u%n", minor, micro, &end) != 2)
    return VERSION_OTHER;
  end += text[end] == '+';
  bool other = strstr(text, "PyPy") != NULL || strstr(text, "Graal") != NULL ||
               strstr(text, "free-threading") != NULL;
  bool known = *minor >= PYTHON_MINOR_FIRST && *minor <= PYTHON_MINOR_LAST;
  return text[end] == ' ' && known && !other ? VERSION_RELEASE : VERSION_OTHER;
}

/* PY_VERSION_HEX of a release: Include/patchlevel.h. */
static uint64_t hex_version(unsigned minor, unsigned micro) {
  return 3u << 24 | minor << 16 | micro << 8 | 0xf0u;
}

/* What lies in thread states and frames is taken as it is said, if it can be so. In code objects
 * there are things that nothing says; they are where the table has them if the others are. */
static bool take_said(struct python_layout *layout, const uint64_t *words) {
  for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
    uint64_t value = words[layout->minor == 13 ? said[i].word13 : said[i].word14];
    uint16_t *member = (uint16_t *)((char *)&layout->at + said[i].member);
    bool is_of_code = said[i].member >= offsetof(struct python_offsets, code_names);
    bool is_pointer = said[i].member != offsetof(struct python_offsets, frame_owner);
    if (value > UINT16_MAX || (is_of_code && value != *member) || (is_pointer && value % 4 != 0))
      return false;
    layout->is_as_listed &=
        value == *member || said[i].member == offsetof(struct python_offsets, state_interp_threads);
    *member = (uint16_t)value;
  }
  const struct python_offsets *at = &layout->at;
  return at->frame_previous + 8 <= at->frame_size && at->frame_code + 8 <= at->frame_size &&
         at->frame_instruction + 8 <= at->frame_size && at->frame_owner < at->frame_size;
}

bool python_layout_of(struct python_layout *layout, const char *version, const uint64_t *words) {
  unsigned minor, micro;
  if (read_version(version, &minor, &micro) != VERSION_RELEASE)
    return false;
  *layout = (struct python_layout){.minor = minor,
                                   .is_as_listed = true,
                                   .at = python_offsets_of[minor],
                                   .opcodes = python_opcode_rows[minor]};
  if (minor < 13)
    return true;
  return words != NULL && memcmp(&words[WORD_COOKIE], COOKIE, sizeof(words[0])) == 0 &&
         words[WORD_VERSION] == hex_version(minor, micro) && words[WORD_FREE_THREADED] == 0 &&
         take_said(layout, words);
}

/* ---- finding it ---- */

enum state { LOOKING, FOUND, REFUSED };
static _Atomic int state;
static struct python_layout found; /* written once, before FOUND */
static struct object_found {
  Elf64_Addr base;
  const Elf64_Dyn *dynamic;
  char name[4096];
} python_object;

static int is_python(struct dl_phdr_info *info, size_t size, void *result) {
  (void)size;
  struct object_found *object = result;
  object->dynamic = NULL;
  for (unsigned i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      object->dynamic = (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  object->base = info->dlpi_addr;
  snprintf(object->name, sizeof(object->name), "%s", info->dlpi_name);
  return object->dynamic != NULL &&
         linker_definition(object->base, object->dynamic, "PyGILState_GetThisThreadState") != NULL;
}

void *python_layout_function(const char *name) {
  return linker_definition(python_object.base, python_object.dynamic, name);
}

uint64_t python_layout_base(void) {
  return python_object.base;
}

struct sought {
  const char *name;
  void *address;
};

static int python_defines(struct dl_phdr_info *info, size_t size, void *result) {
  (void)size;
  struct sought *sought = result;
  for (unsigned i = 0; i < info->dlpi_phnum && sought->address == NULL; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      sought->address = linker_definition(
          info->dlpi_addr, (const Elf64_Dyn *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
          sought->name);
  return sought->address != NULL;
}

/* Data of Python: a program may have its own copy (R_X86_64_COPY), which then all use. */
static uint64_t data_address(const char *name) {
  struct sought sought = {name, NULL};
  dl_iterate_phdr(python_defines, &sought);
  return (uint64_t)sought.address;
}

/* Functions come as the addresses of data that linker_definition returns. */
#define FIND(member, name)                                                                         \
  memcpy(&(member), &(void *){python_layout_function(name)}, sizeof(void *))

/* A debug build counts references (Py_REF_DEBUG in Include/object.h): it has functions for that. */
static bool is_debug_build(void) {
  return python_layout_function("_Py_NegativeRefcount") != NULL ||
         python_layout_function("_Py_RefTotal") != NULL;
}

static bool find_functions(struct python_layout *layout) {
  FIND(layout->thread_state, "PyGILState_GetThisThreadState");
  FIND(layout->current_state,
       layout->minor < 13 ? "_PyThreadState_UncheckedGet" : "PyThreadState_GetUnchecked");
  FIND(layout->main_interpreter, "PyInterpreterState_Main");
  layout->code_type = data_address("PyCode_Type");
  layout->text_type = data_address("PyUnicode_Type");
  layout->bytes_type = data_address("PyBytes_Type");
  layout->tuple_type = data_address("PyTuple_Type");
  layout->number_type = data_address("PyLong_Type");
  layout->bool_type = data_address("PyBool_Type");
  layout->none = data_address("_Py_NoneStruct");
  layout->list_iterator = data_address("PyListIter_Type");
  layout->tuple_iterator = data_address("PyTupleIter_Type");
  layout->range_iterator = data_address("PyRangeIter_Type");
  layout->enumerate = data_address("PyEnum_Type");
  layout->zip = data_address("PyZip_Type");
  layout->generator = data_address("PyGen_Type");
  layout->dict_iterators[0] = data_address("PyDictIterKey_Type");
  layout->dict_iterators[1] = data_address("PyDictIterValue_Type");
  layout->dict_iterators[2] = data_address("PyDictIterItem_Type");
  layout->dict_iterators[3] = data_address("PyDictRevIterKey_Type");
  layout->dict_iterators[4] = data_address("PyDictRevIterValue_Type");
  layout->dict_iterators[5] = data_address("PyDictRevIterItem_Type");
  layout->reverse_iterators[0] = data_address("PyListRevIter_Type");
  layout->reverse_iterators[1] = data_address("PyReversed_Type");
  return layout->thread_state != NULL && layout->current_state != NULL &&
         layout->main_interpreter != NULL && layout->code_type != 0 && layout->text_type != 0 &&
         layout->bytes_type != 0 && layout->tuple_type != 0;
}

static bool read_layout(struct python_layout *layout) {
  const char *(*version)(void);
  FIND(version, "Py_GetVersion");
  const void *runtime = python_layout_function("_PyRuntime");
  uint64_t words[WORDS];
  bool says = runtime != NULL && python_memory_read(words, (uint64_t)runtime, sizeof(words));
  return version != NULL && !is_debug_build() &&
         python_layout_of(layout, version(), says ? words : NULL) && find_functions(layout) &&
         python_memory_word(layout->code_type + PYTHON_TYPE) != 0;
}

/* Python stays loaded from now on, for what is called and read in it. */
static void keep_loaded(void) {
  if (python_object.name[0] != '\0')
    linker_dlopen(python_object.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void python_look(void) {
  static atomic_flag busy = ATOMIC_FLAG_INIT;
  if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
    return; /* another thread, which may not come back from it in a forked child: then nothing is
               read */
  int seen = LOOKING;
  if (atomic_load_explicit(&state, memory_order_relaxed) == LOOKING &&
      dl_iterate_phdr(is_python, &python_object) != 0) {
    keep_loaded();
    bool known = read_layout(&found);
    atomic_compare_exchange_strong_explicit(&state, &seen, known ? FOUND : REFUSED,
                                            memory_order_release, memory_order_relaxed);
  }
  atomic_flag_clear_explicit(&busy, memory_order_release);
}

/* Looking takes microseconds. Ranks that run the same program come here equally often. */
enum { CALLS_LOOKED_AT = 64 };
static bool is_time_to_look(void) {
  static _Atomic uint64_t calls;
  uint64_t call = atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) + 1;
  return call <= CALLS_LOOKED_AT || (call & (call - 1)) == 0;
}

const struct python_layout *python_layout(void) {
  int seen = atomic_load_explicit(&state, memory_order_acquire);
  if (__builtin_expect(seen == FOUND, 1))
    return &found;
  if (seen == REFUSED || !is_time_to_look())
    return NULL;
  python_look();
  return atomic_load_explicit(&state, memory_order_acquire) == FOUND ? &found : NULL;
}

bool python_layout_is_refused(void) {
  return atomic_load_explicit(&state, memory_order_relaxed) == REFUSED;
}

void python_layout_refuse(void) {
  atomic_store_explicit(&state, REFUSED, memory_order_relaxed);
}
