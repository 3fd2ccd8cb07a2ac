/* Memory of shadows that are gone, which later shadows of the device take from (shadow.h,
 * shadow_destroy). What is left of a shadow here is its context, retained, and its buffers: nothing
 * on the device uses them, and no communicator has them registered. */
#include <pthread.h>

#include "hooks/shadow_device.h"

/* Guards the list and all that is in it. Nobody waits for the device with it. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shadow *kept;

void device_keep(struct shadow *device) {
  pthread_mutex_lock(&kept_lock);
  device->next = kept;
  kept = device;
  pthread_mutex_unlock(&kept_lock);
}

/* A buffer that would do, and is to be taken unless a smaller one is found. */
struct choice {
  bool alias; /* it may be one */
  size_t bytes;
  struct buffer *buffer;
};

static void shadow_kept_choose(struct choice *choice, struct buffer *buffer) {
  if (buffer->address != 0 && buffer->bytes >= choice->bytes &&
      (buffer->block == 0 || choice->alias) &&
      (choice->buffer == NULL || buffer->bytes < choice->buffer->bytes))
    choice->buffer = buffer;
}

static void choose_among(struct choice *choice, struct shadow *device, unsigned look) {
  for (unsigned kind = 0; kind < device->nmemories; kind++) {
    struct memory *memory = &device->memories[kind];
    if (memory->look != look)
      continue;
    for (unsigned i = 0; i < memory->nsends; i++)
      shadow_kept_choose(choice, &memory->sends[i].buffer);
    shadow_kept_choose(choice, &memory->receive);
    shadow_kept_choose(choice, &memory->lent);
  }
  /* How the others among these look is not known any more. */
  for (unsigned i = 0; look == 0 && i < device->nretired; i++)
    if (device->retired[i].registrable.start == 0)
      shadow_kept_choose(choice, &device->retired[i]);
}

bool device_take_kept(const struct shadow *device, unsigned look, bool alias, size_t bytes,
                      struct buffer *buffer) {
  struct choice choice = {.alias = alias, .bytes = bytes};
  pthread_mutex_lock(&kept_lock);
  for (struct shadow *other = kept; other != NULL; other = other->next)
    if (other->number == device->number && other->cuda == device->cuda)
      choose_among(&choice, other, look);
  if (choice.buffer != NULL) {
    size_t needed = buffer->needed;
    *buffer = *choice.buffer;
    buffer->needed = needed;
    *choice.buffer = (struct buffer){0};
  }
  pthread_mutex_unlock(&kept_lock);
  return choice.buffer != NULL;
}

struct shadow *device_take_all_kept(int number) {
  struct shadow *taken = NULL;
  pthread_mutex_lock(&kept_lock);
  for (struct shadow **link = &kept; *link != NULL;) {
    struct shadow *device = *link;
    if (device->number != number) {
      link = &device->next;
      continue;
    }
    *link = device->next;
    device->next = taken;
    taken = device;
  }
  pthread_mutex_unlock(&kept_lock);
  return taken;
}
