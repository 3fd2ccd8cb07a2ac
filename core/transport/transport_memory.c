/* Memory of one process as a transport (attachment.h), driven by one thread: a list of names, and
 * for each the logs of its slots (plane_memory.h). Slots are taken as in shared memory, and refused
 * as there; what can go wrong with files cannot go wrong here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/attachment.h"
#include "core/transport/plane_memory.h"

/* The slots under a name. */
struct memory_slots {
  char name[ATTACHMENT_NAME_SIZE];
  uint32_t slots, handles;
  bool complete; /* the name is no longer this one's */
  struct plane_memory *memory;
  struct introduction *introductions;
  bool *taken;
  struct memory_slots *next;
};

struct memory_attachment {
  struct attachment attachment; /* first: an attachment is cast to its memory_attachment */
  struct memory_slots *of;
  uint32_t slot;
  bool has_plane;
};

static struct memory_slots *memory_first;

static void slots_free(struct memory_slots *of) {
  if (of == NULL)
    return;
  plane_memory_destroy(of->memory);
  free(of->introductions);
  free(of->taken);
  free(of);
}

static struct memory_slots *slots_create(const char *name, uint32_t slots) {
  struct memory_slots *of = calloc(1, sizeof(*of));
  if (of == NULL)
    return NULL;
  snprintf(of->name, sizeof(of->name), "%s", name);
  of->slots = slots;
  of->memory = plane_memory_create(slots);
  of->introductions = calloc(slots, sizeof(*of->introductions));
  of->taken = calloc(slots, sizeof(*of->taken));
  if (of->memory == NULL || of->introductions == NULL || of->taken == NULL) {
    slots_free(of);
    return NULL;
  }
  of->next = memory_first;
  memory_first = of;
  return of;
}

static struct memory_slots *slots_find(const char *name) {
  struct memory_slots *of = memory_first;
  while (of != NULL && (of->complete || strcmp(of->name, name) != 0))
    of = of->next;
  return of;
}

static void slots_release(struct memory_slots *of) {
  if (of->handles > 0)
    return;
  struct memory_slots **link = &memory_first;
  while (*link != of)
    link = &(*link)->next;
  *link = of->next;
  slots_free(of);
}

/* Why a slot cannot be taken; NULL: it can. */
static const char *slots_refuse(const struct memory_slots *of, uint32_t slots, uint32_t slot) {
  if (of->slots != slots)
    return "there is another number of slots: do the ranks agree on nranks?";
  return of->taken[slot] ? "the slot is taken: do two ranks have the same number?" : NULL;
}

static void slots_take(struct memory_slots *of, uint32_t slot, uint32_t expected,
                       const struct introduction *me) {
  uint32_t taken = 0;
  of->introductions[slot] = *me;
  of->taken[slot] = true;
  of->handles++;
  for (uint32_t i = 0; i < of->slots; i++)
    taken += of->taken[i];
  of->complete |= expected != 0 && taken >= expected;
}

static struct attachment *memory_make(const char *name, uint32_t slots, uint32_t slot,
                                      uint32_t expected, const struct introduction *me,
                                      char *reason) {
  errno = 0;
  reason[0] = '\0';
  if (slots == 0 || slots > PLANE_RANKS_MAX || slot >= slots || expected > slots) {
    snprintf(reason, ATTACHMENT_REASON_SIZE, "slot %u of %u cannot be", slot, slots);
    return NULL;
  }
  struct memory_attachment *made = calloc(1, sizeof(*made));
  struct memory_slots *of = slots_find(name);
  if (made != NULL && of == NULL)
    of = slots_create(name, slots);
  const char *refused = made == NULL || of == NULL ? "no memory" : slots_refuse(of, slots, slot);
  if (refused != NULL) {
    snprintf(reason, ATTACHMENT_REASON_SIZE, "%s", refused);
    free(made);
    return NULL;
  }
  slots_take(of, slot, expected, me);
  *made = (struct memory_attachment){
      .attachment = {&transport_memory}, .of = of, .slot = slot, .has_plane = false};
  return &made->attachment;
}

static bool memory_read(const struct attachment *attachment, uint32_t slot,
                        struct introduction *introduction) {
  const struct memory_slots *of = ((const struct memory_attachment *)attachment)->of;
  if (slot >= of->slots || !of->taken[slot])
    return false;
  *introduction = of->introductions[slot];
  if (introduction->ncomms > INTRODUCTION_COMMS_MAX)
    introduction->ncomms = INTRODUCTION_COMMS_MAX;
  return true;
}

static bool memory_stranger(const struct attachment *attachment, char *reason) {
  (void)attachment;
  (void)reason;
  return false;
}

static void memory_complete(struct attachment *attachment) {
  ((struct memory_attachment *)attachment)->of->complete = true;
}

static bool slots_are_of_team(const struct memory_attachment *own, uint32_t rank, uint32_t nranks,
                              const uint32_t *slot_of, bool early) {
  if (own->has_plane || nranks > own->of->slots || rank >= nranks || slot_of[rank] != own->slot)
    return false;
  for (uint32_t i = 0; i < nranks; i++)
    if (slot_of[i] >= own->of->slots || (!early && !own->of->taken[slot_of[i]]))
      return false;
  return true;
}

static struct plane *memory_plane(struct attachment *attachment, uint32_t rank, uint32_t nranks,
                                  const uint32_t *slot_of, bool early) {
  struct memory_attachment *own = (struct memory_attachment *)attachment;
  if (!slots_are_of_team(own, rank, nranks, slot_of, early) ||
      !plane_memory_set_team(own->of->memory, rank, nranks, slot_of))
    return NULL;
  own->has_plane = true;
  return plane_memory_rank(own->of->memory, own->slot);
}

static void memory_detach(struct attachment *attachment) {
  struct memory_attachment *own = (struct memory_attachment *)attachment;
  plane_memory_kill(own->of->memory, own->slot);
  own->of->handles--;
  slots_release(own->of);
  free(own);
}

void transport_memory_kill(struct attachment *attachment) {
  const struct memory_attachment *own = (const struct memory_attachment *)attachment;
  plane_memory_kill(own->of->memory, own->slot);
}

/* The child of a fork has its own copy already. */
static void memory_forget_all(void) {}

const struct transport transport_memory = {
    .make = memory_make,
    .read = memory_read,
    .stranger = memory_stranger,
    .complete = memory_complete,
    .plane = memory_plane,
    .detach = memory_detach,
    .forget_all = memory_forget_all,
};
