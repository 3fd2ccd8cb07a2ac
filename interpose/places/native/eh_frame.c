/* Finds a function's entry in the unwind tables and makes a rule of what its program leaves
 * (eh_frame.h). */
#include "interpose/places/native/eh_frame.h"

#include <limits.h>
#include <string.h>

#include "interpose/places/native/eh_frame_program.h"

/* ---- the search ---- */

struct header_row {
  int32_t function, entry; /* relative to the header */
};

/* The entry of the last function that begins at or before pc, by the sorted table that all linkers
 * make: 4-byte offsets from the header. */
static const uint8_t *entry_for(const struct code_module *module, uintptr_t pc) {
  struct eh_reader header = {module->unwind_header, module->tables_end,
                             module->unwind_header == NULL};
  uint8_t version = eh_read_byte(&header), frame = eh_read_byte(&header),
          count = eh_read_byte(&header), table = eh_read_byte(&header);
  if (version != 1 || table != 0x3b || count == ENCODED_OMITTED)
    return NULL;
  eh_read_pointer(&header, frame, module->unwind_header);
  uint64_t rows = eh_read_pointer(&header, count, module->unwind_header);
  if (header.failed || rows > (size_t)(header.end - header.at) / sizeof(struct header_row))
    return NULL;
  intptr_t offset = (intptr_t)(pc - (uintptr_t)module->unwind_header);
  struct header_row row = {0, 0};
  uint64_t low = 0, high = rows;
  while (low < high) {
    uint64_t middle = (low + high) / 2;
    memcpy(&row, header.at + middle * sizeof(row), sizeof(row));
    if (row.function <= offset)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == 0)
    return NULL;
  memcpy(&row, header.at + (low - 1) * sizeof(row), sizeof(row));
  return module->unwind_header + row.entry;
}

/* ---- entries ---- */

/* The bytes of an entry behind its length; failed if it does not lie in the tables. */
static struct eh_reader entry_bytes(const struct code_module *module, const uint8_t *entry) {
  struct eh_reader bytes = {entry, module->tables_end,
                            entry < module->tables || entry >= module->tables_end};
  uint64_t size = eh_read_word(&bytes, 4);
  if (size == UINT32_MAX)
    size = eh_read_word(&bytes, 8);
  if (size == 0 || size > (size_t)(bytes.end - bytes.at))
    bytes.failed = true;
  if (!bytes.failed)
    bytes.end = bytes.at + size;
  return bytes;
}

/* False: nothing that can be undone by these rules, as a signal's frame. */
static bool read_augmentation(struct eh_reader *from, const char *letters,
                              struct eh_common *common) {
  common->pointers = 0;
  common->is_augmented = *letters == 'z';
  if (!common->is_augmented)
    return *letters == '\0';
  uint64_t size = eh_read_uleb(from);
  if (from->failed || size > (size_t)(from->end - from->at))
    return false;
  struct eh_reader data = {from->at, from->at + size, false};
  from->at += size;
  for (const char *letter = letters + 1; *letter != '\0'; letter++) {
    uint8_t encoding;
    switch (*letter) {
    case 'R':
      common->pointers = eh_read_byte(&data);
      break;
    case 'L':
      eh_read_byte(&data);
      break;
    case 'P':
      encoding = eh_read_byte(&data);
      eh_read_formatted(&data, encoding);
      break;
    case 'B': /* aarch64: the second key signs return addresses */
      break;
    default:
      return false;
    }
  }
  return !data.failed;
}

static bool read_common(const struct code_module *module, const uint8_t *entry,
                        struct eh_common *common) {
  struct eh_reader from = entry_bytes(module, entry);
  uint64_t id = eh_read_word(&from, 4);
  uint8_t version = eh_read_byte(&from);
  const char *letters = (const char *)from.at;
  while (eh_read_byte(&from) != 0)
    ;
  if (from.failed || id != 0 || (version != 1 && version != 3))
    return false;
  common->code_unit = eh_read_uleb(&from);
  common->data_unit = eh_read_sleb(&from);
  uint64_t return_register = version == 1 ? eh_read_byte(&from) : eh_read_uleb(&from);
  if (return_register != REGISTER_RETURN || !read_augmentation(&from, letters, common))
    return false;
  common->program = from;
  return !from.failed;
}

/* ---- from the row to the rule ---- */

static bool eh_frame_fits(int64_t offset) {
  return offset >= INT32_MIN && offset <= INT32_MAX;
}

static int32_t kept_from(const struct eh_saved *saved) {
  if (saved->how == SAVED_NOT)
    return FRAME_KEPT_SAME;
  return saved->how == SAVED_AT_CFA && saved->at < 0 && eh_frame_fits(saved->at)
             ? (int32_t)saved->at
             : FRAME_KEPT_LOST;
}

static bool rule_from(const struct eh_row *row, struct frame_rule *rule) {
  rule->is_outermost = row->back.how == SAVED_NOWHERE;
  if (rule->is_outermost)
    return true;
  if (row->back.how != SAVED_AT_CFA || !eh_frame_fits(row->back.at) ||
      !eh_frame_fits(row->cfa_offset) || !eh_frame_fits(row->frame.at))
    return false;
  rule->return_at = (int32_t)row->back.at;
  rule->fp_at = (int32_t)row->frame.at;
  rule->pointer = row->frame.how == SAVED_NOT        ? FRAME_POINTER_SAME
                  : row->frame.how == SAVED_AT_CFA   ? FRAME_POINTER_AT_CFA
                  : row->frame.how == SAVED_AT_FRAME ? FRAME_POINTER_AT_FRAME
                                                     : FRAME_POINTER_LOST;
  for (unsigned i = 0; i < EH_KEPT; i++)
    rule->kept_at[i] = kept_from(&row->kept[i]);
  if (row->cfa == CFA_LOADED) {
    rule->base = FRAME_BASE_SAVED;
    rule->cfa_saved_at = (int32_t)row->cfa_offset;
    return true;
  }
  rule->cfa_offset = (int32_t)row->cfa_offset;
  rule->base = row->cfa_register == REGISTER_STACK ? FRAME_BASE_STACK : FRAME_BASE_POINTER;
  return row->cfa == CFA_OF_REGISTER &&
         (row->cfa_register == REGISTER_STACK || row->cfa_register == REGISTER_FRAME);
}

bool eh_frame_rule(const struct code_module *module, uintptr_t pc, struct frame_rule *rule) {
  const uint8_t *entry = entry_for(module, pc);
  if (entry == NULL)
    return false;
  struct eh_reader from = entry_bytes(module, entry);
  const uint8_t *id_at = from.at;
  uint64_t id = eh_read_word(&from, 4);
  struct eh_common common;
  if (from.failed || id == 0 || id > (size_t)(id_at - module->tables) ||
      !read_common(module, id_at - id, &common))
    return false;
  uintptr_t begin = eh_read_pointer(&from, common.pointers, module->unwind_header);
  uint64_t size = eh_read_formatted(&from, common.pointers & 0x0f);
  if (from.failed || pc - begin >= size)
    return false;
  if (common.is_augmented) {
    uint64_t skipped = eh_read_uleb(&from);
    if (from.failed || skipped > (size_t)(from.end - from.at))
      return false;
    from.at += skipped;
  }
  *rule = (struct frame_rule){.function = (const uint8_t *)begin, .function_size = size};
  struct eh_row row;
  return eh_program_run(&common, from, begin, pc, &row) && rule_from(&row, rule);
}
