/* Reference counts of user objects, and lists of references. */
#include "tools/loopback/cuda/object.h"

#include <stdlib.h>
#include <string.h>

CUuserObject object_create(void *pointer, CUhostFn destroy, unsigned references) {
  CUuserObject object = malloc(sizeof *object);
  if (object) {
    object->pointer = pointer;
    object->destroy = destroy;
    atomic_init(&object->references, references);
  }
  return object;
}

void object_retain(CUuserObject object, unsigned references) {
  atomic_fetch_add_explicit(&object->references, references, memory_order_relaxed);
}

void object_release(CUuserObject object, unsigned references) {
  /* Whoever gives up the last one has to see what the others did before. */
  if (atomic_fetch_sub_explicit(&object->references, references, memory_order_acq_rel) !=
      references)
    return;
  object->destroy(object->pointer);
  free(object);
}

bool objects_add(struct object_list *list, CUuserObject object, unsigned references) {
  CUuserObject *more = realloc(list->objects, (list->count + references) * sizeof *more);
  if (!more)
    return false;
  list->objects = more;
  for (unsigned i = 0; i < references; i++)
    more[list->count++] = object;
  return true;
}

bool objects_take_out(struct object_list *list, CUuserObject object, unsigned references) {
  unsigned known = 0;
  for (size_t i = 0; i < list->count; i++)
    known += list->objects[i] == object;
  if (known < references)
    return false;
  size_t kept = 0;
  for (size_t i = 0; i < list->count; i++) {
    if (references && list->objects[i] == object)
      references--;
    else
      list->objects[kept++] = list->objects[i];
  }
  list->count = kept;
  return true;
}

bool objects_copy(struct object_list *copy, const struct object_list *list) {
  *copy = (struct object_list){0};
  if (!list->count)
    return true;
  copy->objects = malloc(list->count * sizeof *copy->objects);
  if (!copy->objects)
    return false;
  memcpy(copy->objects, list->objects, list->count * sizeof *copy->objects);
  copy->count = list->count;
  for (size_t i = 0; i < copy->count; i++)
    object_retain(copy->objects[i], 1);
  return true;
}

void objects_release(struct object_list *list) {
  for (size_t i = 0; i < list->count; i++)
    object_release(list->objects[i], 1);
  free(list->objects);
  *list = (struct object_list){0};
}
