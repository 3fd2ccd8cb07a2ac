/* Copies of code objects (python_code.h). */
#include "interpose/places/python/python_code.h"

#include "interpose/places/python/python_memory.h"
#include "interpose/places/python/python_opcodes.h"

#include <stdlib.h>
#include <string.h>

/* FNV-1a of 64 bits (Fowler, Noll, Vo). */
#define HASH_START 0xcbf29ce484222325u
#define HASH_PRIME 0x100000001b3u

uint64_t python_hash(uint64_t hash, const void *data, size_t size) {
  const uint8_t *bytes = data;
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * HASH_PRIME;
  return hash;
}

/* A code object, as far as it is read at once. */
struct header {
  const struct python_offsets *at;
  uint64_t address;
  uint8_t bytes[256];
};

static uint64_t word_at(const struct header *header, uint16_t offset) {
  uint64_t word;
  memcpy(&word, header->bytes + offset, sizeof(word));
  return word;
}

static uint32_t number_at(const struct header *header, uint16_t offset) {
  uint32_t number;
  memcpy(&number, header->bytes + offset, sizeof(number));
  return number;
}

static bool read_header(const struct python_layout *layout, uint64_t address,
                        struct header *header) {
  header->at = &layout->at;
  header->address = address;
  return address % 8 == 0 && python_memory_read(header->bytes, address, layout->at.code_size) &&
         word_at(header, PYTHON_TYPE) == layout->code_type;
}

/* ---- bytes and texts ---- */

/* Copies a bytes object of at most `limit` bytes; false if it is none, or no memory. The copy is
 * for free(). */
static bool read_bytes(const struct python_layout *layout, uint64_t address, uint32_t limit,
                       struct python_bytes *copy) {
  uint64_t head[3];
  if (address % 8 != 0 || !python_memory_read(head, address, sizeof(head)) ||
      head[PYTHON_TYPE / 8] != layout->bytes_type || head[PYTHON_SIZE / 8] > limit)
    return false;
  copy->size = (uint32_t)head[PYTHON_SIZE / 8];
  uint8_t *data = malloc(copy->size + 1);
  copy->data = data;
  return data != NULL &&
         (copy->size == 0 || python_memory_read(data, address + PYTHON_BYTES_DATA, copy->size));
}

/* PyASCIIObject's state: two bits "interned", three "kind" (bytes a character), "compact", "ascii".
 */
struct text_state {
  unsigned width;
  bool is_compact, is_ascii;
};

static struct text_state text_state(uint64_t word) {
  return (struct text_state){(unsigned)(word >> 2 & 7), (word >> 5 & 1) != 0, (word >> 6 & 1) != 0};
}

/* The last characters of a str, as PYTHON_TEXT_MAX bytes of ASCII; false if it is none. */
static bool read_text(const struct python_layout *layout, uint64_t address, char *text) {
  uint64_t head[5];
  if (address % 8 != 0 || !python_memory_read(head, address, sizeof(head)) ||
      head[PYTHON_TYPE / 8] != layout->text_type)
    return false;
  struct text_state state = text_state(head[PYTHON_TEXT_STATE / 8]);
  uint64_t length = head[PYTHON_SIZE / 8], kept = length;
  if (!state.is_compact || (state.width != 1 && state.width != 2 && state.width != 4) ||
      length > UINT32_MAX)
    return false;
  if (kept > PYTHON_TEXT_MAX - 1)
    kept = PYTHON_TEXT_MAX - 1;
  uint64_t data = address + (state.is_ascii ? layout->at.text_ascii : layout->at.text_other);
  uint32_t wide[PYTHON_TEXT_MAX];
  if (kept > 0 &&
      !python_memory_read(wide, data + (length - kept) * state.width, kept * state.width))
    return false;
  for (uint64_t i = 0; i < kept; i++) {
    uint32_t character = 0;
    memcpy(&character, (const char *)wide + i * state.width, state.width);
    text[i] = (char)(character >= ' ' && character < 127 ? character : '?');
  }
  text[kept] = '\0';
  return true;
}

const char *python_base_name(const char *file) {
  const char *slash = strrchr(file, '/');
  return slash == NULL ? file : slash + 1;
}

/* ---- the key ---- */

/* Of a name its length counts, and what of it lies in the first bytes of the object: up to 24
 * characters of ASCII. So many names come with one system call. */
enum { NAME_BYTES = 64, NAMES_AT_ONCE = 64 };

static uint64_t hash_name(const struct python_layout *layout, uint64_t hash,
                          const uint8_t *object) {
  uint64_t head[5];
  memcpy(head, object, sizeof(head));
  if (head[PYTHON_TYPE / 8] != layout->text_type)
    return 0;
  struct text_state state = text_state(head[PYTHON_TEXT_STATE / 8]);
  uint64_t length = head[PYTHON_SIZE / 8], room = NAME_BYTES - layout->at.text_ascii;
  hash = python_hash(hash, &length, sizeof(length));
  if (!state.is_ascii)
    return hash;
  return python_hash(hash, object + layout->at.text_ascii, length < room ? length : room);
}

/* Objects at the very end of what is mapped are shorter than what is read at once. */
static bool read_name(uint8_t *object, uint64_t address, uint16_t data) {
  memset(object, 0, NAME_BYTES);
  size_t size = NAME_BYTES;
  while (size > data && !python_memory_read(object, address, size))
    size--;
  return size > data;
}

static bool hash_some_names(const struct python_layout *layout, const uint64_t *items, size_t n,
                            uint64_t *hash) {
  uint8_t objects[NAMES_AT_ONCE][NAME_BYTES];
  struct iovec from[NAMES_AT_ONCE];
  for (size_t i = 0; i < n; i++)
    from[i] = (struct iovec){(void *)items[i], NAME_BYTES};
  bool all = python_memory_read_pieces(objects, from, n);
  for (size_t i = 0; i < n; i++) {
    if (!all && !read_name(objects[i], items[i], layout->at.text_ascii))
      return false;
    *hash = hash_name(layout, *hash, objects[i]);
    if (*hash == 0)
      return false;
  }
  return true;
}

/* The names that the code uses, added to a hash; false if they are no tuple of texts. */
static bool hash_names(const struct python_layout *layout, uint64_t address, uint64_t *hash) {
  uint64_t head[3];
  if (address % 8 != 0 || !python_memory_read(head, address, sizeof(head)) ||
      head[PYTHON_TYPE / 8] != layout->tuple_type || head[PYTHON_SIZE / 8] > PYTHON_NAMES_MAX)
    return false;
  uint64_t left = head[PYTHON_SIZE / 8];
  address += layout->at.tuple_items;
  for (size_t n; left > 0; left -= n, address += n * sizeof(uint64_t)) {
    uint64_t items[NAMES_AT_ONCE];
    n = left < NAMES_AT_ONCE ? left : NAMES_AT_ONCE;
    if (!python_memory_read(items, address, n * sizeof(items[0])) ||
        !hash_some_names(layout, items, n, hash))
      return false;
  }
  return true;
}

/* The lines of the code, added to a hash, without their columns. */
static uint64_t hash_lines(const struct python_layout *layout, const struct python_code *code,
                           uint64_t hash) {
  struct python_lines lines;
  python_lines_begin(&lines, layout->minor, code);
  for (uint32_t unit = 0; unit < code->nunits; unit++) {
    uint64_t columns;
    uint32_t line = python_lines_at(&lines, unit, &columns);
    hash = python_hash(hash, &line, sizeof(line));
  }
  return hash;
}

/* Code of no file is what its process has been given: with `python -c` each process that
 * multiprocessing spawns gets numbers of its own, of one digit or two, which moves the columns
 * behind them. */
static bool is_of_file(const struct python_code *code) {
  return code->file[0] != '<';
}

static bool make_key(const struct python_layout *layout, const struct header *header,
                     struct python_code *code) {
  const char *base = python_base_name(code->file);
  uint64_t hash = python_hash(HASH_START, base, strlen(base) + 1);
  hash = python_hash(hash, code->name, strlen(code->name) + 1);
  hash = python_hash(hash, &code->first_line, sizeof(code->first_line));
  hash = python_hash(hash, &code->nunits, sizeof(code->nunits));
  hash = is_of_file(code) ? python_hash(hash, code->lines.data, code->lines.size)
                          : hash_lines(layout, code, hash);
  if (layout->minor < 11)
    hash = python_hash(hash, code->units, (size_t)code->nunits * 2);
  bool known = hash_names(layout, word_at(header, layout->at.code_names), &hash);
  code->key = hash == 0 ? 1 : hash;
  return known;
}

/* ---- constants ---- */

enum { CONSTANTS_MAX = 4096, DIGIT_BITS = 30 };

/* Of an int or bool of one digit: ob_size says how many, and is negative for a negative number;
 * from 3.12 on lv_tag (Include/cpython/longintrepr.h), 1 for 0 and 2 for a negative one. */
static struct python_constant number_of(unsigned minor, const uint64_t *object) {
  uint32_t digit = (uint32_t)object[PYTHON_SIZE / 8 + 1];
  int64_t size = (int64_t)object[PYTHON_SIZE / 8];
  if (minor >= 12)
    size = (size & 3) == 1 ? 0 : (size & 3) == 2 ? -(size >> 3) : size >> 3;
  if (size == 0)
    return (struct python_constant){PYTHON_NUMBER, 0};
  if (size < -1 || size > 1 || digit >> DIGIT_BITS != 0)
    return (struct python_constant){PYTHON_ANYTHING, 0};
  return (struct python_constant){PYTHON_NUMBER, size * (int64_t)digit};
}

static struct python_constant constant_at(const struct python_layout *layout, uint64_t address) {
  uint64_t object[4];
  if (address == layout->none)
    return (struct python_constant){PYTHON_NONE, 0};
  if (address % 8 != 0 || !python_memory_read(object, address, sizeof(object)) ||
      (object[PYTHON_TYPE / 8] != layout->number_type &&
       object[PYTHON_TYPE / 8] != layout->bool_type))
    return (struct python_constant){PYTHON_ANYTHING, 0};
  return number_of(layout->minor, object);
}

/* Without them nothing is known of what is set. */
static void read_constants(const struct python_layout *layout, const struct header *header,
                           struct python_code *code) {
  uint64_t head[3], address = word_at(header, layout->at.code_names - 8);
  if (layout->number_type == 0 || layout->bool_type == 0 || layout->none == 0 || address % 8 != 0 ||
      !python_memory_read(head, address, sizeof(head)) ||
      head[PYTHON_TYPE / 8] != layout->tuple_type || head[PYTHON_SIZE / 8] > CONSTANTS_MAX)
    return;
  uint32_t n = (uint32_t)head[PYTHON_SIZE / 8];
  uint64_t *items = malloc((n + 1) * sizeof(*items));
  code->constants = calloc(n + 1, sizeof(*code->constants));
  if (items != NULL && code->constants != NULL &&
      (n == 0 || python_memory_read(items, address + layout->at.tuple_items, n * sizeof(*items))))
    code->nconstants = n;
  for (uint32_t i = 0; i < code->nconstants; i++)
    code->constants[i] = constant_at(layout, items[i]);
  free(items);
}

/* ---- instructions ---- */

/* What instrumentation put aside: of lines in 3.12 and 3.13 two bytes a code unit, of which the
 * first is the opcode; in 3.14 one byte that says how many there are a unit, and then those.
 * Opcodes that cannot be put back stay, and the code is not analysed. */
static void put_back(const struct python_layout *layout, const struct header *header,
                     uint8_t *units, uint32_t nunits) {
  uint64_t monitoring = word_at(header, layout->at.code_monitoring);
  if (monitoring == 0)
    return;
  uint64_t lines = python_memory_word(monitoring + layout->at.monitoring_lines);
  uint64_t instructions = python_memory_word(monitoring + layout->at.monitoring_instructions);
  uint8_t width = 2;
  if (layout->minor >= 14 && lines != 0 && !python_memory_read(&width, lines++, 1))
    return;
  const char *row = layout->opcodes;
  for (uint32_t i = 0; i < nunits; i += 1 + python_opcode_caches(row, units[(size_t)2 * i])) {
    uint8_t *opcode = &units[(size_t)2 * i];
    if (python_opcode_of(row, *opcode) == OPCODE_LINE && lines != 0)
      python_memory_read(opcode, lines + (uint64_t)i * width, 1);
    if (python_opcode_of(row, *opcode) == OPCODE_INSTRUCTION && instructions != 0)
      python_memory_read(opcode, instructions + i, 1);
  }
}

static bool read_units(const struct python_layout *layout, const struct header *header,
                       struct python_code *code) {
  struct python_bytes copy = {NULL, 0};
  if (layout->minor < 11) {
    bool known =
        read_bytes(layout, word_at(header, layout->at.code_code), PYTHON_UNITS_MAX * 2, &copy);
    code->units = copy.data;
    code->nunits = copy.size / 2;
    return known;
  }
  uint64_t nunits = word_at(header, PYTHON_SIZE);
  if (nunits == 0 || nunits > PYTHON_UNITS_MAX)
    return false;
  uint8_t *units = malloc(nunits * 2);
  code->units = units;
  code->nunits = (uint32_t)nunits;
  if (units == NULL ||
      !python_memory_read(units, header->address + layout->at.code_code, nunits * 2))
    return false;
  if (layout->at.code_monitoring != 0)
    put_back(layout, header, units, code->nunits);
  return true;
}

uint32_t python_code_instruction(const struct python_layout *layout, const struct python_code *code,
                                 int64_t where) {
  const char *row = layout->opcodes;
  bool is_reached = false;
  for (uint32_t i = 0; i < code->nunits;) {
    uint8_t opcode = code->units[(size_t)2 * i];
    enum python_opcode class = python_opcode_of(row, opcode);
    if (class == OPCODE_UNKNOWN)
      return UINT32_MAX;
    uint32_t next = i + 1 + python_opcode_caches(row, opcode);
    is_reached |= where < (int64_t)next * 2;
    if (is_reached && class != OPCODE_EXTENDED && class != OPCODE_PRECALL)
      return i;
    i = next;
  }
  return UINT32_MAX;
}

/* ---- all of it ---- */

/* CO_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE and CO_ASYNC_GENERATOR
 * (Include/cpython/code.h).
 */
#define OF_GENERATOR 0x20u
#define OF_GENERATORS (OF_GENERATOR | 0x80u | 0x100u | 0x200u)

static bool python_fill(const struct python_layout *layout, const struct header *header,
                        struct python_code *code) {
  const struct python_offsets *at = &layout->at;
  code->first_line = number_at(header, at->code_first_line);
  uint32_t how = number_at(header, at->code_flags) & OF_GENERATORS;
  code->suspends = how == 0              ? SUSPENDS_NOT
                   : how == OF_GENERATOR ? SUSPENDS_BY_YIELD
                                         : SUSPENDS_BY_AWAIT;
  read_constants(layout, header, code);
  return read_text(layout, word_at(header, at->code_file), code->file) &&
         read_text(layout, word_at(header, at->code_name), code->name) &&
         read_bytes(layout, word_at(header, at->code_lines), PYTHON_TABLE_MAX, &code->lines) &&
         (at->code_exceptions == 0 || read_bytes(layout, word_at(header, at->code_exceptions),
                                                 PYTHON_TABLE_MAX, &code->exceptions)) &&
         read_units(layout, header, code) && make_key(layout, header, code);
}

struct python_code *python_code_read(const struct python_layout *layout, uint64_t address) {
  struct header header;
  if (!read_header(layout, address, &header))
    return NULL;
  struct python_code *code = calloc(1, sizeof(*code));
  if (code == NULL || python_fill(layout, &header, code))
    return code;
  python_code_free(code);
  return NULL;
}

void python_code_free(struct python_code *code) {
  if (code == NULL)
    return;
  free((void *)code->units);
  free((void *)code->exceptions.data);
  free((void *)code->lines.data);
  free(code->constants);
  free(code);
}

static bool is_one_of(const char *text, const char *const *texts) {
  while (*texts != NULL && strcmp(text, *texts) != 0)
    texts++;
  return *texts != NULL;
}

/* Of a path with '/' the last two parts. */
static const char *base_and_folder(const char *path) {
  const char *base = python_base_name(path);
  while (base > path && (base[-1] != '/' || base == python_base_name(path)))
    base--;
  return base;
}

bool python_code_is_runner(const struct python_code *code) {
  static const char *const runners[] = {"<frozen runpy>", "runpy.py",
                                        "<frozen importlib._bootstrap>",
                                        "<frozen importlib._bootstrap_external>", NULL};
  static const char *const of_coroutines[] = {"asyncio/runners.py", "asyncio/base_events.py",
                                              "asyncio/events.py", NULL};
  return is_one_of(python_base_name(code->file), runners) ||
         is_one_of(base_and_folder(code->file), of_coroutines);
}

/* By the folders that installers and distributions use; "<frozen ...>" and the like are the
 * interpreter's. */
static const char *behind_installed(const char *file) {
  static const char *const folders[] = {"/site-packages/", "/dist-packages/", "/lib/python3"};
  for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
    const char *at = strstr(file, folders[i]);
    if (at != NULL)
      return at + strlen(folders[i]);
  }
  return strncmp(file, "<frozen ", strlen("<frozen ")) == 0 ? file + strlen(file) : NULL;
}

bool python_code_is_installed(const struct python_code *code) {
  return behind_installed(code->file) != NULL;
}

void python_code_folder(const struct python_code *code, char folder[PYTHON_FOLDER_MAX]) {
  const char *path = behind_installed(code->file);
  size_t length = path == NULL ? 0 : (size_t)(python_base_name(path) - path);
  if (length >= PYTHON_FOLDER_MAX)
    length = 0;
  if (length > 0)
    memcpy(folder, path, length);
  folder[length] = '\0';
}
