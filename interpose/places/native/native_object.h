/* A loaded object: what of it may be read, and which functions it has. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_OBJECT_H
#define NCCL_JOIN_INTERPOSE_NATIVE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NATIVE_PARTS_MAX 16u

struct native_part {
  const uint8_t *begin;
  const uint8_t *end;
};

struct native_object {
  struct native_part readable[NATIVE_PARTS_MAX];
  uint32_t nreadable;
  const uint8_t *frames; /* .eh_frame_hdr; NULL: functions are not known */
  const uint8_t
      *dynamic;   /* .dynamic, relocated; NULL: what the object calls is not known by name */
  uintptr_t base; /* what is added to the addresses in the file */
};

/* The object that has code at an address. Takes the dynamic linker's lock. False: none has. */
bool native_object_of(const void *code, struct native_object *object);

/* How many bytes of the object can be read from an address on. */
size_t native_readable(const struct native_object *object, const uint8_t *at);

/* The function, or the part of one, around an address, as .eh_frame has it. False: there is none,
 * or the tables are not as all linkers write them. is_moved: a part that compilers have moved away
 * from its function (foo.cold), which begins with a frame already there. */
bool native_function_at(const struct native_object *object, const uint8_t *at,
                        struct native_part *function, bool *is_moved);

/* The same: where its entry in .eh_frame is, NULL for false. */
const uint8_t *native_entry_at(const struct native_object *object, const uint8_t *at,
                               struct native_part *function, bool *is_moved);

/* The function, or part of one, whose entry comes last before another one. */
bool native_function_before(const struct native_object *object, const uint8_t *entry,
                            struct native_part *function, bool *is_moved);

#endif
